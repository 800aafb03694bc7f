"""The engine's counts of pairs, compared with numpy's distances, stable argsort and ranks of relevant items."""

from __future__ import annotations

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search import _core
from idcwh_search.metrics.histograms import histograms
from idcwh_search.metrics.relevance import relevance

CUTS = (1, 10, 100, 1000)


def pack(h):
    return np.packbits(h, axis=1, bitorder="little")


def oracle(q, ql, x, xl, bits, cuts):
    """Returns (items, relevant, ranked_sum, ranked_hits), one row per query."""
    shared = ql[:, None] == xl[None] if ql.ndim == 1 else (ql.astype(int) @ xl.T.astype(int)) > 0
    rows = []
    for code, relevant in zip(q, shared, strict=True):
        distance = np.bitwise_count(code ^ x).sum(axis=1, dtype=np.int64)
        flags = relevant[np.argsort(distance, kind="stable")]
        precision = np.where(flags, np.cumsum(flags) / np.arange(1, len(x) + 1), 0.0)
        rows.append(
            (
                np.bincount(distance, minlength=bits + 1),
                np.bincount(distance[relevant], minlength=bits + 1),
                [precision[:k].sum() for k in (*cuts, len(x))],
                [flags[:k].sum() for k in cuts],
            )
        )
    return [np.array(column) for column in zip(*rows, strict=True)]


def codes_of(kind, n, bits, rng):
    """Returns labels of five classes, and codes: random, scattered around one center per class, or all equal."""
    labels = rng.integers(0, 5, n)
    if kind == "random":
        return labels, pack(rng.integers(0, 2, (n, bits)))
    centers = np.random.default_rng(bits).integers(0, 2, (5, bits))
    if kind == "equal":
        return labels, pack(centers[np.zeros(n, int)])
    return labels, pack(centers[labels] ^ (rng.random((n, bits)) < 0.02))


@pytest.mark.skipif(not hasattr(np, "bitwise_count"), reason="the oracle needs numpy 2")
@pytest.mark.parametrize("form", ["one class", "sets"])
@pytest.mark.parametrize("kind", ["random", "learned", "equal"])
@pytest.mark.parametrize("bits", [1, 12, 48, 100, 256])
def test_count_pairs_equals_numpy(bits, kind, form):
    rng = np.random.default_rng(bits)
    ql, q = codes_of(kind, 60, bits, rng)
    xl, x = codes_of(kind, 2500, bits, rng)
    if form == "sets":  # none to several classes of seventy
        ql, xl = rng.random((60, 70)) < 0.02, rng.random((2500, 70)) < 0.02
        ql[:3] = False
    expected = oracle(q, ql, x, xl, bits, CUTS)
    for threads in (1, 2, 7):
        result = histograms(q, x, relevance(ql, xl), bits, CUTS, threads)
        assert np.array_equal(result.items[result.row], expected[0])
        assert np.array_equal(result.relevant[result.row], expected[1])
        assert np.allclose(result.ranked_sum[result.row], expected[2], rtol=1e-12, atol=0)
        assert np.array_equal(result.ranked_hits[result.row], expected[3])
        pairs = {(bytes(code), label.tobytes()) for code, label in zip(q, ql, strict=True)}
        assert len(result.items) == len(pairs)  # equal queries share a row


def test_count_pairs_without_ranks_has_the_same_counts():
    rng = np.random.default_rng(3)
    ql, q = codes_of("learned", 40, 48, rng)
    xl, x = codes_of("learned", 3000, 48, rng)
    ranked = _core.count_pairs(q, ql, x, xl, 48, cuts=(5,))
    plain = _core.count_pairs(q, ql, x, xl, 48, ranked=False)
    for one, other in zip(ranked[:3], plain[:3], strict=True):
        assert np.array_equal(one, other)
    assert plain[3].shape == (0, 1) and plain[4].shape == (0, 0)


def test_map_of_few_codes_does_not_depend_on_row_order():
    """The three MAPs that do not rank by id are exactly the same, and the fourth is between its bounds."""
    rng = np.random.default_rng(4)
    xl = np.sort(rng.integers(0, 10, 4000))
    x = pack(np.random.default_rng(0).integers(0, 2, (7, 32)))[rng.integers(0, 7, 4000)]
    order = rng.permutation(4000)
    a = ih.evaluate(x[::40], xl[::40], x, xl, bits=32)
    b = ih.evaluate(x[::40], xl[::40], x[order], xl[order], bits=32)
    assert (a.map, a.map_optimistic, a.map_pessimistic) == (b.map, b.map_optimistic, b.map_pessimistic)
    assert np.array_equal(a.average_precision, b.average_precision)
    for r in (a, b):
        assert r.map_pessimistic <= r.map_ranked <= r.map_optimistic


@pytest.mark.parametrize("bits", [12, 24, 48, 100])
@pytest.mark.parametrize("classes", [1, 40_000])
def test_evaluate_takes_more_classes_than_codes(bits, classes):
    """40,000 classes are more than 12 bits can distinguish."""
    rng = np.random.default_rng([bits, classes])
    labels = np.arange(40_000) % classes
    x = pack(rng.integers(0, 2, (40_000, bits)))
    r = ih.evaluate(x[:20], labels[:20], x, labels, bits=bits, at=(10,))
    assert r.health.distances_within.sum() == 20 * 40_000 // classes
    assert r.map == 1.0 if classes == 1 else 0 < r.map <= 1
    assert r.recall_within > 0  # each query finds itself


def test_count_distinct_equals_a_set():
    rng = np.random.default_rng(6)
    for bits in (1, 12, 64, 300):
        x = pack(rng.integers(0, 2, (50, bits)))[rng.integers(0, 50, 3000)]
        assert _core.count_distinct(x, bits) == len({bytes(row) for row in x})


WRONG = {
    "labels of another length": (dict(query_labels=np.zeros(2, np.int64)), ValueError, "query_labels"),
    "int32 labels": (dict(database_labels=np.zeros(5, np.int32)), TypeError, "database_labels"),
    "sets of another width": (
        dict(classes=9, query_labels=np.zeros((3, 1), np.uint8), database_labels=np.zeros((5, 2), np.uint8)),
        ValueError,
        "query_labels",
    ),
    "a class beyond the last": (
        dict(classes=9, query_labels=np.full((3, 2), 2, np.uint8), database_labels=np.zeros((5, 2), np.uint8)),
        ValueError,
        "queries",
    ),
    "descending cuts": (dict(cuts=(5, 4)), ValueError, "cuts"),
    "cut 0": (dict(cuts=(0,)), ValueError, "cuts"),
    "padding": (dict(database=np.full((5, 2), 255, np.uint8)), ValueError, "database"),
}


@pytest.mark.parametrize("name", WRONG)
def test_count_pairs_of_a_wrong_value_names_the_argument(name):
    change, error, argument = WRONG[name]
    good = {
        "queries": np.zeros((3, 2), np.uint8),
        "query_labels": np.zeros(3, np.int64),
        "database": np.zeros((5, 2), np.uint8),
        "database_labels": np.zeros(5, np.int64),
        "bits": 12,
    }
    with pytest.raises(error, match=rf"^{argument}\b"):
        _core.count_pairs(**{**good, **change})
