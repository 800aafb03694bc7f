"""Average precision and its kin from histograms alone, ties treated exactly.

Notation of a query: at one distance there are n database items, p of them relevant; nearer ones number N, P of them
relevant. All functions take `items` (the n) and `relevant` (the p) as int64 [queries, distances] and return float64
[queries]. Tie-aware means the exact mean over all orders of the items at equal distance (McSherry and Najork, ECIR
2008).

Everything is a sum of (a + b t) / (N + t) over a run of t, that is a multiple of H(N + m) - H(N), H the harmonic
numbers.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_TABLED = 64
_H = np.array([0.0, *(float(h) for h in accumulate(Fraction(1, t) for t in range(1, _TABLED + 1)))])


def harmonic_difference(start: Ints, count: Ints) -> Floats:
    """H(start + count) - H(start), to a relative accuracy near that of float64, for any start >= 0 and count >= 0.

    A difference of two tabled H would lose the digits that matter (H(10^6) is 14.4, one step there 10^-6), so: exact
    values up to 64, and beyond them the expansion H(N) = gamma + ln x + 1/(24 x^2) - 7/(960 x^4) + ..., x = N + 1/2,
    with the logarithms subtracted as one log1p. The first term left out is 10^-17 at N = 64 and falls as N^-8.
    """
    stop = start + count
    low, high = np.maximum(start, _TABLED), np.maximum(stop, _TABLED)
    near = _H[np.minimum(stop, _TABLED)] - _H[np.minimum(start, _TABLED)]
    return near + np.log1p((high - low) / (low + 0.5)) + (_correction(high) - _correction(low))


def _correction(n: Ints) -> Floats:
    square = (n + 0.5) ** -2
    return square * (1 / 24 - square * (7 / 960 - square * (31 / 8064)))


def before(counts: Ints) -> Ints:
    """How many lie at smaller distances: N from n, P from p."""
    return np.cumsum(counts, axis=1) - counts


def tie_aware_sum(items: Ints, relevant: Ints, cut: int | None = None) -> Floats:
    """Mean over all orders of ties of the sum of (relevant so far / rank) over the relevant items in the first `cut`.

    Divided by R this is the tie-aware AP; by min(R, cut) or R, the tie-aware AP at a cut.
    """
    n, p, nearer, hits = items, relevant, before(items), before(relevant)
    m = n if cut is None else np.clip(cut - nearer, 0, n)
    # b is the chance that another tied item is relevant, given that one is; for n = 1 it has no effect, and 1 keeps a
    # ranking without ties bit for bit equal to its optimistic and pessimistic readings
    b = np.where(n > 1, (p - 1) / np.maximum(n - 1, 1), 1.0)
    inner = b * m + (hits + 1 - b * (nearer + 1)) * harmonic_difference(nearer, m)
    return np.sum(np.where(p > 0, p / np.maximum(n, 1) * inner, 0.0), axis=1)


def optimistic_sum(items: Ints, relevant: Ints) -> Floats:
    """The same sum with the relevant items first among equals: the best of all orders."""
    return np.sum(_run(before(items), before(relevant), relevant), axis=1)


def pessimistic_sum(items: Ints, relevant: Ints) -> Floats:
    """The same sum with the relevant items last among equals: the worst of all orders."""
    return np.sum(_run(before(items) + items - relevant, before(relevant), relevant), axis=1)


def _run(rank: Ints, hits: Ints, length: Ints) -> Floats:
    """Sum over t = 1..length of (hits + t) / (rank + t): relevant items in a row behind `rank` others."""
    return length + (hits - rank) * harmonic_difference(rank, length)


def expected_hits(items: Ints, relevant: Ints, cut: int) -> Floats:
    """Mean number of relevant items among the first `cut`, over all orders of ties."""
    taken = np.clip(cut - before(items), 0, items)
    return np.sum(relevant * (taken / np.maximum(items, 1)), axis=1)


def precision_at_recall(items: Ints, relevant: Ints, steps: int) -> Floats:
    """Precision where recall reaches 1/steps, 2/steps, ..., 1: float64 [queries, steps]. Needs R > 0.

    The relevant items at one distance are spread evenly among the items there, so the rank at which h of R are found is
    N + n (h - P) / p and the precision h over that.
    """
    found = np.cumsum(relevant, axis=1)
    # product first: a whole number of items must come out whole
    wanted = np.arange(1, steps + 1) * found[:, -1:] / steps
    result = np.empty(wanted.shape)
    for row, goal in enumerate(wanted):
        at = np.searchsorted(found[row], goal)
        n, p = items[row, at], relevant[row, at]
        nearer = np.cumsum(items[row])[at] - n
        result[row] = goal / (nearer + n * ((goal - found[row, at] + p) / p))
    return result
