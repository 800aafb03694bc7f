"""Fixtures of the search tests: random codes of any width, a small model.onnx, and oracles in numpy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import idcwh_search as ih
from idcwh_search.encoder.metadata import ModelInfo
from idcwh_search.images.preprocess import Preprocess


class Codes:
    """Makers of codes and their brute-force results."""

    @staticmethod
    def random(rng: np.random.Generator, n: int, bits: int) -> np.ndarray:
        """Returns uint8 (n, ceil(bits / 8)) with zero padding."""
        return np.packbits(rng.integers(0, 2, (n, bits), dtype=np.uint8), axis=1, bitorder="little")

    @staticmethod
    def distances(queries: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Returns int32 (nq, n), counted bit by bit."""
        result = np.zeros((len(queries), len(codes)), np.int32)
        for q, query in enumerate(queries):
            result[q] = np.unpackbits(codes ^ query, axis=1).sum(axis=1, dtype=np.int32)
        return result

    @classmethod
    def ranking(
        cls, queries: np.ndarray, codes: np.ndarray, ids: np.ndarray | None = None, rows: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns (D, I) of every eligible code by (distance, id), from a lexsort of all distances."""
        names = np.arange(len(codes)) if ids is None else np.asarray(ids)
        rows = np.arange(len(codes)) if rows is None else rows
        measured = cls.distances(queries, codes)[:, rows]
        order = np.array([np.lexsort((names[rows], row)) for row in measured], dtype=np.int64).reshape(measured.shape)
        return np.take_along_axis(measured, order, axis=1), names[rows][order].astype(np.int64)


class LinearModel:
    """A model.onnx of a linear map with small whole numbers, for which float32 is exact, and its expected results."""

    side = 8

    def __init__(self, folder: Path, make: Callable[..., onnx.ModelProto]) -> None:
        self.path, self._make = folder / "model.onnx", make

    def write(self, bits: int = 12, meta: dict[str, str | None] | None = None, **options: Any) -> Path:
        """Writes the file; `meta` replaces metadata, and None removes an entry."""
        result = self.proto(bits, **options)
        values = {**self.info(bits).to_metadata(), **(meta or {})}
        del result.metadata_props[:]
        helper.set_model_props(result, {key: value for key, value in values.items() if value is not None})
        self.path.write_bytes(result.SerializeToString())
        return self.path

    def proto(self, bits: int, **options: Any) -> onnx.ModelProto:
        result = self._make(self._weights(bits), 128, **options)
        helper.set_model_props(result, self.info(bits).to_metadata())
        return result

    @classmethod
    def info(cls, bits: int) -> ModelInfo:
        preprocess, classes = Preprocess(cls.side + 2, cls.side), ["chat", "Straße"]
        return ModelInfo(bits, preprocess, classes, {"name": "idcwh"}, {"name": "none"}, "0" * 64)

    @classmethod
    def _weights(cls, bits: int) -> np.ndarray:
        return np.random.default_rng(bits).integers(-3, 4, (cls.side * cls.side * 3, bits)).astype(np.float32)

    @classmethod
    def images(cls, n: int, seed: int = 0) -> np.ndarray:
        """Returns uint8 [n, side, side, 3]."""
        return np.random.default_rng(seed).integers(0, 256, (n, cls.side, cls.side, 3), dtype=np.uint8)

    @classmethod
    def logits(cls, pixels: np.ndarray, bits: int) -> np.ndarray:
        """Returns float64 [n, bits]."""
        flat = pixels.astype(np.float64).reshape(len(pixels), cls.side * cls.side * 3)
        return (flat - 128) @ cls._weights(bits)

    @classmethod
    def codes(cls, pixels: np.ndarray, bits: int) -> np.ndarray:
        """Returns uint8 [n, ceil(bits / 8)]."""
        return np.packbits(cls.logits(pixels, bits) >= 0, axis=1, bitorder="little")


@pytest.fixture
def linear(tmp_path: Path, make_linear: Callable[..., onnx.ModelProto]) -> LinearModel:
    return LinearModel(tmp_path, make_linear)


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
