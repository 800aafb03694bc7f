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

from idcwh_search.datasets import LabelledImages
from idcwh_search.images import Preprocess, UnreadableImage
from idcwh_search.runtime import available_cores

Change = Callable[[int, np.ndarray], np.ndarray]
"""(row of the set, pixels [H, W, 3]) -> pixels: an augmentation, a function of its arguments alone."""

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Batch:
    """rows: int64 [m], rows of the set that could be read; pixels: uint8 [m, 3, H, W] (channels last in memory);
    failed: rows that could not, with the reason."""

    rows: Tensor
    pixels: Tensor
    failed: dict[int, str]


def read_one(dataset: LabelledImages, rows: np.ndarray, preprocess: Preprocess, change: Change | None = None) -> Batch:
    """The pictures `rows` of the set, in this thread."""
    good: list[int] = []
    pixels: list[np.ndarray] = []
    failed: dict[int, str] = {}
    for row in map(int, rows):
        try:
            picture = dataset.image(row, preprocess)
        except UnreadableImage as error:
            failed[row] = error.reason
            continue
        good.append(row)
        pixels.append(picture if change is None else change(row, picture))
    stacked = np.stack(pixels) if pixels else np.zeros((0, 1, 1, 3), np.uint8)
    return Batch(torch.tensor(good, dtype=torch.int64), torch.from_numpy(stacked).permute(0, 3, 1, 2), failed)


def read(
    dataset: LabelledImages, plan: Iterable[np.ndarray], preprocess: Preprocess, change: Change | None = None
) -> Iterator[Batch]:
    """One Batch for each array of rows in `plan`, in order, made by as many threads as there are cores."""
    return ahead(lambda rows: read_one(dataset, rows, preprocess, change), plan)


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
