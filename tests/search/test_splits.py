"""A split, and the file that keeps it: what is refused, and that a damaged one is never more than a line."""

from __future__ import annotations

import contextlib
import hashlib
import json

import numpy as np
import pytest

from idcwh_search.datasets import LabelledImages
from idcwh_search.errors import IdcwhError
from idcwh_search.splits import protocols


def labelled(labels) -> LabelledImages:
    """Pictures of one pixel, of classes a, b, ..."""
    labels, n = np.asarray(labels), len(labels)
    classes = list("abcdefgh"[: int(labels.max()) + 1])
    return LabelledImages(
        [f"{i:05d}" for i in range(n)], labels, classes, np.zeros((n, 1, 1, 3), np.uint8), [""] * n, "set"
    )


@pytest.mark.parametrize(("query", "train", "database"), [([0], [1], [0, 1]), ([0], [0], [1])])
def test_a_query_elsewhere_is_refused(query, train, database):
    with pytest.raises(IdcwhError, match="1 query also in the"):
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
    for text in ("", "[]", "{}", '{"format": "idcwh-protocol", "version": 1}', path.read_text()[:-5], "[" * 100_000):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(IdcwhError, match=r"bad\.json: not a saved protocol"):
            protocols.load(tmp_path / "bad.json", data)


def test_a_damaged_protocol_is_never_more_than_a_line(tmp_path):
    """Each value gone, or of another kind."""
    data, path = labelled([0, 1] * 8), tmp_path / "protocol.json"
    protocols.split(data, query_per_class=2, seed=5).save(path, data)
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
def test_lists_that_are_none_name_the_file(tmp_path, part, rows):
    """Also where the hash was made to fit."""
    data, path = labelled([0, 1] * 8), tmp_path / "protocol.json"
    protocols.split(data, query_per_class=2).save(path, data)
    content = json.loads(path.read_text())
    content[part]["rows"] = rows
    content["sha256"][part] = hashlib.sha256(np.array(rows, "<i8").tobytes()).hexdigest()
    path.write_text(json.dumps(content))
    with pytest.raises(IdcwhError, match=r"protocol\.json: "):
        protocols.load(path, data)


def test_a_saved_split_that_trains_on_an_unseen_class_is_refused(tmp_path):
    data = labelled(np.arange(40) % 4)
    path = tmp_path / "p.json"
    protocols.split(data, "unseen-all", query_per_class=2).save(path, data)
    content = json.loads(path.read_text())
    content["unseen"] = data.classes[:3]
    path.write_text(json.dumps(content))
    with pytest.raises(IdcwhError, match=r"\d+ training pictures? of classes that must be unseen"):
        protocols.load(path, data)


def test_options_of_a_newer_program_are_refused(tmp_path):
    data = labelled([0, 1] * 8)
    path = tmp_path / "p.json"
    protocols.split(data, query_per_class=2).save(path, data)
    path.write_text(path.read_text().replace('"query_per_class"', '"query_per_colour"'))
    with pytest.raises(IdcwhError, match="option 'query_per_colour' is of a newer program"):
        protocols.load(path, data)
