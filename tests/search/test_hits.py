"""Hits of queries, compared with a sort of all distances: a query's own file, ties, filters by label and key, and
radius.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search.cli import gallery
from idcwh_search.cli.hits import Hit, Query, Search

BITS = 4  # so that nearly all items tie


@pytest.fixture
def database(tmp_path: Path, rng: np.random.Generator) -> Path:
    """120 items in two segments, each with a key, some removed, with ids not in row order."""
    path = tmp_path / "codes.bin"
    codes = ih.pack(rng.integers(0, 2, (120, BITS)).astype(bool))
    labels = [("cat", "dog", "cat|dog", "a|b|bird", None)[i % 5] for i in range(120)]
    with ih.Database.create(path, BITS) as db:
        db.add(codes[:70], np.arange(200, 130, -1), [f"a/{i:03}.jpg" for i in range(70)], labels[:70])
        db.add(codes[70:], np.arange(50), [f"b/{i:03}.jpg" for i in range(70, 120)], labels[70:])
        db.remove(np.arange(0, 50, 7))
    return path


Row = tuple[int, np.ndarray, str, str | None]


def brute_force(rows: list[Row], query: Query, search: Search) -> tuple[list[tuple[Any, ...]], Any, list[int]]:
    """Returns hits as (distance, id, key, label), ties as (distance, items, shown), and the hits that are own files."""
    hits = []
    for id_, code, key, label in rows:
        distance = sum(bin(int(a) ^ int(b)).count("1") for a, b in zip(code, query.code, strict=True))
        is_own = any(key in names for names in query.files)
        if (search.where is not None and id_ not in search.where) or (is_own and search.exclude_self):
            continue
        if search.radius is None or distance <= search.radius:
            hits.append((distance, not is_own, id_, key, label))
    hits.sort(key=lambda item: item[:3])
    top = 10 if search.top is None and search.radius is None else search.top
    shown = hits[:top]
    ties = None
    if top is not None and len(hits) > top and hits[top][0] == shown[-1][0]:
        last = shown[-1][0]
        ties = (last, sum(f[0] == last for f in hits), sum(f[0] == last for f in shown))
    return [(f[0], *f[2:]) for f in shown], ties, [f[2] for f in shown if not f[1]]


@pytest.mark.parametrize("exclude_self", [False, True])
@pytest.mark.parametrize("filtered", [False, True])
def test_search_equals_a_sort_with_own_files_first(
    database: Path, filtered: bool, exclude_self: bool, rng: np.random.Generator
) -> None:
    with ih.Database.open(database) as db:
        rows: list[Row] = list(zip(db.ids.tolist(), db.codes, db.keys(), db.labels(), strict=True))  # type: ignore[arg-type]
        where = np.sort(rng.choice(db.ids, 60, replace=False)) if filtered else None
        queries = [Query("bare", ih.pack(rng.integers(0, 2, (1, BITS)).astype(bool))[0])]
        for _ in range(8):
            member, other = rng.integers(len(rows), size=2)  # the second as in a combined query
            code = rows[member][1] if rng.random() < 0.7 else rows[0][1]
            queries.append(
                Query("own", code, None, (frozenset({rows[member][2]}), frozenset({rows[other][2], "none"})))
            )
        for top, radius in itertools.product([None, 1, 3, 25, 1000], [None, 0, 1, BITS]):
            search = Search(top, radius, where, exclude_self, threads=1)
            for query, answer in zip(queries, search.run(db, queries), strict=True):
                hits, ties, own_ids = brute_force(rows, query, search)
                assert [hit[1:] for hit in answer.hits] == hits
                assert [hit.rank for hit in answer.hits] == list(range(1, len(hits) + 1))
                assert (None if answer.ties is None else tuple(vars(answer.ties).values())) == ties
                assert sorted(answer.self_ids) == sorted(own_ids)
        assert list(Search().run(db, [])) == []


def test_select_by_label_takes_each_class_of_a_label(database: Path) -> None:
    with ih.Database.open(database) as db:
        rows = list(zip(db.ids.tolist(), db.labels(), strict=True))
        for wanted in (["cat"], ["bird"], ["a|b|bird"], ["cat", "b"]):
            expected = [i for i, label in rows if label and {label, *label.split("|")} & set(wanted)]
            assert db.select(labels=wanted).tolist() == expected != []
        assert db.select(labels=[]).tolist() == []
        snapshot = db.snapshot()
    assert snapshot.select(labels=["cat"]).dtype == np.int64


def test_select_by_key_prefix_and_label_takes_both(database: Path) -> None:
    with ih.Database.open(database) as db:
        rows = list(zip(db.ids.tolist(), db.keys(), db.labels(), strict=True))
        hits = db.select(labels=["dog"], key_prefixes=["a/00", "b/"])
        expected = [i for i, key, label in rows if key.startswith(("a/00", "b/")) and label in ("dog", "cat|dog")]
        assert hits.tolist() == expected != []
        np.testing.assert_array_equal(db.select(), db.ids)


def test_select_of_missing_label_names_those_there_are(database: Path) -> None:
    with ih.Database.open(database) as db:
        with pytest.raises(ValueError, match=r"^label 'brd' .*a, a\|b\|bird, b, bird, cat, cat\|dog"):
            db.select(labels=["cat", "brd"])
        with pytest.raises(ValueError, match=r"^key prefix 'c/' .*'a/000.jpg'"):
            db.select(key_prefixes=["a/", "c/"])
        with pytest.raises(ValueError, match=r"^labels"):
            db.select(labels="cat")


def test_page_judges_a_hit_by_each_class_of_its_label() -> None:
    hits = [Hit(1, 0, 7, None, "a|b"), Hit(2, 1, 8, None, "a"), Hit(3, 2, 9, None, "b"), Hit(4, 3, 6, None, None)]
    page = gallery.page([gallery.Query("q", None, "a", hits)], title="", subtitle="", bits=8, locate=lambda key: None)
    assert re.findall(r'class="hit( \w+)?"', page) == [" same", " same", " other", ""]


def test_page_escapes_control_and_direction_characters():
    odd = "a\x1b[31m\u202eb\n<script>"
    hit = Hit(1, 0, 7, odd, odd)
    text = gallery.page(
        [gallery.Query(odd, None, odd, [hit])], title="t", subtitle="s", bits=8, locate=lambda key: None
    )
    assert not {"\x1b", "\u202e"} & set(text) and "<script>" not in text
    assert text.count(r"a\x1b[31m\u202eb\n&lt;script&gt;") >= 4
