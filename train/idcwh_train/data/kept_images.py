"""The pictures that model.pt keeps: a few real ones, with their labels, for the check of whatever is made from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from idcwh_search.datasets import LabelledImages
from idcwh_search.images.decoding import UnreadableImage
from idcwh_search.images.preprocess import Preprocess
from idcwh_search.splits.protocols import seeded_order

SIZE, CLASSES = 64, 8  # pictures, and how many classes they show


def draw(dataset: LabelledImages, train: np.ndarray, preprocess: Preprocess, seed: int) -> dict[str, Any]:
    """Pixels uint8 [m, H, W, 3], keys and labels of some of the training images `train`, rows of the set; which ones
    follows from the seed. Those that cannot be read are passed over."""
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
    """An order in which already a few pictures show several of each of several classes, so that retrieval can be
    measured on them: the first CLASSES classes that appear take turns, then the others. Pictures of several
    labels stay in their order.
    """
    if labels.ndim == 2:
        return np.arange(len(labels))
    _, first, number, sizes = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    appeared = np.argsort(np.argsort(first))[number]  # 0 for the class that is seen first
    turn = np.empty(len(labels), np.int64)
    turn[np.argsort(number, kind="stable")] = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.lexsort((appeared, turn, appeared >= CLASSES))
