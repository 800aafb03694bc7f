"""idcwh-train on typical dataset folders: images that are listed, reported and refused."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from idcwh_search.images import listing
from idcwh_train import cli
from idcwh_train.engine.checkpoint import load_model


@pytest.fixture
def train(net: list[str], cached: list[str]) -> Callable[..., int]:
    """Two epochs with a frozen random network."""

    def run(data: Path, out: Path, *more: str) -> int:
        argv = ["--data", str(data), "--out", str(out), *net, *cached, "--freeze", "--epochs", "2", *more]
        return cli.main(argv)

    return run


def test_train_names_its_classes_before_the_first_step(
    images: Path, tmp_path: Path, train: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(images, tmp_path / "run") == 0
    lines = capsys.readouterr().err.splitlines()
    classes = lines.index("3 classes: class0 (14), class1 (14), class2 (14)")
    assert classes < next(i for i, line in enumerate(lines) if line.startswith("epoch "))


def test_train_reports_skipped_types_and_exits_3(
    make_images: Callable[..., Path],
    tmp_path: Path,
    train: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listing, "heif_installed", lambda: False)
    data = make_images(tmp_path / "data")
    for i in range(20):
        (data / "train" / "class1" / f"{i}.HEIC").touch()
    assert train(data, tmp_path / "run", "--json") == 3
    out, err = capsys.readouterr()
    assert json.loads(out)["left_out"]["skipped"] == {".heic": 20}
    assert "skipped 20 files of unsupported types: 20 .heic (first: train/class1/0.HEIC)" in err


@pytest.mark.parametrize("inside", [".", "runs/1", "train/class0/run"])
def test_train_into_the_dataset_fails(
    make_images: Callable[..., Path],
    tmp_path: Path,
    train: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    inside: str,
) -> None:
    data = make_images(tmp_path / "data")
    before = sorted(data.rglob("*"))
    assert train(data, data / inside) == 1
    assert str(data) in capsys.readouterr().err.splitlines()[-1]
    assert sorted(data.rglob("*")) == before


def test_reproduce_into_the_dataset_fails(
    make_images: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from idcwh_reproduce import cli as reproduce

    data = make_images(tmp_path / "data")
    assert reproduce.main(["cifar10-mini", "--data", str(data), "--out", str(data / "out"), "--device", "cpu"]) == 1
    assert str(data) in capsys.readouterr().err.splitlines()[-1] and not (data / "out").exists()


def test_train_with_names_that_are_not_utf8_resumes(
    make_images: Callable[..., Path],
    tmp_path: Path,
    train: Callable[..., int],
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Split files, checkpoints, features and the keys in model.pt hold such names."""
    data, folder, name = make_images(tmp_path / "data"), os.fsdecode(b"vog\xe9l"), os.fsdecode(b"caf\xe9.png")
    for part in ("train", "test"):
        first = min((data / part / "class0").iterdir())
        first.rename(first.with_name(name))
        (data / part / "class0").rename(data / part / folder)
    (data / "train" / "class1" / name).write_text("no image")
    assert train(data, tmp_path / "run", "--evaluate") == 3
    model, content = load_model(tmp_path / "run" / "model.pt")
    assert content["classes"] == ["class1", "class2", folder]
    assert f"train/{folder}/{name}" in content["sample"]["keys"]
    shutil.copytree(tmp_path / "run", tmp_path / "again")
    assert cli.main(["--out", str(tmp_path / "again"), "--resume", "--device", "cpu"]) == 3
    again, _ = load_model(tmp_path / "again" / "model.pt")
    assert torch.equal(again.hash.weight, model.hash.weight)
    assert b"skipped train/class1/caf\xe9.png" in capfdbinary.readouterr().err


def test_features_of_images_in_a_tar_follow_their_bytes(
    make_images: Callable[..., Path], tmp_path: Path, train: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    """The cache must not use the features of another tar file."""
    import tarfile

    data = make_images(tmp_path / "data")
    one, other = sorted((data / "train" / "class0").iterdir())[:2]
    for source, run in ((one, "a"), (other, "b")):
        with tarfile.open(data / "train" / "class0" / "more.tar", "w") as archive:
            archive.add(source, "x.png")
        assert train(data, tmp_path / run) == 0
        err = capsys.readouterr().err
        assert "class0 (15)" in err and "images/s on cpu" in err, "computed, not taken from the cache"
