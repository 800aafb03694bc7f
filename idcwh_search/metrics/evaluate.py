"""`evaluate`: retrieval metrics of binary codes under Hamming ranking.

The engine counts items per distance in one pass (histograms.py), and closed formulas turn the counts into metrics
(average_precision.py). This module checks the arguments and averages over the queries. docs/metrics.md has the
definitions.
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
"""Default cuts K and N of MAP@K, P@N and R@N."""

RECALL_STEPS = 100
_BLOCK, _BLOCK_COUNTS = 512, 1 << 20  # most rows, and most counts, converted to float64 at a time


def evaluate(
    query_codes: Any,
    query_labels: Any,
    database_codes: Any = None,
    database_labels: Any = None,
    *,
    bits: int,
    at: Iterable[int] = CUTS,
    radius: int = 2,
    leave_one_out: bool = False,
    threads: int | None = None,
) -> Evaluation:
    """Returns the retrieval metrics of a ranking by Hamming distance.

    A database item is relevant if it shares a label with the query. Results are exact. Time is O(queries x database)
    and memory O(queries x bits).

    Args:
        query_codes, database_codes: packed codes, uint8 [n, ceil(bits/8)], padding bits zero. Ids are row numbers.
        query_labels, database_labels: integers >= 0 [n], or bool [n, C] for multi-label items and items without one.
        bits: code length.
        at: cuts K of MAP@K and N of P@N and R@N, each >= 1.
        radius: inclusive radius r >= 0 of P@H<=r and R@H<=r, in bits.
        leave_one_out: True to compare each item of `query_codes` with all others and not with itself. The database
            arguments must then be None.
        threads: number of threads; None for one per core.

    Raises:
        ValueError: an argument is invalid, or no query has a relevant item, so that no metric is defined.
        TypeError: a number is not an integer.
    """
    bits, radius = whole("bits", bits, 1), whole("radius", radius, 0)
    if not isinstance(at, Iterable):
        raise TypeError(f"at: expected several whole numbers, such as (100, 1000), not {reprlib.repr(at)}")
    cuts = tuple(sorted({whole("at", k, 1) for k in at}))
    threads = whole_or_none("threads", threads, 1)
    if leave_one_out != (database_codes is None) or leave_one_out != (database_labels is None):
        raise TypeError("evaluate: give either database_codes and database_labels, or leave_one_out=True")
    queries = _codes(query_codes, "query_codes", bits)
    database = queries if leave_one_out else _codes(database_codes, "database_codes", bits)
    pairs = relevance(query_labels, query_labels if leave_one_out else database_labels)
    for name, codes, labelled in (("query", queries, pairs.query), ("database", database, pairs.database)):
        if len(codes) != len(labelled):
            raise ValueError(f"{name}_labels: expected {len(codes)} labels, one per code, not {len(labelled)}")

    if leave_one_out and len(queries) < 2:
        raise ValueError("query_codes: expected at least two codes with leave_one_out=True, found 1")

    counts = histograms(queries, database, pairs, bits, cuts, threads, leave_one_out)
    total = counts.relevant.sum(axis=1)
    used = np.flatnonzero(total)
    if not len(used) and leave_one_out:
        raise ValueError(f"query_labels: no two of the {len(queries)} items share a label; give labels that repeat")
    if not len(used):
        raise ValueError(
            f"query_labels: none of the {len(queries)} queries shares a label with a database item; "
            "use the same class numbers for both"
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
        leave_one_out=leave_one_out,
        health=code_health(queries, database, bits, within, repeats @ counts.items[used] - within, threads),
    )


def _averages(
    counts: Histograms, used: NDArray[np.intp], repeats: Ints, cuts: tuple[int, ...], **given: Any
) -> Evaluation:
    """Returns the means over queries, from the rows `used` of the counts. Row used[i] counts for repeats[i] queries."""
    means = _Means(repeats)
    _add_ranked(means, counts, used, repeats, cuts)
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
        at_marks = r.expected_hits(marks)
        for column, k in enumerate(cuts):
            expected, capped = r.sum_at(marks[column]), np.minimum(total, k)
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


def _add_ranked(
    means: _Means, counts: Histograms, used: NDArray[np.intp], repeats: Ints, cuts: tuple[int, ...]
) -> None:
    """Adds the metrics that order ties by id, of which leave-one-out evaluation has one row per query."""
    total = counts.relevant.sum(axis=1)
    if counts.ranked_per_query:
        rows = np.flatnonzero(total[counts.row])
        total, repeats = total[counts.row[rows]], np.ones(len(rows), np.int64)
    else:
        rows, total = used, total[used]
    means.add("map_ranked", _share(counts.ranked_sum[rows, -1], total), repeats)
    for column, k in enumerate(cuts):
        ranked, hits = counts.ranked_sum[rows, column], counts.ranked_hits[rows, column]
        means.add(f"retrieved {k}", _share(ranked, np.maximum(hits, 1)), repeats)
        means.add(f"min_relevant_k {k}", _share(ranked, np.minimum(total, k)), repeats)
        means.add(f"relevant {k}", _share(ranked, total), repeats)


def _grid(database: int) -> NDArray[np.int64]:
    """Returns at most 50 ranks from 1 to the size of the database, evenly spaced on a logarithmic scale."""
    return np.unique(np.geomspace(1, database, 50).round().astype(np.int64))


def _share(part: Floats, whole: Ints | np.int64) -> Floats:
    """Returns part / whole, capped at 1, which rounding may exceed by one ulp."""
    return np.minimum(part / whole, 1.0)


class _Means:
    """Means over queries of values that are added in blocks of rows. Row i counts for repeats[i] queries."""

    def __init__(self, repeats: Ints) -> None:
        self._repeats = repeats
        self._values: dict[str, list[Floats]] = defaultdict(list)
        self._own_repeats: dict[str, Ints] = {}
        self._sums: dict[str, Floats] = {}
        self._rows: dict[str, int] = defaultdict(int)

    def add(self, name: str, values: Floats, repeats: Ints | None = None) -> None:
        """Adds one value per row, [rows]. All values of a metric with other rows are added at once with `repeats`."""
        self._values[name].append(values)
        if repeats is not None:
            self._own_repeats[name] = repeats

    def values(self, name: str) -> Floats:
        return np.concatenate(self._values[name])

    def __getitem__(self, name: str) -> float:
        values = np.repeat(self.values(name), self._own_repeats.get(name, self._repeats)).tolist()
        return math.fsum(values) / len(values)  # correctly rounded: independent of the order of the queries

    def add_rows(self, name: str, rows: NDArray[Any]) -> None:
        """Adds one array per row, [rows, m], to a sum."""
        start = self._rows[name]
        self._rows[name] += len(rows)
        repeats = self._repeats[start : self._rows[name], None]
        self._sums[name] = self._sums.get(name, 0.0) + (repeats * rows).sum(axis=0)

    def rows(self, name: str) -> Floats:
        """Returns the mean of the arrays, [m]."""
        return np.minimum(self._sums[name] / self._repeats.sum(), 1.0)


def _codes(codes: Any, name: str, bits: int) -> NDArray[np.uint8]:
    """Returns packed codes as a contiguous array. Raises ValueError for invalid ones."""
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
            f"{name}: expected zero padding after bit {bits - 1} of each code, "
            f"but the last byte of row {wrong[0]} is 0x{array[wrong[0], -1]:02x}"
        )
    return np.ascontiguousarray(array)
