"""MAP of the codes of images, where each image is a query against all others. It limits the loss of lower precisions.

Images with a common label are relevant. Without labels, the nearest by the model's float32 logits are relevant.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from idcwh_search.metrics.average_precision import TiedRankings
from idcwh_search.metrics.histograms import histograms
from idcwh_search.metrics.relevance import Relevance

NEAREST = 10  # number of nearest neighbours by logits that are relevant without labels

Bools = npt.NDArray[np.bool_]


def mean_average_precision(codes: npt.NDArray[np.uint8], relevant: Bools, bits: int) -> float | None:
    """Returns the tie-aware MAP of codes uint8 [n, ceil(bits / 8)], or None if no image is relevant to another.

    relevant: bool [n, n], with row i for query i; the diagonal is ignored.
    """
    if not len(codes):
        return None
    diagonal = np.eye(len(codes), dtype=np.bool_)
    # Query i has label i, and an item has the labels of the queries that it is relevant to.
    labels = np.ascontiguousarray((relevant & ~diagonal).T)
    queries, items = (np.packbits(rows, axis=1, bitorder="little") for rows in (diagonal, labels))
    counts = histograms(codes, codes, Relevance(queries, items, len(codes)), bits)
    others = counts.items[counts.row]
    others[:, 0] -= 1  # the query itself
    rankings = TiedRankings(others, counts.relevant[counts.row])
    some = rankings.total > 0
    return float((rankings.sum()[some] / rankings.total[some]).mean()) if some.any() else None


def share_a_label(labels: npt.NDArray[Any]) -> Bools:
    """Returns `relevant` for labels: class indices int [n], or bool [n, C]."""
    if labels.ndim == 1:
        return np.asarray(labels[:, None] == labels)
    shared: npt.NDArray[np.float32] = labels.astype(np.float32) @ labels.astype(np.float32).T
    return shared > 0


def nearest(logits: npt.NDArray[np.float32], count: int = NEAREST) -> Bools:
    """Returns `relevant` without labels, with the `count` nearest images by Euclidean distance per row."""
    n = len(logits)
    wide = logits.astype(np.float64)
    squares = (wide**2).sum(axis=1)
    distance = squares[:, None] + squares - 2 * wide @ wide.T
    np.fill_diagonal(distance, np.inf)
    relevant = np.zeros((n, n), np.bool_)
    order = np.argsort(distance, axis=1, kind="stable")[:, : min(count, n - 1)]
    np.put_along_axis(relevant, order, True, axis=1)
    return relevant
