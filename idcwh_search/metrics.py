"""`evaluate`: retrieval metrics of binary codes under Hamming ranking.

One pass counts (`histograms.py`), closed formulas turn the counts into averages (`average_precision.py`); this file
checks the arguments and takes the means. What it returns is in `evaluation.py`; definitions and conventions are in
docs/metrics.md.
"""

from __future__ import annotations

import math
import operator
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import average_precision as ap
from .evaluation import Evaluation, Lookup, MapAtK, PrecisionRecall, Ranking
from .health import code_health
from .histograms import Histograms, histograms
from .relevance import describe, relevance

Floats = NDArray[np.float64]

CUTS = (10, 100, 1000, 5000)
"""Default K and N of MAP@K, P@N and R@N."""

RECALL_STEPS = 100
_BLOCK = 512  # queries whose counts are in float64 at a time


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
    """Rank the database by Hamming distance for every query and measure what comes first. Relevant: shares a label.

    query_codes, database_codes    packed codes, uint8 [n, ceil(bits/8)], padding bits zero; ids are the row numbers
    query_labels, database_labels  integers >= 0 [n], or bool [n, C] for items with several labels or none
    at       the K of MAP@K and the N of P@N and R@N, each >= 1
    radius   of P@H<=r and R@H<=r, inclusive, >= 0
    threads  None: as many as there are cores

    Exact, in O(queries x database) time and O(queries x bits) memory. ValueError (TypeError for what is not a number)
    names what was expected and what came; also when no query at all has a relevant item, where no metric is defined.
    """
    bits, radius = _whole(bits, "bits", 1), _whole(radius, "radius", 0)
    if not isinstance(at, Iterable):
        raise TypeError(f"at: expected several whole numbers, such as (100, 1000), not {at!r}")
    cuts = tuple(sorted({_whole(k, "at", 1) for k in at}))
    threads = None if threads is None else _whole(threads, "threads", 1)
    queries, database = _codes(query_codes, "query_codes", bits), _codes(database_codes, "database_codes", bits)
    pairs = relevance(query_labels, database_labels)
    for name, codes, labelled in (("query", queries, pairs.queries), ("database", database, pairs.database)):
        if len(codes) != labelled:
            raise ValueError(f"{name}_labels: expected one for each of the {len(codes)} codes, not {labelled}")

    counts = histograms(queries, database, pairs, bits, cuts, threads)
    total = counts.relevant.sum(axis=1)
    used = np.flatnonzero(total)
    if not len(used):
        raise ValueError(
            f"expected queries that share a label with a database item, but none of the {len(queries)} does; "
            "are both numbered by the same classes?"
        )
    within = counts.relevant[used].sum(axis=0)
    return _averages(
        counts,
        used,
        cuts,
        bits=bits,
        queries=len(queries),
        queries_without_relevant=len(queries) - len(used),
        database=len(database),
        radius=radius,
        health=code_health(queries, database, bits, within, counts.items[used].sum(axis=0) - within),
    )


def _averages(counts: Histograms, used: NDArray[np.intp], cuts: tuple[int, ...], **given: Any) -> Evaluation:
    """Everything that is a mean over queries, from the counts of the queries `used`."""
    means = _Means()
    grid = _grid(int(counts.items[0].sum()))
    for start in range(0, len(used), _BLOCK):
        block = used[start : start + _BLOCK]
        items, relevant = counts.items[block], counts.relevant[block]
        total = relevant.sum(axis=1)
        means.add("map", _share(ap.tie_aware_sum(items, relevant), total))
        means.add("map_optimistic", _share(ap.optimistic_sum(items, relevant), total))
        means.add("map_pessimistic", _share(ap.pessimistic_sum(items, relevant), total))
        means.add("map_ranked", _share(counts.ranked_sum[block, -1], total))
        for column, k in enumerate(cuts):
            ranked, hits = counts.ranked_sum[block, column], counts.ranked_hits[block, column]
            expected, capped = ap.tie_aware_sum(items, relevant, k), np.minimum(total, k)
            means.add(f"retrieved {k}", _share(ranked, np.maximum(hits, 1)))
            means.add(f"min_relevant_k {k}", _share(ranked, capped))
            means.add(f"relevant {k}", _share(ranked, total))
            means.add(f"min_relevant_k_tie_aware {k}", _share(expected, capped))
            means.add(f"relevant_tie_aware {k}", _share(expected, total))
            found = ap.expected_hits(items, relevant, k)
            means.add(f"precision {k}", _share(found, np.minimum(k, items.sum(axis=1))))
            means.add(f"recall {k}", _share(found, total))
        found = np.stack([ap.expected_hits(items, relevant, n) for n in grid], axis=1)
        means.add_rows("grid precision", found / grid)
        means.add_rows("grid recall", found / total[:, None])
        ball, found_in_ball = np.cumsum(items, axis=1), np.cumsum(relevant, axis=1)
        means.add_rows("ball precision", found_in_ball / np.maximum(ball, 1))
        means.add_rows("ball recall", found_in_ball / total[:, None])
        means.add_rows("ball empty", ball == 0)
        means.add_rows("precision at recall", ap.precision_at_recall(items, relevant, RECALL_STEPS))

    by_query = np.full(len(counts.items), np.nan)
    by_query[used] = means.values("map")
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
        average_precision=by_query,
        **given,
    )


def _grid(database: int) -> NDArray[np.int64]:
    """1 to the size of the database in some fifty steps of equal ratio."""
    return np.unique(np.geomspace(1, database, 50).round().astype(np.int64))


def _share(part: Floats | NDArray[np.int64], whole: NDArray[np.int64]) -> Floats:
    """part / whole of each query; rounding may leave a perfect one an ulp above 1, which is taken off."""
    return np.minimum(part / whole, 1.0)


class _Means:
    """Means over queries of values that come a block of queries at a time."""

    def __init__(self) -> None:
        self._values: dict[str, list[Floats]] = defaultdict(list)
        self._sums: dict[str, Floats] = {}
        self._queries: dict[str, int] = defaultdict(int)

    def add(self, name: str, values: Floats) -> None:
        """One value a query, [queries]."""
        self._values[name].append(values)

    def values(self, name: str) -> Floats:
        return np.concatenate(self._values[name])

    def __getitem__(self, name: str) -> float:
        values = self.values(name)
        return math.fsum(values) / len(values)  # correctly rounded, so the order of the queries does not show either

    def add_rows(self, name: str, rows: NDArray[Any]) -> None:
        """A row a query, [queries, m]; only their sum is kept."""
        self._sums[name] = self._sums.get(name, 0.0) + rows.sum(axis=0)
        self._queries[name] += len(rows)

    def rows(self, name: str) -> Floats:
        """Mean row, [m]."""
        return np.minimum(self._sums[name] / self._queries[name], 1.0)


def _codes(codes: Any, name: str, bits: int) -> NDArray[np.uint8]:
    """Packed codes as a contiguous array, or ValueError."""
    array = np.asarray(codes)
    width = -(-bits // 8)
    if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != width:
        raise ValueError(f"{name}: expected packed codes of {bits} bits, uint8 [n, {width}], not {describe(array)}")
    if not len(array):
        raise ValueError(f"{name}: expected at least one code, not {describe(array)}")
    if bits % 8 and (wrong := np.flatnonzero(array[:, -1] >> (bits % 8))).size:
        raise ValueError(
            f"{name}: expected zeros behind bit {bits} of each code, "
            f"but row {wrong[0]} ends in byte 0x{array[wrong[0], -1]:02x}"
        )
    return np.ascontiguousarray(array)


def _whole(value: Any, name: str, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected a whole number of at least {least}, not {value!r}") from None
    if number < least or isinstance(value, bool):
        raise ValueError(f"{name}: expected a whole number of at least {least}, not {value!r}")
    return number
