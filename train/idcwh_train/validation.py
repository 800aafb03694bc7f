"""What is watched while training: MAP on held-out training images, and whether the codes have collapsed.

The queries of the protocol are never looked at here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from idcwh_search.codes import pack
from idcwh_search.datasets import LabelledImages
from idcwh_search.metrics import evaluate
from idcwh_search.protocols import draw

from .sources import Source

_QUERIES, _DATABASE = 1000, 4000
"""At most this many pictures are encoded each time; enough for two digits of MAP, and cheap beside an epoch."""


@dataclass(frozen=True)
class Watch:
    """map: tie-aware MAP of held-out images against training images, None without any; distinct: different codes among
    `encoded` images; collapse: what is wrong with the codes, or None."""

    map: float | None
    distinct: int
    encoded: int
    collapse: str | None


def hold_out(dataset: LabelledImages, rows: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Split row numbers into those that train and those that are watched: `share` of each class, rounded down.

    With several labels a picture, of all of them. Which ones follows from the seed and the keys alone.
    """
    order = sorted(range(len(rows)), key=lambda i: draw(seed, f"validation/{dataset.keys[rows[i]]}"))
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


def watch(source: Source, train: Tensor, held: Tensor, labels: np.ndarray) -> Watch:
    """Encode held-out pictures and some that train, as positions in the source, whose labels are `labels`."""
    picked = torch.linspace(0, len(train) - 1, min(len(train), _DATABASE)).long()
    database, h_database = source.encode(train[picked])
    queries, h_queries = source.encode(held[:_QUERIES])
    h = torch.cat([h_database, h_queries])
    distinct = len(np.unique(pack(h.numpy()), axis=0)) if len(h) else 0
    value = None
    if len(queries) and len(database):
        d, q = labels[database.numpy()], labels[queries.numpy()]
        if _any_relevant(q, d):
            value = evaluate(pack(h_queries.numpy()), q, pack(h_database.numpy()), d, bits=h.shape[1], at=()).map
    return Watch(value, distinct, len(h), _collapse(h, distinct, labels[database.numpy()]))


def _any_relevant(queries: np.ndarray, database: np.ndarray) -> bool:
    if queries.ndim == 2:
        return bool(np.any(queries.any(axis=0) & database.any(axis=0)))
    return bool(np.isin(queries, database).any())


def _collapse(h: Tensor, distinct: int, labels: np.ndarray) -> str | None:
    """Fewer codes than half of what the classes at hand could have."""
    classes = int(labels.any(axis=0).sum()) if labels.ndim == 2 else len(np.unique(labels))
    possible = min(classes, 2 ** min(h.shape[1], 62))
    if len(h) < 2 or classes < 2 or distinct >= max(2, possible / 2):
        return None
    what = "the outputs are constant" if float(h.std(dim=0).max()) < 1e-6 else f"{distinct} distinct codes"
    return f"the codes have collapsed: {what} for {len(h)} images of {classes} classes"
