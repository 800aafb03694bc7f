"""Fixtures of the tests of idcwh-reproduce: small labelled images, the command on them, and one finished run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from idcwh_reproduce import cli
from support.images import write_images

SETTINGS = ["protocol=own", "weights=none", "resize=36", "crop=32", "epochs=4"]


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of 3 queries and 11 training images. Must not be changed."""
    return write_images(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="session")
def reproduce(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., int]:
    """The command with a small random network. More arguments and settings come last and take precedence."""
    cache = tmp_path_factory.mktemp("features")

    def run(out: Path, *more: str, **settings: object) -> int:
        given = ["cifar10-mini", "--data", str(images), "--freeze", "--backbone", "timm:test_resnet", "--no-figures"]
        given += ["--device", "cpu", "--cache", str(cache), "--out", str(out)]
        given += [f"--set={text}" for text in (*SETTINGS, *(f"{name}={value}" for name, value in settings.items()))]
        return cli.main([*given, *more])

    return run


@pytest.fixture(scope="session")
def finished_run(reproduce: Callable[..., int], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """IDCWH and IDCWH-Single at 8 and 12 bits with two seeds, with the folders of their runs. Must not be changed."""
    out = tmp_path_factory.mktemp("run") / "finished"
    given = ["--methods", "idcwh", "idcwh-single", "--bits", "12", "8", "--seeds", "2", "--keep-models"]
    assert reproduce(out, *given) == 0
    return out


@pytest.fixture
def out(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of the finished run."""
    return shutil.copytree(finished_run, tmp_path / "run")
