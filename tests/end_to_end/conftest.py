"""A handmade model.onnx, with which commands run in a fraction of a second, and real images."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from support.commands import IMAGES, Runner
from support.models import codes_by_hand as by_hand
from support.models import write_model


@pytest.fixture
def make_model() -> Callable[..., Path]:
    """`write_model`."""
    return write_model


@pytest.fixture
def model(tmp_path: Path, make_model: Callable[..., Path]) -> Path:
    return make_model(tmp_path / "model.onnx")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Six photographs in two class folders. One name has spaces and non-ASCII letters."""
    folder = tmp_path / "images"
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for source in sorted((IMAGES / "train" / name).iterdir())[:3]:
            shutil.copy(source, folder / name)
    first = min((folder / "cat").iterdir())
    first.rename(first.with_name("Käthe 日本.png"))
    return folder


@pytest.fixture
def database(model: Path, images: Path, tmp_path: Path, commands: Runner) -> Path:
    """The codes of these images."""
    path = tmp_path / "codes.bin"
    commands.build(model, images, path)
    return path


@pytest.fixture
def codes_by_hand() -> Callable[[list[Path]], np.ndarray]:
    """`support.models.codes_by_hand`."""
    return by_hand
