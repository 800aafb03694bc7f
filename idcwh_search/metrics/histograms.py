"""The counts that every metric is computed from, made by the engine in one pass over queries x database.

average_precision.py and evaluate.py turn them into metrics.
"""

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

    row             int64 [queries]: the row of each query in the arrays below
    items           int64 [rows, bits + 1]: database items at distance 0, 1, ..., bits
    relevant        int64 [rows, bits + 1]: those of them that are relevant
    ranked_sum      float64 [rows, cuts + 1]: order by (distance, id); sum over the relevant items in the first K of
                    (relevant items so far / rank), for each cut K; the last column is uncut
    ranked_hits     int64 [rows, cuts]: relevant items in the first K of that order
    """

    row: Ints
    items: Ints
    relevant: Ints
    ranked_sum: Floats
    ranked_hits: Ints


def histograms(
    queries: NDArray[np.uint8],
    database: NDArray[np.uint8],
    relevance: Relevance,
    bits: int,
    cuts: Sequence[int] = (),
    threads: int | None = None,
) -> Histograms:
    """Returns the counts of packed codes uint8 [n, ceil(bits/8)] whose padding bits are zero; cuts ascend, each >= 1.

    Memory: O(rows x bits + database x threads).
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
            threads=threads,
        )
    )
