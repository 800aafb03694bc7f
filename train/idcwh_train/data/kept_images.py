"""The training images that model.pt keeps with their labels, so that idcwh-export can verify its files."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from idcwh_search.datasets import LabelledImages
from idcwh_search.images.decoding import UnreadableImage
from idcwh_search.images.preprocess import Preprocess
from idcwh_search.splits.protocols import seeded_order

SIZE, CLASSES = 64, 8  # numbers of images and of their classes


def pick(dataset: LabelledImages, train: np.ndarray, preprocess: Preprocess, seed: int) -> dict[str, Any]:
    """Returns pixels uint8 [m, H, W, 3], keys and labels of training images that the seed selects.

    train: rows of the dataset. Unreadable images are skipped.
    """
    drawn = train[seeded_order(seed, (dataset.keys[row] for row in train))]
    rows = drawn[in_turns(dataset.labels[drawn])]
    images: list[np.ndarray] = []
    kept: list[int] = []
    for row in rows.tolist():
        if len(images) == SIZE:
            break
        try:
            images.append(dataset.image(row, preprocess))
            kept.append(row)
        except UnreadableImage:
            continue
    return {
        "images": torch.from_numpy(np.stack(images)),
        "keys": [dataset.keys[row] for row in kept],
        "labels": torch.from_numpy(dataset.labels[kept]),
    }


def in_turns(labels: np.ndarray) -> np.ndarray:
    """Returns an order that starts with several images of each of several classes, so that MAP can be measured.

    The first CLASSES classes that appear take turns, then the others. Multi-label images keep their order.
    """
    if labels.ndim == 2:
        return np.arange(len(labels))
    _, first, number, sizes = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    appeared = np.argsort(np.argsort(first))[number]  # 0 for the first class
    turn = np.empty(len(labels), np.int64)
    turn[np.argsort(number, kind="stable")] = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.lexsort((appeared, turn, appeared >= CLASSES))
