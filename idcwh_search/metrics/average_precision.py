"""Average precision and related metrics from histograms alone, with ties treated exactly.

Notation per query and distance: n database items, p of them relevant; N nearer items, P of them relevant. R is the
number of relevant items in the database. Tie-aware means the exact mean over all orders of the items at equal distance
(McSherry and Najork, ECIR 2008).

Every metric is a sum of (a + b t) / (N + t) over t = 1..m. Such a sum is a closed expression in H(N + m) - H(N), where
H are the harmonic numbers.
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
    """Returns H(start + count) - H(start) for start, count >= 0, with a relative error near that of float64.

    Values up to H(64) are tabled. Beyond them H(N) = gamma + ln x + 1/(24 x^2) - 7/(960 x^4) + ..., x = N + 1/2, with
    the two logarithms subtracted as one log1p. The first omitted term is 10^-17 at N = 64 and falls as N^-8.

    The difference of two tabled values would lose digits for large N: H(10^6) is 14.4, and one more item adds 10^-6.
    """
    stop = start + count
    low, high = np.maximum(start, _TABLED), np.maximum(stop, _TABLED)
    near = _H[np.minimum(stop, _TABLED)] - _H[np.minimum(start, _TABLED)]
    return near + np.log1p((high - low) / (low + 0.5)) + (_correction(high) - _correction(low))


def _correction(n: Ints) -> Floats:
    square = (n + 0.5) ** -2
    return square * (1 / 24 - square * (7 / 960 - square * (31 / 8064)))


class TiedRankings:
    """Rankings of queries in which items at equal distance have no order.

    Args:
        items: n per query and distance, int64 [queries, distances].
        relevant: p per query and distance, int64 [queries, distances].

    Every public method returns float64, one row per query.
    """

    def __init__(self, items: Ints, relevant: Ints) -> None:
        self.items, self.relevant = items, relevant
        self.within = np.cumsum(items, axis=1)
        """N + n: items up to each distance."""
        self.found = np.cumsum(relevant, axis=1)
        """P + p: relevant items up to each distance."""
        self.total = self.found[:, -1]
        # Terms are computed only for distances with relevant items, as flat arrays. Most distances have none.
        self._holders = np.nonzero(relevant)
        n, p, nearer, hits = self._terms = self._take(self._holders)
        self._up_to = self._running(_tied(n, p, nearer, hits, n))

    def sum(self) -> Floats:
        """Returns the sum of (relevant so far / rank) over the relevant items, as the mean over all orders of ties.

        Divided by R it is the tie-aware AP. The shape is [queries].
        """
        return self._up_to[:, -1]

    def sum_at(self, cut: int) -> Floats:
        """Returns `sum` over the relevant items among the first `cut`: [queries].

        Divided by min(R, cut) or by R it is the tie-aware AP at a cut.
        """
        query = np.arange(len(self.items))
        at = self._holding(np.full((len(query), 1), cut))[:, 0]
        n, p, nearer, hits = self._take((query, at))
        whole = np.where(at > 0, self._up_to[query, at - 1], 0.0)
        return whole + _tied(n, p, nearer, hits, np.clip(cut - nearer, 0, n))

    def optimistic_sum(self) -> Floats:
        """Returns `sum` with the relevant items first in each tie, the best of all orders: [queries]."""
        _, p, nearer, hits = self._terms
        return self._running(_run(nearer, hits, p))[:, -1]

    def pessimistic_sum(self) -> Floats:
        """Returns `sum` with the relevant items last in each tie, the worst of all orders: [queries]."""
        n, p, nearer, hits = self._terms
        return self._running(_run(nearer + n - p, hits, p))[:, -1]

    def expected_hits(self, cuts: Ints) -> Floats:
        """Returns the mean number of relevant items at each cut over all orders of ties: [queries, cuts].

        Each cut is a rank >= 1.
        """
        query = np.arange(len(self.items))[:, None]
        n, p, nearer, hits = self._take((query, self._holding(np.broadcast_to(cuts, (len(query), len(cuts))))))
        return hits + p * (np.clip(cuts - nearer, 0, n) / np.maximum(n, 1))

    def precision_at_recall(self, steps: int) -> Floats:
        """Returns the precision where recall reaches 1/steps, 2/steps, ..., 1: [queries, steps]. Requires R > 0.

        The p relevant items at one distance are spread evenly among the n items there. The rank of the h-th relevant
        item is then N + n (h - P) / p, and the precision is h divided by that rank.
        """
        # The product comes before the division, so that whole numbers of items stay exact.
        part = np.arange(1, steps + 1) * self.total[:, None]
        goal = part / steps
        query = np.arange(len(self.items))[:, None]
        n, p, nearer, hits = self._take((query, _first_to_reach(self.found, -(-part // steps))))
        return goal / (nearer + n * ((goal - hits) / p))

    def _holding(self, ranks: Ints) -> Ints:
        """Returns the distances of the items at these ranks: [queries, m]. Ranks start at 1; larger ones are capped."""
        return _first_to_reach(self.within, np.minimum(ranks, self.within[:, -1:]))

    def _take(self, index: tuple[Ints, ...]) -> tuple[Ints, Ints, Ints, Ints]:
        """Returns n, p, N and P at an index of queries and distances."""
        n, p = self.items[index], self.relevant[index]
        return n, p, self.within[index] - n, self.found[index] - p

    def _running(self, terms: Floats) -> Floats:
        """Returns the cumulative sums of the terms: [queries, distances]."""
        table = np.zeros(self.items.shape)
        table[self._holders] = terms
        return np.cumsum(table, axis=1)


def _first_to_reach(running: Ints, goals: Ints) -> Ints:
    """Returns the position where each row of cumulative counts first reaches each of its goals: [rows, m]."""
    # One searchsorted call serves all rows: each row is shifted above the row before it.
    lift = np.arange(len(running))[:, None] * (running[:, -1].max() + 1)
    at = np.searchsorted((running + lift).ravel(), (goals + lift).ravel()).reshape(goals.shape)
    return at - np.arange(len(running))[:, None] * running.shape[1]


def _tied(n: Ints, p: Ints, nearer: Ints, hits: Ints, m: Ints) -> Floats:
    """Returns the part of the tie-aware sum that the first m of n tied items add."""
    # b is the probability that another tied item is relevant, given that one is. It has no effect for n = 1. The value
    # 1 there keeps a ranking without ties bit for bit equal to the optimistic and the pessimistic order.
    b = np.where(n > 1, (p - 1) / np.maximum(n - 1, 1), 1.0)
    inner = b * m + (hits + 1 - b * (nearer + 1)) * harmonic_difference(nearer, m)
    return np.where(p > 0, p / np.maximum(n, 1) * inner, 0.0)


def _run(rank: Ints, hits: Ints, length: Ints) -> Floats:
    """Returns the sum over t = 1..length of (hits + t) / (rank + t): consecutive relevant items after `rank` items."""
    return length + (hits - rank) * harmonic_difference(rank, length)
