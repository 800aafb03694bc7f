"""A collection of images with its model and database, and servers of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search.cli import index
from support.commands import IMAGES
from support.models import codes_by_hand, write_model
from support.server import Server

EACH = 20


class Collection:
    """Images in class folders, their model and database, and their codes by Pillow and NumPy."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.images = folder, folder / "images"
        self.model, self.database = write_model(folder / "model.onnx"), folder / "codes.bin"
        for name in ("cat", "dog", "ship"):
            (self.images / name).mkdir(parents=True)
            for source in sorted((IMAGES / "train" / name).iterdir())[:EACH]:
                shutil.copy(source, self.images / name)
        first = min((self.images / "cat").iterdir())
        first.rename(first.with_name("Käthe 日本 😀.png"))
        shutil.copy(min((self.images / "dog").iterdir()), self.images / "dog" / "copy.png")
        arguments = ["build", "--model", self.model, "--images", self.images, "--db", self.database]
        assert index.main([str(argument) for argument in arguments]) == 0
        with ih.Database.open(self.database) as database:
            self.keys = [str(key) for key in database.keys()]  # noqa: SIM118
            self.labels = database.labels()
        self.codes = codes_by_hand([self.images / key for key in self.keys])
        self.query = min((IMAGES / "test" / "cat").iterdir())

    def copy(self, folder: Path) -> Path:
        """Returns a copy of the database for tests that change it."""
        return Path(shutil.copy(self.database, folder / "codes.bin"))

    def ranking(self, code: np.ndarray) -> list[tuple[int, int]]:
        """Returns distance and id of all items, ordered by (distance, id)."""
        distances = np.unpackbits(self.codes ^ code, axis=1).sum(axis=1)
        return [(int(distances[id_]), int(id_)) for id_ in np.argsort(distances, kind="stable")]


def pairs(answer: dict) -> list[tuple[int, int]]:
    """Returns distance and id of each hit."""
    return [(hit["distance"], hit["id"]) for hit in answer["hits"]]


@pytest.fixture(scope="session")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return Collection(tmp_path_factory.mktemp("collection"))


@pytest.fixture(scope="session")
def server(collection: Collection) -> Iterator[Server]:
    """A read-only server of the collection."""
    with Server("--db", collection.database, "--images", collection.images) as started:
        yield started


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    """Starts servers, which end with the test."""
    servers: list[Server] = []

    def one(*arguments: object, **options: dict[str, str]) -> Server:
        servers.append(Server(*arguments, **options))
        return servers[-1]

    yield one
    for each in servers:
        each.__exit__(None, None, None)
