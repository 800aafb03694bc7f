"""Database: what goes in comes out, searches agree with numpy, damage is refused, nothing half-written is left."""

from __future__ import annotations

import itertools
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search import builder, codesbin
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
        db.search(codes[:1], 1)  # makes what is there a segment of its own
        db.add(codes[100:200], ids=np.arange(10**12, 10**12 - 100, -1))
        db.search(codes[:1], 1)
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
        with pytest.raises(ValueError, match=r"\(300,\)"):
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


def test_small_adds_become_one_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "SEGMENT_ITEMS", 64)
    codes = random_codes(200, 8)
    with ih.Database.create(tmp_path / "c.bin", 8) as db:
        for start in range(0, 200, 10):
            db.add(codes[start : start + 10])
    with ih.Database.open(tmp_path / "c.bin") as db:
        assert db.info()["segments"] == 3
        np.testing.assert_array_equal(db.codes, codes)


def test_size_is_code_key_and_at_most_sixteen_bytes(tmp_path: Path) -> None:
    n = 50_000
    with ih.Database.create(tmp_path / "c.bin", 64) as db:
        db.add(
            random_codes(n, 64), ids=np.random.default_rng(0).permutation(n), keys=["0123456789"] * n, labels=["x"] * n
        )
    assert (tmp_path / "c.bin").stat().st_size <= n * (8 + 10 + 16) + 4096


# what add refuses, and that it then adds nothing


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (ValueError, r"\(2,\)", {"ids": [1, 2, 3]}),
        (ValueError, "-5", {"ids": [1, -5]}),
        (ValueError, "4 occurs twice", {"ids": [4, 4]}),
        (ValueError, "0 is already", {"ids": [0, 9]}),
        (ValueError, "70 is already", {"ids": [70, 9]}),
        (TypeError, "float64", {"ids": [1.5, 2.0]}),
        (ValueError, str(2**64 - 1), {"ids": np.array([1, 2**64 - 1], np.uint64)}),
        (ValueError, "keys: expected 2", {"keys": ["a"]}),
        (ValueError, "labels: expected 2", {"labels": "ab"}),
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
        with pytest.raises(ValueError, match=r"\(300,\)"):
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


def test_a_closed_database_says_so(small: Path, tmp_path: Path) -> None:
    written = ih.Database.create(tmp_path / "c.bin", 20)
    written.add(random_codes(20, 20))
    written.close()
    read = ih.Database.open(small)
    read.close()
    query = random_codes(1, 20)
    with pytest.raises(ValueError, match="closed"):
        written.add(query)
    for db in (written, read):
        for use in (
            lambda db=db: db.search(query, 1),
            lambda db=db: db.get([0]),
            db.verify,
            db.info,
            lambda db=db: db.ids,
        ):
            with pytest.raises(ValueError, match="closed"):
                use()
    assert len(ih.Database.open(tmp_path / "c.bin")) == 20


# the file appears whole or not at all


def test_a_device_is_not_replaced() -> None:
    with pytest.raises(IdcwhError, match="device"):
        ih.Database.create("/dev/null", 8, replace=True)


def test_an_exception_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), ih.Database.create(tmp_path / "c.bin", 16) as db:
        db.add(random_codes(2, 16))
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_kept_unless_asked(small: Path) -> None:
    before = small.read_bytes()
    with pytest.raises(IdcwhError, match="already exists"):
        ih.Database.create(small, 20)
    with ih.Database.create(small, 8, replace=True) as db:
        db.add(random_codes(1, 8))
        assert small.read_bytes() == before
    assert ih.Database.open(small).bits == 8
    assert sorted(p.name for p in small.parent.iterdir()) == ["codes.bin"]


def test_a_file_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    db = ih.Database.create(tmp_path / "c.bin", 8)
    (tmp_path / "c.bin").write_text("somebody else's")
    with pytest.raises(IdcwhError, match="meanwhile"):
        db.close()
    assert (tmp_path / "c.bin").read_text() == "somebody else's" and len(list(tmp_path.iterdir())) == 1


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(IdcwhError, match="No such file"):
        ih.Database.create(tmp_path / "no" / "c.bin", 8)
    with pytest.raises(IdcwhError, match="directory"):
        ih.Database.create(tmp_path, 8)


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = ih.Database.create(tmp_path / "c.bin", 8)
    db.add(random_codes(100, 8))
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(IdcwhError, match="No space left"):
        db.close()
    assert list(tmp_path.iterdir()) == []


def test_a_killed_writer_leaves_no_database(tmp_path: Path) -> None:
    script = (
        "import sys, numpy as np, idcwh_search as ih\n"
        "db = ih.Database.create(sys.argv[1], 64)\n"
        "while True:\n"
        "    db.add(np.zeros((1 << 20, 8), np.uint8)); print('.', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script, tmp_path / "c.bin"], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline()
    time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "c.bin").exists()


# damage


def tampered(path: Path, content: bytes) -> Path:
    target = path.with_suffix(".tampered")
    target.write_bytes(content)
    return target


def test_every_flipped_bit_is_found(small: Path) -> None:
    """Any byte of the file, one bit of it: exactly the right answers or an error, and from verify always an error."""
    with ih.Database.create(small, 20, {"a": "b"}, replace=True) as db:
        db.add(random_codes(30, 20), keys=[f"{i}.png" for i in range(30)], labels=["cat", None] * 15)
        db.search(random_codes(1, 20), 1)
        db.add(random_codes(5, 20), ids=[900, 1000, 77, 5000, 999])
    raw = small.read_bytes()
    with ih.Database.open(small) as db:
        truth = (db.codes.tobytes(), db.ids.tolist(), db.keys(), db.labels(), db.manifest)
    refused = 0
    for position in range(len(raw)):
        damaged = bytearray(raw)
        damaged[position] ^= 1 << position % 8
        path = tampered(small, bytes(damaged))
        try:
            with ih.Database.open(path) as db:
                assert (db.codes.tobytes(), db.ids.tolist(), db.keys(), db.labels(), db.manifest) == truth
                db.verify()
                pytest.fail(f"byte {position} was changed and verify did not see it")
        except IdcwhError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused == len(raw)


def test_every_truncation_and_trailing_junk_is_refused(small: Path) -> None:
    raw = small.read_bytes()
    for length in [*range(0, len(raw), 61), *range(len(raw) - 200, len(raw))]:
        with pytest.raises(IdcwhError):
            ih.Database.open(tampered(small, raw[:length]))
    for junk in (b"\0", b"\0" * 64, b"junk" * 100, raw):
        with pytest.raises(IdcwhError, match="byte"):
            ih.Database.open(tampered(small, raw + junk))


def forged(path: Path, sections: dict, *, a: int, b: int = 0, bits: int = 20, commit: int | None = None) -> Path:
    """A file whose checksums are right and whose numbers are not."""
    target = path.with_suffix(".forged")
    with target.open("wb") as file:
        writer = codesbin.Writer(file, bits, bytes(16))
        writer.record(codesbin.ITEMS, sections, a, b)
        writer.commit(a if commit is None else commit, 0)
    return target


CODES = {codesbin.CODES: random_codes(4, 20).reshape(-1)}


@pytest.mark.parametrize(
    ("sections", "numbers"),
    [
        (CODES, {"a": 2**61}),
        (CODES, {"a": 5}),
        ({}, {"a": 4}),
        (CODES, {"a": 4, "b": codesbin.NO_FIRST_ID}),
        (CODES, {"a": 4, "b": 2**63 - 3}),
        (CODES, {"a": 4, "commit": 3}),
        ({codesbin.CODES: np.full(12, 255, np.uint8)}, {"a": 4}),
        (CODES | {codesbin.IDS: np.array([1, 2, 3, -4], "<i8")}, {"a": 4, "b": codesbin.NO_FIRST_ID}),
        (CODES | {codesbin.IDS: np.array([1, 2, 2, 4], "<i8")}, {"a": 4, "b": codesbin.NO_FIRST_ID}),
        (CODES | {codesbin.KEYS: b"abc"}, {"a": 4}),
        (CODES | {codesbin.KEY_ENDS: np.array([3, 2, 1, 9], "<u4"), codesbin.KEYS: b"abc"}, {"a": 4}),
        (
            CODES
            | {codesbin.LABELS: np.array([0, 0, 0, 7], "<u4"), codesbin.LABEL_TABLE: struct.pack("<II", 1, 1) + b"x"},
            {"a": 4},
        ),
        (CODES | {codesbin.LABELS: np.zeros(4, "<u4"), codesbin.LABEL_TABLE: struct.pack("<I", 2**32 - 1)}, {"a": 4}),
    ],
)
def test_forged_numbers_are_refused(tmp_path: Path, sections: dict, numbers: dict) -> None:
    path = forged(tmp_path / "codes.bin", sections, **numbers)
    with pytest.raises(IdcwhError, match="forged"), ih.Database.open(path) as db:
        db.verify()


def test_other_files_versions_and_widths_are_refused(small: Path, tmp_path: Path) -> None:
    raw = bytearray(small.read_bytes())
    for content, message in ((b"", "shorter"), (b"PK" + bytes(200), "not a codes.bin"), (raw[:63], "shorter")):
        with pytest.raises(IdcwhError, match=message):
            ih.Database.open(tampered(small, bytes(content)))
    for version, bits, message in ((2, 20, "version 2"), (0, 20, "version 0"), (1, 0, "0 bits"), (1, 2**31, "bits")):
        header = codesbin.HEADER.pack(codesbin.MAGIC, version, bits, bytes(16))
        with pytest.raises(IdcwhError, match=message):
            ih.Database.open(tampered(small, header + struct.pack("<I", codesbin.crc32c(header)) + bytes(raw[64:])))
    with pytest.raises(FileNotFoundError):
        ih.Database.open(tmp_path / "missing.bin")
    with pytest.raises(ValueError, match="mode"):
        ih.Database.open(small, "w")


def test_keys_are_the_bytes_of_the_file_name(tmp_path: Path) -> None:
    keys = [os.fsdecode(b"caf\xe9.jpg"), "日本語.png", "line\nbreak", "k" * 65536, ""]
    with ih.Database.create(tmp_path / "c.bin", 8) as db:
        db.add(random_codes(5, 8), keys=keys)
    with ih.Database.open(tmp_path / "c.bin") as db:
        assert db.keys() == [*keys[:4], None]
        assert os.fsencode(keys[0]) == b"caf\xe9.jpg"
