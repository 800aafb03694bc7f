"""All steps on photographs with a small random network: train, export, index, search and evaluate."""

from __future__ import annotations

from pathlib import Path

import pytest

import idcwh_search as ih
from idcwh_export import cli as export
from idcwh_search.cli import evaluate, search
from idcwh_train import cli as train
from support.commands import IMAGES, Runner

pytestmark = pytest.mark.slow


def test_images_to_hits_with_every_command(tmp_path: Path, commands: Runner) -> None:
    run, model, database = tmp_path / "run", tmp_path / "model.onnx", tmp_path / "codes.bin"
    network = ["--backbone", "timm:test_resnet", "--weights", "none", "--resize", "36", "--crop", "32"]
    options = [*network, "--freeze", "--bits", "20", "--epochs", "3", "--cache", tmp_path / "features", "--evaluate"]
    trained = commands.json(train.main, "--data", IMAGES, "--out", run, *options)["evaluations"]["20"]

    assert ": 0 of 3,200 bits differ" in commands(export.main, run / "model.pt", "--onnx", model).out

    commands.build(model, IMAGES / "train", database)
    with ih.Database.open(database) as db:
        assert len(db) == 1000 and db.bits == 20 and len(db.label_names()) == 10

    # An image of the database is its own nearest neighbour, or has the code of an earlier image.
    query = min((IMAGES / "train" / "frog").iterdir())
    (answer,) = commands.json(search.main, "--db", database, "--query", query, "--radius", "0")["queries"]
    assert f"frog/{query.name}" in [hit["key"] for hit in answer["hits"]]
    assert {hit["distance"] for hit in answer["hits"]} == {0}

    # The exported model has the MAP of the trained one.
    (deployed,) = commands.json(evaluate.main, "--model", model, "--data", IMAGES)["evaluations"]
    assert deployed["queries"] == trained["queries"] == 200
    assert deployed["map"] == pytest.approx(trained["map"], abs=1e-3)
