"""The pictures that a file is calibrated and compared on: those kept in model.pt, or some of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from idcwh_search import datasets
from idcwh_search.datasets import LabelledImages
from idcwh_search.errors import IdcwhError, InvalidInputError
from idcwh_search.images.decoding import UnreadableImage
from idcwh_search.images.listing import LeftOut, find_images
from idcwh_search.images.preprocess import Pixels, Preprocess, load_image

OnSkip = Callable[[str, str], object]  # (path, reason)


@dataclass
class Pictures:
    """Preprocessed pictures, uint8 [H, W, 3] each; iterate once.

    origin: where they come from, for people. `relevance` says, when they are through, what belongs together: labels of
    those that could be read (int [n] or bool [n, C]); it is None where they have none. left_out: files beside them.
    """

    origin: str
    _load: Callable[[Pictures], Iterator[Pixels]]
    _labels: npt.NDArray[Any] | None = None
    left_out: LeftOut = field(default_factory=LeftOut)
    _read: list[int] = field(default_factory=list)

    def __iter__(self) -> Iterator[Pixels]:
        self._read.clear()
        return self._load(self)

    @property
    def relevance(self) -> Callable[[], npt.NDArray[Any]] | None:
        labels = self._labels
        return None if labels is None else lambda: labels[self._read]


def sample(content: dict[str, Any], preprocess: Preprocess, model: Path) -> Pictures:
    """The pictures kept in model.pt, with their labels where it has them."""
    kept, side = content["sample"].get("images"), preprocess.crop
    if kept is None or not len(kept):
        raise InvalidInputError("has no sample images to compare on", path=model, hint="name some with --verify IMAGES")
    if tuple(kept.shape[1:]) != (side, side, 3):
        found = " x ".join(map(str, kept.shape[1:]))
        problem = "has sample images unlike its preprocessing"
        raise InvalidInputError(problem, path=model, found=found, expected=f"{side} x {side} x 3")
    labels = content["sample"].get("labels")
    if labels is not None and len(labels) != len(kept):
        problem = "has another number of labels than of sample images"
        raise InvalidInputError(problem, path=model, found=len(labels), expected=len(kept))

    def load(pictures: Pictures) -> Iterator[Pixels]:
        pictures._read.extend(range(len(kept)))
        yield from kept.numpy()

    return Pictures("training images kept in model.pt", load, None if labels is None else labels.numpy())


def chosen(spec: str, preprocess: Preprocess, on_skip: OnSkip | None, limit: int | None = None) -> Pictures:
    """Pictures by what --verify names: a labelled set where it is one (a folder of class folders, a manifest, an
    archive, source:directory; its test images, if it has such), else a folder, an image, or a list of images.

    limit: take so many, evenly spaced. Files that cannot be read are reported to on_skip(path, reason) and left out;
    without it the first one raises. IdcwhError, when they are read, where none of them can be.
    """
    labelled = _labelled(spec)
    if labelled is None:
        found = find_images(spec)
        rows = _spaced(range(len(found.images)), limit)
        load = _reader(spec, rows, lambda i: load_image(found.images[i].path, preprocess), on_skip)
        return Pictures("images given with --verify", load, left_out=found.left_out)
    test = [i for i, part in enumerate(labelled.split) if part == "test"] or range(len(labelled))
    rows = _spaced(test, limit)
    load = _reader(spec, rows, lambda i: labelled.image(i, preprocess), on_skip)
    return Pictures("labelled images given with --verify", load, labelled.labels, labelled.left_out)


def _labelled(spec: str) -> LabelledImages | None:
    path = Path(spec)
    if path.is_file() and path.suffix.lower() != ".npz" and not datasets.is_manifest(spec):
        return None
    if spec == "-" or (not path.exists() and ":" not in spec):
        return None
    try:
        return datasets.load(spec)
    except IdcwhError:
        if path.is_dir():  # pictures in another order than by class
            return None
        raise


def _spaced(rows: Iterable[int], limit: int | None) -> list[int]:
    every = list(rows)
    if limit is None or limit >= len(every):
        return every
    return [every[i] for i in np.linspace(0, len(every) - 1, limit).round().astype(int)]


def _reader(
    spec: str, rows: list[int], load: Callable[[int], Pixels], on_skip: OnSkip | None
) -> Callable[[Pictures], Iterator[Pixels]]:
    def read(pictures: Pictures) -> Iterator[Pixels]:
        first: UnreadableImage | None = None
        for row in rows:
            try:
                pixels = load(row)
            except UnreadableImage as error:
                if on_skip is None:
                    raise
                on_skip(error.path, error.reason)
                first = first or error
                continue
            pictures._read.append(row)
            yield pixels
        if first and not pictures._read:
            problem = f"has no image that can be read: the first of {len(rows)} is {first.path} ({first.reason})"
            raise InvalidInputError(problem, path=spec)

    return read
