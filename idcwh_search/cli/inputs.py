"""The images that a command of idcwh-index reads, with the key and label of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..datasets import is_manifest, manifest
from ..images import tar
from ..images.listing import LeftOut, find_images


class ImageInputs:
    """The images to index.

    Attributes:
        root: folder to which keys are relative.
        paths, keys, labels: one entry per image.
        labels_are_given: True if the labels are those of a manifest.
        left_out: files that are not among the images.
    """

    def __init__(self, source: str, labels: str) -> None:
        self.labels: list[str | None]
        self.left_out = LeftOut()
        self._read(source, labels)
        self._drop_repeats()

    def _read(self, source: str, labels: str) -> None:
        self.labels_are_given = is_manifest(source)
        if self.labels_are_given:
            self._from_manifest(source, unlabelled=labels == "none")
            return
        found = find_images(source)
        self.root, self.left_out = Path(found.root), found.left_out
        self.paths = found.paths
        self.keys = [image.key for image in found.images]
        inside = Path(source).is_dir()
        self.labels = [image.label(inside=inside) if labels == "folder" else None for image in found.images]

    def _from_manifest(self, source: str, *, unlabelled: bool) -> None:
        dataset = manifest.load(Path(source), source, unlabelled=unlabelled)
        self.root = Path(source).parent
        self.paths = [str(self.root / key) for key in dataset.keys]
        self.keys = [tar.relative(path, self.root) for path in self.paths]
        matrix = dataset.labels
        names = dataset.classes
        if matrix.ndim == 1:
            self.labels = [names[number] for number in matrix.tolist()]
        else:
            self.labels = ["|".join(names[j] for j in np.flatnonzero(row)) or None for row in matrix]

    def _drop_repeats(self) -> None:
        """Keeps the first entry of an image that is listed several times."""
        first: dict[str, int] = {}
        for i, key in enumerate(self.keys):
            first.setdefault(key, i)
        kept = list(first.values())
        self.paths, self.keys = [self.paths[i] for i in kept], [self.keys[i] for i in kept]
        self.labels = [self.labels[i] for i in kept]
