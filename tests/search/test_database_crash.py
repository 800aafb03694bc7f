"""A writer that is killed at any moment, and readers beside a running writer: real processes on one file.

IDCWH_TEST_KILLS sets the number of killed writers (20), IDCWH_TEST_SECONDS the seconds of the readers (3).
"""

from __future__ import annotations

import os
import random
import select
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from idcwh_search import _core

pytestmark = pytest.mark.slow

BITS = 64
KILLS = int(os.environ.get("IDCWH_TEST_KILLS", "20"))
SECONDS = float(os.environ.get("IDCWH_TEST_SECONDS", "3"))
Model = dict[int, int]  # id to the step that wrote it, which is its mtime signature


def codes_of(ids: np.ndarray, signatures: np.ndarray) -> np.ndarray:
    """Returns the code of each id, which follows from the id and its mtime signature: uint8 (n, 8)."""
    mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + signatures.astype(np.uint64) * np.uint64(
        0xBF58476D1CE4E5B9
    )
    return (mixed ^ (mixed >> np.uint64(29))).view(np.uint8).reshape(-1, 8)


def keys_of(ids: np.ndarray, signatures: np.ndarray) -> list[str]:
    return [f"{i}/{signature}" for i, signature in zip(ids.tolist(), signatures.tolist(), strict=True)]


def plan(step: int, model: Model) -> tuple[str, np.ndarray, np.ndarray]:
    """Returns the kind of a step, the ids that it removes and the ids that it adds."""
    rng = np.random.default_rng(step)
    kind = rng.choice(["update", "remove", "add", "compact"], p=[0.4, 0.2, 0.35, 0.05])
    there = np.array(sorted(model), np.int64)
    removed = there[rng.random(len(there)) < (0.4 if len(there) > 2000 else 0.05)]
    new = step * 1000 + rng.permutation(int(rng.integers(1, 300)))
    if kind == "add":
        return kind, removed[:0], new
    if kind == "remove":
        return kind, removed, new[:0]
    return kind, removed, np.concatenate([removed[::2], new])  # some are replaced


def after(step: int, model: Model) -> Model:
    kind, removed, added = plan(step, model)
    if kind == "compact":
        return model
    gone = set(removed.tolist())
    return {i: signature for i, signature in model.items() if i not in gone} | dict.fromkeys(added.tolist(), step)


def do(database: _core.Database, step: int, model: Model) -> None:
    kind, removed, added = plan(step, model)
    if kind == "compact":
        database.compact()
    elif kind == "remove":
        assert database.remove(removed) == len(removed)
    else:
        signatures = np.full(len(added), step, np.uint32)
        database.update(removed, codes_of(added, signatures), added, keys_of(added, signatures), None, signatures)


def contents(database: _core.Database) -> Model:
    """Returns the contents, in which each item must be complete and occur once."""
    snapshot = database.snapshot()
    codes, ids = snapshot.copy()
    signatures = snapshot.mtime_signatures()
    assert len(set(ids.tolist())) == len(ids)
    assert np.array_equal(codes, codes_of(ids, signatures))
    assert [key or "" for key in snapshot.keys(None)] == keys_of(ids, signatures)
    return dict(zip(ids.tolist(), signatures.tolist(), strict=True))


def write_until_killed(path: bytes, step: int) -> None:
    os.write(1, b"!")
    database = _core.Database.open(path, True)
    model = contents(database)
    while True:
        do(database, step, model)
        os.write(1, b".")  # acknowledged
        model = after(step, model)
        step += 1


def write_for_readers(path: bytes) -> None:
    """Writes commits of 1000 items until standard input ends. Each change replaces some of them."""
    database = _core.Database.open(path, True)
    rng = np.random.default_rng(1)
    there = np.arange(1000)
    step = 1
    while not select.select([0], [], [], 0)[0]:
        removed = rng.choice(there, int(rng.integers(1, 50)), replace=False)
        added = step * 1000 + np.arange(len(removed))
        signatures = np.full(len(added), step, np.uint32)
        database.update(removed, codes_of(added, signatures), added, keys_of(added, signatures), None, signatures)
        there = np.concatenate([np.setdiff1d(there, removed), added])
        if step % 40 == 0:
            database.compact()
        step += 1
    print(database.snapshot().commit)


def read_beside(path: bytes, seconds: float) -> None:
    database = _core.Database.open(path)
    end = time.monotonic() + seconds
    seen = 0
    while time.monotonic() < end or seen < 4:
        seen += database.refresh()
        assert len(contents(database)) == 1000
        snapshot = database.snapshot()
        codes, ids = snapshot.copy()
        query = codes[seen % 1000]
        distances = np.unpackbits(codes ^ query, axis=1).sum(axis=1, dtype=np.int32)
        order = np.lexsort((ids, distances))[:10]
        result = snapshot.topk(query[None], 10)
        assert np.array_equal(result[0][0], distances[order])
        assert np.array_equal(result[1][0], ids[order])
        if seen % 20 == 0:
            assert not _core.Database.open(path).check()["corrupt"]
    print(seen)


def start(*arguments: object) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, __file__, *map(str, arguments)], bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe
    )


def test_killed_writers_keep_acknowledged_changes(tmp_path: Path) -> None:
    path = bytes(tmp_path / "codes.bin")
    _core.Database.create(path, BITS, b"{}").close()
    moments = random.Random(1)
    step, model = 0, Model()
    unacknowledged = 0
    for kill in range(KILLS):
        writer = start("write_until_killed", os.fsdecode(path), step)
        assert writer.stdout and writer.stderr
        assert writer.stdout.read(1) == b"!"
        # half of them complete some steps, however slow the machine is
        early = writer.stdout.read(1) if kill % 2 else b""
        time.sleep(moments.random() ** 2 * 0.2)
        writer.kill()
        acknowledged, complaint = writer.communicate()
        assert not complaint, complaint.decode()
        for _ in early + acknowledged:
            model = after(step, model)
            step += 1
        database = _core.Database.open(path)
        result = contents(database)
        assert not database.check()["corrupt"]
        if result != model:
            model = after(step, model)
            step += 1
            unacknowledged += 1
        assert result == model
    print(f"{KILLS} kills, {step} steps, {unacknowledged} done but not acknowledged, {len(model)} items")
    assert step >= KILLS // 2
    with_writer = _core.Database.open(path, True)  # removes the files of killed writers
    assert not with_writer.check()["corrupt"]
    assert [place.name for place in tmp_path.iterdir()] == ["codes.bin"]


def test_readers_beside_writer_see_whole_changes(tmp_path: Path) -> None:
    path = bytes(tmp_path / "codes.bin")
    database = _core.Database.create(path, BITS, b"{}")
    ids, signatures = np.arange(1000), np.zeros(1000, np.uint32)
    database.update(ids[:0], codes_of(ids, signatures), ids, keys_of(ids, signatures), None, signatures)
    database.close()
    writer = start("write_for_readers", os.fsdecode(path))
    counts = []
    for process in [*(start("read_beside", os.fsdecode(path), SECONDS) for _ in range(3)), writer]:
        out, complaint = process.communicate(timeout=SECONDS + 120)
        assert process.returncode == 0, complaint.decode()
        counts.append(int(out))
    print(f"{counts[-1]} commits, of which readers saw {counts[:-1]}")
    assert min(counts) > 3
    assert len(contents(_core.Database.open(path))) == 1000


if __name__ == "__main__":
    {
        "write_until_killed": lambda: write_until_killed(os.fsencode(sys.argv[2]), int(sys.argv[3])),
        "write_for_readers": lambda: write_for_readers(os.fsencode(sys.argv[2])),
        "read_beside": lambda: read_beside(os.fsencode(sys.argv[2]), float(sys.argv[3])),
    }[sys.argv[1]]()
