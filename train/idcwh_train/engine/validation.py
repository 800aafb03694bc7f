"""MAP on held-out training images. The queries of the protocol are never looked at here."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from idcwh_search.datasets import LabelledImages
from idcwh_search.splits.protocols import seeded_order

from ..models.hash_model import Network
from .retrieval import Unmeasurable, evaluate
from .source import Source

_QUERIES, _DATABASE = 1000, 4000
"""At most this many pictures are encoded each time; enough for two digits of MAP, and cheap beside an epoch."""


def hold_out(dataset: LabelledImages, rows: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Split row numbers into those that train and those that are watched: `share` of each class, rounded down.

    With several labels a picture, of all of them. Which ones follows from the seed and the keys alone.
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


def held_out_map(source: Source, network: Network, train: Tensor, held: Tensor, labels: np.ndarray) -> dict[int, float]:
    """Tie-aware MAP of held-out images against training images, both as positions in the source whose labels are
    `labels`, for each code length; nothing where no query has a relevant image.
    """
    picked = torch.linspace(0, len(train) - 1, min(len(train), _DATABASE)).long()
    try:
        found = evaluate(source, network, held[:_QUERIES], train[picked], labels, at=())
    except Unmeasurable:
        return {}
    return {bits: of.map for bits, of in found.items()}
