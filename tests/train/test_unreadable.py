"""Datasets with unreadable images: an error before anything is trained or replaced."""

from __future__ import annotations

import json

import pytest

from idcwh_train import cli
from idcwh_train.engine import setup
from idcwh_train.engine.checkpoint import load_model

pytestmark = pytest.mark.slow

COMPACT = ["--backbone", "compact", "--resize", "32", "--crop", "32", "--bits", "12"]
EACH = [["--freeze"], [], COMPACT]


def spoil(root, part):
    """Replaces all images of a part by text."""
    for path in (root / part).rglob("*.png"):
        path.write_bytes(b"no image")
    return root


@pytest.mark.parametrize("how", EACH)
def test_train_without_a_readable_training_image_fails(make_images, net, tmp_path, cached, capsys, how):
    out = tmp_path / "run"
    good = make_images(tmp_path / "good")
    assert cli.main(["--data", str(good), *net, "--freeze", "--epochs", "1", "--out", str(out), *cached]) == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    bad = spoil(make_images(tmp_path / "bad"), "train")
    command = ["--data", str(bad), *net, *how, "--epochs", "2", "--out", str(out), "--overwrite", *cached]
    assert cli.main(command) == 1
    assert "train/class0/03.png" in capsys.readouterr().err.splitlines()[-1]
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before, "nothing of the earlier run is touched"


def test_whitening_uses_the_readable_images(make_images, tmp_path, cached, monkeypatch):
    monkeypatch.setattr(setup, "_WHITENED", 4)
    bad = make_images(tmp_path / "bad")
    for path in sorted((bad / "train").rglob("*.png"))[:9]:
        path.write_bytes(b"no image")
    command = ["--data", str(bad), *COMPACT, "--epochs", "1", "--batch-size", "8", "--out", str(tmp_path / "run")]
    assert cli.main([*command, *cached]) == 3
    assert load_model(tmp_path / "run" / "model.pt")[0].backbone.whitening.weight.abs().sum() > 0


def test_batch_with_one_readable_image_is_no_step(make_images, tmp_path, cached, capsys, log):
    """If the last feature maps are one pixel, batch norm would have no variance."""
    bad = make_images(tmp_path / "bad")
    for path in sorted((bad / "train").rglob("*.png")):
        if path.stem not in ("03", "04"):
            path.write_bytes(b"no image")
    command = ["--data", str(bad), *COMPACT, "--crop", "16", "--epochs", "4", "--batch-size", "3"]
    assert cli.main([*command, "--out", str(tmp_path / "run"), *cached]) == 3
    warning = next(line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: epoch 1: "))
    assert f"{log(tmp_path / 'run')[0]['untaken']:,}" in warning
    for line in log(tmp_path / "run"):  # a mean over the steps that were taken
        assert 0 < line["untaken"] <= 11 and ("loss" not in line or line["L1"] > 0.5)
    assert any("loss" in line for line in log(tmp_path / "run"))


@pytest.mark.parametrize("how", EACH)
def test_single_training_image_needs_larger_feature_maps(make_images, net, tmp_path, cached, capsys, how):
    command = ["--data", str(make_images(tmp_path / "one", classes=1, each=4)), *net, *how, "--epochs", "1", *cached]
    done = cli.main([*command, "--out", str(tmp_path / "run")])
    assert done == (1 if not how else 0), "batch norm of test_resnet sees one value per channel, the other has 4 x 4"
    assert not done or "--batch-size" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("side", ["32", "64"])
def test_batch_size_1_needs_larger_feature_maps(images, net, tmp_path, cached, side):
    command = ["--data", str(images), *net, "--resize", "72", "--crop", side, "--batch-size", "1", "--epochs", "1"]
    assert cli.main([*command, "--out", str(tmp_path / "run"), *cached]) == (1 if side == "32" else 0)


def test_resumed_run_names_the_unreadable_images(make_images, net, tmp_path, cached, capsys):
    bad, out = make_images(tmp_path / "bad"), tmp_path / "run"
    (bad / "train" / "class1" / "05.png").write_bytes(b"no image")
    command = ["--data", str(bad), *net, "--epochs", "2", "--batch-size", "8", "--out", str(out), *cached, "--json"]
    assert cli.main(command) == 3
    first = json.loads(capsys.readouterr().out)["unreadable"]
    assert list(first) == ["train/class1/05.png"]
    assert cli.main(["--out", str(out), "--resume", *cached, "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["unreadable"] == first


def test_train_on_images_without_labels_fails(make_images, net, tmp_path, cached, capsys):
    root = make_images(tmp_path / "set")
    rows = []
    for path in sorted(root.rglob("*.png")):
        part = "test" if "test" in path.parts else "train"
        rows.append({"path": str(path), "labels": ["a"] if part == "test" else [], "split": part})
    (tmp_path / "set.jsonl").write_text("\n".join(map(json.dumps, rows)))
    command = ["--data", str(tmp_path / "set.jsonl"), *net, "--freeze", "--epochs", "1", "--out", str(tmp_path / "run")]
    assert cli.main([*command, *cached]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ") and "33" in error and ".png" not in error


@pytest.mark.parametrize("how", EACH)
def test_evaluate_without_a_readable_query_fails(make_images, net, tmp_path, cached, capsys, how):
    bad = spoil(make_images(tmp_path / "bad"), "test")
    command = ["--data", str(bad), *net, *how, "--epochs", "1", "--out", str(tmp_path / "run"), *cached]
    assert cli.main([*command, "--evaluate"]) == 1
    assert "test/class0/00.png" in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "run").exists()
    assert cli.main(command) == 0, "a model does not need queries"


def of_another_class(make_images, tmp_path):
    """Writes a list whose queries are of a class that the database does not have."""
    root = make_images(tmp_path / "set", classes=4)
    lines = [
        f"{path},{path.parent.name},{path.parts[-3]}"
        for path in sorted(root.rglob("*.png"))
        if (path.parts[-3] == "test") == (path.parent.name == "class3")
    ]
    (tmp_path / "set.csv").write_text("\n".join(["path,label,split", *lines]))
    return tmp_path / "set.csv"


@pytest.mark.parametrize("how", EACH)
def test_evaluate_without_relevant_images_fails(make_images, net, tmp_path, cached, capsys, how):
    data = of_another_class(make_images, tmp_path)
    command = ["--data", str(data), *net, *how, "--epochs", "1", "--out", str(tmp_path / "run"), *cached]
    assert cli.main([*command, "--evaluate"]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ") and "own" in error
    assert not (tmp_path / "run").exists()


def test_evaluate_that_fails_at_the_end_keeps_the_model(make_images, net, tmp_path, cached, capsys):
    """Fine-tuning reads one query before it begins. Here its class is not in the database."""
    data = of_another_class(make_images, tmp_path)
    bad = tmp_path / "set" / "test" / "class0" / "00.png"
    bad.write_bytes(b"no image")
    with data.open("a") as lines:
        lines.write(f"\n{bad},class0,test")
    out = tmp_path / "run"
    command = ["--data", str(data), *net, "--epochs", "1", "--out", str(out), *cached, "--evaluate", "--json"]
    assert cli.main(command) == 3
    printed = capsys.readouterr()
    assert "class0/00.png" in printed.err and load_model(out / "model.pt")[0].bits == 12
    result = json.loads(printed.out)
    assert list(result["unmeasured"]) == ["own"] and not result["evaluations"] and len(result["unreadable"]) == 1
