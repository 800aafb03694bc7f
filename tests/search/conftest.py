"""Shared by the tests of the engine: random codes of any width, and the oracles (numpy, faiss)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import idcwh_search as ih


class Codes:
    """Makers of codes, and the brute-force results they must give."""

    @staticmethod
    def random(rng: np.random.Generator, n: int, bits: int) -> np.ndarray:
        """uint8 (n, ceil(bits / 8)), padding zero."""
        return np.packbits(rng.integers(0, 2, (n, bits), dtype=np.uint8), axis=1, bitorder="little")

    @staticmethod
    def distances(queries: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """int32 (nq, n), counted bit by bit."""
        found = np.zeros((len(queries), len(codes)), np.int32)
        for q, query in enumerate(queries):
            found[q] = np.unpackbits(codes ^ query, axis=1).sum(axis=1, dtype=np.int32)
        return found

    @classmethod
    def ranking(
        cls, queries: np.ndarray, codes: np.ndarray, ids: np.ndarray | None = None, rows: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(D, I) of every eligible code, by (distance, id): a lexsort of all distances."""
        names = np.arange(len(codes)) if ids is None else np.asarray(ids)
        rows = np.arange(len(codes)) if rows is None else rows
        measured = cls.distances(queries, codes)[:, rows]
        order = np.array([np.lexsort((names[rows], row)) for row in measured], dtype=np.int64).reshape(measured.shape)
        return np.take_along_axis(measured, order, axis=1), names[rows][order].astype(np.int64)


@pytest.fixture
def code_maker() -> type[Codes]:
    return Codes


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240601)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """300 codes of 20 bits in three segments: given ids, keys and labels for some of them."""
    path = tmp_path / "codes.bin"
    with ih.Database.create(path, 20, {"model": {"sha256": "ab"}}) as db:
        codes = ih.pack(np.random.default_rng(0).integers(0, 2, (300, 20)).astype(bool))
        db.add(codes[:100], keys=[f"a/{i}.png" for i in range(100)], labels=["cat", None] * 50)
        db.add(codes[100:200], ids=np.arange(10**12, 10**12 - 100, -1))
        db.add(codes[200:], keys=["Überraschung\n.png", None] * 50, labels=["dog"] * 100)
    return path
