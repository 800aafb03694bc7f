"""How well codes find what belongs together: the MAP that a file of lower precision has to keep.

Every picture is searched among all others of the same set, leave-one-out. What belongs together is said by labels, or,
where there are none, by the model itself: the nearest by its float32 logits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from idcwh_search.codes import unpack
from idcwh_search.metrics.average_precision import TiedRankings

NEAREST = 10  # neighbours by logits that count as relevant where there are no labels
_BLOCK = 256

Bools = npt.NDArray[np.bool_]


def mean_average_precision(codes: npt.NDArray[np.uint8], relevant: Bools, bits: int) -> float | None:
    """Tie-aware MAP of codes uint8 [n, ceil(bits / 8)], each against the others; None where nothing is relevant.

    relevant: bool [n, n], row i for query i; its diagonal is not looked at.
    """
    signs = np.where(unpack(codes, bits), np.float32(1), np.float32(-1))
    n, found = len(codes), []
    for start in range(0, n, _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, n))
        distance = ((bits - signs[rows] @ signs.T) / 2).astype(np.int64)
        others = np.ones((len(rows), n), np.bool_)
        others[rows - start, rows] = False
        flat = distance + (bits + 1) * (rows - start)[:, None]

        def counts(mask: Bools, flat: Any = flat, size: int = len(rows)) -> npt.NDArray[np.int64]:
            return np.bincount(flat[mask], minlength=size * (bits + 1)).reshape(size, bits + 1)

        rankings = TiedRankings(counts(others), counts(others & relevant[rows]))
        some = rankings.total > 0
        found.append(rankings.sum()[some] / rankings.total[some])
    values = np.concatenate(found) if found else np.empty(0)
    return float(values.mean()) if len(values) else None


def share_a_label(labels: npt.NDArray[Any]) -> Bools:
    """relevant of labels: numbers of classes int [n], or bool [n, C]."""
    if labels.ndim == 1:
        return np.asarray(labels[:, None] == labels)
    shared: npt.NDArray[np.float32] = labels.astype(np.float32) @ labels.astype(np.float32).T
    return shared > 0


def nearest(logits: npt.NDArray[np.float32], count: int = NEAREST) -> Bools:
    """relevant where there are no labels: for each row its `count` nearest others by Euclidean distance."""
    n = len(logits)
    wide = logits.astype(np.float64)
    squares = (wide**2).sum(axis=1)
    distance = squares[:, None] + squares - 2 * wide @ wide.T
    np.fill_diagonal(distance, np.inf)
    relevant = np.zeros((n, n), np.bool_)
    order = np.argsort(distance, axis=1, kind="stable")[:, : min(count, n - 1)]
    np.put_along_axis(relevant, order, True, axis=1)
    return relevant
