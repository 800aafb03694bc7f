"""Which images a command of idcwh-index takes, and the key, label and stamp under which each is stored."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .. import shards
from .._core import crc32c
from ..datasets import SPLIT_FOLDERS


class Listing:
    """The images to index: what to open, and the key and label under which each is stored.

    `labels_are_given`: by a manifest, not taken from folders.
    """

    def __init__(self, source: str, labels: str) -> None:
        self.labels: list[str | None]
        self._read(source, labels)
        self._drop_repeats()

    def _read(self, source: str, labels: str) -> None:
        from ..image_lists import list_images

        path = Path(source)
        self.labels_are_given = path.suffix.lower() in (".csv", ".jsonl", ".ndjson") and path.is_file()
        if self.labels_are_given:
            self._from_manifest(source)
            return
        self.paths = list_images(source)
        self.root = path if path.is_dir() else Path() if source == "-" else path.parent
        self.keys = [shards.relative(name, self.root) for name in self.paths]
        self.labels = [None] * len(self.keys)
        if labels == "folder":
            inside = path.is_dir()
            self.labels = [_label(name, key, inside) for name, key in zip(self.paths, self.keys, strict=True)]

    def _from_manifest(self, source: str) -> None:
        from .. import datasets

        dataset = datasets.load(source)
        self.root = Path(source).parent
        self.paths = [str(self.root / key) for key in dataset.keys]
        self.keys = [shards.relative(path, self.root) for path in self.paths]
        matrix = dataset.labels
        names = dataset.classes
        if matrix.ndim == 1:
            self.labels = [names[number] for number in matrix.tolist()]
        else:
            self.labels = ["|".join(names[j] for j in np.flatnonzero(row)) or None for row in matrix]

    def _drop_repeats(self) -> None:
        """A picture that is listed twice counts once."""
        first: dict[str, int] = {}
        for i, key in enumerate(self.keys):
            first.setdefault(key, i)
        kept = list(first.values())
        self.paths, self.keys = [self.paths[i] for i in kept], [self.keys[i] for i in kept]
        self.labels = [self.labels[i] for i in kept]


def _label(path: str, key: str, inside: bool) -> str | None:
    """What is said beside a picture in an archive, else its folder there; else its folder below a given one."""
    place = shards.split(path)
    if place is not None:
        return shards.label(path) or _folder_label(place[1])
    return _folder_label(key) if inside else None


def _folder_label(key: str) -> str | None:
    """The first folder of a relative path that is not the name of a split; None where there is none."""
    return next((part for part in Path(key).parts[:-1] if part not in SPLIT_FOLDERS and part != ".."), None)


def stamp(path: str) -> int:
    """What tells whether a file has changed since: a checksum of its size and time, never 0; 0 where there is none."""
    try:
        if inside := shards.stat(path):
            return crc32c(" ".join(map(str, inside)).encode()) or 1
        status = Path(path).stat()
    except OSError:
        return 0
    return crc32c(f"{status.st_size} {status.st_mtime_ns}".encode()) or 1
