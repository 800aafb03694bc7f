"""Leave-one-out evaluation compared with float64 loops over NumPy sorts, scikit-learn, and one search per item."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import idcwh_search as ih
from idcwh_search import _core

CUTS = (1, 3, 10, 1000)
CLOSE = {"rel": 1e-12, "abs": 1e-13}


def shares(labels):
    """Returns bool (n, n): items that share a label."""
    return labels[:, None] == labels if labels.ndim == 1 else (labels[:, None] & labels).any(axis=2)


def compare(codes, labels, bits, threads=None):
    """Compares every metric with those of each item as the only query of the database without it."""
    r = ih.evaluate(codes, labels, bits=bits, at=CUTS, radius=2, leave_one_out=True, threads=threads)
    related, n = shares(labels), len(codes)
    assert (r.queries, r.database, r.leave_one_out) == (n, n, True)
    singles, ranked = [], {k: [] for k in (None, *CUTS)}
    for own in range(n):
        others = np.arange(n) != own
        flags = related[own][others]
        if not flags.any():
            assert math.isnan(r.average_precision[own])
            continue
        query = slice(own, own + 1)
        one = ih.evaluate(codes[query], labels[query], codes[others], labels[others], bits=bits, at=CUTS, radius=2)
        assert r.average_precision[own] == pytest.approx(one.map, **CLOSE)
        singles.append(one)
        distances = np.unpackbits(codes[others] ^ codes[own], axis=1).sum(axis=1)
        flags = flags[np.argsort(distances, kind="stable")]
        for k, values in ranked.items():
            hits = np.flatnonzero(flags[:k])
            ap = float(np.sum(np.arange(1, len(hits) + 1) / (hits + 1)))
            total = int(flags.sum())
            values.append((ap / max(len(hits), 1), ap / min(total, k or total), ap / total))
    assert r.queries_without_relevant == n - len(singles)

    def equal(value, of):
        expected = np.mean([of(one) for one in singles], axis=0)
        assert value == pytest.approx(expected, **CLOSE)

    for name in ("map", "map_optimistic", "map_pessimistic", "map_ranked"):
        equal(getattr(r, name), lambda one, name=name: getattr(one, name))
    assert r.map_ranked == pytest.approx(np.mean([ap for *_, ap in ranked[None]]), **CLOSE)
    for k in CUTS:
        at = r.map_at[k]
        assert (at.retrieved, at.min_relevant_k, at.relevant) == pytest.approx(np.mean(ranked[k], axis=0), **CLOSE)
        equal(at.min_relevant_k_tie_aware, lambda one, k=k: one.map_at[k].min_relevant_k_tie_aware)
        equal(at.relevant_tie_aware, lambda one, k=k: one.map_at[k].relevant_tie_aware)
        equal(r.precision_at[k], lambda one, k=k: one.precision_at[k])
        equal(r.recall_at[k], lambda one, k=k: one.recall_at[k])
    for name in ("precision", "recall", "empty"):
        equal(getattr(r.lookup, name), lambda one, name=name: getattr(one.lookup, name))
    for name in ("precision", "recall"):
        equal(getattr(r.ranking, name), lambda one, name=name: getattr(one.ranking, name))
    equal(r.pr_curve.precision, lambda one: one.pr_curve.precision)
    assert r.health.distances_within.tolist() == sum(one.health.distances_within for one in singles).tolist()
    assert r.health.distances_between.tolist() == sum(one.health.distances_between for one in singles).tolist()


@st.composite
def cases(draw):
    bits, n = draw(st.sampled_from([1, 8, 12, 48, 100, 200])), draw(st.integers(2, 16))
    palette = draw(hnp.arrays(bool, (draw(st.integers(1, 5)), bits)))  # few distinct codes, so that ties are frequent
    codes = palette[draw(hnp.arrays(np.int64, n, elements=st.integers(0, len(palette) - 1)))]
    if draw(st.booleans()):
        labels = draw(hnp.arrays(np.int64, n, elements=st.integers(0, 3)))
    else:
        labels = draw(hnp.arrays(bool, (n, 3)))
    assume((shares(labels) & ~np.eye(n, dtype=bool)).any())
    return np.packbits(codes, axis=1, bitorder="little"), labels, bits


@given(cases())
@settings(max_examples=25, deadline=None, derandomize=True)
def test_leave_one_out_equals_one_search_per_item(case):
    compare(*case)


@pytest.mark.parametrize(("bits", "distinct"), [(12, 300), (64, 20), (160, 7)])
def test_leave_one_out_of_many_items_equals_loops(bits, distinct):
    rng = np.random.default_rng(bits)
    palette = rng.integers(0, 2, (distinct, bits))
    codes = np.packbits(palette[rng.integers(0, distinct, 120)], axis=1, bitorder="little")
    compare(codes, rng.integers(0, 4, 120), bits, threads=2)


@pytest.mark.slow  # the import of scikit-learn
def test_leave_one_out_without_ties_equals_sklearn():
    from sklearn.metrics import average_precision_score

    rng = np.random.default_rng(0)
    x = np.triu(np.ones((40, 40), np.int64), 1)[rng.permutation(40)]  # row i and j differ in |i - j| bits
    codes, labels = np.packbits(x, axis=1, bitorder="little"), rng.integers(0, 3, 40)
    d = (x[:, None] != x).sum(axis=2)
    r = ih.evaluate(codes, labels, bits=40, leave_one_out=True)
    for own in range(40):
        others = np.arange(40) != own
        if np.bincount(d[own]).max() == 1:  # the ends of the row
            expected = average_precision_score(labels[others] == labels[own], -d[own][others])
            assert r.average_precision[own] == pytest.approx(expected, **CLOSE)
    assert sum(np.bincount(row).max() == 1 for row in d) == 2


def test_leave_one_out_item_at_distance_0_is_not_itself():
    codes = np.zeros((4, 1), np.uint8)
    r = ih.evaluate(codes, [0, 0, 1, 1], bits=8, at=(1,), radius=0, leave_one_out=True)
    assert r.map_ranked == pytest.approx((1 + 1 + 1 / 3 + 1 / 3) / 4)
    assert r.precision_within == pytest.approx(1 / 3)
    assert r.precision_at[1] == pytest.approx(1 / 3)


@pytest.mark.parametrize("codes", [1, 0])
def test_leave_one_out_of_one_item_raises(codes):
    with pytest.raises(ValueError, match="query_codes"):
        ih.evaluate(np.zeros((codes, 1), np.uint8), np.zeros(codes, int), bits=8, leave_one_out=True)


def test_leave_one_out_with_a_database_raises():
    codes, labels = np.zeros((3, 1), np.uint8), [0, 0, 1]
    with pytest.raises(TypeError, match="leave_one_out"):
        ih.evaluate(codes, labels, codes, labels, bits=8, leave_one_out=True)
    with pytest.raises(TypeError, match="database_codes"):
        ih.evaluate(codes, labels, bits=8)


def test_count_pairs_leave_one_out_of_two_arrays_raises():
    codes, labels = np.zeros((3, 1), np.uint8), np.zeros(3, np.int64)
    with pytest.raises(ValueError, match="leave_one_out"):
        _core.count_pairs(codes, labels, codes.copy(), labels, 8, leave_one_out=True)
