"""Protocols: sizes, disjointness and stability. test_splits.py tests the file of a split."""

from __future__ import annotations

import hashlib
from dataclasses import fields

import numpy as np
import pytest

from idcwh_search.cli import evaluate
from idcwh_search.datasets import LabelledImages
from idcwh_search.errors import InvalidInputError
from idcwh_search.splits import protocols
from idcwh_search.splits.protocols import SplitOptions
from support.errors import raises


def labelled(labels, split=None, classes=None, names="abcdefghijklmnop") -> LabelledImages:
    labels = np.asarray(labels)
    n = len(labels)
    classes = classes or list(names[: int(labels.max()) + 1])
    return LabelledImages(
        [f"{i:05d}" for i in range(n)], labels, classes, np.zeros((n, 1, 1, 3), np.uint8), split or [""] * n, "set"
    )


def split_of(data: LabelledImages, protocol: str = "auto", *, seed: int = 0, **options: int) -> protocols.Split:
    return protocols.split(data, SplitOptions(protocol, **options), seed=seed)


@pytest.fixture(scope="module")
def cifar() -> LabelledImages:
    """The shape of CIFAR-10: labels in random order, 6,000 of each, 50,000 for training and 10,000 for testing."""
    labels = np.concatenate([np.arange(50_000) * 7 % 10, np.arange(10_000) * 3 % 10])
    return labelled(labels, ["train"] * 50_000 + ["test"] * 10_000)


def test_cifar10_mini_has_the_sizes_of_the_paper(cifar):
    split = split_of(cifar, "cifar10-mini", seed=1)
    assert np.bincount(cifar.labels[split.query]).tolist() == [100] * 10
    assert np.bincount(cifar.labels[split.train]).tolist() == [500] * 10
    assert len(split.database) == 59_000
    assert sorted([*split.query, *split.database]) == list(range(60_000))
    assert not set(split.query) & set(split.train) and set(split.train) <= set(split.database)
    assert "1,000 queries, 5,000 training, 59,000 database, of which 5,000 are also training" in split.describe()
    assert {cifar.split[i] for i in split.query} == {"train", "test"}, "drawn from all 60,000"


def test_cifar10_full_is_the_official_split(cifar):
    split = split_of(cifar, "cifar10-full", seed=9)
    np.testing.assert_array_equal(split.query, np.arange(50_000, 60_000))
    np.testing.assert_array_equal(split.train, np.arange(50_000))
    np.testing.assert_array_equal(split.database, np.arange(50_000))


def test_named_protocol_of_another_dataset_is_an_error(cifar):
    with raises(InvalidInputError, path="set", expected="60,000 images of 100 classes, 10,000 of them test images"):
        split_of(cifar, "cifar100")
    with raises(InvalidInputError, path="set", found="40 images of 2 classes", expected="60,000 images of 10 classes"):
        split_of(labelled([0, 1] * 20), "cifar10-mini")


def test_per_class_split_is_in_the_order_of_sha256():
    """The rule is repeated with hashlib, so that every machine and version selects the same images."""
    data = labelled([0, 1, 0, 1, 0, 1, 0, 1, 0, 0])
    split = split_of(data, "per-class", seed=42, query_per_class=2, train_per_class=1)
    for c in (0, 1):
        rows = [i for i in range(10) if data.labels[i] == c]
        rows.sort(key=lambda i: hashlib.sha256(f"42/{data.keys[i]}".encode()).hexdigest())
        assert sorted(i for i in split.query if data.labels[i] == c) == sorted(rows[:2])
        assert [i for i in split.train if data.labels[i] == c] == [rows[2]]


def test_split_does_not_depend_on_listing_order(cifar):
    a = split_of(cifar, "cifar10-mini", seed=0)
    b = split_of(cifar, "cifar10-mini", seed=0)
    c = split_of(cifar, "cifar10-mini", seed=1)
    assert a.sha256() == b.sha256() and a.sha256() != c.sha256()
    order = np.random.default_rng(0).permutation(len(cifar))
    shuffled = LabelledImages(
        [cifar.keys[i] for i in order], cifar.labels[order], cifar.classes, cifar.images,
        [cifar.split[i] for i in order], "set",
    )  # fmt: skip
    again = split_of(shuffled, "cifar10-mini", seed=0)
    assert {shuffled.keys[i] for i in again.query} == {cifar.keys[i] for i in a.query}
    assert {shuffled.keys[i] for i in again.train} == {cifar.keys[i] for i in a.train}


def test_own_split_keeps_unmarked_images_in_the_database():
    data = labelled([0, 1, 0, 1, 0], ["train", "train", "test", "", ""])
    split = split_of(data)
    assert split.name == "own"
    assert (split.query.tolist(), split.train.tolist(), split.database.tolist()) == ([2], [0, 1], [0, 1, 3, 4])


def test_auto_with_queries_per_class_is_per_class():
    data = labelled([0, 1] * 6)
    split = split_of(data, query_per_class=2)
    assert split.name == "per-class" and len(split.query) == 4
    np.testing.assert_array_equal(split.train, split.database)
    assert len(split.database) == 8


@pytest.mark.parametrize(
    ("data", "options", "problem", "fields"),
    [
        (labelled([0, 1, 0]), {}, "", {"expected": "train/ and test/ folders, or a split column"}),
        (labelled([0, 0, 0, 1]), {"query_per_class": 2}, "class b ", {"found": 1, "expected": 2}),
        (labelled([0, 0, 1, 1]), {"query_per_class": 2}, "train", {"path": "protocol per-class"}),
        (labelled([0, 0, 1, 1]), {"query_per_class": 1, "train_per_class": 5}, "class a ", {"found": 1, "expected": 5}),
        (labelled([0, 1] * 4), {"query_per_class": 9}, "1 more class", {"found": 4, "expected": 9}),
        (labelled([0, 0, 1, 1]), {"query": 5}, "", {"found": 4, "expected": 5}),
        (labelled([0, 0, 1, 1]), {"query": 2, "train": 3}, "", {"found": 2, "expected": 3}),
        (
            labelled([0, 1, 0], ["train", "train", "test"]),
            {"database_without_train": True},
            "database",
            {"path": "--database-without-train"},
        ),
        (
            labelled([0, 0, 1, 1], classes=["a", "b", "ghost"]),
            {"query_per_class": 1},
            "class ghost ",
            {"found": 0, "expected": 1},
        ),
    ],
)
def test_protocol_for_a_dataset_too_small_is_an_error(data, options, problem, fields):
    with raises(InvalidInputError, problem=problem, **{"path": "set", **fields}):
        split_of(data, **options)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"query": 1, "train_per_class": 1}, "train_per_class"),
        ({"query": 1, "unseen_classes": 1}, "unseen_classes"),
        ({"protocol": "nope"}, "protocol"),
        ({"protocol": "per-class"}, "query_per_class"),
        ({"protocol": "per-class", "train_per_class": 1}, "query_per_class"),
        ({"protocol": "per-class", "query": 1}, "query_per_class"),
        ({"protocol": "overall", "query_per_class": 1}, "query"),
        ({"protocol": "cifar10-mini", "query": 3}, "query"),
        ({"protocol": "cifar100", "train_per_class": 3}, "train_per_class"),
        ({"protocol": "coco", "query_per_class": 3}, "query_per_class"),
    ],
)
def test_split_options_that_contradict_are_an_error(options, named):
    with pytest.raises(ValueError, match=f"^{named}:"):
        SplitOptions(**options)


def test_per_class_split_of_a_multi_label_dataset_raises():
    matrix = np.array([[True, True], [False, True], [True, False], [False, False]])
    data = LabelledImages(list("abcd"), matrix, ["x", "y"], np.zeros((4, 1, 1, 3), np.uint8), ["test", "", "train", ""])
    with raises(InvalidInputError, path=""):
        split_of(data, "per-class", query_per_class=1)
    assert split_of(data, "own").database.tolist() == [1, 2, 3]


def rows_of(split: protocols.Split) -> tuple[set[int], set[int], set[int]]:
    return set(split.query.tolist()), set(split.train.tolist()), set(split.database.tolist())


def test_database_without_train_has_no_training_images(cifar):
    plain = split_of(cifar, "cifar10-mini", seed=3)
    query, train, database = rows_of(plain)
    split = split_of(cifar, "cifar10-mini", seed=3, database_without_train=True)
    assert rows_of(split) == (query, train, database - train) and len(split.database) == 54_000
    assert "of which 0 are also training" in split.describe()
    assert split.options["database_without_train"] == 1 and "database_without_train" not in plain.options


def test_overall_split_is_in_the_order_of_sha256():
    data = labelled(np.arange(20) % 3)
    split = split_of(data, query=4, train=7, seed=8)
    order = sorted(range(20), key=lambda i: hashlib.sha256(f"8/{data.keys[i]}".encode()).hexdigest())
    assert split.name == "overall" and rows_of(split) == (set(order[:4]), set(order[4:11]), set(order[4:]))
    assert rows_of(split_of(data, query=4, seed=8))[1] == set(order[4:]), "without a number all the rest train"


def test_own_split_with_numbers_draws_from_its_parts():
    data = labelled(np.arange(40) % 4, ["train"] * 25 + [""] * 5 + ["test"] * 10)
    query, train, database = rows_of(split_of(data, "own", query=3, train=6))
    assert (len(query), len(train)) == (3, 6) and query <= set(range(30, 40)) and train <= set(range(25))
    assert database == set(range(30))


def multi(n: int = 400, classes: int = 8, split: list[str] | None = None, bare: int = 20) -> LabelledImages:
    """Returns n images with one to three labels, the first `bare` with none."""
    rng = np.random.default_rng(4)
    labels = np.zeros((n, classes), bool)
    for row in labels[bare:]:
        row[rng.choice(classes, rng.integers(1, 4), replace=False)] = True
    names = [f"c{i}" for i in range(classes)]
    return LabelledImages(
        [f"{i:03d}" for i in range(n)], labels, names, np.zeros((n, 1, 1, 3), np.uint8), split or [""] * n
    )


def test_images_without_a_label_are_only_in_the_database():
    query, train, database = rows_of(split_of(multi(), query=100, train=280))
    bare = set(range(20))
    assert len(query) == 100 and len(train) == 280 and not (query | train) & bare
    assert bare <= database and database == set(range(400)) - query
    with raises(InvalidInputError, found=280, expected=281):
        split_of(multi(), query=100, train=281)


@pytest.fixture(scope="module")
def coco() -> LabelledImages:
    """The size of COCO: 123,287 images of 80 categories, 122,218 of them with a label."""
    n = 123_287
    labels = np.zeros((n, 80), bool)
    labels[np.arange(122_218), np.arange(122_218) % 80] = True
    labels[np.arange(0, 122_218, 3), 7] = True
    keys, images = [f"{i:012d}" for i in range(n)], np.zeros((n, 1, 1, 3), np.uint8)
    return LabelledImages(keys, labels, [f"c{i}" for i in range(80)], images, [""] * n, "coco:x")


def test_coco_has_the_sizes_of_the_paper(coco):
    split = split_of(coco, "coco", seed=2)
    query, train, database = rows_of(split)
    assert (len(query), len(train), len(database)) == (5_000, 10_000, 117_218)
    assert train <= database and query | database == set(range(122_218)), "only images with a label"
    literal = split_of(coco, "coco", seed=2, database_without_train=True)
    assert rows_of(literal) == (query, train, database - train) and len(literal.database) == 107_218


def test_coco_of_another_size_needs_numbers(coco):
    small = multi(bare=20)
    with raises(InvalidInputError, found="380 images of 8 classes", expected="122,218 images of 80 classes"):
        split_of(small, "coco")
    split = split_of(small, "coco", query=30, train=50)
    assert split.name == "coco" and split.options == {"query": 30, "train": 50}
    assert (len(split.query), len(split.train), len(split.database)) == (30, 50, 350)


# --------------------------------------------------------------------------------------------------- unseen classes


def family(data: LabelledImages, **options: object) -> dict[str, protocols.Split]:
    return {name: split_of(data, name, **options) for name in ("unseen", "unseen-all", "seen-all")}


@pytest.mark.parametrize(
    "options", [{"query_per_class": 5}, {"query_per_class": 5, "train_per_class": 8}, {"query": 60}]
)
def test_unseen_classes_never_train(options):
    data = labelled(np.arange(400) % 8)
    whole = split_of(data, seed=6, **options)
    result = family(data, seed=6, **options)
    names = result["unseen"].unseen
    assert len(names) == 2 and {split.unseen for split in result.values()} == {names}, "a quarter"
    hidden = {i for i in range(400) if data.classes[data.labels[i]] in names}
    query, train, database = rows_of(whole)
    assert rows_of(result["unseen"]) == (query & hidden, train - hidden, database & hidden)
    assert rows_of(result["unseen-all"]) == (query & hidden, train - hidden, database)
    assert rows_of(result["seen-all"]) == (query - hidden, train - hidden, database)
    assert f"; 2 classes unseen: {names[0]}, {names[1]}" in result["unseen"].describe()


def test_unseen_classes_of_the_own_split_have_its_sizes(cifar):
    result = family(cifar, unseen_classes=3, seed=1)
    assert [len(split.query) for split in result.values()] == [3_000, 3_000, 7_000]
    assert [len(split.train) for split in result.values()] == [35_000] * 3
    assert [len(split.database) for split in result.values()] == [15_000, 50_000, 50_000]
    assert family(cifar, seed=2)["unseen"].unseen != family(cifar, seed=3)["unseen"].unseen


def test_image_of_seen_and_unseen_classes_is_not_a_query():
    data = multi()
    result = family(data, query=200, unseen_classes=3)
    hidden = {data.classes.index(name) for name in result["unseen"].unseen}
    labels = [set(np.flatnonzero(row)) for row in data.labels]
    for name, split in result.items():
        assert all(labels[i] and not labels[i] & hidden for i in split.train), name
        assert all(labels[i] and (labels[i] <= hidden) != (name == "seen-all") for i in split.query), name
    assert all(labels[i] and labels[i] <= hidden for i in result["unseen"].database)
    mixed = {i for i in range(400) if labels[i] & hidden and labels[i] - hidden}
    assert len(mixed & set(result["unseen-all"].database)) > 50


def test_unseen_split_without_queries_raises():
    both = np.ones((9, 2), bool)
    data = LabelledImages(list("abcdefghi"), both, ["x", "y"], np.zeros((9, 1, 1, 3), np.uint8), [""] * 9)
    with raises(InvalidInputError, path="protocol unseen", problem="query"):
        split_of(data, "unseen", query=3)


def test_unseen_split_of_one_class_raises():
    with raises(InvalidInputError, path="--unseen-classes", found=1, expected="fewer than 1"):
        split_of(labelled([0] * 9), "unseen", query_per_class=2)
    assert len(family(labelled([0, 1] * 9), query_per_class=2)["unseen"].unseen) == 1, "at least one"


def test_variants_share_their_training_images(tmp_path):
    data = labelled(np.arange(100) % 5)
    options = {"query_per_class": 4, "unseen_classes": 2, "database_without_train": True, "seed": 7}
    variants = family(data, **options)
    variants["seen-all"].save(tmp_path / "p.json", data)
    for variant in (*variants.values(), protocols.load(tmp_path / "p.json", data)):
        again = protocols.variants(data, variant)
        assert list(again) == ["unseen@unseen", "unseen@all", "seen@all"]
        for split, name in zip(again.values(), variants, strict=True):
            assert (split.name, split.sha256()) == (name, variants[name].sha256())
    plain = split_of(data, query_per_class=4)
    assert protocols.variants(data, plain) == {"per-class": plain}


# -------------------------------------------------------------------------------------------- unusual sets of classes


def test_class_with_one_image_has_a_remark():
    data = labelled([0] * 9 + [1] + [2] * 9)
    with raises(InvalidInputError, problem="class b", found=1, expected=2):
        split_of(data, query_per_class=2)
    split = split_of(data, query_per_class=1)
    assert 9 in split.query
    assert split.remarks(data) == [
        "1 query without a relevant database image: left out of every mean",
        "1 class without a training image: b",
    ]


def test_split_of_one_class_has_its_numbers():
    data = labelled([0] * 6)
    split = split_of(data, query_per_class=2, train_per_class=3)
    assert (len(split.query), len(split.train), len(split.database)) == (2, 3, 4) and split.remarks(data) == []


def test_forty_thousand_classes_are_taken():
    labels = np.arange(120_000) % 40_000
    data = labelled(labels, classes=[str(i) for i in range(40_000)])
    split = split_of(data, query_per_class=1, train_per_class=1)
    for rows in (split.query, split.train):
        assert np.bincount(labels[rows]).tolist() == [1] * 40_000
    assert len(split.database) == 80_000 and split.remarks(data) == []
    hidden = split_of(data, "unseen", query_per_class=1)
    assert len(hidden.unseen) == 10_000 and len(hidden.query) == 10_000 and len(hidden.database) == 20_000
    assert ", ..." in hidden.describe() and len(hidden.describe()) < 300


def test_remarks_count_images_without_a_label():
    data = multi(60, bare=10, split=["train"] * 30 + ["test"] * 30)
    data.labels[30:32] = False
    assert split_of(data).remarks(data) == [
        "2 queries without a relevant database image: left out of every mean",
        "10 training images without a label: skipped in training",
    ]


def test_flags_are_the_split_options():
    """A flag sets the option of its name and no other."""
    parser = evaluate.parser()
    assert SplitOptions.of(parser.parse_args([])) == SplitOptions()
    assert {field.name for field in fields(SplitOptions)} == {"protocol", *protocols.OPTIONS}
    for name in protocols.OPTIONS:
        value = [] if name == "database_without_train" else ["3"]
        given = vars(parser.parse_args([f"--{name.replace('_', '-')}", *value]))
        assert {option: given[option] for option in protocols.OPTIONS if option in given} == {
            name: 3 if value else True
        }


@pytest.mark.parametrize(
    "options", [{"query_per_class": 0}, {"query": 0}, {"query_per_class": 0, "train_per_class": 3}]
)
def test_split_without_queries_keeps_every_image(options, tmp_path):
    data = labelled([0, 1] * 5, ["train"] * 7 + ["test"] * 3)
    split = split_of(data, "auto", **options)
    assert len(split.query) == 0 and split.without_queries and split.database.tolist() == list(range(10))
    assert len(split.train) == (6 if "train_per_class" in options else 10)
    split.save(tmp_path / "split.json", data)
    assert protocols.load(tmp_path / "split.json", data).sha256() == split.sha256()
