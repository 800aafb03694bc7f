"""Databases of every released format version: frozen/codes-VERSION.bin, never written again, always readable."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

import idcwh_search as ih

FROZEN = Path(__file__).parent / "frozen"
CODES = np.array([[i * 37 % 256, i * 91 % 256, i % 16] for i in range(120)], np.uint8)

Item = tuple[list[int], str | None, str | None, int]


def contents_of_version_1() -> dict[int, Item]:
    """Returns code, key, label and mtime signature by id, as they were written."""
    far = 2**62
    rows: dict[int, Item] = {
        i: (CODES[i].tolist(), f"a/{i}.png" if i % 3 else None, ("cat", None, "Füchse", "")[i % 4], 0)
        for i in range(100)
        if i not in (1, 50, 3)
    }
    others = {9000: 100, far: 101, 5000: 103}
    rows |= {number: (CODES[i].tolist(), None, None, 0) for number, i in others.items()}
    signatures = {far + 9: 1, far + 10: 2, far + 11: 3, far + 500: 4}
    rows |= {number: (CODES[105 + i].tolist(), None, None, 7 * i) for number, i in signatures.items()}
    rows[200] = (CODES[110].tolist(), "new", "dog", 1)
    rows[3] = (CODES[111].tolist(), "b\n.png", "cat", 2**32 - 1)
    rows |= {far + 501 + i: (CODES[112 + i].tolist(), None, None, 0) for i in range(8)}
    return rows


def contents(db: ih.Database) -> dict[int, Item]:
    columns = zip(
        db.ids.tolist(), db.codes.tolist(), db.keys(), db.labels(), db.mtime_signatures().tolist(), strict=True
    )
    return {number: (code, key, label, signature) for number, code, key, label, signature in columns}


def test_version_1_is_read(tmp_path: Path) -> None:
    with ih.Database.open(FROZEN / "codes-1.bin") as db:
        assert contents(db) == contents_of_version_1() and db.manifest == {"model": {"sha256": "ab", "bits": 20}}
        assert not db.checksums().any()
        db.verify()
        distances, ids = db.rank(CODES[:1])
        expected = sorted(
            (int(np.unpackbits(np.array(code, np.uint8) ^ CODES[0]).sum()), number)
            for number, (code, *_) in contents_of_version_1().items()
        )
        assert list(zip(distances[0].tolist(), ids[0].tolist(), strict=True)) == expected
    copy = tmp_path / "codes.bin"
    shutil.copyfile(FROZEN / "codes-1.bin", copy)
    with ih.Database.open(copy, "r+") as db:
        db.remove([0])
        db.compact()
        assert contents(db) == {number: item for number, item in contents_of_version_1().items() if number != 0}


def test_version_1_with_checksums_is_read(tmp_path: Path) -> None:
    """Items with checksums were written before and after items without, then merged with them."""
    sums = [[0, 0] if i % 3 == 0 else [i, 2**64 - i] for i in range(20)]
    copy = tmp_path / "codes.bin"
    shutil.copyfile(FROZEN / "codes-1-checksums.bin", copy)
    with ih.Database.open(copy, "r+") as db:
        for _ in range(2):
            db.verify()
            assert db.codes.tolist() == CODES[:20].tolist() and db.checksums().tolist() == sums
            db.compact()
