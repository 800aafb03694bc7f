"""Leave-one-out MAP. The oracles are scikit-learn and the mean over all orders of ties by brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.metrics import average_precision_score
from sklearn.neighbors import NearestNeighbors

from idcwh_export import retrieval


def codes_of(rows: np.ndarray) -> np.ndarray:
    return np.packbits(rows, axis=1, bitorder="little")


def test_map_without_ties_equals_scikit_learn() -> None:
    """Unary codes: all distances from a query differ."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        # all differences of powers of two are distinct
        lengths = np.sort(rng.choice(2 ** np.arange(9), 8, replace=False))
        bits = np.arange(256) < lengths[:, None]
        relevant = rng.random((8, 8)) < 0.4
        expected = []
        for query in range(8):
            others = np.arange(8) != query
            if relevant[query, others].any():
                near = -np.abs(lengths - lengths[query])[others]
                if len(set(near)) == len(near):
                    expected.append(average_precision_score(relevant[query, others], near))
        result = retrieval.mean_average_precision(codes_of(bits), relevant, 256)
        if len(expected) == (relevant & ~np.eye(8, dtype=bool)).any(axis=1).sum():
            assert result == pytest.approx(np.mean(expected), abs=1e-12)


def test_map_with_ties_is_the_mean_over_their_orders() -> None:
    rng = np.random.default_rng(1)
    bits = rng.random((6, 2)) < 0.5
    labels = np.array([0, 1, 0, 1, 0, 0])
    values = []
    for query in range(6):
        others = [i for i in range(6) if i != query]
        distance = {i: int((bits[i] != bits[query]).sum()) for i in others}
        orders = [o for o in itertools.permutations(others) if [distance[i] for i in o] == sorted(distance.values())]
        scores = []
        for order in orders:
            hits = np.array([labels[i] == labels[query] for i in order])
            scores.append((np.cumsum(hits)[hits] / (np.flatnonzero(hits) + 1)).mean())
        values.append(np.mean(scores))
    result = retrieval.mean_average_precision(codes_of(bits), retrieval.share_a_label(labels), 2)
    assert result == pytest.approx(np.mean(values), abs=1e-12)


def test_map_without_relevant_images_is_none() -> None:
    assert retrieval.mean_average_precision(np.zeros((3, 1), np.uint8), np.eye(3, dtype=bool), 8) is None
    assert retrieval.mean_average_precision(np.zeros((0, 1), np.uint8), np.zeros((0, 0), bool), 8) is None


def test_share_a_label_of_both_forms() -> None:
    multi_label = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 0, 0]], bool)
    expected = [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    assert retrieval.share_a_label(multi_label).astype(int).tolist() == expected
    assert retrieval.share_a_label(np.array([3, 1, 3])).astype(int).tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]


def test_nearest_equals_scikit_learn() -> None:
    logits = np.random.default_rng(3).standard_normal((40, 12)).astype(np.float32)
    result = retrieval.nearest(logits, 5)
    others = NearestNeighbors(n_neighbors=6).fit(logits).kneighbors(logits, return_distance=False)[:, 1:]
    assert [set(np.flatnonzero(row)) for row in result] == [set(row) for row in others]
    assert retrieval.nearest(logits[:3], 10).sum(axis=1).tolist() == [2, 2, 2]
