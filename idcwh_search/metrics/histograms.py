"""The counts per distance from which every metric is computed, in one pass of the engine over queries x database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .relevance import Relevance

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Histograms:
    """The counts of one pass. Queries with the same code and the same label share a row.

    Attributes:
        row: int64 [queries], the row of each query in the other arrays.
        items: int64 [rows, bits + 1], database items at distance 0, 1, ..., bits.
        relevant: int64 [rows, bits + 1], relevant items at distance 0, 1, ..., bits.
        ranked_sum: float64 [rows, cuts + 1], sum of (relevant so far / rank) over the relevant items among the first K
            in the order (distance, id), per cut K. The last column has no cut.
        ranked_hits: int64 [rows, cuts], relevant items among the first K in that order.
        ranked_per_query: True if the rows of the last two arrays are the queries, as in leave-one-out evaluation.
    """

    row: Ints
    items: Ints
    relevant: Ints
    ranked_sum: Floats
    ranked_hits: Ints
    ranked_per_query: bool = False


def histograms(
    queries: NDArray[np.uint8],
    database: NDArray[np.uint8],
    relevance: Relevance,
    bits: int,
    cuts: Sequence[int] = (),
    threads: int | None = None,
    leave_one_out: bool = False,
) -> Histograms:
    """Returns the counts of packed codes. Memory is O(rows x bits + database x threads).

    Args:
        queries, database: packed codes, uint8 [n, ceil(bits/8)], padding bits zero.
        relevance: labels of both.
        bits: code length.
        cuts: ascending ranks >= 1.
        threads: number of threads; None for one per core.
        leave_one_out: True to leave the pair of each item with itself out. Both sides are then the same arrays.
    """
    return Histograms(
        *_core.count_pairs(
            queries,
            relevance.query,
            database,
            relevance.database,
            bits,
            classes=relevance.classes,
            cuts=tuple(min(cut, len(database)) for cut in cuts),
            leave_one_out=leave_one_out,
            threads=threads,
        ),
        ranked_per_query=leave_one_out,
    )
