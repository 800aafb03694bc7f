"""idcwh-train from its command line, on small pictures and a small random network."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from idcwh_search import datasets, protocols
from idcwh_search.codes import pack
from idcwh_search.images import Preprocess
from idcwh_search.metrics import evaluate
from idcwh_train import backbones, checkpoint, cli, features, inference, loop, progress, recipes, run, sound
from idcwh_train.checkpoint import load_model
from idcwh_train.methods.base import create
from idcwh_train.methods.idcwh import IDCWH
from idcwh_train.model import Network

NET = ["--backbone", "timm:test_resnet", "--weights", "none", "--resize", "36", "--crop", "32", "--bits", "12"]


def write_images(root: Path, classes: int = 3, each: int = 14, size: int = 40) -> Path:
    """Pictures that a random network can tell apart: a colour and a stripe a class, with noise."""
    rng = np.random.default_rng(0)
    for c in range(classes):
        for i in range(each):
            picture = rng.integers(0, 60, (size, size, 3))
            picture[:, :, c % 3] += 120
            picture[c % 7 :: 7] += 70
            path = root / ("test" if i < 3 else "train") / f"class{c}" / f"{i:02d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8)).save(path)
    return root


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Path:
    return write_images(tmp_path_factory.mktemp("images"))


@pytest.fixture
def cached(tmp_path_factory) -> list[str]:
    return ["--cache", str(tmp_path_factory.getbasetemp() / "features"), "--device", "cpu"]


def log(out: Path) -> list[dict]:
    """log.jsonl without what a clock put into it."""
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in progress.CLOCKS} for line in lines]


def test_frozen_run_writes_a_model_that_agrees_with_itself(images, tmp_path, cached, capsys):
    out = tmp_path / "run"
    command = ["--data", str(images), *NET, "--freeze", "--epochs", "12", "--json", "--out", str(out), *cached]
    assert cli.main(command) == 0
    said = capsys.readouterr()
    record = json.loads(said.out)
    assert record["epoch"] == 12 and record["finished"] and record["unreadable"] == {}
    assert "9 queries, 33 training, 33 database, of which 33 are also training" in said.err
    model, content = load_model(out / "model.pt")
    assert content["format"] == "idcwh-model" and content["version"] == 1 and content["bits"] == 12
    assert content["classes"] == ["class0", "class1", "class2"]
    assert content["method"]["name"] == "idcwh" and content["method"]["sigma2"] == pytest.approx(4.0)
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


def test_codes_of_the_model_are_those_that_the_hash_layer_was_trained_on(images, tmp_path, cached):
    """Features come from a folded, channels-last copy of the backbone; the saved model computes without that."""
    out = tmp_path / "run"
    cli.main(["--data", str(images), *NET, "--freeze", "--epochs", "3", "--out", str(out), *cached])
    model, _ = load_model(out / "model.pt")
    dataset, pre = datasets.load(str(images)), Preprocess(36, 32)
    rows = np.arange(len(dataset))
    found = features.extract(model, dataset, rows, pre, torch.device("cpu"), None)
    pixels = torch.from_numpy(np.stack([dataset.image(i, pre) for i in rows])).permute(0, 3, 1, 2)
    with torch.inference_mode():
        torch.testing.assert_close(model.head(found.x), model(pixels), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("how", [["--freeze"], ["--lr", "0.001", "--validation", "0.2"]])
def test_the_same_seed_gives_the_same_bytes(images, tmp_path, cached, how):
    command = ["--data", str(images), *NET, *how, "--epochs", "2", "--batch-size", "12", *cached]
    for name, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        assert cli.main([*command, "--seed", seed, "--out", str(tmp_path / name)]) == 0
    a, b, c = ((tmp_path / name / "model.pt").read_bytes() for name in "abc")
    assert a == b and a != c
    assert log(tmp_path / "a") == log(tmp_path / "b")


FINE_TUNING = [
    *(
        "--lr",
        "0.001",
        "--head-lr",
        "0.01",
        "--nesterov",
        "--schedule",
        "linear",
        "--warmup",
        "0.2",
        "--average",
        "0.9",
    ),
    *("--start-crop", "16", "--pad", "2", "--erase", "0.3", "--dropout", "0.3", "--flip"),
]


@pytest.mark.parametrize("how", [["--freeze"], FINE_TUNING, ["--freeze", "--bits", "12", "20", "--optimizer", "adam"]])
def test_resume_in_the_middle_of_an_epoch_is_bit_for_bit(images, tmp_path, cached, how, monkeypatch):
    """Stopped after every few steps and resumed, the run ends with the bytes of one that was left alone."""
    command = ["--data", str(images), *NET, *how, "--epochs", "3", "--batch-size", "8", *cached]
    assert cli.main([*command, "--out", str(tmp_path / "whole")]) == 0
    models = sorted(path.name for path in (tmp_path / "whole").glob("model*.pt"))

    steps = 0
    step = loop.Trainer._step

    def stopping(self, *arguments):
        nonlocal steps
        step(self, *arguments)
        steps += 1
        if steps % 2 == 0:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(loop.Trainer, "_step", stopping)
    out = tmp_path / "pieces"
    assert cli.main([*command, "--out", str(out)]) == 130
    assert load_model(out / models[-1])[1]["training"]["finished"] is False
    for _ in range(20):
        if cli.main(["--out", str(out), "--resume", *cached]) == 0:
            break
    assert steps in (9, 12), "no step is run twice"
    for model in models:
        assert (out / model).read_bytes() == (tmp_path / "whole" / model).read_bytes()
    assert log(out) == log(tmp_path / "whole")


def test_code_lengths_that_train_together_on_fixed_features_are_those_that_train_alone(images, tmp_path, cached):
    command = ["--data", str(images), *NET[:-2], "--freeze", "--dropout", "0.3", "--epochs", "3", *cached, "--evaluate"]
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


def test_the_backbone_sees_the_mean_of_what_the_heads_ask_for():
    layers = {bits: nn.Linear(5, bits) for bits in (3, 4)}
    network = Network(nn.Flatten(), 5, (0, 0, 0), (1, 1, 1), layers)
    x = torch.randn(6, 5, requires_grad=True)
    sum(h.square().sum() for h in network.logits(x)).backward()
    expected = sum(2 * layer(x) @ layer.weight for layer in layers.values()) / 2
    torch.testing.assert_close(x.grad, expected)
    torch.testing.assert_close(layers[3].weight.grad, 2 * layers[3](x).T @ x)


@pytest.mark.parametrize(
    ("method", "given", "factor"),
    [("idcwh", {}, 1), ("dhn", {}, 10), ("dhn", {"freeze": True}, 1), ("dhn", {"head_lr": 0.03}, 3)],
)
def test_learning_rate_of_the_head(method, given, factor):
    of = create(method, 3, 4, 10, {})
    network = Network(nn.Linear(5, 5), 5, (0, 0, 0), (1, 1, 1), {4: of.head(5)})
    groups = loop._optimizer(network, [of], recipes.Options(bits=4, lr=0.01, **given)).param_groups
    assert groups[0]["lr"] == 0.01 and groups[1]["lr"] == pytest.approx(0.01 * factor)
    assert {id(p) for p in groups[1]["params"]} == {id(p) for p in network.heads.parameters()}


def test_the_best_epoch_is_that_of_held_out_images(images, tmp_path, cached, capsys, monkeypatch):
    command = ["--data", str(images), *NET, "--freeze", "--validation", "0.2", *cached]
    values = iter([0.3, 0.9, 0.5, 0.9, 0.2])
    monkeypatch.setattr(run, "held_out_map", lambda *_: {12: next(values)})
    command += ["--epochs", "5", "--schedule", "step", "--lr", "0.01"]
    model, content = load_model(run_until(tmp_path / "best", [*command, "--keep", "best"]))
    assert content["training"]["kept"] == 2 and "kept epoch 2, MAP 0.9000" in capsys.readouterr().err
    values = iter([0.3, 0.9, 0.5, 0.9, 0.2])
    last, content = load_model(run_until(tmp_path / "last", command))
    assert content["training"]["kept"] == 5 and not torch.equal(model.hash.weight, last.hash.weight)
    assert cli.main([*command, "--validation", "0", "--keep", "best", "--out", str(tmp_path / "no")]) == 1
    assert "needs held-out images" in capsys.readouterr().err


def run_until(out: Path, command: list[str]) -> Path:
    assert cli.main([*command, "--out", str(out)]) == 0
    return out / "model.pt"


def test_the_model_is_the_running_mean_of_the_weights(images, tmp_path, cached, monkeypatch):
    seen: list[torch.Tensor] = []
    step = loop.Trainer._step

    def remember(self, *arguments):
        step(self, *arguments)
        seen.append(self.network.heads["12"].weight.detach().clone())

    monkeypatch.setattr(loop.Trainer, "_step", remember)
    command = ["--data", str(images), *NET, "--freeze", "--epochs", "3", "--batch-size", "8", *cached]
    model, _ = load_model(run_until(tmp_path / "run", [*command, "--average", "0.8"]))
    mean = seen[0]
    for weight in seen[1:]:
        mean = 0.8 * mean + 0.2 * weight
    torch.testing.assert_close(model.hash.weight, mean)


@pytest.mark.parametrize("method", ["sdh", "fsdh"])
@pytest.mark.parametrize("more", [[], ["--recipe", "best", "--start-crop", "16", "--validation", "0.2"]])
def test_a_solved_head_is_the_model_whatever_the_running_mean(images, tmp_path, cached, method, more):
    command = ["--data", str(images), *NET, "--freeze", "--method", method, *more, *cached]
    solved, _ = load_model(run_until(tmp_path / "solved", [*command, "--average", "0"]))
    model, content = load_model(run_until(tmp_path / "mean", [*command, "--average", "0.9"]))
    before, after = solved.state_dict(), model.state_dict()
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    assert not more or content["training"]["metrics"]["map"] > 0.9  # that of the held-out images is of this head, too


def test_options_of_the_method_as_people_write_them(images, tmp_path, cached):
    command = ["--data", str(images), *NET, "--freeze", "--epochs", "1", "--method", "dpsh", *cached]
    command += ["--method-option", "several=no", "--method-option", "eta=5"]
    method = load_model(run_until(tmp_path / "run", command))[1]["method"]
    assert method == {"name": "dpsh", "eta": 5.0, "several": False}


def test_ctrl_c_on_a_real_process(images, tmp_path, cached):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "idcwh_train.cli", "--data", str(images), *NET, "--freeze", "--epochs", "1000000"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen([*command, "--out", str(out), *cached], env=env, stderr=subprocess.PIPE, text=True)
    log_file = out / "log.jsonl"
    while process.poll() is None and not (log_file.exists() and log_file.stat().st_size > 2000):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "Traceback" not in said and "--resume" in said
    model, content = load_model(out / "model.pt")
    assert content["training"]["finished"] is False and content["training"]["epochs"] > 1
    position = checkpoint.read(out / "checkpoint.pt", checkpoint.CHECKPOINT)["trainer"]["position"]
    assert position["epoch"] == content["training"]["epochs"] == len(log(out))
    assert model.bits == 12


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_fine_tuning_learns(images, tmp_path, cached, precision):
    """The whole network trains: the backbone's weights move, and held-out images of a class find their own."""
    out = tmp_path / "run"
    command = ["--data", str(images), *NET, "--epochs", "6", "--batch-size", "9", "--lr", "0.003"]
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


def test_unreadable_images_are_skipped_named_and_counted(tmp_path, cached, capsys):
    data = write_images(tmp_path / "data")
    (data / "train/class1/05.png").write_bytes(b"not a picture")
    (data / "train/class1/06.png").write_bytes(b"")
    for how in (["--freeze"], ["--validation", "0.3", "--lr", "0.001"]):
        out = tmp_path / how[0]
        command = ["--data", str(data), *NET, *how, "--epochs", "2", "--batch-size", "9", "--out", str(out), *cached]
        assert cli.main(command) == 3
        said = capsys.readouterr().err
        assert "train/class1/05.png: not an image" in said and "train/class1/06.png: an empty file" in said
        assert "unreadable images skipped: 2" in said
        assert "train/class1/05.png" not in load_model(out / "model.pt")[1]["sample"]["keys"]


def test_a_class_of_one_image_and_fewer_images_than_a_batch(tmp_path, cached):
    data = write_images(tmp_path / "data", classes=2, each=5)
    only = data / "train" / "rare" / "1.png"
    only.parent.mkdir()
    Image.new("RGB", (50, 30), "white").save(only)
    out = tmp_path / "run"
    assert cli.main(["--data", str(data), *NET, "--freeze", "--epochs", "2", "--out", str(out), *cached]) == 0
    assert load_model(out / "model.pt")[1]["classes"] == ["class0", "class1", "rare"]


@pytest.mark.parametrize("method", ["idcwh", "idcwh-single"])
def test_one_image_one_class_one_bit(tmp_path, cached, method):
    data = write_images(tmp_path / "data", classes=1, each=4)  # one of them trains
    out = tmp_path / "one"
    command = ["--data", str(data), *NET, "--freeze", "--epochs", "2", "--bits", "1", "--method", method, *cached]
    assert cli.main([*command, "--out", str(out)]) == 0
    assert load_model(out / "model.pt")[1]["centers"].shape == (1, 1)
    many = write_images(tmp_path / "many", classes=7, each=5)  # more classes than codes
    assert cli.main([*command, "--data", str(many), "--out", str(tmp_path / "more")]) == 0


def test_multi_label_manifest_with_an_unlabelled_line(images, tmp_path, cached, capsys):
    lines = ["path,split,label"]
    for c in range(3):
        for i in range(12):
            part = "test" if i < 3 else "train"
            labels = "" if (c, i) == (0, 5) else f"class{c}" + (",bright" if i % 2 else "")
            lines.append(f"{images}/{part}/class{c}/{i:02d}.png,{part},{labels}")
    manifest = tmp_path / "set.csv"
    manifest.write_text("\n".join(lines))
    out = tmp_path / "run"
    assert cli.main(["--data", str(manifest), *NET, "--freeze", "--epochs", "4", "--out", str(out), *cached]) == 0
    assert "1 training picture without a label: skipped in training" in capsys.readouterr().err
    assert load_model(out / "model.pt")[1]["classes"] == ["bright", "class0", "class1", "class2"]


def test_collapse_is_said(images, tmp_path, cached, capsys, monkeypatch):
    """A network whose features are the same for every image gives every image the same code, whatever is dropped."""
    monkeypatch.setattr(features, "compute", lambda model, dataset, rows, *_: constant(model, rows))

    def constant(model, rows):
        return features.Features(torch.ones(len(rows), model.features), rows, {})

    out = tmp_path / "run"
    command = ["--data", str(images), *NET, "--freeze", "--epochs", "3", "--out", str(out), "--device", "cpu"]
    command += ["--dropout", "0"]
    assert cli.main([*command, "--cache", str(tmp_path / "cache")]) == 0
    assert "the codes have collapsed: the outputs are constant for" in capsys.readouterr().err
    assert "collapse" in log(out)[-1] and log(out)[-1]["distinct_codes"] == 1
    assert torch.isfinite(load_model(out / "model.pt")[0].hash.weight).all()


def test_a_loss_that_is_not_a_number_stops_and_keeps_the_last_checkpoint(images, tmp_path, cached, capsys, monkeypatch):
    """The checkpoint is of the steps before it, whole: gone on from without the cause, the run is like any other."""
    command = ["--data", str(images), *NET, "--freeze", "--epochs", "5", "--batch-size", "12", *cached]
    assert cli.main([*command, "--out", str(tmp_path / "whole")]) == 0
    out, terms, calls = tmp_path / "run", IDCWH.terms, []

    def broken(self, *given):
        calls.append(1)
        return {name: x * (torch.nan if len(calls) == 6 else 1) for name, x in terms(self, *given).items()}

    with monkeypatch.context() as patch:
        patch.setattr(IDCWH, "terms", broken)
        patch.setattr(run, "_CHECKPOINT_SECONDS", -1)
        assert cli.main([*command, "--out", str(out)]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("error: the loss is not finite in epoch 3, step 2 (loss nan, L1 nan")
    assert (
        "checkpoint.pt keeps what was sound, 2 epochs and 1 steps; a lower --lr helps most often, in a new run" in said
    )
    assert not (out / "model.pt").exists() and len(log(out)) == 2
    saved = checkpoint.read(out / "checkpoint.pt", checkpoint.CHECKPOINT)["trainer"]
    assert saved["position"]["epoch"] == 2 and saved["position"]["step"] == 1
    assert all(torch.isfinite(x).all() for x in saved["network"].values())
    assert cli.main(["--out", str(out), "--resume", *cached]) == 0
    assert (out / "model.pt").read_bytes() == (tmp_path / "whole" / "model.pt").read_bytes()


@pytest.mark.parametrize("how", [["--freeze"], [], ["--average", "0.9", "--freeze"]])
def test_weights_of_no_use_are_not_saved(images, tmp_path, cached, capsys, how):
    """After the only step there is no loss any more that could tell."""
    out = tmp_path / "run"
    command = ["--data", str(images), *NET, *how, "--epochs", "1", "--batch-size", "200", "--lr", "1e38", *cached]
    assert cli.main([*command, "--out", str(out)]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert "after step 1 of epoch 1" in said and "no checkpoint was written before; a lower --lr" in said
    assert sorted(path.name for path in out.iterdir()) == ["log.jsonl", "protocol.json"] and not log(out)


def test_what_is_kept_of_a_run_that_diverges_is_sound(images, tmp_path, cached, capsys, monkeypatch):
    monkeypatch.setattr(run, "_CHECKPOINT_SECONDS", -1)
    out = tmp_path / "run"
    command = ["--data", str(images), *NET, "--freeze", "--epochs", "50", "--batch-size", "12", "--lr", "1e5", *cached]
    assert cli.main([*command, "--out", str(out)]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    kept = (out / "checkpoint.pt").read_bytes()
    saved = checkpoint.read(out / "checkpoint.pt", checkpoint.CHECKPOINT)["trainer"]
    at = saved["position"]
    assert f"checkpoint.pt keeps what was sound, {at['epoch']} epochs and {at['step']} steps" in said
    assert all(sound.is_sound(x) for x in saved["network"].values())
    assert all(abs(x) < sound.LARGEST**2 * 12 for x in at["sums"].values()) and len(log(out)) == at["epoch"]
    assert cli.main(["--out", str(out), "--resume", *cached]) == 1
    assert "--resume keeps the rate and comes to the same end" in capsys.readouterr().err
    assert (out / "checkpoint.pt").read_bytes() == kept and not (out / "model.pt").exists()


def test_a_model_whose_outputs_are_not_finite_is_not_written(images, tmp_path, cached, capsys, monkeypatch):
    def infinite(source, network, positions):
        return positions, {12: torch.full((len(positions), 12), torch.inf)}

    monkeypatch.setattr(run, "encode", infinite)
    command = ["--data", str(images), *NET, "--freeze", "--epochs", "1", "--out", str(tmp_path / "run"), *cached]
    assert cli.main(command) == 1
    assert "error: the outputs of the finished model are not finite" in capsys.readouterr().err
    assert not (tmp_path / "run" / "model.pt").exists()


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--data", "nowhere"], "nowhere: no such folder"),
        (["--backbone", "nope"], "unknown backbone 'nope'"),
        (["--backbone", "timm:nope"], "backbone timm:nope"),
        (["--weights", "missing.pt"], "missing.pt: no such weights file"),
        (["--protocol", "cifar10-mini"], "cifar10-mini is defined on 60000"),
        (["--train-per-class", "100"], "class class0 has 11 training pictures, the protocol wants 100"),
        (["--method", "idcwh-single", "--gamma", "1"], "gamma = 0"),
        (["--sigma2", "-1"], "idcwh: sigma2: expected a number above 0, not -1.0"),
        (["--method", "dcwh", "--method-option", "every=0.5"], "dcwh: every: expected a whole number of at least 1"),
        (
            ["--method", "dpsh", "--method-option", "several=maybe"],
            "dpsh: several: expected true or false, not 'maybe'",
        ),
        (["--method-option", "foo=1"], "idcwh: unknown option 'foo'; expected one of sigma2, gamma, beta, "),
        (["--dropout", "1"], "dropout: expected a share"),
        (["--crop", "64"], "do not fit into resize 36"),
    ],
)
def test_mistakes_are_one_line(images, tmp_path, cached, capsys, extra, message):
    command = ["--data", str(images), *NET, "--freeze", "--epochs", "1", "--out", str(tmp_path / "run"), *cached]
    assert cli.main([*command, *extra]) == 1
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("error: ") and message in last


def test_cuda_that_is_not_there_is_an_error(images, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    command = ["--data", str(images), *NET, "--freeze", "--device", "cuda", "--out", str(tmp_path / "run")]
    assert cli.main(command) == 1
    assert capsys.readouterr().err.startswith("error: --device cuda: ")
    assert not (tmp_path / "run").exists()


def test_a_run_is_not_overwritten_or_resumed_by_mistake(images, tmp_path, cached, capsys):
    out = tmp_path / "run"
    command = ["--data", str(images), *NET, "--freeze", "--epochs", "1", "--out", str(out), *cached]
    assert cli.main(["--out", str(out), "--resume", *cached]) == 1
    assert "checkpoint.pt: no such file" in capsys.readouterr().err
    assert cli.main(command) == 0
    before = (out / "model.pt").read_bytes()
    assert cli.main(command) == 1
    assert "--resume goes on, --overwrite replaces it" in capsys.readouterr().err
    assert cli.main([*command, "--overwrite", "--data", "nowhere"]) == 1
    assert (out / "model.pt").read_bytes() == before, "nothing is removed before the new run can start"
    assert cli.main(["--out", str(out), "--resume", "--bits", "24", *cached]) == 1
    assert "--bits 24: the run in" in capsys.readouterr().err
    assert cli.main(["--out", str(out), "--resume", "--bits", "12", *cached]) == 0
    assert (out / "model.pt").read_bytes() == before
    assert cli.main([*command, "--overwrite"]) == 0


def test_a_run_that_does_not_start_leaves_the_earlier_one(images, tmp_path, cached, capsys):
    out = tmp_path / "run"
    command = ["--data", str(images), *NET, "--query-per-class", "2", "--epochs", "2", "--out", str(out), *cached]
    assert cli.main([*command, "--freeze"]) == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    again = [*command, "--overwrite", "--seed", "7"]
    for mistake in (["--freeze", "--backbone", "nope"], ["--freeze", "--sigma2", "-1"], ["--method", "sdh"]):
        assert cli.main([*again, *mistake]) == 1
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert "sdh has a closed form and needs fixed features; add --freeze" in capsys.readouterr().err
    assert cli.main([*again, "--freeze"]) == 0
    assert {name for name, content in before.items() if (out / name).read_bytes() != content} == set(before)


def test_a_run_is_resumed_with_its_own_protocol_only(images, tmp_path, cached, capsys):
    """With another seed's, images that it trains on could be queries."""
    for name, seed in (("a", "0"), ("b", "7")):
        command = ["--data", str(images), *NET, "--freeze", "--query-per-class", "2", "--epochs", "2", "--seed", seed]
        assert cli.main([*command, "--out", str(tmp_path / name), *cached]) == 0
    model, own = (tmp_path / "a" / "model.pt").read_bytes(), (tmp_path / "a" / "protocol.json").read_bytes()
    (tmp_path / "a" / "protocol.json").write_bytes((tmp_path / "b" / "protocol.json").read_bytes())
    capsys.readouterr()
    assert cli.main(["--out", str(tmp_path / "a"), "--resume", "--evaluate", *cached]) == 1
    said = capsys.readouterr().err
    assert "a/protocol.json: not the protocol that" in said.splitlines()[-1]
    assert (tmp_path / "a" / "model.pt").read_bytes() == model
    (tmp_path / "a" / "protocol.json").write_bytes(own)
    assert cli.main(["--out", str(tmp_path / "a"), "--resume", "--evaluate", *cached]) == 0
    assert (tmp_path / "a" / "model.pt").read_bytes() == model


def finished(images: Path, out: Path, cached: list[str]) -> Path:
    assert cli.main(["--data", str(images), *NET, "--freeze", "--epochs", "3", "--out", str(out), *cached]) == 0
    return out


def test_a_checkpoint_that_is_damaged_or_of_another_version_is_one_line(images, tmp_path, cached, capsys):
    out = finished(images, tmp_path / "run", cached)
    path = out / "checkpoint.pt"
    whole = path.read_bytes()
    saved = checkpoint.read(path, checkpoint.CHECKPOINT)
    weight = whole.index(saved["trainer"]["network"]["heads.12.weight"].numpy().tobytes())
    flipped = bytearray(whole)
    flipped[weight + 100] ^= 1
    for content in (whole[: len(whole) // 2], whole[:-1], bytes(flipped)):
        path.write_bytes(content)
        assert cli.main(["--out", str(out), "--resume", *cached]) == 1
        assert capsys.readouterr().err.splitlines()[-1].startswith(f"error: {path}: damaged")
    without = {name: value for name, value in saved["options"].items() if name != "length_options"}
    for lacking, content in (
        ("log_bytes", {name: value for name, value in saved.items() if name != "log_bytes"}),
        ("protocol", {name: value for name, value in saved.items() if name != "protocol"}),
        ("option length_options", {**saved, "options": without}),
    ):
        checkpoint.write(path, content)
        assert cli.main(["--out", str(out), "--resume", *cached]) == 1
        said = capsys.readouterr().err.strip()
        assert said.startswith(f"error: {path}: has no {lacking}; another version") and "\n" not in said


def test_a_log_that_is_gone_or_cut_is_said_and_done_without(images, tmp_path, cached, capsys):
    out = finished(images, tmp_path / "run", cached)
    model, lines = (out / "model.pt").read_bytes(), (out / "log.jsonl").read_bytes().splitlines(keepends=True)
    kept = (out / "checkpoint.pt").read_bytes()
    for content, left in ((None, []), (b"".join(lines)[:-5], lines[:2]), (lines[0] + lines[1][:30], lines[:1])):
        (out / "checkpoint.pt").write_bytes(kept)
        (out / "log.jsonl").unlink()
        if content is not None:
            (out / "log.jsonl").write_bytes(content)
        capsys.readouterr()
        assert cli.main(["--out", str(out), "--resume", *cached]) == 0
        said = capsys.readouterr().err
        assert (
            f"warning: {out / 'log.jsonl'}: {'no such file' if content is None else f'{sum(map(len, left)):,} of'}"
            in said
        )
        assert (out / "log.jsonl").read_bytes() == b"".join(left)
        assert (out / "model.pt").read_bytes() == model


def test_a_set_that_has_moved_is_named_to_resume(images, tmp_path, cached, capsys, monkeypatch):
    out, here = tmp_path / "run", tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(images.parent)
    finished(Path(images.name), out, cached)
    model = (out / "model.pt").read_bytes()
    monkeypatch.chdir(here)
    resume = ["--out", str(out), "--resume", *cached]
    assert cli.main(resume) == 1
    assert "if the set has moved, say where it is with --data" in capsys.readouterr().err
    (here / "there").symlink_to(images)
    for data in (str(images), "there", "./there"):
        assert cli.main([*resume, "--data", data]) == 0
        assert (out / "model.pt").read_bytes() == model, "wherever the set lies"
    other = write_images(tmp_path / "other", each=13)
    assert cli.main([*resume, "--data", str(other)]) == 1
    assert "protocol.json: made from another set" in capsys.readouterr().err
    assert (out / "model.pt").read_bytes() == model
    with pytest.raises(SystemExit) as caught:
        cli.main([*resume, "--overwrite"])
    assert caught.value.code == 2 and "--resume goes on with a run, --overwrite replaces it" in capsys.readouterr().err


def test_help_does_not_wait_for_torch():
    code = "import sys; from idcwh_train import cli; cli.parser(); print('torch' in sys.modules)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    assert subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True).stdout == "False\n"


@pytest.mark.parametrize("how", [["--freeze"], ["--lr", "0.001"]])
def test_evaluate_scores_the_queries_and_changes_nothing(images, tmp_path, cached, capsys, how):
    """The number is that of the codes of the saved model, computed apart; the model is the same without it."""
    command = ["--data", str(images), *NET, *how, "--epochs", "2", *cached]
    assert cli.main([*command, "--out", str(tmp_path / "plain")]) == 0
    capsys.readouterr()
    assert cli.main([*command, "--out", str(tmp_path / "scored"), "--evaluate", "--json"]) == 0
    said = capsys.readouterr()
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
    found = json.loads(said.out)["evaluations"]["12"]
    assert found["map"] == expected.map and found["queries"] == 9 and found["database"] == 33
    assert f"MAP {expected.map:.4f}" in said.err


def test_evaluate_does_not_change_what_computes_the_features(images, tmp_path, monkeypatch):
    """33 training images, 42 with the queries: ONNX Runtime would come in between, and its last bits are others."""
    monkeypatch.setattr(inference, "ENOUGH", 40)
    command = ["--data", str(images), *NET, "--freeze", "--epochs", "2", "--device", "cpu"]
    for name, more in (("plain", []), ("scored", ["--evaluate"])):
        cache = ["--cache", str(tmp_path / f"cache-{name}")]
        assert cli.main([*command, *more, *cache, "--out", str(tmp_path / name)]) == 0
    plain = (tmp_path / "plain" / "model.pt").read_bytes()
    assert (tmp_path / "scored" / "model.pt").read_bytes() == plain
    cache = ["--cache", str(tmp_path / "cache-anew"), "--device", "cpu"]
    assert cli.main(["--out", str(tmp_path / "plain"), "--resume", "--evaluate", *cache]) == 0
    assert (tmp_path / "plain" / "model.pt").read_bytes() == plain


def test_a_class_that_never_trains_has_no_center(images, tmp_path, cached):
    out = tmp_path / "run"
    command = ["--data", str(images), *NET, "--freeze", "--epochs", "2", "--out", str(out), *cached]
    assert cli.main([*command, "--protocol", "unseen", "--unseen-classes", "1"]) == 0
    content = load_model(out / "model.pt")[1]
    unseen = [content["classes"].index(name) for name in json.loads((out / "protocol.json").read_text())["unseen"]]
    assert len(unseen) == 1
    assert content["centers"].isnan().all(dim=1).nonzero().flatten().tolist() == unseen
    assert content["centers"].isnan().sum() == 12
