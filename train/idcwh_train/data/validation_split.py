"""The choice of the validation images, which are training images that only measure MAP."""

from __future__ import annotations

import numpy as np

from idcwh_search.datasets import LabelledImages
from idcwh_search.splits.protocols import seeded_order


def validation_split(
    dataset: LabelledImages, rows: np.ndarray, share: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows that train, and the validation rows, which are a share of each class, rounded down.

    Multi-label images are drawn over all classes. The choice depends only on the seed and the keys.
    """
    order = seeded_order(seed, (f"validation/{dataset.keys[row]}" for row in rows))
    validation = np.zeros(len(rows), bool)
    if dataset.multi_label:
        validation[order[: int(share * len(rows))]] = True
    else:
        labels = dataset.labels[rows]
        remaining = np.floor(share * np.bincount(labels, minlength=len(dataset.classes))).astype(int)
        for i in order:
            if remaining[labels[i]]:
                remaining[labels[i]] -= 1
                validation[i] = True
    return rows[~validation], rows[validation]
