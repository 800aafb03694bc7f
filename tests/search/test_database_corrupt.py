"""A codes.bin that is corrupt, forged or foreign: correct results or one clear error, whatever byte was changed.

The files are built byte by byte from docs/codes-bin.md, without the library.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search.errors import CorruptFileError, NotSupportedError
from support.errors import raises

MANIFEST, ITEMS, REMOVALS, COMMIT = 1, 2, 3, 4
CODES, IDS, KEY_ENDS, KEYS, LABELS, LABEL_TABLE, JSON, ROWS, DIRECTORY, ID_OFFSETS, MTIME_SIGNATURES, SUMS, ID_RUNS = (
    range(1, 14)
)
NO_FIRST_ID = 2**64 - 1
FIRST_RECORD, BLOCK = 4096, 65536


def crc32c(data: bytes, seed: int = 0) -> int:
    """Computes the CRC bit by bit, as in its definition."""
    crc = seed ^ 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def header(bits: int = 20, version: int = 1) -> bytes:
    head = struct.pack("<8sII16s28x", b"\x89IDCWH\r\n", version, bits, b"sixteen bytes id")
    return head + struct.pack("<I", crc32c(head))


def record(kind: int, at: int, commit: int, sections: dict[int, bytes], a: int = 0, b: int = 0, c: int = 0) -> bytes:
    """Returns a record at byte `at` with correct checksums."""
    seed = struct.unpack("<I", header()[-4:])[0]
    head_length = 64 + 32 * len(sections) + 4
    entries, body, place = b"", b"", -(-head_length // 64) * 64
    for part, data in sections.items():
        table = b"".join(struct.pack("<I", crc32c(data[i : i + BLOCK])) for i in range(0, len(data), BLOCK))
        padded = data + bytes(-len(data) % 4)
        entries += struct.pack("<IIQQQ", part, crc32c(table), place, len(data), place + len(padded))
        body += padded + table + bytes(-(len(padded) + len(table)) % 64)
        place = -(-head_length // 64) * 64 + len(body)
    head = struct.pack("<4sIQQQIIQQQ", b"RECD", kind, place, at, commit, head_length, len(sections), a, b, c) + entries
    head += struct.pack("<I", crc32c(head, seed))
    return head + bytes(-len(head) % 64) + body


def database(
    *records: tuple,
    items: int,
    next_id: int = 2**40,
    bits: int = 20,
    head: bytes | None = None,
    manifest: bytes = b"{}",
) -> bytes:
    """Returns a file of this manifest, these records (kind, sections, a, b, c) and a commit of them all."""
    content = (head or header(bits)).ljust(FIRST_RECORD, b"\0")
    offsets = []
    for kind, sections, *numbers in ((MANIFEST, {JSON: manifest}), *records):
        offsets.append(len(content))
        content += record(kind, len(content), 1, sections, *numbers)
    directory = struct.pack(f"<{len(offsets)}Q", *offsets)
    return content + record(COMMIT, len(content), 1, {DIRECTORY: directory}, items, next_id, 1)


def codes_of(n: int, bits: int = 20, seed: int = 0) -> np.ndarray:
    return ih.pack(np.random.default_rng(seed).integers(0, 2, (n, bits)).astype(bool))


FOUR = codes_of(4)
GOOD = (ITEMS, {CODES: FOUR.tobytes()}, 4, 0, 1)
FIRST = FIRST_RECORD + 192  # the record after the manifest


def opened(path: Path, content: bytes) -> ih.Database:
    path.write_bytes(content)
    return ih.Database.open(path)


def test_file_made_by_hand_is_read(tmp_path: Path) -> None:
    assert crc32c(b"123456789") == 0xE3069283
    table = struct.pack("<IIII", 2, 3, 7, 0)[:12] + b"catlion"
    records = [
        (ITEMS, {CODES: FOUR.tobytes(), MTIME_SIGNATURES: struct.pack("<4I", 5, 6, 7, 8)}, 4, 100, 1),
        (
            ITEMS,
            {
                CODES: codes_of(3, seed=1).tobytes(),
                IDS: struct.pack("<3q", 9, 2**62, 3),
                KEY_ENDS: struct.pack("<3I", 1, 1, 6),
                KEYS: b"a\xffbcde",
                LABELS: struct.pack("<3I", 1, 0, 2**32 - 1),
                LABEL_TABLE: table,
                99: b"a later version",
            },
            3,
            NO_FIRST_ID,
        ),
        (REMOVALS, {ROWS: struct.pack("<2I", 0, 2)}, 2, FIRST),
        (ITEMS, {CODES: codes_of(2, seed=2).tobytes(), ID_OFFSETS: struct.pack("<2I", 0, 2**32 - 1)}, 2, 2**33, 1),
        (77, {1: b"a later version"}),
    ]
    with opened(tmp_path / "c.bin", database(*records, items=7, next_id=2**63 - 10)) as db:
        assert db.ids.tolist() == [101, 103, 9, 2**62, 3, 2**33, 2**33 + 2**32 - 1]
        np.testing.assert_array_equal(
            db.codes, np.concatenate([FOUR[[1, 3]], codes_of(3, seed=1), codes_of(2, seed=2)])
        )
        assert db.keys([9, 2**62, 3, 101]) == ["a", None, "\udcffbcde", None]
        assert db.labels([9, 2**62, 3, 101]) == ["lion", "cat", None, None]
        assert db.mtime_signatures().tolist() == [6, 8, 0, 0, 0, 0, 0]
        db.verify()


def test_written_file_equals_the_specification(tmp_path: Path) -> None:
    """The reverse of the test above: parses a file of the library by the specification."""
    path = tmp_path / "c.bin"
    codes = codes_of(4)
    with ih.Database.create(path, 20, {"a": 1}) as db:
        db.add(codes, keys=["x", None, "yz", None], labels=["cat", None, "cat", "dog"])
    raw = path.read_bytes()
    seed = struct.unpack_from("<I", raw, 60)[0]
    assert crc32c(raw[:60]) == seed and struct.unpack_from("<8sII", raw) == (b"\x89IDCWH\r\n", 1, 20)
    marks = [struct.unpack_from("<4sIQQQ28xI", raw, at) for at in (512, 1024)]
    assert all(crc32c(raw[at : at + 60], seed) == mark[-1] for at, mark in zip((512, 1024), marks, strict=True))
    newest = max(marks, key=lambda mark: mark[2])
    assert newest[0] == b"MARK" and newest[2] == 2 and newest[4] == len(raw)

    def parsed(at: int) -> tuple[tuple, dict[int, bytes]]:
        head = struct.unpack_from("<4sIQQQIIQQQ", raw, at)
        assert head[0] == b"RECD" and head[3] == at
        assert crc32c(raw[at : at + head[5] - 4], seed) == struct.unpack_from("<I", raw, at + head[5] - 4)[0]
        sections = {}
        for i in range(head[6]):
            part, table_crc, start, length, table = struct.unpack_from("<IIQQQ", raw, at + 64 + 32 * i)
            data = raw[at + start : at + start + length]
            stored = raw[at + table : at + table + 4 * -(-length // BLOCK)]
            assert crc32c(stored) == table_crc and stored == b"".join(
                struct.pack("<I", crc32c(data[j : j + BLOCK])) for j in range(0, length, BLOCK)
            )
            sections[part] = data
        return head, sections

    head, sections = parsed(newest[3])
    assert head[1] == COMMIT and head[7:] == (4, 4, 2)
    manifest, items = struct.unpack("<2Q", sections[DIRECTORY])
    assert parsed(manifest)[1] == {JSON: b'{"a": 1}'}
    head, sections = parsed(items)
    assert head[1] == ITEMS and head[7:] == (4, 0, 1)
    assert sections == {
        CODES: codes.tobytes(),
        KEY_ENDS: struct.pack("<4I", 1, 1, 3, 3),
        KEYS: b"xyz",
        LABELS: struct.pack("<4I", 0, 2**32 - 1, 0, 1),
        LABEL_TABLE: struct.pack("<3I", 2, 3, 6) + b"catdog",
    }


def test_manifest_nested_too_deep_is_corrupt(tmp_path: Path) -> None:
    """Python's reader of JSON raises another exception for such a text."""
    deep = b"[" * 100_000 + b"]" * 100_000
    with opened(tmp_path / "c.bin", database(GOOD, items=4, manifest=deep)) as db:
        db.verify()
        for use in (lambda: db.manifest, lambda: db.snapshot().manifest, db.info):
            with raises(CorruptFileError, problem="manifest"):
                use()
        np.testing.assert_array_equal(db.codes, FOUR)


def varints(*numbers: int) -> bytes:
    result = b""
    for number in numbers:
        while number > 0x7F:
            result += bytes([number & 0x7F | 0x80])
            number >>= 7
        result += bytes([number])
    return result


def id_runs(ids: list[int]) -> bytes:
    """Returns the bytes of docs/codes-bin.md: 4 * step (backwards: 4 * -step - 2), plus 1 if the length of the run
    follows.
    """
    result, expected, at = b"", 0, 0
    while at < len(ids):
        length = next((n for n in range(1, len(ids) - at) if ids[at + n] != ids[at] + n), len(ids) - at)
        step = ids[at] - expected
        result += varints((4 * step if step >= 0 else -4 * step - 2) + (length > 1), *([length] if length > 1 else []))
        expected, at = ids[at] + length, at + length
    return result


RUNS = {
    "ascending": [0, 1, 2, 7, 8, 9, 10, 12, 500],
    "far": [2**61, 2**61 + 1, 2**61 + 2, 3, 4, 5, 6],
    "backwards and forwards": [*range(100, 120), *range(50, 60), *range(120, 140)],
    "to the end": [5, *range(2**62, 2**62 + 20)],
}


@pytest.mark.parametrize("name", RUNS)
def test_id_runs_are_read_and_written(tmp_path: Path, name: str) -> None:
    ids = RUNS[name]
    path, codes = tmp_path / "c.bin", codes_of(len(ids))
    sections = {CODES: codes.tobytes(), ID_RUNS: id_runs(ids)}
    written = (ITEMS, sections, len(ids), NO_FIRST_ID, int(ids == sorted(ids)))
    with opened(path, database(written, items=len(ids), next_id=2**63 - 1)) as db:
        assert db.ids.tolist() == ids
        np.testing.assert_array_equal(db.codes, codes)
        assert db.search(codes[3:4], 1)[1].tolist() == [[ids[3]]]
        db.verify()
    with ih.Database.create(path, 20, replace=True) as db:
        db.add(codes, ids)
        assert db.ids.tolist() == ids
        db.verify()
    assert ID_RUNS in (part for _, parts in records_of(path.read_bytes()) for part in parts)
    assert id_runs(ids) in path.read_bytes()


def records_of(raw: bytes) -> Iterator[tuple[int, list[int]]]:
    """Yields kind and sections of every record of a file."""
    at = FIRST_RECORD
    while at < len(raw):
        _, kind, length, _, _, _, count = struct.unpack_from("<4sIQQQII", raw, at)
        yield kind, [struct.unpack_from("<I", raw, at + 64 + 32 * i)[0] for i in range(count)]
        at += length


FORGED = {
    "2^61 codes": [(ITEMS, {CODES: FOUR.tobytes()}, 2**61, 0)],
    "2^32 - 1 codes": [(ITEMS, {CODES: FOUR.tobytes()}, 2**32 - 1, 0)],
    "one code more": [(ITEMS, {CODES: FOUR.tobytes()}, 5, 0)],
    "no codes": [(ITEMS, {}, 4, 0)],
    "no ids": [(ITEMS, {CODES: FOUR.tobytes()}, 4, NO_FIRST_ID)],
    "ids beyond 63 bits": [(ITEMS, {CODES: FOUR.tobytes()}, 4, 2**63 - 3)],
    "id offsets beyond 63 bits": [(ITEMS, {CODES: FOUR.tobytes(), ID_OFFSETS: bytes(16)}, 4, 2**63 - 1)],
    "id runs with a first id": [(ITEMS, {CODES: FOUR.tobytes(), ID_RUNS: b"\x01\x04"}, 4, 0)],
    "id runs of too few ids": [(ITEMS, {CODES: FOUR.tobytes(), ID_RUNS: b"\x01\x03"}, 4, NO_FIRST_ID)],
    "id runs of too many ids": [(ITEMS, {CODES: FOUR.tobytes(), ID_RUNS: b"\x01\x05"}, 4, NO_FIRST_ID)],
    "id runs without an end": [(ITEMS, {CODES: FOUR.tobytes(), ID_RUNS: b"\x01\x04\x80"}, 4, NO_FIRST_ID)],
    "id runs with a long number": [(ITEMS, {CODES: FOUR.tobytes(), ID_RUNS: b"\x80" * 10 + b"\x01"}, 4, NO_FIRST_ID)],
    "id runs of 2^64": [(ITEMS, {CODES: FOUR.tobytes(), ID_RUNS: b"\x01" + b"\xff" * 9 + b"\x01"}, 4, NO_FIRST_ID)],
    "id runs below 0": [(ITEMS, {CODES: FOUR.tobytes(), ID_RUNS: b"\x03\x04"}, 4, NO_FIRST_ID)],
    "id runs beyond 63 bits": [(ITEMS, {CODES: FOUR.tobytes(), ID_RUNS: varints(4 * (2**62 - 2)) * 4}, 4, NO_FIRST_ID)],
    "an id twice in id runs": [(ITEMS, {CODES: FOUR.tobytes(), ID_RUNS: b"\x01\x03\x02"}, 4, NO_FIRST_ID)],
    "padding": [(ITEMS, {CODES: b"\xff" * 12}, 4, 0)],
    "a negative id": [(ITEMS, {CODES: FOUR.tobytes(), IDS: struct.pack("<4q", 1, 2, 3, -4)}, 4, NO_FIRST_ID)],
    "an id twice": [(ITEMS, {CODES: FOUR.tobytes(), IDS: struct.pack("<4q", 1, 2, 2, 4)}, 4, NO_FIRST_ID)],
    "an id in two records": [GOOD, (ITEMS, {CODES: FOUR.tobytes()}, 4, 3)],
    "an id among many in two records": [(ITEMS, {CODES: 100 * FOUR.tobytes()}, 400, 0), (*GOOD[:2], 1, 77)],
    "keys without ends": [(ITEMS, {CODES: FOUR.tobytes(), KEYS: b"abc"}, 4, 0)],
    "descending key ends": [
        (ITEMS, {CODES: FOUR.tobytes(), KEY_ENDS: struct.pack("<4I", 3, 2, 1, 9), KEYS: b"abc"}, 4, 0)
    ],
    "keys longer than their ends": [
        (ITEMS, {CODES: FOUR.tobytes(), KEY_ENDS: struct.pack("<4I", 0, 1, 1, 2), KEYS: b"abc"}, 4, 0)
    ],
    "a missing label": [
        (
            ITEMS,
            {
                CODES: FOUR.tobytes(),
                LABELS: struct.pack("<4I", 0, 0, 0, 7),
                LABEL_TABLE: struct.pack("<II", 1, 1) + b"x",
            },
            4,
            0,
        )
    ],
    "a label table of 2^32 - 1": [
        (ITEMS, {CODES: FOUR.tobytes(), LABELS: bytes(16), LABEL_TABLE: struct.pack("<I", 2**32 - 1)}, 4, 0)
    ],
    "a label table without texts": [
        (ITEMS, {CODES: FOUR.tobytes(), LABELS: bytes(16), LABEL_TABLE: struct.pack("<II", 1, 5) + b"x"}, 4, 0)
    ],
    "checksums of another length": [(ITEMS, {CODES: FOUR.tobytes(), SUMS: bytes(63)}, 4, 0)],
    "mtime signatures of another length": [(ITEMS, {CODES: FOUR.tobytes(), MTIME_SIGNATURES: bytes(12)}, 4, 0)],
    "removals of nothing": [GOOD, (REMOVALS, {ROWS: bytes(4)}, 1, 8192)],
    "more removals than rows": [GOOD, (REMOVALS, {ROWS: bytes(20)}, 5, FIRST)],
    "a row removed twice": [GOOD, (REMOVALS, {ROWS: struct.pack("<2I", 1, 1)}, 2, FIRST)],
    "a missing row": [GOOD, (REMOVALS, {ROWS: struct.pack("<I", 4)}, 1, FIRST)],
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_numbers_are_corrupt(tmp_path: Path, name: str) -> None:
    records = FORGED[name]
    items = sum(numbers[2] if numbers[0] == ITEMS else -numbers[2] for numbers in records)
    path = tmp_path / "forged.bin"
    with raises(CorruptFileError, path=path), opened(path, database(*records, items=max(items, 0))) as db:
        db.verify()


def test_verify_with_all_items_good_gives_no_counts(tmp_path: Path) -> None:
    path = tmp_path / "codes.bin"
    with ih.Database.create(path, 8, {"name": "value"}) as db:
        db.add(np.zeros((25, 1), np.uint8))
    path.write_bytes(path.read_bytes().replace(b'"name"', b'"nbme"'))
    with raises(CorruptFileError, path=path, found=None, expected=None), ih.Database.open(path) as db:
        db.verify()


def test_forged_commits_are_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "forged.bin"
    for items, next_id in ((3, 10), (2**61, 10)):
        with raises(CorruptFileError, path=path, found="4 items", expected=str(items)):
            opened(path, database(GOOD, items=items, next_id=next_id))
    with (
        raises(CorruptFileError, path=path, found="0 items in good segments", expected=4, problem="less than 2"),
        opened(path, database(GOOD, items=4, next_id=2)) as db,
    ):
        db.verify()
    content = database(GOOD, items=4)
    place = content.rindex(b"RECD")
    for offset, problem in (
        (len(content), "behind it"),
        (2**63, "behind it"),
        (FIRST + 64, "head"),
        (8, "head"),
        (0, "head"),
    ):
        directory = struct.pack("<2Q", FIRST_RECORD, offset)
        forged = content[:place] + record(COMMIT, place, 1, {DIRECTORY: directory}, 4, 4, 1)
        with raises(CorruptFileError, path=path, problem=problem):
            opened(path, forged)
    for directory in (b"", b"1234567", struct.pack("<Q", FIRST)):
        with raises(CorruptFileError, path=path):
            opened(path, content[:place] + record(COMMIT, place, 1, {DIRECTORY: directory}, 4, 4, 1))


def test_overlapping_sections_are_corrupt(tmp_path: Path) -> None:
    content = bytearray(database((ITEMS, {CODES: FOUR.tobytes(), MTIME_SIGNATURES: bytes(16)}, 4, 0, 1), items=4))
    seed = struct.unpack_from("<I", content, 60)[0]
    entry = FIRST + 64 + 32
    for place, value in (
        (entry + 8, 192),
        (entry + 8, 2**64 - 64),
        (entry + 16, 2**64 - 1),
        (entry + 24, 2**62),
        (entry, CODES),
    ):
        forged = bytearray(content)
        struct.pack_into("<Q" if place != entry else "<I", forged, place, value)
        end = FIRST + 64 + 2 * 32
        struct.pack_into("<I", forged, end, crc32c(bytes(forged[FIRST:end]), seed))
        with raises(
            CorruptFileError, path=tmp_path / "c.bin", problem="codes" if place == entry else "mtime signatures"
        ):
            opened(tmp_path / "c.bin", bytes(forged))


def test_open_of_other_files_versions_and_bits_raises(tmp_path: Path) -> None:
    path = tmp_path / "c.bin"
    good = database(GOOD, items=4)
    for content, result in (
        (b"", "0 bytes"),
        (b"PK" + bytes(200), None),
        (good[:63], "63 bytes"),
        (good[:64], "64 bytes"),
        (good[:FIRST_RECORD], None),
    ):
        with raises(CorruptFileError, path=path, found=result):
            opened(path, content)
    for version in (0, 2):
        with raises(NotSupportedError, path=path, found=str(version), expected="1"):
            opened(path, header(20, version) + good[64:])
    for bits in (0, 2**31):
        with raises(CorruptFileError, path=path, found=f"{bits} bits", expected="1 to 65535"):
            opened(path, header(bits, 1) + good[64:])
    with pytest.raises(FileNotFoundError):
        ih.Database.open(tmp_path / "missing.bin")
    with pytest.raises(IsADirectoryError):
        ih.Database.open(tmp_path)
    with pytest.raises(ValueError, match="mode"):
        ih.Database.open(path, "w")


@pytest.fixture
def living(tmp_path: Path) -> Path:
    """A file with two segments, removals, and obsolete records of adds and a replace."""
    path = tmp_path / "codes.bin"
    codes = codes_of(110)
    with ih.Database.create(path, 20, {"a": "b"}) as db:
        db.add(codes[:100], keys=[f"{i}.png" for i in range(100)], labels=["cat", None] * 50)
        db.add(codes[100:105], ids=[900, 1000, 777, 5000, 999])
        db.remove([1, 3])
        db.replace([900], codes[105:106], mtime_signatures=np.array([9], np.uint32))
    return path


def contents(db: ih.Database) -> tuple:
    return db.codes.tobytes(), db.ids.tolist(), db.keys(), db.labels(), db.mtime_signatures().tolist(), db.manifest


def changed_files(raw: bytes) -> Iterator[tuple[int, bytes]]:
    for place in range(len(raw)):
        changed = bytearray(raw)
        changed[place] ^= 1 << place % 8
        yield place, bytes(changed)


@pytest.mark.slow
def test_every_changed_byte_is_found(living: Path, tmp_path: Path) -> None:
    """Every read gives the correct contents or an error. Changed bytes without an error are not used."""
    raw = living.read_bytes()
    with ih.Database.open(living) as db:
        truth, unused = contents(db), db.info()["unused"]
    path = tmp_path / "changed.bin"
    passed = set()
    for place, changed in changed_files(raw):
        path.write_bytes(changed)
        try:
            with ih.Database.open(path) as db:
                assert contents(db) == truth
                db.verify()
                passed.add(place)
        except CorruptFileError as error:
            assert error.path == str(path)
    marks = {*range(512, 576), *range(1024, 1088)}  # each mark can replace the other
    assert len(passed - marks) <= unused


def test_check_reports_and_verify_raises(living: Path) -> None:
    with ih.Database.open(living) as db:
        good = db.check()
        assert (good.corrupt, good.items, good.good_items, good.torn) == ((), len(db), len(db), 0)
        code = db.get(777).tobytes()
    content = bytearray(living.read_bytes())
    at = content.rindex(code)
    content[at] ^= 1
    living.write_bytes(content + b"torn")
    with ih.Database.open(living) as db:
        result = db.check(threads=1)
        assert (len(result.corrupt), result.items, result.torn) == (1, good.items, 4)
        span = result.corrupt[0]
        assert span.offset <= at < span.offset + span.length and "codes" in span.what
        with raises(CorruptFileError, path=living, expected=result.items, problem=span.what):
            db.verify()


def test_check_since_a_commit_leaves_out_its_items(living: Path) -> None:
    with ih.Database.open(living, "r+") as db:
        before, size = db.info()["commit"], living.stat().st_size
        code = db.get(777).tobytes()
        db.add(codes_of(5000, db.bits, seed=9), keys=[f"since {i}" for i in range(5000)])
    good = living.read_bytes()
    for at, since, corrupt in (
        (good.rindex(code, 0, size), before, False),
        (good.rindex(code, 0, size), before - 1, True),
        (good.rindex(b"since 4321"), before, True),
        (good.rindex(b"since 4321"), before + 1, False),
    ):
        content = bytearray(good)
        content[at] ^= 1
        living.write_bytes(content)
        with ih.Database.open(living) as db:
            assert bool(db.check(since=since).corrupt) == corrupt and db.check().corrupt
            assert db.check(since=since).items == len(db)
            with pytest.raises(ValueError, match="since must be"):
                db.verify(since=-1)
            with pytest.raises(TypeError, match="since must be"):
                db.verify(since=1.5)  # type: ignore[arg-type]


def test_flip_in_newest_mark_and_its_commit_is_found(living: Path, tmp_path: Path) -> None:
    """Opening must not silently use the previous commit, which the next writer would make the last."""
    raw, path = living.read_bytes(), tmp_path / "changed.bin"
    marks = {at: struct.unpack_from("<4sIQQQ28xI", raw, at) for at in (512, 1024)}
    newest = max(marks, key=lambda at: marks[at][2])
    begin, before = marks[newest][3], min(mark[4] for mark in marks.values())
    assert before < begin < len(raw)
    for place in (*range(newest, newest + 32, 3), newest + 63):
        for other in (*range(begin, begin + 100, 7), before, before + 40):  # the commit and the first of its records
            changed = bytearray(raw)
            changed[place] ^= 1 << place % 8
            changed[other] ^= 1 << other % 8
            path.write_bytes(changed)
            for mode in ("r", "r+"):
                with raises(CorruptFileError, path=path, problem="mark"):
                    ih.Database.open(path, mode)
            assert path.read_bytes() == changed


def test_torn_newest_mark_is_written_again(living: Path) -> None:
    raw = bytearray(living.read_bytes())
    newest = max((512, 1024), key=lambda at: struct.unpack_from("<Q", raw, at + 8)[0])
    with ih.Database.open(living) as db:
        truth = contents(db)
    raw[newest + 20 : newest + 64] = bytes(44)
    living.write_bytes(raw)
    for mode in ("r", "r+", "r"):
        with ih.Database.open(living, mode) as db:
            assert contents(db) == truth
    with ih.Database.open(living) as db:
        db.verify()


@pytest.mark.parametrize("every", [97])
def test_every_truncation_is_found(living: Path, tmp_path: Path, every: int) -> None:
    raw = living.read_bytes()
    with ih.Database.open(living) as db:
        truth = contents(db)
    path = tmp_path / "cut.bin"
    for length in [*range(0, len(raw), every), *range(len(raw) - 300, len(raw))]:
        with raises(CorruptFileError, path=path):
            opened(path, raw[:length])
    for junk in (b"\0", b"\0" * 64, b"junk" * 100, raw):
        with opened(path, raw + junk) as db:  # like a write that never ended
            assert contents(db) == truth and db.check().torn == len(junk)
        with ih.Database.open(path, "r+") as db:
            assert contents(db) == truth and path.stat().st_size == len(raw)


def test_file_cut_off_under_its_reader_raises(tmp_path: Path) -> None:
    """Without a handler the second search would end the process by SIGBUS."""
    path = tmp_path / "c.bin"
    codes = codes_of(200_000, 64)
    with ih.Database.build(path, 64) as db:
        db.add(codes)
    uses: list[Callable[[ih.Database], object]] = [
        lambda db: db.search(codes[:1], 3),
        lambda db: db.count(codes[:1], 3),
        lambda db: db.get([199_999]),
        lambda db: db.verify(),
    ]
    raw = path.read_bytes()
    for searched in (True, False):
        for use in uses:
            path.write_bytes(raw)
            with ih.Database.open(path) as db:
                if searched:
                    assert db.search(codes[:1], 1)[1].shape == (1, 1)
                with path.open("r+b") as file:
                    file.truncate(300_000)
                with raises(CorruptFileError, path=path):
                    use(db)


def test_file_cut_off_leaves_other_databases_alone(tmp_path: Path) -> None:
    """Covers files mapped earlier at higher addresses, and another file between them and the truncated one."""
    codes = codes_of(200_000, 64)
    paths = [tmp_path / f"{i}.bin" for i in range(3)]
    for path in paths:
        with ih.Database.build(path, 64) as db:
            db.add(codes)
    for last in (False, True):  # the second time, the first file has the handler's former entry of the last
        opened = []
        for path in paths:
            opened.append(ih.Database.open(path))
            opened[-1].count(codes[:1], 3)
        closed, whole, cut = opened
        closed.close()
        if last:
            with paths[2].open("r+b") as file:
                file.truncate(300_000)
            with raises(CorruptFileError, path=paths[2]):
                cut.count(codes[:1], 3)
            assert whole.search(codes[-1:], 1)[0].tolist() == [[0]]
        whole.close()
        cut.close()
