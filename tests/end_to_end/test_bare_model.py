"""A model.onnx without metadata, from the commands: refused, or used when told what it expects."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

import idcwh_search as ih
from idcwh_search.cli import index, search
from idcwh_search.database import provenance
from idcwh_search.errors import IdcwhError

SIDE, BITS = 8, 16


@pytest.fixture
def model(tmp_path: Path, make_linear: Callable[..., onnx.ModelProto]) -> Path:
    """Bits: whether the mean of a random half of the pixels is above that of the other."""
    weights = np.random.default_rng(0).choice([-1, 1], (SIDE * SIDE * 3, BITS)).astype(np.float32)
    onnx.save(make_linear(weights, 0), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    rng = np.random.default_rng(1)
    for i in range(6):
        Image.fromarray(rng.integers(0, 256, (20, 20, 3), np.uint8)).save(tmp_path / "images" / f"{i}.png")
    return tmp_path / "images"


def test_build_and_search(model: Path, images: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    build = ["build", "--model", str(model), "--images", str(images), "--db", str(tmp_path / "codes.bin")]
    assert index.main(build) == 1
    assert f"error: {model}: " in (said := capfd.readouterr().err) and "--preprocess RESIZE,CROP" in said
    assert index.main([*build, "--preprocess", "10,8"]) == 0
    capfd.readouterr()
    query = ["--db", str(tmp_path / "codes.bin"), "--query", str(images / "3.png"), "--json"]
    for more in ([], ["--preprocess", "10,8"]):
        assert search.main([*query, *more]) == 0
        best = json.loads(capfd.readouterr().out)["queries"][0]["hits"][0]
        assert (best["key"], best["distance"]) == ("3.png", 0)
    assert search.main([*query, "--preprocess", "16,16"]) == 1
    assert "tensor(uint8) ['n', 16, 16, 3]" in capfd.readouterr().err
    for command in (
        lambda *more: search.main([*query, *more]),
        lambda *more: index.main(["add", str(tmp_path / "codes.bin"), "--images", str(images), *more]),
    ):
        assert command("--preprocess", "20,8") == 1, "the same model, other pixels: wrong neighbours"
        said = capfd.readouterr().err.splitlines()[-1]
        assert "resize 20, crop 8, interpolation bilinear" in said and "resize 10, crop 8" in said


@pytest.mark.parametrize("text", ["8", "8,9", "a,b", "10,8,sharp", ""])
def test_wrong_preprocessing(text: str, model: Path, images: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        index.main(["build", "--model", str(model), "--images", str(images), "--db", "x", "--preprocess", text])
    assert stopped.value.code == 2 and "RESIZE,CROP" in capfd.readouterr().err


def test_metadata_that_is_overruled_is_compared_too(
    make_model: Callable[..., Path], images: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, database = make_model(tmp_path / "whole.onnx"), tmp_path / "codes.bin"
    assert index.main(["build", "--model", str(model), "--images", str(images), "--db", str(database)]) == 0
    query = ["--db", str(database), "--query", str(images / "3.png")]
    assert search.main([*query, "--preprocess", "8,8"]) == 0  # what the metadata says as well
    capfd.readouterr()
    assert search.main([*query, "--preprocess", "20,8"]) == 1
    assert "--preprocess" in capfd.readouterr().err
    with ih.Database.open(database) as db:
        said = db.manifest
    said["model"]["bits"] = 24
    ih.Database.create(tmp_path / "24.bin", 24, said).close()
    with (
        ih.Database.open(tmp_path / "24.bin") as db,
        pytest.raises(IdcwhError, match=r"codes of 20 bits.*made with 24"),
    ):
        provenance.open_encoder(db, None, device="cpu")
