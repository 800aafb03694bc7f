"""MAP of the codes of one set of images, each searched among all others: what a file of lower precision has to keep.

Relevant are the images with the same label, or, without labels, the nearest by the model's float32 logits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from idcwh_search.metrics.average_precision import TiedRankings
from idcwh_search.metrics.histograms import histograms
from idcwh_search.metrics.relevance import Relevance

NEAREST = 10  # neighbours by logits that are relevant where there are no labels

Bools = npt.NDArray[np.bool_]


def mean_average_precision(codes: npt.NDArray[np.uint8], relevant: Bools, bits: int) -> float | None:
    """Returns the tie-aware MAP of codes uint8 [n, ceil(bits / 8)], each among the others; None if nothing is relevant.

    relevant: bool [n, n], row i for query i; its diagonal is ignored.
    """
    if not len(codes):
        return None
    own = np.eye(len(codes), dtype=np.bool_)
    # Query i has label i alone, and an item the labels of the queries that it is relevant to.
    sets = np.ascontiguousarray((relevant & ~own).T)
    queries, items = (np.packbits(rows, axis=1, bitorder="little") for rows in (own, sets))
    counts = histograms(codes, codes, Relevance(queries, items, len(codes)), bits)
    others = counts.items[counts.row]
    others[:, 0] -= 1  # the query itself
    rankings = TiedRankings(others, counts.relevant[counts.row])
    some = rankings.total > 0
    return float((rankings.sum()[some] / rankings.total[some]).mean()) if some.any() else None


def share_a_label(labels: npt.NDArray[Any]) -> Bools:
    """Returns `relevant` of labels: numbers of classes int [n], or bool [n, C]."""
    if labels.ndim == 1:
        return np.asarray(labels[:, None] == labels)
    shared: npt.NDArray[np.float32] = labels.astype(np.float32) @ labels.astype(np.float32).T
    return shared > 0


def nearest(logits: npt.NDArray[np.float32], count: int = NEAREST) -> Bools:
    """Returns `relevant` without labels: for each row its `count` nearest others by Euclidean distance."""
    n = len(logits)
    wide = logits.astype(np.float64)
    squares = (wide**2).sum(axis=1)
    distance = squares[:, None] + squares - 2 * wide @ wide.T
    np.fill_diagonal(distance, np.inf)
    relevant = np.zeros((n, n), np.bool_)
    order = np.argsort(distance, axis=1, kind="stable")[:, : min(count, n - 1)]
    np.put_along_axis(relevant, order, True, axis=1)
    return relevant
