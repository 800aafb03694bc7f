"""The training images that model.pt keeps: several of each of several classes."""

from __future__ import annotations

from collections import Counter

import numpy as np

from idcwh_train.data.kept_images import CLASSES, SIZE, in_turns


def test_in_turns_begins_with_several_of_each_class() -> None:
    labels = np.random.default_rng(0).integers(0, 100, 5000)
    order = in_turns(labels)
    assert sorted(order.tolist()) == list(range(5000))
    kept = labels[order[:SIZE]]
    assert Counter(Counter(kept.tolist()).values()) == {SIZE // CLASSES: CLASSES}
    seen = list(dict.fromkeys(labels.tolist()))[:CLASSES]
    assert set(kept.tolist()) == set(seen)
    for label in seen:  # the first of each class, in the order of the classes
        rows = [row for row in order[:SIZE].tolist() if labels[row] == label]
        assert rows == np.flatnonzero(labels == label)[: len(rows)].tolist()


def test_in_turns_uses_all_of_small_classes() -> None:
    assert Counter(np.array([0, 1] * 100)[in_turns(np.array([0, 1] * 100))[:SIZE]].tolist()) == {0: 32, 1: 32}
    labels = np.array([5] * 3 + [7] * 200)
    assert Counter(labels[in_turns(labels)[:SIZE]].tolist()) == {5: 3, 7: 61}


def test_in_turns_keeps_the_order_of_multi_label_images() -> None:
    assert in_turns(np.ones((5, 3), bool)).tolist() == [0, 1, 2, 3, 4]
