"""Database: what goes in comes out, searches agree with numpy, changes are whole and seen by others on refresh."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search.errors import IdcwhError


def random_codes(n: int, bits: int, seed: int = 0) -> np.ndarray:
    return ih.pack(np.random.default_rng(seed).integers(0, 2, (n, bits)).astype(bool))


def ranking(codes: np.ndarray, ids: np.ndarray, query: np.ndarray) -> list[tuple[int, int]]:
    """(distance, id) of every code, in order, by numpy alone."""
    distances = np.unpackbits(codes ^ query, axis=1).sum(axis=1)
    return sorted(zip(distances.tolist(), ids.tolist(), strict=True))


def pairs(distances: np.ndarray, ids: np.ndarray) -> list[tuple[int, int]]:
    return list(zip(distances.tolist(), ids.tolist(), strict=True))


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """300 codes of 20 bits in three segments: given ids, keys and labels for some of them."""
    path = tmp_path / "codes.bin"
    with ih.Database.create(path, 20, {"model": {"sha256": "ab"}}) as db:
        codes = random_codes(300, 20)
        db.add(codes[:100], keys=[f"a/{i}.png" for i in range(100)], labels=["cat", None] * 50)
        db.add(codes[100:200], ids=np.arange(10**12, 10**12 - 100, -1))
        db.add(codes[200:], keys=["Überraschung\n.png", None] * 50, labels=["dog"] * 100)
    return path


def test_what_goes_in_comes_out(small: Path) -> None:
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


def test_searches_over_segments_equal_numpy(small: Path) -> None:
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
            found = [pairs(distances[a:b], ids[a:b]) for a, b in itertools.pairwise(limits)]
            assert found == [[pair for pair in row if pair[0] <= radius] for row in expected]


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
        with pytest.raises(ValueError, match="expected 300, not"):
            db.search(query, 1, where=np.ones(299, bool))
        with pytest.raises(TypeError, match="float64"):
            db.search(query, 1, where=np.array([1.0]))


def test_an_empty_database_is_searched(tmp_path: Path) -> None:
    ih.Database.create(tmp_path / "e.bin", 12).close()
    query = random_codes(2, 12)
    with ih.Database.open(tmp_path / "e.bin") as db:
        assert db.search(query, 3)[1].shape == (2, 0) and db.rank(query)[0].shape == (2, 0)
        assert db.range_search(query, 3)[0].tolist() == [0, 0, 0]
        assert len(db) == 0 and db.keys() == [] and db.codes.shape == (0, 2)
        db.verify()


def test_codes_are_read_where_they_lie(small: Path, tmp_path: Path) -> None:
    with ih.Database.create(tmp_path / "one.bin", 64) as db:
        db.add(random_codes(1000, 64))
    with ih.Database.open(tmp_path / "one.bin") as db:
        codes = db.codes
        assert not codes.flags.owndata and not codes.flags.writeable and codes.ctypes.data % 64 == 0
    assert codes.sum() > 0  # still readable after close: the array keeps the mapping


def test_small_adds_stay_few_segments(tmp_path: Path) -> None:
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


def test_size_is_code_key_and_at_most_sixteen_bytes(tmp_path: Path) -> None:
    n = 50_000
    with ih.Database.create(tmp_path / "c.bin", 64) as db:
        db.add(
            random_codes(n, 64), ids=np.random.default_rng(0).permutation(n), keys=["0123456789"] * n, labels=["x"] * n
        )
    assert (tmp_path / "c.bin").stat().st_size <= n * (8 + 10 + 16) + 16384


def test_size_with_stamps_and_holes_in_the_ids(tmp_path: Path) -> None:
    n = 50_000
    with ih.Database.create(tmp_path / "c.bin", 64) as db:
        db.add(random_codes(n, 64), keys=["0123456789"] * n, labels=["x"] * n, stamps=np.ones(n, np.uint32))
        db.remove(range(0, n, 2))
        db.compact()
        assert (tmp_path / "c.bin").stat().st_size <= n // 2 * (8 + 10 + 16) + 16384
        assert db.ids.tolist() == list(range(1, n, 2)) and db.stamps().sum() == n // 2


# what add refuses, and that it then adds nothing


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (ValueError, r"\(2,\)", {"ids": [1, 2, 3]}),
        (ValueError, "-5", {"ids": [1, -5]}),
        (ValueError, "4 is given twice", {"ids": [4, 4]}),
        (ValueError, "0 is in the database already", {"ids": [0, 9]}),
        (ValueError, "70 is in the database already", {"ids": [70, 9]}),
        (TypeError, "float64", {"ids": [1.5, 2.0]}),
        (ValueError, str(2**64 - 1), {"ids": np.array([1, 2**64 - 1], np.uint64)}),
        (ValueError, "keys: expected 2", {"keys": ["a"]}),
        (ValueError, "labels: expected texts, one a code", {"labels": "ab"}),
        (ValueError, "stamps must be", {"stamps": np.zeros(3, np.uint32)}),
        (TypeError, "stamps must be", {"stamps": [1, 2]}),
        (TypeError, "labels: expected texts, not int", {"labels": ["a", 3]}),
        (TypeError, "keys: expected texts, not bytes", {"keys": [b"a", "b"]}),
    ],
)
def test_add_refuses(tmp_path: Path, error: type[Exception], message: str, arguments: dict) -> None:
    with ih.Database.create(tmp_path / "c.bin", 16) as db:
        db.add(random_codes(2, 16))
        db.add(random_codes(1, 16), ids=[70])
        with pytest.raises(error, match=message):
            db.add(random_codes(2, 16), **arguments)
        assert len(db) == 3
        assert db.add(random_codes(2, 16)).tolist() == [71, 72]


@pytest.mark.parametrize("bits", [0, -1, 70_000, 1.0, True, "8"])
def test_create_refuses_a_code_length(tmp_path: Path, bits: object) -> None:
    with pytest.raises((ValueError, TypeError), match="bits"):
        ih.Database.create(tmp_path / "c.bin", bits)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_wrong_codes_and_queries_are_refused(small: Path, tmp_path: Path) -> None:
    with ih.Database.open(small) as db:
        for queries in (
            random_codes(2, 28),
            random_codes(2, 20).astype(np.int8),
            random_codes(1, 20)[0],
            [[1, 2, 3]],
            np.full((1, 3), 255, np.uint8),
        ):
            with pytest.raises((ValueError, TypeError), match="queries"):
                db.search(queries, 1)  # type: ignore[arg-type]
    with ih.Database.create(tmp_path / "x.bin", 20) as db, pytest.raises(ValueError, match="padding"):
        db.add(np.full((1, 3), 255, np.uint8))


def test_a_mask_may_be_a_list(small: Path) -> None:
    query = random_codes(1, 20, seed=5)
    mask = [i % 7 == 0 for i in range(300)]
    with ih.Database.open(small) as db:
        np.testing.assert_array_equal(
            db.search(query, 50, where=mask)[1], db.search(query, 50, where=np.array(mask))[1]
        )
        with pytest.raises(ValueError, match="expected 300, not"):
            db.search(query, 1, where=mask[:100])


def test_ids_are_whole_numbers(small: Path) -> None:
    with ih.Database.open(small) as db:
        for wrong in ([1.7], ["1"], [True]):
            with pytest.raises(TypeError):
                db.get(wrong)  # type: ignore[arg-type]


def test_what_was_added_is_seen_at_once(tmp_path: Path) -> None:
    codes = random_codes(20, 20)
    with ih.Database.create(tmp_path / "c.bin", 20) as db:
        db.add(codes[:10], keys=np.array(["k"] * 10), labels=["a"] * 10)
        assert len(db.codes) == len(db.ids) == db.info()["items"] == 10
        db.add(codes[10:], labels=["\ud800"] * 5 + ["b"] * 5)
        np.testing.assert_array_equal(db.codes, codes)
        assert len(db.ids) == db.info()["items"] == len(db) == 20
        assert db.label_names() == ["a", "b", "\ud800"] and db.keys([9, 10]) == ["k", None]
        db.verify()


def test_a_closed_database_says_so(small: Path) -> None:
    query = random_codes(1, 20)
    for mode in ("r", "r+"):
        db = ih.Database.open(small, mode)
        db.close()
        db.close()
        uses: list[Callable[[], object]] = [
            lambda db=db: db.search(query, 1),
            lambda db=db: db.add(query),
            lambda db=db: db.get([0]),
            db.verify,
            db.info,
            db.compact,
            lambda db=db: db.ids,
        ]
        for use in uses:
            with pytest.raises(ValueError, match="closed"):
                use()


# changing


def state(db: ih.Database) -> dict[int, tuple]:
    rows = zip(db.ids.tolist(), db.codes.tolist(), db.keys(), db.labels(), db.stamps().tolist(), strict=True)
    return {number: rest for number, *rest in rows}


def test_remove_replace_and_update(small: Path) -> None:
    with ih.Database.open(small, "r+") as db:
        before = state(db)
        assert db.remove([5, 5, 10**12]) == 2 and db.remove(keys=["a/7.png"]) == 1 and db.remove(10**12 - 1) == 1
        assert db.remove(keys=["Überraschung\n.png"]) == 50
        codes = random_codes(2, 20, seed=3)
        db.replace([8, 9], codes, keys=["neu", None], labels=[None, "cat"], stamps=np.array([7, 0], np.uint32))
        assert db.update([1], codes[:1], keys=["x"]).tolist() == [10**12 + 101]
        gone = {5, 10**12, 7, 10**12 - 1, 1, *range(10**12 + 1, 10**12 + 101, 2)}
        expected = {number: rest for number, rest in before.items() if number not in gone}
        expected[8] = [codes[0].tolist(), "neu", None, 7]
        expected[9] = [codes[1].tolist(), None, "cat", 0]
        expected[10**12 + 101] = [codes[0].tolist(), "x", None, 0]
        assert state(db) == expected
        assert db.find(["x", "a/5.png", "a/6.png"]).tolist() == [6, 10**12 + 101]
        for wrong in (lambda: db.remove([0, 5]), lambda: db.remove(keys=["a/0.png", "none"]), lambda: db.remove(-1)):
            with pytest.raises(KeyError):
                wrong()
        with pytest.raises(KeyError):
            db.replace([0, 5], codes)
        with pytest.raises(ValueError, match="either"):
            db.remove()
        assert state(db) == expected
        db.verify()
    with ih.Database.open(small) as db:
        assert state(db) == expected
        db.verify()
        query = random_codes(1, 20, seed=4)
        assert pairs(*(a[0] for a in db.rank(query))) == ranking(db.codes, db.ids, query[0])
    with ih.Database.open(small, "r+") as db:
        db.compact()
        assert state(db) == expected and db.manifest == {"model": {"sha256": "ab"}}
        db.remove(db.ids)
        assert len(db) == 0 and db.add(codes).tolist() == [10**12 + 102, 10**12 + 103]
        db.set_manifest({"a": [1]})
    assert ih.Database.open(small).manifest == {"a": [1]}


def test_a_reader_sees_changes_when_it_refreshes(small: Path) -> None:
    reader = ih.Database.open(small)
    kept = reader.snapshot()
    before = state(reader)
    with ih.Database.open(small, "r+") as writer:
        assert not reader.refresh()
        writer.remove([0, 1])
        writer.add(random_codes(5, 20))
        assert state(reader) == before
        assert reader.refresh() and state(reader) == state(writer)
        writer.compact()
        writer.add(random_codes(1, 20))
        assert len(reader) == 303 and reader.refresh() and state(reader) == state(writer)
    assert len(kept) == 300 and kept.keys([0]) == ["a/0.png"] and not reader.refresh()
    with ih.Database.create(small, 24, replace=True), pytest.raises(IdcwhError, match="24 bits, not 20"):
        reader.refresh()
    assert len(reader) == 304


def test_one_writer_at_a_time(small: Path) -> None:
    with ih.Database.open(small, "r+") as first:
        for _ in range(2):
            with pytest.raises(IdcwhError, match="somebody else is writing"):
                ih.Database.open(small, "r+")
            first.compact()  # the new file is as locked as the old one
    with ih.Database.open(small, "r+") as second:
        second.add(random_codes(1, 20))
    with ih.Database.open(small) as reader, pytest.raises(ValueError, match="open for reading"):
        reader.add(random_codes(1, 20))


def test_a_snapshot_does_not_keep_the_lock(tmp_path: Path) -> None:
    """Memory that is mapped from a file keeps its flock: closing has to let go of it by name."""
    path = tmp_path / "c.bin"
    with ih.Database.create(path, 64) as db:
        db.add(random_codes(20_000, 64))
        kept = db.snapshot()
        assert kept.search(random_codes(1, 64), 1)[1].tolist() == [[0]]
    with ih.Database.open(path, "r+") as db:
        db.remove([0])
    assert len(kept) == 20_000


def test_a_child_does_not_write_for_its_parent(small: Path) -> None:
    with ih.Database.open(small, "r+") as db:
        child = os.fork()
        if child == 0:
            try:
                db.add(random_codes(1, 20))
            except ValueError as error:
                os._exit(0 if "fork" in str(error) else 1)
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        db.add(random_codes(1, 20))
        assert len(db) == 301


def test_a_file_on_a_full_disk(small: Path) -> None:
    """The size a process may give its files stands for the room on a disk: a write beyond it fails in the middle."""
    import resource
    import signal

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with ih.Database.open(small, "r+") as db:
            before = state(db)
            size = small.stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100_000, limits[1]))
            for use in (lambda: db.add(random_codes(200_000, 20)), lambda: db.add(random_codes(40_000, 20))):
                with pytest.raises(OSError, match="large"):
                    use()
                assert state(db) == before == state(ih.Database.open(small)) and small.stat().st_size == size
            resource.setrlimit(resource.RLIMIT_FSIZE, (4500, limits[1]))
            with pytest.raises(OSError, match="large"):
                db.compact()
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            db.add(random_codes(1, 20))
            db.verify()
            assert len(db) == 301
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert [path.name for path in small.parent.iterdir()] == [small.name]


def test_keys_of_every_kind(tmp_path: Path) -> None:
    keys = [os.fsdecode(b"caf\xe9.jpg"), "日本語.png", "line\nbreak", "k" * 65536, ""]
    with ih.Database.create(tmp_path / "c.bin", 8) as db:
        db.add(random_codes(5, 8), keys=keys, labels=["", None, "a\nb", "\ud800", "x" * 70000])
    with ih.Database.open(tmp_path / "c.bin", "r+") as db:
        assert db.keys() == [*keys[:4], None]
        assert os.fsencode(db.keys()[0] or "") == b"caf\xe9.jpg"
        assert db.labels() == ["", None, "a\nb", "\ud800", "x" * 70000]
        assert db.remove(keys=keys[:2]) == 2
        db.compact()
        assert db.keys() == [*keys[2:4], None]


def test_a_name_of_other_bytes(tmp_path: Path) -> None:
    path = os.path.join(tmp_path, os.fsdecode(b"caf\xe9.bin"))  # noqa: PTH118 - bytes that pathlib shows as they are
    with ih.Database.create(path, 8) as db:
        db.add(random_codes(3, 8))
        db.compact()
    with ih.Database.open(path) as db:
        assert len(db) == 3
    with pytest.raises(FileNotFoundError):
        ih.Database.open(path + "x")


def test_a_link_stays_a_link(small: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    link = folder / "link.bin"
    link.symlink_to(small)
    with ih.Database.open(link, "r+") as db:
        db.remove([0])
        db.compact()
    assert link.is_symlink() and len(ih.Database.open(small)) == 299 and len(list(folder.iterdir())) == 1


def test_readers_need_no_permission_to_write(small: Path) -> None:
    os.chmod(small, 0o440)  # noqa: PTH101
    with ih.Database.open(small) as db:
        db.verify()
    with ih.Database.open(small, "r+") as db:  # by root, who may do everything
        db.compact()
    assert small.stat().st_mode & 0o777 == 0o440


def test_the_current_folder_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = random_codes(20, 20)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    writer = ih.Database.create("c.bin", 20)
    built = ih.Database.build("b.bin", 20)
    reader = ih.Database.open("c.bin")
    monkeypatch.chdir(elsewhere)
    writer.add(codes)
    writer.compact()
    writer.add(codes[:1])
    built.add(codes)
    built.close()
    assert reader.refresh() and len(reader) == 21 and list(elsewhere.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.bin", "c.bin", "elsewhere"]


def test_a_writer_whose_file_was_replaced_writes_nothing(small: Path, tmp_path: Path) -> None:
    """What somebody else has put there, and has had acknowledged, stays."""
    code = random_codes(1, 20)
    with ih.Database.open(small, "r+") as old:
        with ih.Database.build(tmp_path / "new.bin", 20) as new:
            new.add(code)
        (tmp_path / "new.bin").rename(small)
        with ih.Database.open(small, "r+") as mine:
            mine.add(code)
            for use in (old.compact, lambda: old.add(code), lambda: old.remove([0])):
                with pytest.raises(IdcwhError, match="not the file any more"):
                    use()
            assert len(mine) == len(ih.Database.open(small)) == 2
        small.unlink()
        with pytest.raises(IdcwhError, match="not the file any more"):
            old.add(code)
        assert len(old) == 300


@pytest.mark.parametrize("model", ["resnet", ["a"], 7])
def test_a_manifest_is_a_dictionary(tmp_path: Path, model: object) -> None:
    with pytest.raises(TypeError, match="dictionary"):
        ih.Database.create(tmp_path / "c.bin", 8, model)  # type: ignore[arg-type]
    for path in ("", "c.bin\0x"):
        with pytest.raises(ValueError, match="name of a file"):
            ih.Database.open(path)
