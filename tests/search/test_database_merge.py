"""merge_databases and idcwh-index merge: items, ids, keys of moved folders, duplicates, manifests and failures."""

from __future__ import annotations

import os

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search.cli import index
from idcwh_search.database import merge, provenance
from support.errors import raises

BITS = 20
MODEL = {"sha256": "a" * 64, "bits": BITS}


def contents(seed, n=50, prefix="", ids=None):
    """Returns the arguments of Database.add: some items lack a key, a label or a checksum."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 256, (n, 3)).astype(np.uint8) & np.uint8([255, 255, 15])
    return {
        "codes": codes,
        "ids": ids,
        "keys": [None if i % 9 == 8 else f"{prefix}{i}.jpg" for i in range(n)],
        "labels": [None if i % 7 == 6 else f"class {i % 3}|\udce9" for i in range(n)],
        "mtime_signatures": rng.integers(0, 1 << 32, n).astype(np.uint32),
        "checksums": rng.integers(0, 1 << 62, (n, 2)).astype(np.uint64),
    }


def write(path, manifest=None, removed=(), **items):
    with ih.Database.create(path, BITS, {"model": MODEL} if manifest is None else manifest) as database:
        half = len(items["codes"]) // 2
        for part in (slice(half), slice(half, None)):
            database.add(**{name: None if value is None else value[part] for name, value in items.items()})
        if len(removed):
            database.remove(removed)
    return path


def rows(path, shift=0):
    """Returns all columns of a database, one tuple per item in row order."""
    with ih.Database.open(path) as database:
        database.verify()
        columns = (database.ids + shift, map(bytes, database.codes), database.keys(), database.labels())
        numbers = database.mtime_signatures().tolist(), map(tuple, database.checksums().tolist())
        return [*zip(columns[0].tolist(), *columns[1:], *numbers, strict=True)]


@pytest.fixture
def two(tmp_path):
    """Two databases with the same ids and different keys; items of the second are removed."""
    a = write(tmp_path / "a.bin", **contents(1, prefix="a/"))
    return a, write(tmp_path / "b.bin", removed=[3, 49], **contents(2, prefix="b/"))


def test_merge_keeps_every_column_and_shifts_ids(two, tmp_path):
    a, b = two
    done = ih.merge_databases(tmp_path / "all.bin", two)
    assert done == [(a, 50, 0, 0), (b, 48, 0, 50)]
    assert rows(tmp_path / "all.bin") == rows(a) + rows(b, shift=50)


def test_merge_keeps_ids_that_no_source_shares(tmp_path):
    ids = np.random.default_rng(0).permutation(300)
    parts = [write(tmp_path / f"{i}.bin", **contents(i, 50, f"{i}/", ids[i::6])) for i in range(6)]
    done = ih.merge_databases(tmp_path / "all.bin", parts)
    assert [source.shift for source in done] == [0] * 6
    assert rows(tmp_path / "all.bin") == [row for part in parts for row in rows(part)]


def test_merge_shifts_ids_behind_all_earlier_ones(tmp_path):
    parts = {"high": [70, 3, 55], "low": [0, 1, 2], "again": [0, 50, 55]}
    paths = [write(tmp_path / f"{name}.bin", **contents(1, 3, f"{name}/", ids)) for name, ids in parts.items()]
    done = ih.merge_databases(tmp_path / "all.bin", paths)
    assert [source.shift for source in done] == [0, 0, 71]
    assert [row[0] for row in rows(tmp_path / "all.bin")] == [70, 3, 55, 0, 1, 2, 71, 121, 126]


def test_merge_of_three_skips_keys_of_both_earlier(tmp_path):
    paths = []
    for number, keys in enumerate((["a", "b"], ["c", "a", "d"], ["d", "c", "b", "e"])):
        items = {**contents(number, len(keys)), "keys": keys}
        paths.append(write(tmp_path / f"{number}.bin", **items))
    ih.merge_databases(tmp_path / "all.bin", paths, skip_duplicates=True)
    assert [row[2] for row in rows(tmp_path / "all.bin")] == ["a", "b", "c", "d", "e"]


def test_merge_of_many_batches_equals_the_sources(tmp_path, monkeypatch):
    monkeypatch.setattr(merge, "BATCH", 7)
    seen = []
    parts = [write(tmp_path / f"{i}.bin", **contents(i, 50, f"{i}/")) for i in range(3)]
    ih.merge_databases(tmp_path / "all.bin", parts, progress=seen.append)
    assert sum(seen) == 150 and max(seen) == 7
    assert rows(tmp_path / "all.bin") == [row for i, part in enumerate(parts) for row in rows(part, 50 * i)]


@pytest.mark.parametrize("equal_hashes", [False, True])
def test_merge_of_a_repeated_key_raises_or_skips(equal_hashes, tmp_path, monkeypatch):
    if equal_hashes:
        monkeypatch.setattr(merge, "hash", lambda _: 1, raising=False)
    a = write(tmp_path / "a.bin", **contents(1, 30))
    items = contents(2, 45)
    items["keys"][40] = items["keys"][41] = "new.jpg"  # a key that one database has twice is no duplicate
    b = write(tmp_path / "b.bin", **items)
    with raises(ih.InvalidInputError, path=b) as caught:
        ih.merge_databases(tmp_path / "all.bin", [a, b])
    assert "'0.jpg'" in str(caught.value) and not (tmp_path / "all.bin").exists()
    done = ih.merge_databases(tmp_path / "all.bin", [a, b], skip_duplicates=True)
    assert done[1] == (b, 45 - 27, 27, 30)
    known = {row[2] for row in rows(a)} - {None}
    assert rows(tmp_path / "all.bin") == rows(a) + [row for row in rows(b, shift=30) if row[2] not in known]


def test_merge_finds_files_of_two_image_folders(tmp_path):
    roots = [tmp_path / "photos" / year for year in ("2023", "2024")]
    paths = []
    for root in roots:
        (root / "cat").mkdir(parents=True)
        for i in range(5):
            (root / "cat" / f"{i}.jpg").write_text("image")
        place = {"path": os.path.relpath(root, tmp_path), "absolute": str(root)}
        items = contents(1, 5, "cat/")
        paths.append(write(tmp_path / f"{root.name}.bin", {"model": MODEL, "images": place, "note": 1}, **items))
    (tmp_path / "out").mkdir()
    ih.merge_databases(tmp_path / "out" / "all.bin", paths)
    (tmp_path / "out").rename(tmp_path / "moved")  # the folder is found by its absolute path
    with ih.Database.open(tmp_path / "moved" / "all.bin") as database:
        keys, folders = database.keys(), provenance.image_roots(database)
        assert keys == [f"cat/{i}.jpg" for i in range(5)] + [f"../2024/cat/{i}.jpg" for i in range(5)]
        assert [provenance.image_path(folders, key).resolve() for key in keys] == [
            root / "cat" / f"{i}.jpg" for root in roots for i in range(5)
        ]
        assert database.manifest["note"] == 1 and database.manifest["model"] == MODEL


def test_merge_keeps_keys_of_one_folder_that_is_missing(tmp_path):
    manifest = {"model": MODEL, "images": {"path": "../gone", "absolute": "/nowhere/gone"}}
    (tmp_path / "x").mkdir()
    a = write(tmp_path / "a.bin", manifest, **contents(1, 5, "a/"))
    b = write(tmp_path / "x" / "b.bin", manifest, **contents(2, 5, "b/"))
    ih.merge_databases(tmp_path / "all.bin", [a, b])
    assert [row[2] for row in rows(tmp_path / "all.bin")] == [row[2] for row in rows(a) + rows(b)]


def test_merge_of_wrong_sources_raises_and_writes_nothing(two, tmp_path):
    a, b = two
    out = tmp_path / "all.bin"
    other = write(tmp_path / "other.bin", {"model": {**MODEL, "sha256": "b" * 64}}, **contents(3))
    with raises(ih.ModelMismatchError, path=other):
        ih.merge_databases(out, [a, other])
    with ih.Database.create(tmp_path / "wide.bin", 24) as wide:
        wide.add(np.zeros((1, 3), np.uint8))
    with raises(ih.MismatchError, path=tmp_path / "wide.bin"):
        ih.merge_databases(out, [a, tmp_path / "wide.bin"])
    os.link(a, tmp_path / "link.bin")
    with raises(ih.InvalidInputError, path=tmp_path / "link.bin"):
        ih.merge_databases(out, [a, tmp_path / "link.bin"])
    for wrong in ([], "a.bin"):
        with pytest.raises(ValueError, match="sources"):
            ih.merge_databases(out, wrong)
    assert not out.exists()
    before = a.read_bytes()
    with raises(ih.InvalidInputError, path=a):
        ih.merge_databases(a, [a, b], replace=True)
    assert a.read_bytes() == before


def test_merge_with_ids_too_large_to_shift_raises(tmp_path):
    big = np.iinfo(np.int64).max - 1
    a = write(tmp_path / "a.bin", **contents(1, 2, "a/", [0, big]))
    b = write(tmp_path / "b.bin", **contents(2, 2, "b/", [0, 1]))
    with raises(ih.InvalidInputError, path=b):
        ih.merge_databases(tmp_path / "all.bin", [a, b])


def test_search_of_a_merged_database_equals_numpy(two, tmp_path):
    ih.merge_databases(tmp_path / "all.bin", two)
    with ih.Database.open(tmp_path / "all.bin") as database:
        d = np.unpackbits(database.codes[:5, None] ^ database.codes, axis=2).sum(axis=2)
        order = np.argsort(d, axis=1, kind="stable")  # ids ascend with the rows
        found = database.search(database.codes[:5], 98)
        assert np.array_equal(found[1], database.ids[order])
        assert np.array_equal(found[0], np.take_along_axis(d, order, axis=1))


def test_merge_command_reports_items_and_shifted_ids(two, tmp_path, commands):
    a, b = two
    out = tmp_path / "all.bin"
    printed = commands.json(index.main, "merge", out, a, b)
    assert printed == {
        "database": str(out),
        "items": 98,
        "sources": [
            {"path": str(a), "items": 50, "skipped": 0, "shift": 0},
            {"path": str(b), "items": 48, "skipped": 0, "shift": 50},
        ],
    }
    assert str(out) in commands.fails(index.main, "merge", out, a, b)
    text = commands(index.main, "merge", out, a, b, "--force")
    assert text.out == "" and f"{b}: ids + 50" in text.err and "98 items" in text.err
    assert rows(out) == rows(a) + rows(b, shift=50)


def test_merge_command_with_wrong_databases_fails(two, tmp_path, commands):
    a, b = two
    before = a.read_bytes()
    assert "DB" in commands.fails(index.main, "merge", "--force", a, b, status=2)  # the output was forgotten
    assert str(a) in commands.fails(index.main, "merge", "--force", a, b, a)
    assert str(tmp_path / "none.bin") in commands.fails(
        index.main, "merge", tmp_path / "x.bin", a, tmp_path / "none.bin"
    )
    assert a.read_bytes() == before and not (tmp_path / "x.bin").exists()
    c = write(tmp_path / "c.bin", **contents(5, prefix="a/"))
    assert "'a/0.jpg'" in commands.fails(index.main, "merge", tmp_path / "x.bin", a, c)
    assert (
        commands.json(index.main, "merge", tmp_path / "x.bin", a, c, "--skip-duplicates")["sources"][1]["skipped"] == 45
    )
