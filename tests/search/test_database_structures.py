"""Database.optimize, which must change only the time of searches: results equal numpy's before and after changes."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search.errors import CorruptFileError
from support.errors import raises


def learned(rng: np.random.Generator, n: int, bits: int) -> np.ndarray:
    """Returns codes like those of a trained model: near one of ten centers, many of them equal."""
    centers = rng.integers(0, 2, (10, bits))
    return ih.pack((centers[rng.integers(0, 10, n)] ^ (rng.random((n, bits)) < 0.01)).astype(bool))


def check(db: ih.Database | ih.DatabaseSnapshot, queries: np.ndarray) -> None:
    """Compares every search with all distances, sorted by (distance, id)."""
    ids, codes = db.ids, db.codes
    every = np.bitwise_count(queries[:, None] ^ codes[None]).sum(axis=2, dtype=np.int32)
    orders = [np.lexsort((ids, row)) for row in every]
    distances, result = db.search(queries, 20)
    limits, _, within = db.range_search(queries, 3)
    some = ids[::3]
    _, filtered = db.search(queries, 20, where=some)
    for q, (a, b) in enumerate(itertools.pairwise(limits)):
        order = orders[q]
        np.testing.assert_array_equal(result[q], ids[order[:20]])
        np.testing.assert_array_equal(distances[q], every[q][order[:20]])
        np.testing.assert_array_equal(within[a:b], ids[order[every[q][order] <= 3]])
        np.testing.assert_array_equal(filtered[q], ids[order[np.isin(ids[order], some)]][:20])
        np.testing.assert_array_equal(db.histogram(queries)[q], np.bincount(every[q], minlength=db.bits + 1))
    np.testing.assert_array_equal(db.rank(queries[:1])[1][0], ids[orders[0]])
    np.testing.assert_array_equal(db.count(queries, 3), (every <= 3).sum(axis=1))


def test_optimized_database_equals_numpy(tmp_path: Path, rng: np.random.Generator) -> None:
    codes = learned(rng, 44_000, 48)
    queries = np.concatenate([codes[:3], learned(rng, 2, 48)])
    path = tmp_path / "codes.bin"
    with ih.Database.create(path, 48) as db, ih.Database.open(path) as reader:
        db.add(codes[:15_000])
        db.add(codes[15_000:22_000], ids=np.arange(10**9, 10**9 - 7000, -1))
        reader.refresh()
        kept = reader.snapshot()
        for both in (db, reader):
            assert both.structures() == [] and both.explain(k=10).path == "scan"
            both.optimize()
            assert [built["codes"] for built in both.structures()] == [15_000, 7000]
            assert both.explain(k=10).path == "groups"
            check(both, queries)
        assert kept.structures() == [] and reader.memory > kept.memory
        db.remove(np.arange(0, 15_000, 9))
        db.replace([10**9, 4], codes[:2])
        check(db, queries)
        assert reader.refresh() and len(reader) == len(db)
        check(reader, queries)
        db.add(codes[22_000:])
        assert reader.refresh()
        for both in (db, reader):
            assert 22_000 in [built["codes"] for built in both.structures()]
            check(both, queries)
        db.compact()
        assert [built["codes"] for built in db.structures()] == [len(db)]
        assert reader.refresh() and [built["codes"] for built in reader.structures()] == [len(db)]
        check(reader, queries)
        reader.drop_structures()
        assert reader.structures() == []
        check(reader, queries)
        size = path.stat().st_size
        db.optimize(memory=0)
        assert db.structures() == [] and path.stat().st_size == size
        check(kept, queries)
    with ih.Database.open(path) as db:
        assert db.structures() == []
        db.verify()


def test_optimize_with_invalid_arguments_raises(tmp_path: Path) -> None:
    path = tmp_path / "codes.bin"
    with ih.Database.create(path, 8) as db:
        db.optimize()
        assert db.structures() == [] and len(db) == 0
        with pytest.raises(ValueError, match=r"^memory"):
            db.optimize(memory=-1)
        with pytest.raises(ValueError, match=r"^threads"):
            db.optimize(threads=5000)
        db.add(np.zeros((200_000, 1), np.uint8))
    cut = ih.Database.open(path)
    with path.open("r+b") as file:
        file.truncate(100_000)
    with raises(CorruptFileError, path=path, problem="truncated"):
        cut.optimize()
    with pytest.raises(ValueError, match=f"^{path}: "):
        db.optimize()
