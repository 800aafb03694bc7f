"""The whole road on real photographs: train, export, index, search, evaluate, with a small random network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import idcwh_search as ih
from idcwh_export import cli as export
from idcwh_search.cli import evaluate, index, search
from idcwh_train import cli as train

PICTURES = Path(__file__).resolve().parents[2] / "demo" / "cifar10"


def test_from_photographs_to_hits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, model, database = tmp_path / "run", tmp_path / "model.onnx", tmp_path / "codes.bin"
    network = ["--backbone", "timm:test_resnet", "--weights", "none", "--resize", "36", "--crop", "32"]
    options = [*network, "--freeze", "--bits", "20", "--epochs", "3", "--cache", str(tmp_path / "features")]
    assert train.main(["--data", str(PICTURES), *options, "--out", str(run), "--evaluate", "--json"]) == 0
    trained = json.loads(capsys.readouterr().out)["evaluations"]["20"]

    assert export.main([str(run / "model.pt"), "--onnx", str(model)]) == 0
    assert ": 0 of 3,200 bits differ" in capsys.readouterr().out

    assert index.main(["build", "--model", str(model), "--images", str(PICTURES / "train"), "--db", str(database)]) == 0
    with ih.Database.open(database) as db:
        assert len(db) == 1000 and db.bits == 20 and len(db.label_names()) == 10
    capsys.readouterr()

    # a picture of the database is its own nearest neighbour, or shares its code with an earlier one
    query = PICTURES / "train" / "frog" / min(p.name for p in (PICTURES / "train" / "frog").iterdir())
    assert search.main(["--db", str(database), "--query", str(query), "--radius", "0", "--json"]) == 0
    hits = json.loads(capsys.readouterr().out)["queries"][0]["hits"]
    assert f"frog/{query.name}" in [hit["key"] for hit in hits] and {hit["distance"] for hit in hits} == {0}

    # what is deployed retrieves as what was trained
    assert evaluate.main(["--model", str(model), "--data", str(PICTURES), "--json"]) == 0
    (deployed,) = json.loads(capsys.readouterr().out)["evaluations"]
    assert deployed["queries"] == trained["queries"] == 200
    assert deployed["map"] == pytest.approx(trained["map"], abs=1e-3)
