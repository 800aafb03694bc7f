"""Commands with a model.onnx without metadata, which is refused or used with --preprocess."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

import idcwh_search as ih
from idcwh_search.cli import index, search
from idcwh_search.database import provenance
from support.commands import Runner
from support.errors import raises

SIDE, BITS = 8, 16


@pytest.fixture
def model(tmp_path: Path, make_linear: Callable[..., onnx.ModelProto]) -> Path:
    """A model whose bits compare the means of two random halves of the pixels."""
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


def test_model_without_metadata_needs_preprocess(model: Path, images: Path, tmp_path: Path, commands: Runner) -> None:
    database = tmp_path / "codes.bin"
    line = commands.fails(index.main, "build", "--model", model, "--images", images, "--db", database)
    assert line.startswith(f"error: {model}: ") and "--preprocess RESIZE,CROP" in line
    commands.build(model, images, database, "--preprocess", "10,8")
    query = ("--db", database, "--query", images / "3.png")
    for more in ((), ("--preprocess", "10,8")):
        (answer,) = commands.json(search.main, *query, *more)["queries"]
        assert (answer["hits"][0]["key"], answer["hits"][0]["distance"]) == ("3.png", 0)
    assert commands.fails(search.main, *query, "--preprocess", "16,16").startswith(f"error: {model}: ")
    for command in ((search.main, *query), (index.main, "add", database, "--images", images)):
        # The same model with other pixels would find wrong neighbours.
        line = commands.fails(*command, "--preprocess", "20,8")
        assert "resize 20, crop 8, interpolation bilinear" in line and "resize 10, crop 8" in line


@pytest.mark.parametrize("text", ["8", "8,9", "a,b", "10,8,sharp", ""])
def test_invalid_preprocess_is_usage(text: str, model: Path, images: Path, commands: Runner) -> None:
    build = ("build", "--model", model, "--images", images, "--db", "x", "--preprocess", text)
    assert "--preprocess" in commands.fails(index.main, *build, status=2)


def test_preprocess_that_replaces_metadata_is_compared(
    make_model: Callable[..., Path], images: Path, tmp_path: Path, commands: Runner
) -> None:
    model, database = make_model(tmp_path / "whole.onnx"), tmp_path / "codes.bin"
    commands.build(model, images, database)
    query = ("--db", database, "--query", images / "3.png")
    commands(search.main, *query, "--preprocess", "8,8")  # as in the metadata
    assert "--preprocess" in commands.fails(search.main, *query, "--preprocess", "20,8")


def test_database_of_another_code_length_refuses_a_model(
    make_model: Callable[..., Path], images: Path, tmp_path: Path, commands: Runner
) -> None:
    model, database = make_model(tmp_path / "whole.onnx"), tmp_path / "codes.bin"
    commands.build(model, images, database)
    with ih.Database.open(database) as db:
        manifest = db.manifest
    manifest["model"]["bits"] = 24
    ih.Database.create(tmp_path / "24.bin", 24, manifest).close()
    with ih.Database.open(tmp_path / "24.bin") as db, raises(ih.ModelMismatchError, path=model):
        provenance.open_encoder(db, None, device="cpu")
