"""A labelled dataset: keys, labels, and paths or pixels of its images."""

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
_NAMED = 12  # classes or folders per line of text


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """A dataset of n images with labels of C classes.

    Attributes:
        keys: n unique names, the same on every machine: the path relative to the folder, or as in the manifest.
        labels: int64 [n], the class of each image; or multi-label bool [n, C].
        classes: C names, in label order.
        images: n paths, or the images themselves as uint8 [n, h, w, 3] RGB.
        split: n times "train", "test", or "" for an image without a mark in the source.
        spec: the argument of `load`.
        note: a message about images left out of the listing, one line, or "".
        left_out: files of the source that are not among the images.

    Raises:
        InvalidInputError: there are no images.
        ValueError: the fields do not match each other.
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
        """True if `labels` is bool [n, C]."""
        return self.labels.ndim == 2

    @property
    def has_split(self) -> bool:
        """True if the source marks test images."""
        return "test" in self.split

    def remarks(self) -> list[str]:
        """Returns messages about the classes and the files left out, one line each."""
        counts = self.labels.sum(axis=0) if self.multi_label else np.bincount(self.labels, minlength=len(self.classes))
        sizes = [f"{name} ({count:,})" for name, count in zip(self.classes, counts.tolist(), strict=True)]
        return [
            f"{counted(len(self.classes), 'class')}: {named(sizes)}",
            *([self.note] if self.note else []),
            *self.left_out.lines(),
        ]

    def image(self, i: int, preprocess: Preprocess) -> np.ndarray:
        """Returns image i as pixels, uint8 [crop, crop, 3]. Raises UnreadableImage."""
        if isinstance(self.images, np.ndarray):
            return to_pixels(Image.fromarray(self.images[i]), preprocess, self.keys[i])
        return load_image(self.images[i], preprocess)

    def path(self, i: int) -> Path | None:
        """Returns the path of image i, or None if the images are arrays."""
        return None if isinstance(self.images, np.ndarray) else self.images[i]

    def sha256(self) -> str:
        """Returns the SHA-256 of keys, labels and classes. Two datasets with the same one have the same row numbers."""
        return self._listing().hexdigest()

    def fingerprint(self) -> str:
        """Returns the SHA-256 of keys, labels, classes and images: the bytes of arrays, the sizes of files."""
        digest = self._listing()
        if isinstance(self.images, np.ndarray):
            digest.update(np.ascontiguousarray(self.images).data)
        else:
            digest.update(json.dumps([_size(path) for path in self.images]).encode())
        return digest.hexdigest()

    def _listing(self) -> hashlib._Hash:
        listed = json.dumps([self.keys, self.classes], ensure_ascii=False)
        digest = hashlib.sha256(listed.encode(errors="surrogateescape"))  # file names may be invalid UTF-8
        digest.update(np.ascontiguousarray(self.labels).astype("<i8" if not self.multi_label else "?").tobytes())
        return digest


def _size(path: Path) -> int:
    try:
        inside = tar.stat(path)
        return inside[0] if inside else path.stat().st_size
    except OSError:
        return -1


def named(names: Sequence[str]) -> str:
    """Returns the first names as text, with the number of the remaining ones."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def single_labels(matrix: np.ndarray) -> np.ndarray:
    """Returns bool labels [n, C] as int64 [n] if each row has exactly one label, otherwise unchanged."""
    return matrix.argmax(axis=1).astype(np.int64) if len(matrix) and (matrix.sum(axis=1) == 1).all() else matrix


def in_label_order(names: set[str]) -> list[str]:
    """Returns class names in label order: by number if all are numbers ("2" before "10"), otherwise by name."""
    if all(n.isascii() and n.isdigit() for n in names):
        return sorted(names, key=lambda name: (int(name), name))  # the name orders "01" and "1"
    return sorted(names)


def first_repeat(values: Iterable[Hashable]) -> int | None:
    """Returns the position of the first repeated value, or None if all differ."""
    seen: set[Hashable] = set()
    for i, value in enumerate(values):
        if value in seen:
            return i
        seen.add(value)
    return None
