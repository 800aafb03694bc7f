"""`evaluate`: retrieval metrics of binary codes under Hamming ranking.

One pass of the engine counts (histograms.py), closed formulas turn the counts into averages (average_precision.py).
This module checks the arguments and takes the means. result.py has the result, docs/metrics.md the definitions.
"""

from __future__ import annotations

import math
import reprlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._util.arguments import whole, whole_or_none
from ..codes import as_array
from .average_precision import TiedRankings
from .code_stats import code_health
from .histograms import Histograms, histograms
from .relevance import describe, relevance
from .result import Evaluation, Lookup, MapAtK, PrecisionRecall, Ranking

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CUTS = (10, 100, 1000, 5000)
"""Default K and N of MAP@K, P@N and R@N."""

RECALL_STEPS = 100
_BLOCK, _BLOCK_COUNTS = 512, 1 << 20  # rows, and counts in them, that are in float64 at a time


def evaluate(
    query_codes: Any,
    query_labels: Any,
    database_codes: Any,
    database_labels: Any,
    *,
    bits: int,
    at: Iterable[int] = CUTS,
    radius: int = 2,
    threads: int | None = None,
) -> Evaluation:
    """Returns the retrieval metrics of a ranking by Hamming distance. Relevant items share a label with the query.

    query_codes, database_codes    packed codes, uint8 [n, ceil(bits/8)], padding bits zero; ids are the row numbers
    query_labels, database_labels  integers >= 0 [n], or bool [n, C] for items with several labels or none
    at       the K of MAP@K and the N of P@N and R@N, each >= 1
    radius   of P@H<=r and R@H<=r, inclusive, >= 0
    threads  None: as many as there are cores

    Exact, in O(queries x database) time and O(queries x bits) memory. ValueError (TypeError for what is not a number)
    names what was expected and what came; also when no query at all has a relevant item, where no metric is defined.
    """
    bits, radius = whole("bits", bits, 1), whole("radius", radius, 0)
    if not isinstance(at, Iterable):
        raise TypeError(f"at: expected several whole numbers, such as (100, 1000), not {reprlib.repr(at)}")
    cuts = tuple(sorted({whole("at", k, 1) for k in at}))
    threads = whole_or_none("threads", threads, 1)
    queries, database = _codes(query_codes, "query_codes", bits), _codes(database_codes, "database_codes", bits)
    pairs = relevance(query_labels, database_labels)
    for name, codes, labelled in (("query", queries, pairs.query), ("database", database, pairs.database)):
        if len(codes) != len(labelled):
            raise ValueError(f"{name}_labels: expected one for each of the {len(codes)} codes, not {len(labelled)}")

    counts = histograms(queries, database, pairs, bits, cuts, threads)
    total = counts.relevant.sum(axis=1)
    used = np.flatnonzero(total)
    if not len(used):
        raise ValueError(
            f"query_labels: none of the {len(queries)} queries shares a label with a database item; "
            "are both numbered by the same classes?"
        )
    repeats = np.bincount(counts.row, minlength=len(total))[used]  # queries that share each row of counts
    within = repeats @ counts.relevant[used]
    return _averages(
        counts,
        used,
        repeats,
        cuts,
        bits=bits,
        queries=len(queries),
        queries_without_relevant=len(queries) - int(repeats.sum()),
        database=len(database),
        radius=radius,
        health=code_health(queries, database, bits, within, repeats @ counts.items[used] - within, threads),
    )


def _averages(
    counts: Histograms, used: NDArray[np.intp], repeats: Ints, cuts: tuple[int, ...], **given: Any
) -> Evaluation:
    """Returns the means over queries, from the rows of counts `used`, each of which stands for some queries."""
    means = _Means(repeats)
    grid = _grid(int(counts.items[0].sum()))
    marks = np.array([min(k, grid[-1]) for k in cuts], np.int64)
    rows = max(1, min(_BLOCK, _BLOCK_COUNTS // counts.items.shape[1]))
    for start in range(0, len(used), rows):
        block = used[start : start + rows]
        r = TiedRankings(counts.items[block], counts.relevant[block])
        total = r.total
        means.add("map", _share(r.sum(), total))
        means.add("map_optimistic", _share(r.optimistic_sum(), total))
        means.add("map_pessimistic", _share(r.pessimistic_sum(), total))
        means.add("map_ranked", _share(counts.ranked_sum[block, -1], total))
        at_marks = r.expected_hits(marks)
        for column, k in enumerate(cuts):
            ranked, hits = counts.ranked_sum[block, column], counts.ranked_hits[block, column]
            expected, capped = r.sum_at(marks[column]), np.minimum(total, k)
            means.add(f"retrieved {k}", _share(ranked, np.maximum(hits, 1)))
            means.add(f"min_relevant_k {k}", _share(ranked, capped))
            means.add(f"relevant {k}", _share(ranked, total))
            means.add(f"min_relevant_k_tie_aware {k}", _share(expected, capped))
            means.add(f"relevant_tie_aware {k}", _share(expected, total))
            means.add(f"precision {k}", _share(at_marks[:, column], marks[column]))
            means.add(f"recall {k}", _share(at_marks[:, column], total))
        found = r.expected_hits(grid)
        means.add_rows("grid precision", found / grid)
        means.add_rows("grid recall", found / total[:, None])
        means.add_rows("ball precision", r.found / np.maximum(r.within, 1))
        means.add_rows("ball recall", r.found / total[:, None])
        means.add_rows("ball empty", r.within == 0)
        means.add_rows("precision at recall", r.precision_at_recall(RECALL_STEPS))

    by_row = np.full(len(counts.items), np.nan)
    by_row[used] = means.values("map")
    return Evaluation(
        map=means["map"],
        map_optimistic=means["map_optimistic"],
        map_pessimistic=means["map_pessimistic"],
        map_ranked=means["map_ranked"],
        map_at={k: MapAtK(**{name: means[f"{name} {k}"] for name in MapAtK.__dataclass_fields__}) for k in cuts},
        precision_at={k: means[f"precision {k}"] for k in cuts},
        recall_at={k: means[f"recall {k}"] for k in cuts},
        lookup=Lookup(means.rows("ball precision"), means.rows("ball recall"), means.rows("ball empty")),
        ranking=Ranking(grid, means.rows("grid precision"), means.rows("grid recall")),
        pr_curve=PrecisionRecall(np.arange(1, RECALL_STEPS + 1) / RECALL_STEPS, means.rows("precision at recall")),
        average_precision=by_row[counts.row],
        **given,
    )


def _grid(database: int) -> NDArray[np.int64]:
    """Returns 1 to the size of the database in some fifty steps of equal ratio."""
    return np.unique(np.geomspace(1, database, 50).round().astype(np.int64))


def _share(part: Floats, whole: Ints | np.int64) -> Floats:
    """Returns part / whole of each query, at most 1: rounding may leave a perfect one an ulp above."""
    return np.minimum(part / whole, 1.0)


class _Means:
    """Means over queries of values that come a block of rows at a time, each row standing for some queries."""

    def __init__(self, repeats: Ints) -> None:
        self._repeats = repeats
        self._values: dict[str, list[Floats]] = defaultdict(list)
        self._sums: dict[str, Floats] = {}
        self._rows: dict[str, int] = defaultdict(int)

    def add(self, name: str, values: Floats) -> None:
        """Adds one value per row, [rows]."""
        self._values[name].append(values)

    def values(self, name: str) -> Floats:
        return np.concatenate(self._values[name])

    def __getitem__(self, name: str) -> float:
        values = np.repeat(self.values(name), self._repeats).tolist()
        return math.fsum(values) / len(values)  # correctly rounded, so the order of the queries does not show either

    def add_rows(self, name: str, rows: NDArray[Any]) -> None:
        """Adds an array per row, [rows, m], and keeps only the sum."""
        start = self._rows[name]
        self._rows[name] += len(rows)
        repeats = self._repeats[start : self._rows[name], None]
        self._sums[name] = self._sums.get(name, 0.0) + (repeats * rows).sum(axis=0)

    def rows(self, name: str) -> Floats:
        """Returns the mean array, [m]."""
        return np.minimum(self._sums[name] / self._repeats.sum(), 1.0)


def _codes(codes: Any, name: str, bits: int) -> NDArray[np.uint8]:
    """Returns packed codes as a contiguous array. Raises ValueError."""
    array = np.asarray(as_array(codes, name))
    width = -(-bits // 8)
    if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != width:
        hint = "; pack zeros and ones with pack(x.astype(bool))" if array.shape[1:] == (bits,) else ""
        raise ValueError(
            f"{name}: expected packed codes of {bits} bits, uint8 [n, {width}], not {describe(array)}{hint}"
        )
    if not len(array):
        raise ValueError(f"{name}: expected at least one code, not {describe(array)}")
    if bits % 8 and (wrong := np.flatnonzero(array[:, -1] >> (bits % 8))).size:
        raise ValueError(
            f"{name}: expected zeros behind bit {bits} of each code, "
            f"but row {wrong[0]} ends in byte 0x{array[wrong[0], -1]:02x}"
        )
    return np.ascontiguousarray(array)
