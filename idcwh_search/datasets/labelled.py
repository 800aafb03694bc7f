"""A labelled dataset in memory: keys, labels, and the places of its images."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from .._util.wording import counted
from ..errors import InvalidInputError
from ..images import tar
from ..images.listing import LeftOut
from ..images.preprocess import Preprocess, load_image, to_pixels

SPLITS = ("train", "test", "")
_NAMED = 12  # classes or folders that a line of text names


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """n images with their labels.

    keys     n names, unique, the same on every machine: the path below the folder, or as the manifest has it
    labels   int64 [n], the class of each image; or, when an image may have several or none, bool [n, C]
    classes  C names, in label order
    images   n paths, or the images themselves as uint8 [n, h, w, 3] RGB
    split    n of "train", "test" or "" (the source says nothing)
    spec     the name that `load` was given
    note     a message for people about the listing (images left out), one line, or ""
    left_out files of the source that are not among the images
    """

    keys: list[str] = field(repr=False)
    labels: np.ndarray = field(repr=False)
    classes: list[str]
    images: Sequence[Path] | np.ndarray = field(repr=False)
    split: list[str] = field(repr=False)
    spec: str = ""
    note: str = ""
    left_out: LeftOut = field(default_factory=LeftOut, repr=False)

    def __post_init__(self) -> None:
        n, c = len(self.keys), len(self.classes)
        if not n:
            raise InvalidInputError("has no images", path=self.spec or None)
        shape, kind = self.labels.shape, self.labels.dtype
        if not ((kind == np.int64 and shape == (n,)) or (kind == np.bool_ and shape == (n, c))):
            raise ValueError(f"labels: expected int64 [{n}] or bool [{n}, {c}], not {kind} {list(shape)}")
        if kind == np.int64 and (self.labels.min() < 0 or self.labels.max() >= c):
            raise ValueError(f"labels: expected 0 to {c - 1}, found {self.labels.min()} to {self.labels.max()}")
        if len(self.images) != n or len(self.split) != n or len(set(self.keys)) != n:
            raise ValueError(f"keys: expected {n} images, splits and different keys")
        if not set(self.split) <= set(SPLITS):
            raise ValueError(f"split: expected {SPLITS}, found {sorted(set(self.split) - set(SPLITS))}")

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def multi_label(self) -> bool:
        """True when `labels` is the bool matrix."""
        return self.labels.ndim == 2

    @property
    def has_split(self) -> bool:
        """True when the source itself marks test images."""
        return "test" in self.split

    def remarks(self) -> list[str]:
        """Returns messages for people about the dataset, one line each: its classes, and the files left out."""
        counts = self.labels.sum(axis=0) if self.multi_label else np.bincount(self.labels, minlength=len(self.classes))
        sizes = [f"{name} ({count:,})" for name, count in zip(self.classes, counts.tolist(), strict=True)]
        return [
            f"{counted(len(self.classes), 'class')}: {named(sizes)}",
            *([self.note] if self.note else []),
            *self.left_out.lines(),
        ]

    def image(self, i: int, preprocess: Preprocess) -> np.ndarray:
        """Returns image i as uint8 [crop, crop, 3]. Raises UnreadableImage."""
        if isinstance(self.images, np.ndarray):
            return to_pixels(Image.fromarray(self.images[i]), preprocess, self.keys[i])
        return load_image(self.images[i], preprocess)

    def path(self, i: int) -> Path | None:
        """Returns the file of image i; None when the source holds arrays."""
        return None if isinstance(self.images, np.ndarray) else self.images[i]

    def sha256(self) -> str:
        """Returns the SHA-256 of the listing (keys, labels, classes), not of the pixels: equal means equal indices."""
        return self._listing().hexdigest()

    def fingerprint(self) -> str:
        """Returns the SHA-256 of the listing and the images: the bytes of arrays, the sizes of files."""
        digest = self._listing()
        if isinstance(self.images, np.ndarray):
            digest.update(np.ascontiguousarray(self.images).data)
        else:
            digest.update(json.dumps([_size(path) for path in self.images]).encode())
        return digest.hexdigest()

    def _listing(self) -> hashlib._Hash:
        listed = json.dumps([self.keys, self.classes], ensure_ascii=False)
        digest = hashlib.sha256(listed.encode(errors="surrogateescape"))  # names of files need not be UTF-8
        digest.update(np.ascontiguousarray(self.labels).astype("<i8" if not self.multi_label else "?").tobytes())
        return digest


def _size(path: Path) -> int:
    try:
        inside = tar.stat(path)
        return inside[0] if inside else path.stat().st_size
    except OSError:
        return -1


def named(names: Sequence[str]) -> str:
    """Returns names as people read them: the first few, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def single_labels(matrix: np.ndarray) -> np.ndarray:
    """Returns bool labels [n, C] as int64 [n] if each row has exactly one, as they are if not."""
    return matrix.argmax(axis=1).astype(np.int64) if len(matrix) and (matrix.sum(axis=1) == 1).all() else matrix


def in_label_order(names: set[str]) -> list[str]:
    """Class names in label order: by number when all are numbers ("2" before "10"), else by name."""
    if all(n.isascii() and n.isdigit() for n in names):
        return sorted(names, key=lambda name: (int(name), name))  # "01" and "1": in one order on every machine
    return sorted(names)


def first_repeat(values: Iterable[Hashable]) -> int | None:
    """Returns the position of the first repeated value; None when all differ."""
    seen: set[Hashable] = set()
    for i, value in enumerate(values):
        if value in seen:
            return i
        seen.add(value)
    return None
