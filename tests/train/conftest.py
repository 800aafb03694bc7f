"""Fixtures of the trainer's tests: small images, and a small random network on the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from matplotlib.figure import Figure

from idcwh_train import cli
from idcwh_train.engine import epoch_log
from support.images import write_images


def save_lines(figure: Figure, file: BinaryIO, **_: Any) -> None:
    """Writes the first bytes of a PNG file and the coordinates of the lines instead of rendering them."""
    lines = [line.get_xydata().tolist() for axes in figure.axes for line in axes.lines]
    file.write(b"\x89PNG\r\n\x1a\n" + repr(lines).encode())


@pytest.fixture(autouse=True)
def unrendered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does not render figures, which takes longer than a tiny training. test_curves.py overrides this."""
    monkeypatch.setattr(Figure, "savefig", save_lines)


@pytest.fixture
def make_images() -> Callable[..., Path]:
    """`write_images`, for a dataset that a test changes or of another size."""
    return write_images


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of 3 queries and 11 training images. Must not be changed."""
    return write_images(tmp_path_factory.mktemp("images"))


NET = ["--backbone", "timm:test_resnet", "--weights", "none", "--resize", "36", "--crop", "32", "--bits", "12"]


@pytest.fixture
def net() -> list[str]:
    """Options of idcwh-train: a small random network and 12 bits."""
    return list(NET)


@pytest.fixture(scope="session")
def cached(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options of idcwh-train: the CPU, and a feature cache that all tests share."""
    return ["--cache", str(tmp_path_factory.getbasetemp() / "features"), "--device", "cpu"]


@pytest.fixture(scope="session")
def frozen_run(images: Path, cached: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run: three epochs on fixed features. Must not be changed."""
    out = tmp_path_factory.mktemp("frozen") / "run"
    assert cli.main(["--data", str(images), *NET, "--freeze", "--epochs", "3", "--out", str(out), *cached]) == 0
    return out


@pytest.fixture
def finished(frozen_run: Path, tmp_path: Path) -> Path:
    """A copy of `frozen_run` at tmp_path / "run"."""
    return Path(shutil.copytree(frozen_run, tmp_path / "run"))


def read_log(out: Path) -> list[dict]:
    """Returns the records of log.jsonl without the timing fields."""
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in epoch_log.CLOCKS} for line in lines]


@pytest.fixture
def log() -> Callable[[Path], list[dict]]:
    """`read_log`, for the folder of a run."""
    return read_log
