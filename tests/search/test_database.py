"""Database: stored items, searches compared with numpy, and atomic changes that others see on refresh."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import idcwh_search as ih


def random_codes(n: int, bits: int, seed: int = 0) -> np.ndarray:
    return ih.pack(np.random.default_rng(seed).integers(0, 2, (n, bits)).astype(bool))


def ranking(codes: np.ndarray, ids: np.ndarray, query: np.ndarray) -> list[tuple[int, int]]:
    """Returns (distance, id) of every code in order, by numpy alone."""
    distances = np.unpackbits(codes ^ query, axis=1).sum(axis=1)
    return sorted(zip(distances.tolist(), ids.tolist(), strict=True))


def pairs(distances: np.ndarray, ids: np.ndarray) -> list[tuple[int, int]]:
    return list(zip(distances.tolist(), ids.tolist(), strict=True))


def test_database_returns_what_was_added(small: Path) -> None:
    codes = random_codes(300, 20)
    ids = [*range(100), *range(10**12, 10**12 - 100, -1), *range(10**12 + 1, 10**12 + 101)]
    with ih.Database.open(small) as db:
        assert (len(db), db.bits, db.manifest) == (300, 20, {"model": {"sha256": "ab"}})
        assert db.ids.tolist() == ids
        np.testing.assert_array_equal(db.codes, codes)
        np.testing.assert_array_equal(db.get(ids[::-7]), codes[::-7])
        assert db.keys([3, 10**12, 10**12 + 1, 10**12 + 2]) == ["a/3.png", None, "Überraschung\n.png", None]
        assert db.labels([0, 1, 10**12 - 5, 10**12 + 9]) == ["cat", None, None, "dog"]
        assert db.label_names() == ["cat", "dog"]
        assert db.info()["items"] == 300 and db.info()["segments"] == 3 and db.info()["bytes"] == small.stat().st_size
        db.verify()
        for missing in (-1, 100, 10**6, 10**12 - 100, 10**12 + 101, 2**62):
            with pytest.raises(KeyError, match=str(missing)):
                db.get([missing])


def test_search_over_segments_equals_numpy(small: Path) -> None:
    queries = random_codes(5, 20, seed=9)
    with ih.Database.open(small) as db:
        expected = [ranking(db.codes, db.ids, query) for query in queries]
        for k in (0, 1, 7, 100, 299, 300, 1000):
            distances, ids = db.search(queries, k)
            assert distances.dtype == np.int32 and ids.dtype == np.int64 and distances.shape == (5, min(k, 300))
            assert [pairs(*row) for row in zip(distances, ids, strict=True)] == [row[:k] for row in expected]
        assert [pairs(*row) for row in zip(*db.rank(queries), strict=True)] == expected
        for radius in (0, 4, 20):
            limits, distances, ids = db.range_search(queries, radius)
            result = [pairs(distances[a:b], ids[a:b]) for a, b in itertools.pairwise(limits)]
            assert result == [[pair for pair in row if pair[0] <= radius] for row in expected]


def test_where_limits_every_search(small: Path) -> None:
    query = random_codes(1, 20, seed=5)
    mask = np.arange(300) % 3 == 0
    with ih.Database.open(small) as db:
        ids = db.ids
        for where, rows in (
            (mask, mask),
            (range(50, 2 * 10**12, 2), (ids >= 50) & (ids % 2 == 0)),
            ([7, 10**12, 5], np.isin(ids, [7, 10**12, 5])),
        ):
            expected = ranking(db.codes[rows], ids[rows], query[0])
            assert pairs(*(a[0] for a in db.search(query, 10, where=where))) == expected[:10]
            assert pairs(*(a[0] for a in db.rank(query, where=where))) == expected
            assert pairs(*db.range_search(query, 8, where=where)[1:]) == [pair for pair in expected if pair[0] <= 8]
        assert db.search(query, 10, where=[])[0].shape == (1, 0)
        with pytest.raises(ValueError, match=r"^where"):
            db.search(query, 1, where=np.ones(299, bool))
        with pytest.raises(TypeError, match=r"^where"):
            db.search(query, 1, where=np.array([1.0]))


def test_search_of_empty_database_returns_nothing(tmp_path: Path) -> None:
    ih.Database.create(tmp_path / "e.bin", 12).close()
    query = random_codes(2, 12)
    with ih.Database.open(tmp_path / "e.bin") as db:
        assert db.search(query, 3)[1].shape == (2, 0) and db.rank(query)[0].shape == (2, 0)
        assert db.range_search(query, 3)[0].tolist() == [0, 0, 0]
        assert len(db) == 0 and db.keys() == [] and db.codes.shape == (0, 2)
        db.verify()


def test_codes_of_one_segment_are_not_copied(small: Path, tmp_path: Path) -> None:
    with ih.Database.create(tmp_path / "one.bin", 64) as db:
        db.add(random_codes(1000, 64))
    with ih.Database.open(tmp_path / "one.bin") as db:
        codes = db.codes
        assert not codes.flags.owndata and not codes.flags.writeable and codes.ctypes.data % 64 == 0
    assert codes.sum() > 0  # still readable after close: the array keeps the mapping


def test_add_of_few_items_merges_segments(tmp_path: Path) -> None:
    codes = random_codes(700, 8)
    with ih.Database.create(tmp_path / "c.bin", 8) as db:
        for i in range(700):
            db.add(codes[i : i + 1], keys=[f"{i}"])
        assert db.info()["segments"] <= 40
        np.testing.assert_array_equal(db.codes, codes)
        assert db.keys() == [f"{i}" for i in range(700)]
    with ih.Database.open(tmp_path / "c.bin", "r+") as db:
        before = db.info()
        db.compact()
        after = db.info()
        assert after["segments"] == 1 and after["unused"] == 0 and after["bytes"] < before["bytes"] / 4
        assert after["commit"] > before["commit"] and db.ids.tolist() == list(range(700))


def test_file_size_is_code_key_and_at_most_sixteen_bytes(tmp_path: Path) -> None:
    n = 50_000
    with ih.Database.create(tmp_path / "c.bin", 64) as db:
        db.add(
            random_codes(n, 64), ids=np.random.default_rng(0).permutation(n), keys=["0123456789"] * n, labels=["x"] * n
        )
    assert (tmp_path / "c.bin").stat().st_size <= n * (8 + 10 + 16) + 16384


def test_file_size_with_mtime_signatures_and_gaps_in_ids(tmp_path: Path) -> None:
    n = 50_000
    with ih.Database.create(tmp_path / "c.bin", 64) as db:
        db.add(random_codes(n, 64), keys=["0123456789"] * n, labels=["x"] * n, mtime_signatures=np.ones(n, np.uint32))
        db.remove(range(0, n, 2))
        db.compact()
        assert (tmp_path / "c.bin").stat().st_size <= n // 2 * (8 + 10 + 16) + 16384
        assert db.ids.tolist() == list(range(1, n, 2)) and db.mtime_signatures().sum() == n // 2


# Errors of add, after which the database is unchanged.


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (ValueError, {"ids": [1, 2, 3]}),
        (ValueError, {"ids": [1, -5]}),
        (ValueError, {"ids": [4, 4]}),
        (ValueError, {"ids": [0, 9]}),
        (ValueError, {"ids": [70, 9]}),
        (TypeError, {"ids": [1.5, 2.0]}),
        (ValueError, {"ids": np.array([1, 2**64 - 1], np.uint64)}),
        (ValueError, {"keys": ["a"]}),
        (ValueError, {"labels": "ab"}),
        (ValueError, {"mtime_signatures": np.zeros(3, np.uint32)}),
        (TypeError, {"labels": ["a", 3]}),
        (TypeError, {"keys": [b"a", "b"]}),
    ],
)
def test_add_of_invalid_column_raises(tmp_path: Path, error: type[Exception], arguments: dict) -> None:
    with ih.Database.create(tmp_path / "c.bin", 16) as db:
        db.add(random_codes(2, 16))
        db.add(random_codes(1, 16), ids=[70])
        with pytest.raises(error, match=f"^{next(iter(arguments))}"):
            db.add(random_codes(2, 16), **arguments)
        assert len(db) == 3
        assert db.add(random_codes(2, 16)).tolist() == [71, 72]


@pytest.mark.parametrize("bits", [0, -1, 70_000, 1.0, True, "8"])
def test_create_with_invalid_bits_raises(tmp_path: Path, bits: object) -> None:
    with pytest.raises((ValueError, TypeError), match=r"^bits"):
        ih.Database.create(tmp_path / "c.bin", bits)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_invalid_codes_and_queries_raise(small: Path, tmp_path: Path) -> None:
    with ih.Database.open(small) as db:
        for queries in (
            random_codes(2, 28),
            random_codes(2, 20).astype(np.int8),
            random_codes(1, 20)[0],
            [[1, 2, 3]],
            np.full((1, 3), 255, np.uint8),
        ):
            with pytest.raises((ValueError, TypeError), match=r"^queries"):
                db.search(queries, 1)  # type: ignore[arg-type]
    with ih.Database.create(tmp_path / "x.bin", 20) as db, pytest.raises(ValueError, match=r"^codes"):
        db.add(np.full((1, 3), 255, np.uint8))


def test_where_takes_a_mask_as_a_list(small: Path) -> None:
    query = random_codes(1, 20, seed=5)
    mask = [i % 7 == 0 for i in range(300)]
    with ih.Database.open(small) as db:
        np.testing.assert_array_equal(
            db.search(query, 50, where=mask)[1], db.search(query, 50, where=np.array(mask))[1]
        )
        with pytest.raises(ValueError, match=r"^where"):
            db.search(query, 1, where=mask[:100])


def test_get_of_other_than_whole_numbers_raises(small: Path) -> None:
    with ih.Database.open(small) as db:
        for wrong in ([1.7], ["1"], [True]):
            with pytest.raises(TypeError):
                db.get(wrong)  # type: ignore[arg-type]


def test_add_is_visible_at_once(tmp_path: Path) -> None:
    codes = random_codes(20, 20)
    with ih.Database.create(tmp_path / "c.bin", 20) as db:
        db.add(codes[:10], keys=np.array(["k"] * 10), labels=["a"] * 10)
        assert len(db.codes) == len(db.ids) == db.info()["items"] == 10
        db.add(codes[10:], labels=["\ud800"] * 5 + ["b"] * 5)
        np.testing.assert_array_equal(db.codes, codes)
        assert len(db.ids) == db.info()["items"] == len(db) == 20
        assert db.label_names() == ["a", "b", "\ud800"] and db.keys([9, 10]) == ["k", None]
        db.verify()


def test_select_with_missing_names_matches_the_others(tmp_path: Path) -> None:
    labels = [None if i % 5 == 0 else f"l{i % 3}" if i % 2 else "l0|l9" for i in range(200)]
    keys = [None if i % 7 == 0 else f"{i % 4}/{i}" for i in range(200)]
    with ih.Database.create(tmp_path / "a.bin", bits=20) as db:
        for begin in range(0, 200, 50):
            part = slice(begin, begin + 50)
            db.add(random_codes(50, 20), keys=keys[part], labels=labels[part])
        db.remove([1, 60])
        rows = [i for i in range(200) if i not in (1, 60)]
        counts = Counter(labels[i] for i in rows if labels[i] is not None)
        assert db.label_counts() == dict(sorted(counts.items())) and db.label_names() == sorted(counts)
        for wanted, classes in ((["l0", "none"], ("l0", "l0|l9")), (["l9"], ("l0|l9",)), (["none"], ()), ([], ())):
            expected = [i for i in rows if labels[i] in classes]
            assert db.select(labels=wanted, missing_ok=True).tolist() == expected
            begun = [i for i in expected if (keys[i] or "").startswith(("1/", "3/"))]
            found = db.select(labels=wanted, key_prefixes=["1/", "x", "3/"], missing_ok=True)
            assert found.tolist() == begun
        for names in ({"labels": ["l0", "none"]}, {"key_prefixes": ["1/", "x"]}):
            with pytest.raises(ValueError, match=r"'(none|x)' is missing"):
                db.select(**names)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_closed_database_raises_everywhere(small: Path) -> None:
    query, ids = random_codes(1, 20), [0]
    given: dict[str, tuple] = {
        **dict.fromkeys(("search", "search_ties", "range_search", "count"), (query, 1)),
        **dict.fromkeys(("histogram", "rank", "add"), (query,)),
        **dict.fromkeys(("self_join", "count_pairs", "clusters"), (1,)),
        "join": (ih.HammingIndex(20), 1),
        **{"get": (ids,), "explain": (1,), "find": (["a"],), "remove": (ids,), "set_manifest": ({},)},
        **dict.fromkeys(("replace", "update"), (ids, query)),
    }
    public = [name for name in dir(ih.Database) if not name.startswith("_")]
    assert {*given, "manifest", "codes", "keys", "info", "verify", "compact", "optimize", "refresh"} < set(public)
    for mode in ("r", "r+"):
        db = ih.Database.open(small, mode)
        db.close()
        db.close()
        for name in [*public, "__len__", "__enter__"]:
            if name in ("open", "create", "build", "close", "discard", "path"):
                continue
            with pytest.raises(ValueError, match=f"^{small}: "):
                result = getattr(db, name)
                result(*given.get(name, ()))


def test_build_closed_or_discarded_raises(tmp_path: Path) -> None:
    for end in ("close", "discard"):
        builder = ih.Database.build(tmp_path / f"{end}.bin", bits=8)
        getattr(builder, end)()
        for use in (builder.__len__, builder.__enter__, lambda b=builder: b.add(np.zeros((1, 1), np.uint8))):
            with pytest.raises(ValueError, match=f"^{builder.path}: "):
                use()


# changing
