"""Protocols: sizes, disjointness, stability, files."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from idcwh_search import protocols
from idcwh_search.datasets import LabelledImages
from idcwh_search.errors import IdcwhError


def labelled(labels, split=None, classes=None, names="abcdefghijklmnop") -> LabelledImages:
    labels = np.asarray(labels)
    n = len(labels)
    classes = classes or list(names[: int(labels.max()) + 1])
    return LabelledImages(
        [f"{i:05d}" for i in range(n)], labels, classes, np.zeros((n, 1, 1, 3), np.uint8), split or [""] * n, "set"
    )


@pytest.fixture(scope="module")
def cifar() -> LabelledImages:
    """The shape of CIFAR-10: labels in no order, 6,000 of each, 50,000 for training and 10,000 for testing."""
    labels = np.concatenate([np.arange(50_000) * 7 % 10, np.arange(10_000) * 3 % 10])
    return labelled(labels, ["train"] * 50_000 + ["test"] * 10_000)


def test_cifar10_mini(cifar):
    split = protocols.split(cifar, "cifar10-mini", seed=1)
    assert np.bincount(cifar.labels[split.query]).tolist() == [100] * 10
    assert np.bincount(cifar.labels[split.train]).tolist() == [500] * 10
    assert len(split.database) == 59_000
    assert sorted([*split.query, *split.database]) == list(range(60_000))
    assert not set(split.query) & set(split.train) and set(split.train) <= set(split.database)
    assert "1,000 queries, 5,000 training, 59,000 database, of which 5,000 are also training" in split.describe()
    assert {cifar.split[i] for i in split.query} == {"train", "test"}, "drawn from all 60,000"


def test_cifar10_full_is_the_official_split(cifar):
    split = protocols.split(cifar, "cifar10-full", seed=9)
    np.testing.assert_array_equal(split.query, np.arange(50_000, 60_000))
    np.testing.assert_array_equal(split.train, np.arange(50_000))
    np.testing.assert_array_equal(split.database, np.arange(50_000))


def test_named_protocols_refuse_other_sets(cifar):
    with pytest.raises(IdcwhError, match="cifar100 is defined on 60000 pictures of 100 classes"):
        protocols.split(cifar, "cifar100")
    with pytest.raises(IdcwhError, match="Use the protocol own or per-class"):
        protocols.split(labelled([0, 1] * 20), "cifar10-mini")
    with pytest.raises(IdcwhError, match="fixes the number"):
        protocols.split(cifar, "cifar10-mini", query_per_class=5)


def test_the_draw_is_the_order_of_sha256():
    """The rule itself, restated with hashlib: so every machine and every version picks the same."""
    data = labelled([0, 1, 0, 1, 0, 1, 0, 1, 0, 0])
    split = protocols.split(data, "per-class", seed=42, query_per_class=2, train_per_class=1)
    for c in (0, 1):
        rows = [i for i in range(10) if data.labels[i] == c]
        rows.sort(key=lambda i: hashlib.sha256(f"42/{data.keys[i]}".encode()).hexdigest())
        assert sorted(i for i in split.query if data.labels[i] == c) == sorted(rows[:2])
        assert [i for i in split.train if data.labels[i] == c] == [rows[2]]


def test_a_seed_picks_the_same_pictures_in_whatever_order_they_are_listed(cifar):
    a = protocols.split(cifar, "cifar10-mini", seed=0)
    b = protocols.split(cifar, "cifar10-mini", seed=0)
    c = protocols.split(cifar, "cifar10-mini", seed=1)
    assert a.sha256() == b.sha256() and a.sha256() != c.sha256()
    order = np.random.default_rng(0).permutation(len(cifar))
    shuffled = LabelledImages(
        [cifar.keys[i] for i in order], cifar.labels[order], cifar.classes, cifar.pictures,
        [cifar.split[i] for i in order], "set",
    )  # fmt: skip
    again = protocols.split(shuffled, "cifar10-mini", seed=0)
    assert {shuffled.keys[i] for i in again.query} == {cifar.keys[i] for i in a.query}
    assert {shuffled.keys[i] for i in again.train} == {cifar.keys[i] for i in a.train}


def test_own_split_keeps_unmarked_pictures_in_the_database():
    data = labelled([0, 1, 0, 1, 0], ["train", "train", "test", "", ""])
    split = protocols.split(data)
    assert split.name == "own"
    assert (split.query.tolist(), split.train.tolist(), split.database.tolist()) == ([2], [0, 1], [0, 1, 3, 4])


def test_auto_takes_queries_a_class_when_asked():
    data = labelled([0, 1] * 6)
    split = protocols.split(data, query_per_class=2)
    assert split.name == "per-class" and len(split.query) == 4
    np.testing.assert_array_equal(split.train, split.database)
    assert len(split.database) == 8


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (labelled([0, 1, 0]), {}, "has no test pictures of its own"),
        (labelled([0, 0, 0, 1]), {"query_per_class": 2}, "class b has 1 pictures, the protocol wants 2"),
        (labelled([0, 0, 1, 1]), {"query_per_class": 2}, "the train part is empty"),
        (labelled([0, 0, 1, 1]), {"query_per_class": 1, "train_per_class": 5}, "class a has 1 pictures beside 1 quer"),
        (labelled([0, 0, 1, 1]), {"name": "per-class"}, "say how many queries"),
        (labelled([0, 0, 1, 1]), {"name": "nope"}, "unknown protocol 'nope'"),
        (labelled([0, 0, 1, 1], classes=["a", "b", "ghost"]), {"query_per_class": 1}, "class ghost has 0 pictures"),
    ],
)
def test_sets_that_do_not_fit(data, options, message):
    with pytest.raises(IdcwhError, match=message):
        protocols.split(data, **options)


def test_numbers_a_class_need_one_label_each():
    matrix = np.array([[True, True], [False, True], [True, False], [False, False]])
    data = LabelledImages(list("abcd"), matrix, ["x", "y"], np.zeros((4, 1, 1, 3), np.uint8), ["test", "", "train", ""])
    with pytest.raises(IdcwhError, match="several labels or none"):
        protocols.split(data, "per-class", query_per_class=1)
    assert protocols.split(data, "own").database.tolist() == [1, 2, 3]


@pytest.mark.parametrize(("query", "train", "database"), [([0], [1], [0, 1]), ([0], [0], [1])])
def test_a_query_elsewhere_is_refused(query, train, database):
    with pytest.raises(IdcwhError, match="1 queries are also in the"):
        protocols.Split(*(np.array(rows, np.int64) for rows in (query, train, database)), name="x")


@pytest.mark.parametrize("rows", [[1, 1], [2, 1], [-1, 0]])
def test_row_numbers_are_ascending_and_unique(rows):
    with pytest.raises(ValueError, match="ascending"):
        protocols.Split(np.array(rows), np.array([5]), np.array([6]))


def test_save_and_load(tmp_path):
    data = labelled([0, 1] * 8)
    split = protocols.split(data, query_per_class=2, train_per_class=3, seed=5)
    path = tmp_path / "protocol.json"
    split.save(path, data)
    content = json.loads(path.read_text())
    assert content["query"]["keys"] == [data.keys[i] for i in split.query]
    expected = hashlib.sha256(np.array(content["database"]["rows"]).astype("<i8").tobytes()).hexdigest()
    assert content["sha256"]["database"] == expected
    again = protocols.load(path, data)
    for part in ("query", "train", "database"):
        np.testing.assert_array_equal(getattr(again, part), getattr(split, part))
    assert (again.name, again.seed, again.options) == ("per-class", 5, {"query_per_class": 2, "train_per_class": 3})
    assert [p.name for p in tmp_path.iterdir()] == ["protocol.json"]


def test_a_split_of_another_set_or_a_damaged_one_is_refused(tmp_path):
    data = labelled([0, 1] * 8)
    path = tmp_path / "protocol.json"
    protocols.split(data, query_per_class=2).save(path, data)
    with pytest.raises(IdcwhError, match="made from another set: set, 16 pictures"):
        protocols.load(path, labelled([1, 0] * 8))
    content = json.loads(path.read_text())
    content["train"]["rows"].pop()
    (tmp_path / "cut.json").write_text(json.dumps(content))
    with pytest.raises(IdcwhError, match="damaged"):
        protocols.load(tmp_path / "cut.json", data)
    for text in ("", "[]", "{}", '{"format": "idcwh-protocol", "version": 1}', path.read_text()[:-5]):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(IdcwhError, match=r"bad\.json: not a saved protocol"):
            protocols.load(tmp_path / "bad.json", data)
