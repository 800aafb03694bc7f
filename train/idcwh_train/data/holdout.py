"""The training images that are held out to measure MAP during training."""

from __future__ import annotations

import numpy as np

from idcwh_search.datasets import LabelledImages
from idcwh_search.splits.protocols import seeded_order


def hold_out(dataset: LabelledImages, rows: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows that train and those that are held out: a share of each class, rounded down.

    Multi-label images are held out over all classes. The choice depends on the seed and the keys alone.
    """
    order = seeded_order(seed, (f"validation/{dataset.keys[row]}" for row in rows))
    held = np.zeros(len(rows), bool)
    if dataset.multi_label:
        held[order[: int(share * len(rows))]] = True
    else:
        labels = dataset.labels[rows]
        wanted = np.floor(share * np.bincount(labels, minlength=len(dataset.classes))).astype(int)
        for i in order:
            if wanted[labels[i]]:
                wanted[labels[i]] -= 1
                held[i] = True
    return rows[~held], rows[held]
