"""Statistics of codes that do not depend on a ranking. They show collapsed and redundant bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_CORRELATED = 2048
"""Maximum number of bits whose pairwise correlation is computed. Memory and time are quadratic in it."""

_CHUNK = 1 << 24  # bits unpacked at a time


@dataclass(frozen=True, eq=False)
class CodeStatistics:
    """Statistics of database codes, and of query codes where noted.

    Queries without a relevant item are left out of both distance histograms.

    Attributes:
        distinct_database, distinct_queries: numbers of different codes.
        bit_balance: float64 [bits], share of database codes in which the bit is 1; 0.5 carries the most information.
        constant_bits: number of bits with one value in the whole database; 0 is best, `bits` is a collapse.
        bit_correlation: mean |Pearson correlation| over pairs of non-constant bits, 0 to 1, 0 is best. NaN with fewer
            than two such bits. At most MOST_CORRELATED of them are used, evenly spaced.
        distances_within: int64 [bits + 1], (query, database item) pairs per distance that share a label.
        distances_between: int64 [bits + 1], pairs per distance that share no label.
    """

    distinct_database: int
    distinct_queries: int
    bit_balance: Floats
    constant_bits: int
    bit_correlation: float
    distances_within: Ints
    distances_between: Ints

    @property
    def d_w(self) -> float:
        """Mean within-class distance in bits, over the pairs that share a label."""
        return _mean_distance(self.distances_within)

    @property
    def d_b(self) -> float:
        """Mean between-class distance in bits, over the pairs that share no label; NaN without such a pair."""
        return _mean_distance(self.distances_between)

    def to_dict(self) -> dict[str, Any]:
        """Returns the statistics as plain Python for JSON, with None for NaN."""
        return {
            "distinct_database": self.distinct_database,
            "distinct_queries": self.distinct_queries,
            "constant_bits": self.constant_bits,
            "bit_balance": self.bit_balance.tolist(),
            "bit_correlation": _or_none(self.bit_correlation),
            "d_w": _or_none(self.d_w),
            "d_b": _or_none(self.d_b),
            "distances_within": self.distances_within.tolist(),
            "distances_between": self.distances_between.tolist(),
        }


def code_health(
    queries: NDArray[np.uint8],
    database: NDArray[np.uint8],
    bits: int,
    within: Ints,
    between: Ints,
    threads: int | None = None,
) -> CodeStatistics:
    """Returns the statistics of packed codes.

    Args:
        queries, database: packed codes, uint8 [n, ceil(bits/8)].
        bits: code length.
        within, between: distance histograms, int64 [bits + 1], as in CodeStatistics.
        threads: number of threads; None for one per core.
    """
    n, ones = len(database), _ones(database, bits)
    changing = np.flatnonzero((ones > 0) & (ones < n))
    chosen = changing
    if len(changing) > MOST_CORRELATED:
        chosen = changing[np.linspace(0, len(changing) - 1, MOST_CORRELATED).round().astype(np.int64)]
    return CodeStatistics(
        distinct_database=_core.count_distinct(database, bits),
        distinct_queries=_core.count_distinct(queries, bits),
        bit_balance=ones / n,
        constant_bits=bits - len(changing),
        bit_correlation=_mean_correlation(ones[chosen], _pairs(database, bits, chosen, threads), n),
        distances_within=within,
        distances_between=between,
    )


def _ones(codes: NDArray[np.uint8], bits: int) -> Ints:
    """Returns the number of codes in which each bit is 1, int64 [bits]."""
    rows = max(1, _CHUNK // bits)
    found = np.zeros(bits, np.int64)
    for start in range(0, len(codes), rows):
        found += _unpacked(codes[start : start + rows], bits).sum(axis=0, dtype=np.int64)
    return found


def _pairs(codes: NDArray[np.uint8], bits: int, chosen: Ints, threads: int | None) -> Ints:
    """Returns the number of codes in which both bits of a pair are 1, int64 [m, m], of `chosen`, int64 [m]."""
    if not len(chosen):
        return np.zeros((0, 0), np.int64)
    if len(chosen) < bits:
        rows = max(1, _CHUNK // bits)
        parts = [_unpacked(codes[start : start + rows], bits)[:, chosen] for start in range(0, len(codes), rows)]
        codes = np.ascontiguousarray(np.concatenate([np.packbits(p, axis=1, bitorder="little") for p in parts]))
    return _core.bit_pairs(codes, len(chosen), threads)


def _unpacked(codes: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    return np.unpackbits(codes, axis=1, count=bits, bitorder="little")


def _mean_correlation(counts: Ints, pairs_set: Ints, n: int) -> float:
    if len(counts) < 2:
        return float("nan")
    ones, both = counts.astype(np.float64), pairs_set.astype(np.float64)  # n^2 may not fit int64
    deviation = np.sqrt(ones * (n - ones))
    correlation = np.abs(n * both - np.outer(ones, ones)) / np.outer(deviation, deviation)
    pairs = len(ones) * (len(ones) - 1)
    return float((correlation.sum() - np.trace(correlation)) / pairs)


def _mean_distance(histogram: Ints) -> float:
    pairs = int(histogram.sum())
    return int(histogram @ np.arange(len(histogram))) / pairs if pairs else float("nan")


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value
