"""What tests of the trainer share: one thread, small pictures, and a small random network on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from idcwh_train.engine import epoch_log
from support.images import write_images


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Operators on pictures as small as the tests' only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def make_images() -> Callable[..., Path]:
    """`write_images`, for a set that a test changes or for another number of pictures."""
    return write_images


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of 3 queries and 11 training pictures; not to be changed."""
    return write_images(tmp_path_factory.mktemp("images"))


@pytest.fixture
def net() -> list[str]:
    """Options of idcwh-train: a small random network and 12 bits."""
    return ["--backbone", "timm:test_resnet", "--weights", "none", "--resize", "36", "--crop", "32", "--bits", "12"]


@pytest.fixture
def cached(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options of idcwh-train: the CPU, and features that no other test has to compute again."""
    return ["--cache", str(tmp_path_factory.getbasetemp() / "features"), "--device", "cpu"]


def read_log(out: Path) -> list[dict]:
    """log.jsonl without what a clock put into it."""
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in epoch_log.CLOCKS} for line in lines]


@pytest.fixture
def log() -> Callable[[Path], list[dict]]:
    """`read_log`, of the folder of a run."""
    return read_log
