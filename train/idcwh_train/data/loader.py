"""The data loader, whose threads decode batches of pixels ahead of the network.

Decoding and resampling release Python's global lock, so threads are enough.
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
"""(rows of the dataset, pixels [m, H, W, 3]) -> pixels [m, h, w, 3], a pure function."""

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch of images that could be read.

    Attributes:
        rows: int64 [m], rows of the dataset.
        pixels: uint8 [m, 3, H, W], channels last in memory.
        failed: rows of the images that could not be read, row -> reason.
    """

    rows: Tensor
    pixels: Tensor
    failed: dict[int, str]


def read_one(
    dataset: LabelledImages, rows: np.ndarray, preprocess: Preprocess, augment: Augment | None = None
) -> Batch:
    """Returns images `rows` of the dataset, read in this thread, with `augment` applied to the readable ones."""
    failed: dict[int, str] = {}
    images = pixels(dataset, rows, preprocess)
    if images is None:
        rows, images, failed = _one_by_one(dataset, rows, preprocess)
    rows = np.asarray(rows, np.int64)
    if augment is not None and len(rows):
        images = augment(rows, images)
    return Batch(torch.from_numpy(rows.copy()), torch.from_numpy(images).permute(0, 3, 1, 2), failed)


def pixels(dataset: LabelledImages, rows: np.ndarray, preprocess: Preprocess) -> np.ndarray | None:
    """Returns images `rows` of a dataset in memory, uint8 [m, crop, crop, 3], or None if they must be read or scaled.

    The pixels are those of `dataset.image`, but one copy of the whole batch is faster.
    """
    if not isinstance(dataset.images, np.ndarray):
        return None
    h, w = dataset.images.shape[1:3]
    crop = preprocess.crop
    if min(h, w) != preprocess.resize or (h - crop) % 2 or (w - crop) % 2:  # a shift by half a pixel would resample
        return None
    top, left = (h - crop) // 2, (w - crop) // 2
    return np.ascontiguousarray(dataset.images[rows][:, top : top + crop, left : left + crop])


def _one_by_one(
    dataset: LabelledImages, rows: np.ndarray, preprocess: Preprocess
) -> tuple[np.ndarray, np.ndarray, dict[int, str]]:
    """Returns the rows that could be read, their pixels, and the reasons why the others failed."""
    good: list[int] = []
    images: list[np.ndarray] = []
    failed: dict[int, str] = {}
    for row in map(int, rows):
        try:
            image = dataset.image(row, preprocess)
        except UnreadableImage as error:
            failed[row] = error.reason
            continue
        good.append(row)
        images.append(image)
    stacked = np.stack(images) if images else np.zeros((0, 1, 1, 3), np.uint8)
    return np.array(good, np.int64), stacked, failed


def read(
    dataset: LabelledImages, plan: Iterable[np.ndarray], preprocess: Preprocess, augment: Augment | None = None
) -> Iterator[Batch]:
    """Yields one Batch per array of rows in `plan`, in order, read by one thread per core."""
    return ahead(lambda rows: read_one(dataset, rows, preprocess, augment), plan)


def ahead(make: Callable[[np.ndarray], T], plan: Iterable[np.ndarray]) -> Iterator[T]:
    """Yields `make(item)` for every item of `plan`, in order, computed by threads ahead of the caller.

    Memory does not grow with the length of the plan.
    """
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
        finally:  # the caller may stop early
            for future in waiting:
                future.cancel()
