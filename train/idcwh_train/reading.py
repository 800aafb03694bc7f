"""Batches of pixels, decoded by a few threads ahead of the network that waits for them."""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from idcwh_search.datasets import LabelledImages
from idcwh_search.images import Preprocess, UnreadableImage
from idcwh_search.runtime import available_cores

Change = Callable[[int, np.ndarray], np.ndarray]
"""(row of the set, pixels [H, W, 3]) -> pixels: an augmentation, a function of its arguments alone."""

_AHEAD = 3  # batches in flight: one being used, one ready, one being made


@dataclass(frozen=True, eq=False)
class Batch:
    """rows: int64 [m], rows of the set that could be read; pixels: uint8 [m, 3, H, W] (channels last in memory);
    failed: rows that could not, with the reason."""

    rows: Tensor
    pixels: Tensor
    failed: dict[int, str]


def read(
    dataset: LabelledImages, plan: Iterable[np.ndarray], preprocess: Preprocess, change: Change | None = None
) -> Iterator[Batch]:
    """One Batch for each array of rows in `plan`, in order. Memory: three batches, however long the plan."""

    def one(row: int) -> np.ndarray | str:
        try:
            pixels = dataset.image(row, preprocess)
        except UnreadableImage as error:
            return error.reason
        return pixels if change is None else change(row, pixels)

    with ThreadPoolExecutor(available_cores(), thread_name_prefix="decode") as pool:
        waiting: deque[tuple[np.ndarray, list[Future[np.ndarray | str]]]] = deque()
        try:
            for rows in plan:
                waiting.append((rows, [pool.submit(one, int(row)) for row in rows]))
                if len(waiting) == _AHEAD:
                    yield _batch(*waiting.popleft())
            while waiting:
                yield _batch(*waiting.popleft())
        finally:  # the reader stopped early
            for _, futures in waiting:
                for future in futures:
                    future.cancel()


def _batch(rows: np.ndarray, futures: list[Future[np.ndarray | str]]) -> Batch:
    made = [future.result() for future in futures]
    good = [i for i, result in enumerate(made) if not isinstance(result, str)]
    failed = {int(rows[i]): result for i, result in enumerate(made) if isinstance(result, str)}
    pixels = np.stack([made[i] for i in good]) if good else np.zeros((0, 1, 1, 3), np.uint8)
    return Batch(torch.from_numpy(rows[good].astype(np.int64)), torch.from_numpy(pixels).permute(0, 3, 1, 2), failed)
