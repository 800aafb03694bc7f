"""Batches of pixels, decoded by a few threads ahead of the network that waits for them.

The calls that are worth the time (decoding, resampling) run outside of Python's lock, so threads are enough.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from idcwh_search._util.hardware import available_cores
from idcwh_search.datasets import LabelledImages
from idcwh_search.images.decoding import UnreadableImage
from idcwh_search.images.preprocess import Preprocess

Augment = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(rows of the set, pixels [m, H, W, 3]) -> pixels [m, h, w, 3], a function of its arguments alone: `augment`."""

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Batch:
    """rows: int64 [m], rows of the set that could be read; pixels: uint8 [m, 3, H, W] (channels last in memory);
    failed: rows that could not, with the reason."""

    rows: Tensor
    pixels: Tensor
    failed: dict[int, str]


def read_one(
    dataset: LabelledImages, rows: np.ndarray, preprocess: Preprocess, augment: Augment | None = None
) -> Batch:
    """The pictures `rows` of the set, in this thread; `augment` sees those that could be read."""
    failed: dict[int, str] = {}
    found = pixels(dataset, rows, preprocess)
    if found is None:
        rows, found, failed = _one_by_one(dataset, rows, preprocess)
    rows = np.asarray(rows, np.int64)
    if augment is not None and len(rows):
        found = augment(rows, found)
    return Batch(torch.from_numpy(rows.copy()), torch.from_numpy(found).permute(0, 3, 1, 2), failed)


def pixels(dataset: LabelledImages, rows: np.ndarray, preprocess: Preprocess) -> np.ndarray | None:
    """Pictures `rows` of a set held as arrays, uint8 [m, crop, crop, 3], a new array, when none has to be scaled: what
    `dataset.image` gives for each, at a hundredth of its cost. None when they have to be scaled, or lie in files."""
    if not isinstance(dataset.pictures, np.ndarray):
        return None
    h, w = dataset.pictures.shape[1:3]
    crop = preprocess.crop
    if min(h, w) != preprocess.resize or (h - crop) % 2 or (w - crop) % 2:  # half a pixel off the centre is resampling
        return None
    top, left = (h - crop) // 2, (w - crop) // 2
    return np.ascontiguousarray(dataset.pictures[rows][:, top : top + crop, left : left + crop])


def _one_by_one(
    dataset: LabelledImages, rows: np.ndarray, preprocess: Preprocess
) -> tuple[np.ndarray, np.ndarray, dict[int, str]]:
    """Rows that could be read, their pixels, and what is wrong with the others."""
    good: list[int] = []
    found: list[np.ndarray] = []
    failed: dict[int, str] = {}
    for row in map(int, rows):
        try:
            picture = dataset.image(row, preprocess)
        except UnreadableImage as error:
            failed[row] = error.reason
            continue
        good.append(row)
        found.append(picture)
    stacked = np.stack(found) if found else np.zeros((0, 1, 1, 3), np.uint8)
    return np.array(good, np.int64), stacked, failed


def read(
    dataset: LabelledImages, plan: Iterable[np.ndarray], preprocess: Preprocess, augment: Augment | None = None
) -> Iterator[Batch]:
    """One Batch for each array of rows in `plan`, in order, made by as many threads as there are cores."""
    return ahead(lambda rows: read_one(dataset, rows, preprocess, augment), plan)


def ahead(make: Callable[[np.ndarray], T], plan: Iterable[np.ndarray]) -> Iterator[T]:
    """`make` of every item of `plan`, in order, a few of them at a time; memory does not grow with the plan."""
    cores = available_cores()
    with ThreadPoolExecutor(cores, thread_name_prefix="idcwh") as pool:
        waiting: deque[Future[T]] = deque()
        try:
            for rows in plan:
                waiting.append(pool.submit(make, rows))
                if len(waiting) > 2 * cores:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # whoever reads may stop early
            for future in waiting:
                future.cancel()
