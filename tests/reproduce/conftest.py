"""Fixtures of the tests of idcwh-reproduce: one thread, and small labelled images."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from support.images import write_images


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Runs torch on one thread, since threads on small images only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of 3 queries and 11 training images; not to be changed."""
    return write_images(tmp_path_factory.mktemp("images"))
