"""Average precision and its kin from histograms alone, ties treated exactly.

Notation of a query: at one distance there are n database items, p of them relevant; nearer ones number N, P of them
relevant. Tie-aware means the exact mean over all orders of the items at equal distance (McSherry and Najork, ECIR
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
    """Returns H(start + count) - H(start), to a relative accuracy near that of float64, for start, count >= 0.

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


class TiedRankings:
    """The rankings of some queries as far as distances decide them.

    items (the n) and relevant (the p): int64 [queries, distances]. Every method returns float64, one row per query.
    """

    def __init__(self, items: Ints, relevant: Ints) -> None:
        self.items, self.relevant = items, relevant
        self.within = np.cumsum(items, axis=1)
        """N + n: items up to each distance."""
        self.found = np.cumsum(relevant, axis=1)
        """P + p: relevant items up to each distance."""
        self.total = self.found[:, -1]
        # Most distances hold nothing relevant and add nothing: terms are computed for the others, as flat arrays.
        self._holders = np.nonzero(relevant)
        n, p, nearer, hits = self._terms = self._take(self._holders)
        self._up_to = self._running(_tied(n, p, nearer, hits, n))

    def sum(self) -> Floats:
        """Returns the mean over all orders of ties of the sum of (relevant so far / rank) over the relevant items.

        Divided by R it is the tie-aware AP.
        """
        return self._up_to[:, -1]

    def sum_at(self, cut: int) -> Floats:
        """Returns the same over the relevant items in the first `cut`.

        Divided by min(R, cut) or R it is the tie-aware AP at a cut.
        """
        query = np.arange(len(self.items))
        at = self._holding(np.full((len(query), 1), cut))[:, 0]
        n, p, nearer, hits = self._take((query, at))
        whole = np.where(at > 0, self._up_to[query, at - 1], 0.0)
        return whole + _tied(n, p, nearer, hits, np.clip(cut - nearer, 0, n))

    def optimistic_sum(self) -> Floats:
        """Returns `sum` with the relevant items first among equals: the best of all orders."""
        _, p, nearer, hits = self._terms
        return self._running(_run(nearer, hits, p))[:, -1]

    def pessimistic_sum(self) -> Floats:
        """Returns `sum` with the relevant items last among equals: the worst of all orders."""
        n, p, nearer, hits = self._terms
        return self._running(_run(nearer + n - p, hits, p))[:, -1]

    def expected_hits(self, cuts: Ints) -> Floats:
        """Returns the mean number of relevant items among the first cuts[0], cuts[1], ... over all orders of ties.

        The shape is [queries, cuts]; each cut is >= 1.
        """
        query = np.arange(len(self.items))[:, None]
        n, p, nearer, hits = self._take((query, self._holding(np.broadcast_to(cuts, (len(query), len(cuts))))))
        return hits + p * (np.clip(cuts - nearer, 0, n) / np.maximum(n, 1))

    def precision_at_recall(self, steps: int) -> Floats:
        """Returns the precision where recall reaches 1/steps, 2/steps, ..., 1: [queries, steps]. Needs R > 0.

        The relevant items at one distance are spread evenly among the items there, so the rank at which h of R are
        found is N + n (h - P) / p and the precision h over that.
        """
        # product first: a whole number of items must come out whole
        part = np.arange(1, steps + 1) * self.total[:, None]
        goal = part / steps
        query = np.arange(len(self.items))[:, None]
        n, p, nearer, hits = self._take((query, _first_to_reach(self.found, -(-part // steps))))
        return goal / (nearer + n * ((goal - hits) / p))

    def _holding(self, ranks: Ints) -> Ints:
        """Returns the distance of the items at these ranks (from 1, at most the last rank): [queries, m]."""
        return _first_to_reach(self.within, np.minimum(ranks, self.within[:, -1:]))

    def _take(self, index: tuple[Ints, ...]) -> tuple[Ints, Ints, Ints, Ints]:
        """Returns n, p, N and P of these queries and distances."""
        n, p = self.items[index], self.relevant[index]
        return n, p, self.within[index] - n, self.found[index] - p

    def _running(self, terms: Floats) -> Floats:
        """Returns the sums of the terms up to each distance: [queries, distances]."""
        table = np.zeros(self.items.shape)
        table[self._holders] = terms
        return np.cumsum(table, axis=1)


def _first_to_reach(running: Ints, goals: Ints) -> Ints:
    """Returns the position where each row of growing counts first reaches each of its goals: [rows, m]."""
    # one search for all: each row lifted above the one before
    lift = np.arange(len(running))[:, None] * (running[:, -1].max() + 1)
    at = np.searchsorted((running + lift).ravel(), (goals + lift).ravel()).reshape(goals.shape)
    return at - np.arange(len(running))[:, None] * running.shape[1]


def _tied(n: Ints, p: Ints, nearer: Ints, hits: Ints, m: Ints) -> Floats:
    """Returns the part of the tie-aware sum that the first m of n tied items add."""
    # b is the chance that another tied item is relevant, given that one is; for n = 1 it has no effect, and 1 keeps a
    # ranking without ties bit for bit equal to its optimistic and pessimistic readings
    b = np.where(n > 1, (p - 1) / np.maximum(n - 1, 1), 1.0)
    inner = b * m + (hits + 1 - b * (nearer + 1)) * harmonic_difference(nearer, m)
    return np.where(p > 0, p / np.maximum(n, 1) * inner, 0.0)


def _run(rank: Ints, hits: Ints, length: Ints) -> Floats:
    """Returns the sum over t = 1..length of (hits + t) / (rank + t): relevant items in a row behind `rank` others."""
    return length + (hits - rank) * harmonic_difference(rank, length)
