"""Statistics of codes, independent of what they retrieve. A collapsed or wasteful code shows here first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_CORRELATED = 2048
"""Bits whose correlation is computed, in every pair of them: memory and time are quadratic in it."""

_CHUNK = 1 << 24  # bits that are unpacked at a time


@dataclass(frozen=True, eq=False)
class CodeStatistics:
    """Properties of the database codes (and of the queries where it says so).

    distinct_database, distinct_queries   number of different codes
    bit_balance       float64 [bits]: share of database codes in which the bit is 1; 0.5 carries most
    constant_bits     bits that never change in the database: 0 is good, `bits` is a collapse
    bit_correlation   mean |Pearson correlation| of two bits that do change, 0 to 1, small is good; NaN without two.
                      Of more than MOST_CORRELATED such bits, so many, evenly spaced
    distances_within  int64 [bits + 1]: (query, database item) pairs at each distance that share a label
    distances_between int64 [bits + 1]: pairs that do not. Queries without a relevant item are left out of both
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
        """Within-class distance: mean over the pairs that share a label, in bits."""
        return _mean_distance(self.distances_within)

    @property
    def d_b(self) -> float:
        """Between-class distance: mean over the pairs that share none, in bits; NaN when there is no such pair."""
        return _mean_distance(self.distances_between)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain Python, for JSON; NaN is None."""
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
    """Returns the statistics of packed codes uint8 [n, ceil(bits/8)], with the distances counted for the metrics."""
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
    """Returns the number of codes in which both of two `chosen` bits are 1, for each pair of them."""
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
