"""`session.train(options, run_dir)` from Python: its outcome, and the errors before a file is written."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import idcwh_train
from idcwh_search.errors import AlreadyExistsError, IdcwhError, MismatchError, NotFoundError, UsageError
from idcwh_train import DivergedError, Options, Outcome, RunDir, load_model, train
from support.errors import raises

CPU = torch.device("cpu")


@pytest.fixture
def options(images: Path) -> Options:
    network = {"backbone": "timm:test_resnet", "weights": "none", "resize": 36, "crop": 32}
    return Options(data=str(images), freeze=True, bits=12, epochs=2, **network)


def run(options: Options, out: Path, **given: bool) -> Outcome:
    return train(options, RunDir(out), device=CPU, cache=out.parent / "features", **given)


def test_package_lists_its_public_names_before_they_are_loaded():
    code = "import sys, idcwh_train; print(*dir(idcwh_train)); assert 'torch' not in sys.modules"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    listed = subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True).stdout
    assert set(idcwh_train.__all__) <= set(listed.split())
    assert all(getattr(idcwh_train, name).__name__ == name for name in idcwh_train.__all__)


def test_train_that_diverges_raises_diverged_error(options, tmp_path):
    with raises(DivergedError, problem="step 1 of epoch 1") as caught:
        run(replace(options, epochs=1, batch_size=200, lr=1e38), tmp_path / "run")
    assert isinstance(caught.value, IdcwhError) and not (tmp_path / "run" / "model.pt").exists()


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
def test_train_with_invalid_options_is_wrong_usage(options, tmp_path, given, name):
    with raises(UsageError, problem=name):
        run(replace(options, **given), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_train_with_missing_weights_writes_nothing(options, tmp_path):
    with raises(NotFoundError, path="missing.pt"):
        run(replace(options, weights="missing.pt"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
