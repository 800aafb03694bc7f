"""The images for calibration and comparison: those kept in model.pt, or images that the user names."""

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
class SampleImages:
    """An iterable of preprocessed images, uint8 [H, W, 3] each.

    Attributes:
        origin: their origin, for messages.
        relevance: a function that returns, after the last image, the labels of the images that could be read, int [n]
            or bool [n, C]; None without labels.
        left_out: files in their folders that are not images.
    """

    origin: str
    _load: Callable[[SampleImages], Iterator[Pixels]]
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


def sample(content: dict[str, Any], preprocess: Preprocess, model: Path) -> SampleImages:
    """Returns the images kept in model.pt, with their labels if there are any."""
    kept, side = content["sample"].get("images"), preprocess.crop
    if kept is None or not len(kept):
        raise InvalidInputError("has no sample images", path=model, hint="pass images with --verify IMAGES")
    if tuple(kept.shape[1:]) != (side, side, 3):
        found = " x ".join(map(str, kept.shape[1:]))
        problem = "shape of the sample images does not match the preprocessing"
        raise InvalidInputError(problem, path=model, found=found, expected=f"{side} x {side} x 3")
    labels = content["sample"].get("labels")
    if labels is not None and len(labels) != len(kept):
        problem = "number of labels does not match the sample images"
        raise InvalidInputError(problem, path=model, found=len(labels), expected=len(kept))

    def load(samples: SampleImages) -> Iterator[Pixels]:
        samples._read.extend(range(len(kept)))
        yield from kept.numpy()

    return SampleImages("training images kept in model.pt", load, None if labels is None else labels.numpy())


def chosen(spec: str, preprocess: Preprocess, on_skip: OnSkip | None, limit: int | None = None) -> SampleImages:
    """Returns the images of --verify or --calibrate.

    For a labelled dataset (a folder of class folders, a manifest, an archive, or source:directory) these are its test
    images, or all images if none are marked as test. Otherwise they are those of a folder or a list, or one image.

    Args:
        on_skip: called as on_skip(path, reason) for each file that cannot be read; without it the first one raises.
        limit: the number of images, evenly spaced.

    Raises:
        InvalidInputError: during iteration, if no image can be read.
    """
    labelled = _labelled(spec)
    if labelled is None:
        listing = find_images(spec)
        rows = _spaced(range(len(listing.images)), limit)
        load = _reader(spec, rows, lambda i: load_image(listing.images[i].path, preprocess), on_skip)
        return SampleImages("images given with --verify", load, left_out=listing.left_out)
    test = [i for i, part in enumerate(labelled.split) if part == "test"] or range(len(labelled))
    rows = _spaced(test, limit)
    load = _reader(spec, rows, lambda i: labelled.image(i, preprocess), on_skip)
    return SampleImages("labelled images given with --verify", load, labelled.labels, labelled.left_out)


def _labelled(spec: str) -> LabelledImages | None:
    path = Path(spec)
    if path.is_file() and path.suffix.lower() != ".npz" and not datasets.is_manifest(spec):
        return None
    if spec == "-" or (not path.exists() and ":" not in spec):
        return None
    try:
        return datasets.load(spec)
    except IdcwhError:
        if path.is_dir():  # a folder of images without class folders
            return None
        raise


def _spaced(rows: Iterable[int], limit: int | None) -> list[int]:
    every = list(rows)
    if limit is None or limit >= len(every):
        return every
    return [every[i] for i in np.linspace(0, len(every) - 1, limit).round().astype(int)]


def _reader(
    spec: str, rows: list[int], load: Callable[[int], Pixels], on_skip: OnSkip | None
) -> Callable[[SampleImages], Iterator[Pixels]]:
    def read(samples: SampleImages) -> Iterator[Pixels]:
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
            samples._read.append(row)
            yield pixels
        if first and not samples._read:
            problem = f"has no readable images: the first of {len(rows)} is {first.path} ({first.reason})"
            raise InvalidInputError(problem, path=spec)

    return read
