"""idcwh-train from its command line, on small images and a small random network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from idcwh_search import datasets
from idcwh_search.codes import pack
from idcwh_search.datasets import training_images
from idcwh_search.images.preprocess import Preprocess
from idcwh_search.metrics.evaluate import evaluate
from idcwh_search.splits import protocols
from idcwh_train import cli
from idcwh_train.engine import trainer, validation
from idcwh_train.engine.checkpoint import load_model
from idcwh_train.frozen import features, ort_backbone
from idcwh_train.models import backbones
from idcwh_train.models.hash_model import Network

pytestmark = pytest.mark.slow


def test_train_frozen_writes_a_consistent_model(images, net, tmp_path, cached, capsys, log):
    out = tmp_path / "run"
    command = ["--data", str(images), *net, "--freeze", "--epochs", "12", "--json", "--out", str(out), *cached]
    assert cli.main(command) == 0
    output = capsys.readouterr()
    record = json.loads(output.out)
    assert record["epoch"] == 12 and record["finished"] and record["unreadable"] == {}
    assert "9 queries, 33 training, 33 database, of which 33 are also training" in output.err
    model, content = load_model(out / "model.pt")
    assert content["format"] == "idcwh-model" and content["version"] == 1 and content["bits"] == 12
    assert content["classes"] == ["class0", "class1", "class2"]
    assert content["method"]["name"] == "idcwh" and content["method"]["sigma2"] == pytest.approx(7.0)
    assert content["centers"].shape == (3, 12)
    assert content["preprocess"]["crop"] == 32
    sample = content["sample"]["images"]
    assert sample.dtype == torch.uint8 and sample.shape[1:] == (32, 32, 3) and 1 <= len(sample) <= 64
    keys, labels = content["sample"]["keys"], content["sample"]["labels"]
    assert len(keys) == len(sample) and [f"class{label}" for label in labels] == [key.split("/")[1] for key in keys]
    with torch.inference_mode():
        h = model(sample.permute(0, 3, 1, 2))
        assert h.shape == (len(sample), 12) and h.dtype == torch.float32
        assert torch.equal(model(sample.permute(0, 3, 1, 2).float()), h), "uint8 and float pixels mean the same"
    assert len(log(out)) == 12
    assert sum("map" in line for line in log(out)) >= 5
    split = json.loads((out / "protocol.json").read_text())
    assert content["training"]["protocol"]["sha256"] == split["sha256"]
    files = ["checkpoint.pt", "curves.png", "log.jsonl", "model.pt", "protocol.json"]
    assert sorted(p.name for p in out.iterdir()) == files


def test_model_outputs_are_those_of_the_trained_hash_layer(images, net, tmp_path, cached):
    """Features come from a folded, channels-last copy of the backbone. The saved model has the original one."""
    out = tmp_path / "run"
    cli.main(["--data", str(images), *net, "--freeze", "--epochs", "3", "--out", str(out), *cached])
    model, _ = load_model(out / "model.pt")
    dataset, pre = datasets.load(str(images)), Preprocess(36, 32)
    rows = np.arange(len(dataset))
    result = features.extract(model, dataset, rows, pre, torch.device("cpu"), None)
    pixels = torch.from_numpy(np.stack([dataset.image(i, pre) for i in rows])).permute(0, 3, 1, 2)
    with torch.inference_mode():
        torch.testing.assert_close(model.head(result.x), model(pixels), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("how", [["--freeze"], ["--lr", "0.001", "--validation", "0.2"]])
def test_train_same_seed_gives_the_same_bytes(images, net, tmp_path, cached, how, log):
    command = ["--data", str(images), *net, *how, "--epochs", "2", "--batch-size", "12", *cached]
    for name, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        assert cli.main([*command, "--seed", seed, "--out", str(tmp_path / name)]) == 0
    a, b, c = ((tmp_path / name / "model.pt").read_bytes() for name in "abc")
    assert a == b and a != c
    assert log(tmp_path / "a") == log(tmp_path / "b")


def test_code_lengths_trained_together_on_features_are_the_same(images, net, tmp_path, cached, log):
    command = ["--data", str(images), *net[:-2], "--freeze", "--dropout", "0.3", "--epochs", "3", *cached, "--evaluate"]
    assert cli.main([*command, "--bits", "20", "12", "--out", str(tmp_path / "both")]) == 0
    assert sorted(p.name for p in (tmp_path / "both").glob("*.pt")) == ["checkpoint.pt", "model-12.pt", "model-20.pt"]
    for bits in (12, 20):
        assert cli.main([*command, "--bits", str(bits), "--out", str(tmp_path / "alone"), "--overwrite"]) == 0
        together, content = load_model(tmp_path / "both" / f"model-{bits}.pt")
        alone, other = load_model(tmp_path / "alone" / "model.pt")
        assert content["bits"] == bits and torch.equal(together.hash.weight, alone.hash.weight)
        assert torch.equal(content["centers"], other["centers"])
        both, one = log(tmp_path / "both")[-1], log(tmp_path / "alone")[-1]
        assert both[f"loss@{bits}"] == one["loss"] and both[f"distinct_codes@{bits}"] == one["distinct_codes"]


def test_network_backbone_gets_the_mean_gradient_of_the_heads():
    layers = {bits: nn.Linear(5, bits) for bits in (3, 4)}
    network = Network(nn.Flatten(), 5, (0, 0, 0), (1, 1, 1), layers)
    x = torch.randn(6, 5, requires_grad=True)
    sum(h.square().sum() for h in network.logits(x)).backward()
    expected = sum(2 * layer(x) @ layer.weight for layer in layers.values()) / 2
    torch.testing.assert_close(x.grad, expected)
    torch.testing.assert_close(layers[3].weight.grad, 2 * layers[3](x).T @ x)


def test_train_keep_best_keeps_the_epoch_of_the_best_map(images, net, tmp_path, cached, capsys, monkeypatch):
    command = ["--data", str(images), *net, "--freeze", "--validation", "0.2", *cached]
    values = iter([0.3, 0.9, 0.5, 0.9, 0.2])
    monkeypatch.setattr(validation, "validation_map", lambda *_: {12: next(values)})
    command += ["--epochs", "5", "--schedule", "step", "--lr", "0.01"]
    model, content = load_model(run_until(tmp_path / "best", [*command, "--keep", "best"]))
    assert content["training"]["kept"] == 2 and "saved epoch 2, validation MAP 0.9000" in capsys.readouterr().err
    values = iter([0.3, 0.9, 0.5, 0.9, 0.2])
    last, content = load_model(run_until(tmp_path / "last", command))
    assert content["training"]["kept"] == 5 and not torch.equal(model.hash.weight, last.hash.weight)


def run_until(out: Path, command: list[str]) -> Path:
    assert cli.main([*command, "--out", str(out)]) == 0
    return out / "model.pt"


def test_train_average_makes_the_model_the_ema_of_the_weights(images, net, tmp_path, cached, monkeypatch):
    seen: list[torch.Tensor] = []
    step = trainer.Trainer._step

    def remember(self, *arguments):
        step(self, *arguments)
        seen.append(self.network.scale * self.network.heads["12"].weight.detach())  # as in the model

    monkeypatch.setattr(trainer.Trainer, "_step", remember)
    command = ["--data", str(images), *net, "--freeze", "--epochs", "3", "--batch-size", "8", *cached]
    model, _ = load_model(run_until(tmp_path / "run", [*command, "--average", "0.8"]))
    mean = seen[0]
    for step, weight in enumerate(seen[1:], 1):
        kept = min(0.8, (1 + step) / (10 + step))  # grows with the number of steps while they are few
        mean = kept * mean + (1 - kept) * weight
    torch.testing.assert_close(model.hash.weight, mean)


@pytest.mark.parametrize("method", ["sdh", "fsdh"])
@pytest.mark.parametrize("more", [[], ["--recipe", "best", "--start-crop", "16", "--validation", "0.2"]])
def test_train_closed_form_ignores_average(images, net, tmp_path, cached, method, more):
    command = ["--data", str(images), *net, "--freeze", "--method", method, *more, *cached]
    solved, _ = load_model(run_until(tmp_path / "solved", [*command, "--average", "0"]))
    model, content = load_model(run_until(tmp_path / "mean", [*command, "--average", "0.9"]))
    before, after = solved.state_dict(), model.state_dict()
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    assert not more or content["training"]["metrics"]["map"] > 0.9  # the validation MAP is of this head, too


def test_train_method_option_texts_become_values(images, net, tmp_path, cached):
    command = ["--data", str(images), *net, "--freeze", "--epochs", "1", "--method", "dpsh", *cached]
    command += ["--method-option", "multi_label=no", "--method-option", "eta=5"]
    method = load_model(run_until(tmp_path / "run", command))[1]["method"]
    assert method == {"name": "dpsh", "eta": 5.0, "multi_label": False}


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_fine_tuning_learns(images, net, tmp_path, cached, precision, log):
    """The whole network trains: the backbone's weights change, and validation images retrieve their class."""
    out = tmp_path / "run"
    command = ["--data", str(images), *net, "--epochs", "6", "--batch-size", "9", "--lr", "0.003"]
    command += ["--validation", "0.34", "--precision", precision, "--out", str(out), *cached]
    assert cli.main(command) == 0
    lines = log(out)
    assert lines[-1]["L1"] < lines[0]["L1"]
    assert lines[-1]["map"] > 0.6
    torch.manual_seed(0)
    fresh = backbones.create("timm:test_resnet", "none", 32).network.state_dict()
    trained = load_model(out / "model.pt")[0].backbone.state_dict()
    first = next(iter(fresh))
    assert not torch.equal(fresh[first], trained[first])


def test_googlenet_fine_tunes(images, tmp_path, cached):
    out = tmp_path / "run"
    command = ["--data", str(images), "--weights", "none", "--resize", "72", "--crop", "64", "--bits", "8"]
    assert cli.main([*command, "--epochs", "1", "--batch-size", "8", "--out", str(out), *cached]) == 0
    model, content = load_model(out / "model.pt")
    assert content["backbone"] == {"name": "googlenet", "transform_input": False, "features": 1024}
    assert model.backbone.aux1 is None and model.backbone.dropout.p == pytest.approx(0.2)


def test_train_unreadable_images_are_skipped_and_named(make_images, net, tmp_path, cached, capsys):
    data = make_images(tmp_path / "data")
    (data / "train/class1/05.png").write_bytes(b"not an image")
    (data / "train/class1/06.png").write_bytes(b"")
    for how in (["--freeze"], ["--validation", "0.3", "--lr", "0.001"]):
        out = tmp_path / how[0]
        command = ["--data", str(data), *net, *how, "--epochs", "2", "--batch-size", "9", "--out", str(out), *cached]
        assert cli.main(command) == 3
        output = capsys.readouterr().err
        assert all(f"skipped train/class1/{name}.png: " in output for name in ("05", "06"))
        assert "unreadable images skipped: 2" in output
        assert "train/class1/05.png" not in load_model(out / "model.pt")[1]["sample"]["keys"]


def test_train_one_image_of_a_class_and_a_small_dataset(make_images, net, tmp_path, cached):
    data = make_images(tmp_path / "data", classes=2, each=5)
    only = data / "train" / "rare" / "1.png"
    only.parent.mkdir()
    Image.new("RGB", (50, 30), "white").save(only)
    out = tmp_path / "run"
    assert cli.main(["--data", str(data), *net, "--freeze", "--epochs", "2", "--out", str(out), *cached]) == 0
    assert load_model(out / "model.pt")[1]["classes"] == ["class0", "class1", "rare"]


@pytest.mark.parametrize("method", ["idcwh", "idcwh-single"])
def test_train_one_image_of_one_class_at_one_bit(make_images, net, tmp_path, cached, method):
    data = make_images(tmp_path / "data", classes=1, each=4)  # one of them trains
    out = tmp_path / "one"
    command = ["--data", str(data), *net, "--freeze", "--epochs", "2", "--bits", "1", "--method", method, *cached]
    assert cli.main([*command, "--out", str(out)]) == 0
    assert load_model(out / "model.pt")[1]["centers"].shape == (1, 1)
    many = make_images(tmp_path / "many", classes=7, each=5)  # more classes than codes
    assert cli.main([*command, "--data", str(many), "--out", str(tmp_path / "more")]) == 0


def test_multi_label_manifest_with_an_unlabelled_line(images, net, tmp_path, cached, capsys):
    lines = ["path,split,label"]
    for c in range(3):
        for i in range(12):
            part = "test" if i < 3 else "train"
            labels = "" if (c, i) == (0, 5) else f"class{c}" + (",bright" if i % 2 else "")
            lines.append(f"{images}/{part}/class{c}/{i:02d}.png,{part},{labels}")
    manifest = tmp_path / "set.csv"
    manifest.write_text("\n".join(lines))
    out = tmp_path / "run"
    assert cli.main(["--data", str(manifest), *net, "--freeze", "--epochs", "4", "--out", str(out), *cached]) == 0
    assert "1 training image without a label" in capsys.readouterr().err
    assert load_model(out / "model.pt")[1]["classes"] == ["bright", "class0", "class1", "class2"]


def test_help_imports_no_torch():
    code = "import sys; from idcwh_train import cli; cli.parser(); print('torch' in sys.modules)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    assert subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True).stdout == "False\n"


@pytest.mark.parametrize("how", [["--freeze"], ["--lr", "0.001"]])
def test_evaluate_scores_the_queries_and_changes_nothing(images, net, tmp_path, cached, capsys, how):
    """The MAP is that of the saved model's codes, computed separately. The model is the same without --evaluate."""
    command = ["--data", str(images), *net, *how, "--epochs", "2", *cached]
    assert cli.main([*command, "--out", str(tmp_path / "plain")]) == 0
    capsys.readouterr()
    assert cli.main([*command, "--out", str(tmp_path / "scored"), "--evaluate", "--json"]) == 0
    output = capsys.readouterr()
    assert (tmp_path / "plain" / "model.pt").read_bytes() == (tmp_path / "scored" / "model.pt").read_bytes()

    model, content = load_model(tmp_path / "scored" / "model.pt")
    dataset = datasets.load(str(images))
    split = protocols.load(tmp_path / "scored" / "protocol.json", dataset)
    preprocess = Preprocess.from_dict(content["preprocess"])

    def codes(rows: np.ndarray) -> np.ndarray:
        pixels = torch.from_numpy(np.stack([dataset.image(int(i), preprocess) for i in rows])).permute(0, 3, 1, 2)
        with torch.inference_mode():
            return pack(model(pixels).numpy())

    expected = evaluate(
        codes(split.query), dataset.labels[split.query], codes(split.database), dataset.labels[split.database], bits=12
    )
    result = json.loads(output.out)["evaluations"]["12"]
    assert result["map"] == expected.map and result["queries"] == 9 and result["database"] == 33
    assert f"MAP {expected.map:.4f}" in output.err


def test_evaluate_keeps_the_library_of_the_features(images, net, tmp_path, monkeypatch):
    """With the queries, 42 instead of 33 images would select ONNX Runtime, whose last bits differ."""
    monkeypatch.setattr(ort_backbone, "ENOUGH", 40)
    command = ["--data", str(images), *net, "--freeze", "--epochs", "2", "--device", "cpu"]
    for name, more in (("plain", []), ("scored", ["--evaluate"])):
        cache = ["--cache", str(tmp_path / f"cache-{name}")]
        assert cli.main([*command, *more, *cache, "--out", str(tmp_path / name)]) == 0
    plain = (tmp_path / "plain" / "model.pt").read_bytes()
    assert (tmp_path / "scored" / "model.pt").read_bytes() == plain
    cache = ["--cache", str(tmp_path / "cache-anew"), "--device", "cpu"]
    assert cli.main(["--out", str(tmp_path / "plain"), "--resume", "--evaluate", *cache]) == 0
    assert (tmp_path / "plain" / "model.pt").read_bytes() == plain


def test_model_center_of_an_untrained_class_is_nan(images, net, tmp_path, cached):
    out = tmp_path / "run"
    command = ["--data", str(images), *net, "--freeze", "--epochs", "2", "--out", str(out), *cached]
    assert cli.main([*command, "--protocol", "unseen", "--unseen-classes", "1"]) == 0
    content = load_model(out / "model.pt")[1]
    unseen = [content["classes"].index(name) for name in json.loads((out / "protocol.json").read_text())["unseen"]]
    assert len(unseen) == 1
    assert content["centers"].isnan().all(dim=1).nonzero().flatten().tolist() == unseen
    assert content["centers"].isnan().sum() == 12


def test_train_without_queries_reports_map_and_next_commands(images, net, tmp_path, cached, capsys):
    out = tmp_path / "run"
    command = ["--data", str(images), *net, "--freeze", "--epochs", "2", "--validation", "0.2", "--out", str(out)]
    assert cli.main([*command, "--query-per-class", "0", *cached]) == 0
    lines = capsys.readouterr().err.splitlines()
    split = json.loads((out / "protocol.json").read_text())
    assert len(split["train"]["rows"]) == len(split["database"]["rows"]) == 42 and split["query"]["rows"] == []
    assert re.fullmatch(
        r"validation MAP \d\.\d{4} at 12 bits: 6 validation images, 36 training images", lines[-3]
    )  # fmt: skip
    assert lines[-2] == f"next: idcwh-export {out}/model.pt --onnx"
    assert lines[-1] == f"next: idcwh-index build --model {out}/model.onnx --images {images} --db {out}/codes.bin"


def test_train_without_validation_images_reports_no_map(images, net, tmp_path, cached, capsys):
    command = ["--data", str(images), *net, "--freeze", "--epochs", "1", "--validation", "0", *cached]
    assert cli.main([*command, "--query-per-class", "0", "--out", str(tmp_path / "run")]) == 0
    assert "--validation" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--query-per-class", "--query"])
def test_evaluate_without_queries_is_wrong_usage(images, net, tmp_path, cached, capsys, option):
    command = ["--data", str(images), *net, "--freeze", "--evaluate", "--out", str(tmp_path / "run"), *cached]
    assert cli.main([*command, option, "0"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: --evaluate: ")


def test_model_records_its_training_images(images, net, tmp_path, cached):
    command = ["--data", str(images), *net, "--freeze", "--epochs", "1", "--validation", "0.2", *cached]
    _, content = load_model(run_until(tmp_path / "run", command))
    dataset = datasets.load(str(images))
    split = protocols.split(dataset, protocols.SplitOptions("own"))
    recorded = content["training"]["images"]
    assert recorded["images"] == len(split.train)
    assert training_images.count(recorded, dataset, split.train) == len(split.train)
    assert training_images.count(recorded, dataset, split.query) == 0
