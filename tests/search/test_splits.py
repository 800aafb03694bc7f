"""A split and the file that stores it: invalid splits, and corrupt files that raise one line."""

from __future__ import annotations

import contextlib
import hashlib
import json

import numpy as np
import pytest

from idcwh_search.datasets import LabelledImages
from idcwh_search.errors import CorruptFileError, IdcwhError, InvalidInputError, MismatchError, NotSupportedError
from idcwh_search.splits import protocols
from idcwh_search.splits.protocols import SplitOptions
from support.errors import raises


def labelled(labels) -> LabelledImages:
    """Returns images of one pixel, of classes a, b, ..."""
    labels, n = np.asarray(labels), len(labels)
    classes = list("abcdefgh"[: int(labels.max()) + 1])
    return LabelledImages(
        [f"{i:05d}" for i in range(n)], labels, classes, np.zeros((n, 1, 1, 3), np.uint8), [""] * n, "set"
    )


@pytest.mark.parametrize(("query", "train", "database"), [([0], [1], [0, 1]), ([0], [0], [1])])
def test_split_with_a_query_in_another_part_is_an_error(query, train, database):
    with raises(InvalidInputError, path="protocol x"):
        protocols.Split(*(np.array(rows, np.int64) for rows in (query, train, database)), name="x")


@pytest.mark.parametrize("rows", [[1, 1], [2, 1], [-1, 0]])
def test_split_with_rows_out_of_order_is_an_error(rows):
    with pytest.raises(ValueError, match=r"^query:"):
        protocols.Split(np.array(rows), np.array([5]), np.array([6]))


def test_split_saved_and_loaded_is_equal(tmp_path):
    data = labelled([0, 1] * 8)
    split = protocols.split(data, SplitOptions(query_per_class=2, train_per_class=3), seed=5)
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


def test_saved_split_of_another_dataset_or_cut_is_an_error(tmp_path):
    data = labelled([0, 1] * 8)
    path = tmp_path / "protocol.json"
    protocols.split(data, SplitOptions(query_per_class=2)).save(path, data)
    with raises(MismatchError, path=path):
        protocols.load(path, labelled([1, 0] * 8))
    content = json.loads(path.read_text())
    content["train"]["rows"].pop()
    (tmp_path / "cut.json").write_text(json.dumps(content))
    with raises(CorruptFileError, path=tmp_path / "cut.json"):
        protocols.load(tmp_path / "cut.json", data)
    for text in ("", "[]", "{}", '{"format": "idcwh-protocol", "version": 1}', path.read_text()[:-5], "[" * 100_000):
        (tmp_path / "bad.json").write_text(text)
        with raises(CorruptFileError, path=tmp_path / "bad.json"):
            protocols.load(tmp_path / "bad.json", data)


def test_saved_split_with_any_value_corrupt_is_an_idcwh_error(tmp_path):
    """Each value is removed or replaced by one of another type."""
    data, path = labelled([0, 1] * 8), tmp_path / "protocol.json"
    protocols.split(data, SplitOptions(query_per_class=2), seed=5).save(path, data)
    whole = json.loads(path.read_text())

    def places(value, at=()):
        for key, inner in value.items() if isinstance(value, dict) else ():
            yield (*at, key)
            yield from places(inner, (*at, key))

    for *above, key in list(places(whole)):
        for other in (..., None, 5, -1.5, "x", [], {}, [[1]], {"a": 1}, True):
            content = json.loads(json.dumps(whole))
            inner = content
            for step in above:
                inner = inner[step]
            inner.pop(key) if other is ... else inner.update({key: other})
            path.write_text(json.dumps(content))
            with contextlib.suppress(IdcwhError):
                assert protocols.load(path, data).sha256() == whole["sha256"]


@pytest.mark.parametrize(
    ("part", "rows"), [("train", [5, 3]), ("train", [-1, 3]), ("query", []), ("database", [99]), ("train", [[1]])]
)
def test_saved_split_with_wrong_lists_names_the_file(tmp_path, part, rows):
    """Detected even if the hash is correct."""
    data, path = labelled([0, 1] * 8), tmp_path / "protocol.json"
    protocols.split(data, SplitOptions(query_per_class=2)).save(path, data)
    content = json.loads(path.read_text())
    content[part]["rows"] = rows
    content["sha256"][part] = hashlib.sha256(np.array(rows, "<i8").tobytes()).hexdigest()
    path.write_text(json.dumps(content))
    with raises(CorruptFileError, path=path):
        protocols.load(path, data)


def test_saved_split_that_trains_unseen_classes_is_corrupt(tmp_path):
    data = labelled(np.arange(40) % 4)
    path = tmp_path / "p.json"
    protocols.split(data, SplitOptions("unseen-all", query_per_class=2)).save(path, data)
    content = json.loads(path.read_text())
    content["unseen"] = data.classes[:3]
    path.write_text(json.dumps(content))
    with raises(CorruptFileError, path=path):
        protocols.load(path, data)


def test_saved_split_with_an_unknown_option_is_an_error(tmp_path):
    data = labelled([0, 1] * 8)
    path = tmp_path / "p.json"
    protocols.split(data, SplitOptions(query_per_class=2)).save(path, data)
    path.write_text(path.read_text().replace('"query_per_class"', '"query_per_colour"'))
    with raises(NotSupportedError, path=path, problem="query_per_colour"):
        protocols.load(path, data)
