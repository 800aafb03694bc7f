"""`session.train(options, run_dir)` from Python: its outcome, and the errors before a file is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from idcwh_search.errors import AlreadyExistsError, MismatchError, NotFoundError, UsageError
from idcwh_train.engine.checkpoint import load_model
from idcwh_train.engine.run_dir import RunDir
from idcwh_train.engine.session import Outcome, train
from idcwh_train.options import Options
from support.errors import raises

CPU = torch.device("cpu")


@pytest.fixture
def options(images: Path) -> Options:
    network = {"backbone": "timm:test_resnet", "weights": "none", "resize": 36, "crop": 32}
    return Options(data=str(images), freeze=True, bits=12, epochs=2, **network)


def run(options: Options, out: Path, **given: bool) -> Outcome:
    return train(options, RunDir(out), device=CPU, cache=out.parent / "features", **given)


def test_train_returns_the_outcome_and_writes_the_model(options, tmp_path):
    outcome = run(options, tmp_path / "run", evaluate=True)
    assert outcome.finished and outcome.record["epoch"] == 2 and outcome.evaluations[12].queries == 9
    content = load_model(tmp_path / "run" / "model.pt")[1]
    assert Options(**content["training"]["options"]) == options


def test_train_resume_takes_the_options_of_the_run_only(options, tmp_path, images):
    out = tmp_path / "run"
    run(options, out)
    model = (out / "model.pt").read_bytes()
    with raises(AlreadyExistsError, path=out):
        run(options, out)
    with raises(MismatchError, path=out / "checkpoint.pt"):
        run(replace(options, epochs=3), out, resume=True)
    (tmp_path / "moved").symlink_to(images)
    assert run(replace(options, data=str(tmp_path / "moved")), out, resume=True).finished
    assert (out / "model.pt").read_bytes() == model, "the recorded path stays"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"method": "sdh", "freeze": False}, "sdh"),
        ({"method_options": {"foo": 1}}, "foo"),
        ({"method_options": {"gamma": -1}}, "gamma"),
        ({"backbone": "nope"}, "nope"),
    ],
)
def test_train_with_options_that_cannot_be_is_wrong_usage(options, tmp_path, given, name):
    with raises(UsageError, problem=name):
        run(replace(options, **given), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_train_with_missing_weights_writes_nothing(options, tmp_path):
    with raises(NotFoundError, path="missing.pt"):
        run(replace(options, weights="missing.pt"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
