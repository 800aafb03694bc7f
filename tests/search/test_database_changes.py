"""Changes of a database: each is atomic, others see it on refresh, and one writer changes at a time."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search.errors import CorruptFileError, LockedError
from support.errors import raises


def random_codes(n: int, bits: int, seed: int = 0) -> np.ndarray:
    return ih.pack(np.random.default_rng(seed).integers(0, 2, (n, bits)).astype(bool))


def ranking(codes: np.ndarray, ids: np.ndarray, query: np.ndarray) -> list[tuple[int, int]]:
    """Returns (distance, id) of every code in order, by numpy alone."""
    distances = np.unpackbits(codes ^ query, axis=1).sum(axis=1)
    return sorted(zip(distances.tolist(), ids.tolist(), strict=True))


def pairs(distances: np.ndarray, ids: np.ndarray) -> list[tuple[int, int]]:
    return list(zip(distances.tolist(), ids.tolist(), strict=True))


def state(db: ih.Database) -> dict[int, tuple]:
    rows = zip(db.ids.tolist(), db.codes.tolist(), db.keys(), db.labels(), db.mtime_signatures().tolist(), strict=True)
    return {number: rest for number, *rest in rows}


def test_remove_replace_and_update_equal_a_dictionary(small: Path) -> None:
    with ih.Database.open(small, "r+") as db:
        before = state(db)
        assert db.remove([5, 5, 10**12]) == 2 and db.remove(keys=["a/7.png"]) == 1 and db.remove(10**12 - 1) == 1
        assert db.remove(keys=["Überraschung\n.png"]) == 50
        codes = random_codes(2, 20, seed=3)
        db.replace(
            [8, 9], codes, keys=["neu", None], labels=[None, "cat"], mtime_signatures=np.array([7, 0], np.uint32)
        )
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
        with pytest.raises(ValueError, match=r"^remove"):
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


def test_find_equals_a_dictionary_through_changes(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    names = [None, "x", "a/é.png", "b\udcff.png", "c\n", *(f"{i}.png" for i in range(40))]
    items: dict[int, str | None] = {}

    def check(db: Any, items: dict[int, str | None]) -> None:
        wanted = [names[i] for i in rng.integers(0, len(names), 5)]
        expected = [number for number, key in sorted(items.items()) if key is not None and key in wanted]
        assert db.find([*wanted, "none"]).tolist() == expected

    with ih.Database.create(tmp_path / "codes.bin", 20) as db, ih.Database.open(tmp_path / "codes.bin") as reader:
        for step in range(200):
            keys = [names[i] for i in rng.integers(0, len(names), rng.integers(1, 9))]
            before, kept = db.snapshot(), dict(items)
            items |= dict(zip(db.add(random_codes(len(keys), 20, step), keys=keys).tolist(), keys, strict=True))
            if step % 3 == 0 and (key := keys[0]) is not None:
                gone = {number for number, other in items.items() if other == key}
                assert db.remove(keys=[key]) == len(gone)
                items = {number: other for number, other in items.items() if number not in gone}
            if step % 50 == 49:
                db.compact()
            check(db, items)
            check(before, kept)
            reader.refresh()
            check(reader, items)


def test_refresh_shows_changes_of_a_writer(small: Path) -> None:
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
    changed = raises(CorruptFileError, path=small, found="24 bits", expected="20")
    with ih.Database.create(small, 24, replace=True), changed:
        reader.refresh()
    assert len(reader) == 304


def test_second_writer_is_locked_out(small: Path) -> None:
    with ih.Database.open(small, "r+") as first:
        for _ in range(2):
            with raises(LockedError, path=small):
                ih.Database.open(small, "r+")
            first.compact()  # the new file is locked like the old one
    with ih.Database.open(small, "r+") as second:
        second.add(random_codes(1, 20))


def test_change_of_a_database_open_for_reading_raises(small: Path) -> None:
    codes = random_codes(1, 20)
    with ih.Database.open(small) as reader:
        for change in (
            lambda: reader.add(codes),
            lambda: reader.replace([0], codes),
            lambda: reader.remove([0]),
            lambda: reader.remove(keys=["a/0.png"]),
            lambda: reader.set_manifest({}),
            reader.compact,
        ):
            with pytest.raises(ValueError, match=f"^{small}: is open for reading; .* mode='r\\+'"):
                change()


def test_snapshot_does_not_keep_the_lock(tmp_path: Path) -> None:
    """A mapped file keeps its flock, so closing must release the lock explicitly."""
    path = tmp_path / "c.bin"
    with ih.Database.create(path, 64) as db:
        db.add(random_codes(20_000, 64))
        kept = db.snapshot()
        assert kept.search(random_codes(1, 64), 1)[1].tolist() == [[0]]
    with ih.Database.open(path, "r+") as db:
        db.remove([0])
    assert len(kept) == 20_000


def test_add_in_forked_child_raises(small: Path) -> None:
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


def test_add_on_full_disk_keeps_the_file(small: Path) -> None:
    """The limit of the file size simulates a full disk: a write beyond it fails in the middle."""
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
                with pytest.raises(OSError) as caught:
                    use()
                assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(small))
                assert state(db) == before == state(ih.Database.open(small)) and small.stat().st_size == size
            resource.setrlimit(resource.RLIMIT_FSIZE, (4500, limits[1]))
            with pytest.raises(OSError) as caught:
                db.compact()
            assert caught.value.errno == errno.EFBIG
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            db.add(random_codes(1, 20))
            db.verify()
            assert len(db) == 301
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert [path.name for path in small.parent.iterdir()] == [small.name]


def test_writer_of_replaced_file_writes_nothing(small: Path, tmp_path: Path) -> None:
    """The acknowledged changes of another process in the new file are kept."""
    code = random_codes(1, 20)
    with ih.Database.open(small, "r+") as old:
        with ih.Database.build(tmp_path / "new.bin", 20) as new:
            new.add(code)
        (tmp_path / "new.bin").rename(small)
        with ih.Database.open(small, "r+") as mine:
            mine.add(code)
            for use in (old.compact, lambda: old.add(code), lambda: old.remove([0])):
                with raises(CorruptFileError, path=small, problem="replaced"):
                    use()
            assert len(mine) == len(ih.Database.open(small)) == 2
        small.unlink()
        with raises(CorruptFileError, path=small, problem="removed"):
            old.add(code)
        assert len(old) == 300


@pytest.mark.parametrize("count", [3, 300, 90_000])
@pytest.mark.parametrize("own", [300, 60_000])
def test_file_copied_over_open_database_raises(tmp_path: Path, own: int, count: int) -> None:
    """cp writes into the open file. The reader reports this, and the writer destroys nothing."""
    live, other = tmp_path / "live.bin", tmp_path / "other.bin"
    for path, size in ((live, own), (other, count)):
        with ih.Database.build(path, 20) as db:
            db.add(random_codes(size, 20, seed=size), keys=[f"{i}.png" for i in range(size)])
    code = random_codes(1, 20)
    with ih.Database.open(live) as fresh, ih.Database.open(live) as reader, ih.Database.open(live, "r+") as writer:
        reader.search(code, 5)
        reader.keys()
        snapshot = reader.snapshot()
        shutil.copyfile(other, live)
        uses = [f for db in (fresh, reader, snapshot) for f in (lambda db=db: db.search(code, 5), db.keys)]
        uses += [reader.refresh, reader.verify, lambda: reader.codes, reader.optimize]
        uses += [writer.compact, lambda: writer.add(code), lambda: writer.remove([0]), lambda: writer.set_manifest({})]
        for use in uses:
            with raises(CorruptFileError, path=live, problem="overwritten"):
                use()
        assert live.read_bytes() == other.read_bytes()
    assert live.read_bytes() == other.read_bytes() and len(list(tmp_path.iterdir())) == 2
    with ih.Database.open(live, "r+") as db:
        assert len(db) == count
        db.verify()


def test_older_copy_over_open_database_is_kept(small: Path, tmp_path: Path) -> None:
    """A backup has the same header."""
    backup, code = tmp_path / "backup.bin", random_codes(1, 20)
    shutil.copyfile(small, backup)
    with ih.Database.open(small, "r+") as writer, ih.Database.open(small) as reader:
        writer.add(code)
        assert reader.refresh()
        shutil.copyfile(backup, small)
        for use in (writer.compact, lambda: writer.add(code), lambda: writer.remove([0]), reader.refresh):
            with raises(CorruptFileError, path=small, problem="overwritten"):
                use()
    assert small.read_bytes() == backup.read_bytes()


def sizes(path: Path, db: ih.Database) -> tuple[int, int]:
    before, contents = path.stat().st_size, state(db)
    db.compact()
    assert state(db) == contents
    db.verify()
    return before, path.stat().st_size


REMOVED: dict[str, list[int]] = {
    "one": [5],
    "a block": list(range(1000, 50_000)),
    "every third": list(range(0, 100_000, 3)),
    "at random": np.random.default_rng(0).permutation(100_000)[:20_000].tolist(),
    "nearly all": [i for i in range(100_000) if i % 1000],
}


@pytest.mark.slow
@pytest.mark.parametrize("bits", [8, 48])
@pytest.mark.parametrize("name", REMOVED)
def test_compact_after_remove_never_grows(tmp_path: Path, name: str, bits: int) -> None:
    path = tmp_path / "c.bin"
    with ih.Database.create(path, bits) as db:
        db.add(random_codes(100_000, bits))
        db.remove(REMOVED[name])
        before, after = sizes(path, db)
        assert after <= before
        added = db.add(random_codes(10_000, bits, seed=1))
        grown = path.stat().st_size - after
        assert grown <= 10_000 * bits // 8 + 2000 and added[0] == 100_000
        before, after = sizes(path, db)
        assert after <= before


@pytest.mark.parametrize("starts", [[0, 50_000, 10**12], [10**12, 0, 2**61, 7000]])
def test_compact_of_segments_never_grows(tmp_path: Path, starts: list[int]) -> None:
    """Each segment has consecutive ids, but all segments together do not."""
    path = tmp_path / "c.bin"
    with ih.Database.create(path, 8) as db:
        for start in starts:
            db.add(random_codes(5000, 8), ids=np.arange(start, start + 5000))
        before, after = sizes(path, db)
        assert after <= before
    with ih.Database.create(path, 8, replace=True) as db:
        for i in range(8):  # merged by the last add
            db.add(random_codes(5000, 8), ids=np.arange(5000) + (7 - i) * 10**9)
        assert db.info()["segments"] == 1 and path.stat().st_size < 2 * 8 * 5000 + 16_384


@pytest.mark.parametrize(
    "columns", [{"keys": ["a"]}, {"labels": ["a"]}, {"mtime_signatures": [1]}, {"keys": ["a"], "labels": ["b"]}]
)
def test_compact_of_different_columns_never_grows(tmp_path: Path, columns: dict[str, list]) -> None:
    """A label does not make items without one larger."""
    path, codes = tmp_path / "c.bin", random_codes(20_002, 16)
    with ih.Database.create(path, 16) as db:
        db.add(codes[:1], **columns)
        db.add(codes[1:20_001])
        db.add(codes[20_001:], **columns)
        before, after = sizes(path, db)
        assert after <= before
        assert pairs(*(a[0] for a in db.search(codes[:1], 20))) == ranking(codes, np.arange(20_002), codes[0])[:20]


def test_remove_keys_beside_other_changes(tmp_path: Path) -> None:
    """Looking up and removing are one step. A key that is always present is removed, whatever its id is by then."""
    codes = random_codes(1, 16)
    with ih.Database.create(tmp_path / "c.bin", 16) as db:
        stop = threading.Event()
        failures: list[BaseException] = []

        def replace_again_and_again() -> None:
            while not stop.is_set():
                try:
                    for number in db.find(["moving"]).tolist():
                        db.update([number], codes, keys=["moving"])
                except KeyError:  # removed between the two calls, which are not one step
                    pass
                except BaseException as error:
                    failures.append(error)
                    return

        mover = threading.Thread(target=replace_again_and_again)
        mover.start()
        try:
            for _ in range(100):
                db.add(codes, keys=["moving"])
                assert db.remove(keys=["moving"]) == 1
        finally:
            stop.set()
            mover.join()
        assert not failures and len(db) == 0


def test_compact_in_read_only_folder_names_it(small: Path) -> None:
    """A path of 4090 bytes leaves no space for that of a temporary file. It simulates a folder without permission,
    which root cannot have.
    """
    folder = small.parent
    while len(str(folder)) + 201 < 4070:
        folder /= "f" * 200
    folder /= "f" * (4080 - len(str(folder)) - 1)
    folder.mkdir(parents=True)
    long = small.rename(folder / "codes.bin")
    with ih.Database.open(long, "r+") as db:
        before = state(db)
        with pytest.raises(OSError) as error:
            db.compact()
        assert error.value.filename == str(folder)
        assert state(db) == before


SUMS = [(123, 2**64 - 1), (0, 0), (2**64 - 1, 5)]


@pytest.mark.parametrize("sums", [SUMS, [SUMS[0], None, list(SUMS[2])], np.array(SUMS, np.uint64)])
def test_checksums_survive_every_change(tmp_path: Path, sums: object) -> None:
    codes = random_codes(3, 8)
    with ih.Database.create(tmp_path / "a.bin", 8) as db, ih.Database.build(tmp_path / "b.bin", 8) as built:
        db.add(codes, checksums=sums)
        built.add(codes[:1])
        built.add(codes, checksums=sums)
        assert db.checksums().tolist() == [list(pair) for pair in SUMS] and db.checksums().dtype == np.uint64
        assert db.checksums([2, 0]).tolist() == [list(SUMS[2]), list(SUMS[0])] and db.checksums(1).tolist() == [[0, 0]]
        db.replace([1], codes[:1], checksums=[(8, 9)])
        for _ in range(9):  # small segments are merged
            db.add(codes[:1])
        db.remove([0])
        wanted = {1: [8, 9], 2: list(SUMS[2]), **{i: [0, 0] for i in range(3, 12)}}
        for change in (db.compact, db.refresh):
            assert dict(zip(db.ids.tolist(), db.checksums().tolist(), strict=True)) == wanted
            change()
        assert db.info()["segments"] == 1
        db.verify()
    result = ih.Database.open(tmp_path / "b.bin").checksums().tolist()
    assert result == [[0, 0], *(list(pair) for pair in SUMS)]


@pytest.mark.parametrize(
    ("sums", "error"),
    [
        ([(1, 2)], ValueError),
        ([(1, 2, 3), (1, 2, 3)], ValueError),
        ([(1, 2**64), (1, 2)], ValueError),
        ([(1, -1), (1, 2)], ValueError),
        ([(1, 0.5), (1, 2)], TypeError),
        (np.zeros((2, 2), np.int64), TypeError),
        (np.zeros(4, np.uint64), ValueError),
    ],
)
def test_add_of_invalid_checksums_raises(tmp_path: Path, sums: object, error: type[Exception]) -> None:
    with ih.Database.create(tmp_path / "a.bin", 8) as db:
        with pytest.raises(error, match=r"^checksums"):
            db.add(random_codes(2, 8), checksums=sums)
        assert len(db) == 0


SIGNATURES = [7, 0, 2**32 - 1]


@pytest.mark.parametrize(
    "signatures",
    [SIGNATURES, [7, None, 2**32 - 1], tuple(SIGNATURES), np.array(SIGNATURES), np.array(SIGNATURES, np.uint64)[::1]],
)
def test_mtime_signatures_of_any_sequence_are_stored(tmp_path: Path, signatures: object) -> None:
    codes = random_codes(3, 16)
    with ih.Database.create(tmp_path / "c.bin", 16) as db, ih.Database.build(tmp_path / "b.bin", 16) as built:
        db.add(codes, mtime_signatures=signatures)
        built.add(codes, mtime_signatures=signatures)
        assert db.mtime_signatures().tolist() == SIGNATURES
        assert db.mtime_signatures([2, 0]).tolist() == [2**32 - 1, 7] and db.mtime_signatures(1).tolist() == [0]
        db.replace([1], codes[:1], mtime_signatures=[5])
        assert db.mtime_signatures([1]).tolist() == [5]
    assert ih.Database.open(tmp_path / "b.bin").mtime_signatures().tolist() == SIGNATURES


def test_stamps_are_deprecated_mtime_signatures(tmp_path: Path) -> None:
    codes = random_codes(2, 16)
    with ih.Database.create(tmp_path / "c.bin", 16) as db:
        with pytest.warns(DeprecationWarning, match="use mtime_signatures=") as caught:
            db.add(codes, stamps=[7, 8])
            db.replace([0], codes[:1], stamps=[5])
            db.update([1], codes[1:], stamps=[6])
        assert [warning.filename for warning in caught] == 3 * [__file__]
        with pytest.warns(DeprecationWarning, match=r"use mtime_signatures\(\)"):
            assert db.stamps().tolist() == db.mtime_signatures().tolist() == [5, 6]
        with pytest.raises(TypeError, match="stamps"):
            db.add(codes, stamps=[1, 2], mtime_signatures=[1, 2])


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"mtime_signatures": [1, 2**32]}, ValueError),
        ({"mtime_signatures": [-1, 2]}, ValueError),
        ({"mtime_signatures": [1]}, ValueError),
        ({"mtime_signatures": [1.5, 2]}, TypeError),
        ({"mtime_signatures": ["a", "b"]}, TypeError),
        ({"mtime_signatures": [True, False]}, TypeError),
        ({"mtime_signatures": [[1], [2]]}, ValueError),
        ({"keys": {"a", "b"}}, TypeError),
        ({"labels": frozenset("ab")}, TypeError),
    ],
)
def test_add_of_invalid_columns_raises(tmp_path: Path, columns: dict, error: type[Exception]) -> None:
    codes = random_codes(2, 16)
    message = f"^{next(iter(columns))}"
    with ih.Database.create(tmp_path / "c.bin", 16) as db, ih.Database.build(tmp_path / "b.bin", 16) as built:
        for use in (lambda: db.add(codes, **columns), lambda: built.add(codes, **columns)):
            with pytest.raises(error, match=message):
                use()
        assert len(db) == len(built) == 0
        db.add(codes, keys=["a", "b"])
        with pytest.raises(error, match=message):
            db.replace([0, 1], codes, **columns)
        # the order of a set does not matter here
        assert db.find({"a"}).tolist() == [0] and db.remove(keys={"a", "b"}) == 2
