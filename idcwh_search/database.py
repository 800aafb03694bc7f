"""Database: codes with ids, keys and labels in one file, searched where they lie.

The bytes are in codesbin.py and segment.py; writing a new one is in builder.py. Opening maps the file: nothing is
copied, and a block is verified when it is first read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core, codesbin
from .codes import check_codes, code_bytes
from .codesbin import ITEMS, JSON, MANIFEST
from .errors import IdcwhError
from .segment import Segment
from .selection import Rows, Where, as_ids

if TYPE_CHECKING:
    from .builder import DatabaseBuilder

SegmentView = tuple[np.ndarray, np.ndarray | None, Rows]


class Database:
    """A codes.bin: `create` a new one and `add` to it, or `open` one. A context manager both ways."""

    def __init__(self, path: Path, mapped: codesbin.Mapped) -> None:
        """Use `open` or `create`."""
        self.path = path
        self._use(mapped)

    def _use(self, mapped: codesbin.Mapped) -> None:
        self.bits = mapped.bits
        self._mapped = mapped
        self.manifest, self._segments = _contents(mapped)
        self._closed = False

    @classmethod
    def open(cls, path: str | os.PathLike[str], mode: str = "r") -> Database:
        """Map a database for searching. IdcwhError for a file that is no whole codes.bin, OSError for none at all."""
        if mode != "r":
            raise ValueError(f"mode {mode!r}: a codes.bin is opened with 'r'; make a new one with Database.create")
        place = Path(path)
        return cls(place, codesbin.Mapped(place))

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], bits: int, model: dict[str, Any] | None = None, *, replace: bool = False
    ) -> DatabaseBuilder:
        """Begin a new database of `bits`-bit codes. It appears at `path`, whole and synced, when it is closed.

        `model` describes what makes the codes (any JSON-serialisable dictionary). An existing file is an error
        unless `replace` is set. Leaving the `with` block by an exception leaves nothing behind.
        """
        from .builder import DatabaseBuilder

        return DatabaseBuilder(Path(path), bits, model, replace=replace)

    def __len__(self) -> int:
        return sum(segment.items for segment in self._live())

    def _live(self) -> list[Segment]:
        """The segments, of a database that is open."""
        if self._closed:
            raise ValueError(f"{self.path}: the database is closed")
        return self._segments

    # searching: every result is ordered by (distance, id)

    def search(
        self, queries: np.ndarray, k: int, where: Where = None, threads: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The `k` nearest: distances int32 and ids int64, both (queries, min(k, eligible))."""
        parts = [
            _core.topk(codes, self.bits, queries, k, ids, rows, threads)
            for codes, ids, rows in self._each_segment(queries, where)
        ]
        return _merge(parts, k)

    def rank(
        self, queries: np.ndarray, where: Where = None, threads: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The full Hamming ranking of every eligible item: distances int32 and ids int64, both (queries, eligible)."""
        parts = [
            _core.rank(codes, self.bits, queries, ids, rows, threads)
            for codes, ids, rows in self._each_segment(queries, where)
        ]
        return _merge(parts, len(self))

    def range_search(
        self, queries: np.ndarray, radius: int, where: Where = None, threads: int | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Every item within `radius`, inclusive: limits int64 (queries + 1), distances int32, ids int64.

        The hits of query q are those at limits[q]:limits[q + 1], in order.
        """
        parts = [
            _core.radius(codes, self.bits, queries, radius, ids, rows, threads)
            for codes, ids, rows in self._each_segment(queries, where)
        ]
        return _merge_ranges(parts)

    def _each_segment(self, queries: np.ndarray, where: Where) -> Iterable[SegmentView]:
        """Codes, ids (None: row numbers) and eligible rows of each segment, at least one."""
        check_codes(queries, self.bits, name="queries")
        segments = self._live()
        if where is not None and not isinstance(where, range):
            where = np.asarray(where)
        mask = where if isinstance(where, np.ndarray) and where.dtype == bool else None
        if mask is not None and mask.shape != (len(self),):
            raise ValueError(f"where: a mask has one entry per item: expected shape ({len(self)},), not {mask.shape}")
        if not segments:
            yield self.codes, None, None
        stop = 0
        for segment in segments:
            start, stop = stop, stop + segment.items
            chosen = where if mask is None else mask[start:stop]
            ids = None if segment.first_id == 0 else segment.ids
            yield segment.codes, ids, segment.eligible(chosen)

    # looking up

    def keys(self, ids: Sequence[int] | np.ndarray | None = None) -> list[str | None]:
        """The keys (image paths) of these ids, or of all in row order; None where an item has none."""
        return [segment.key(row) for segment, row in self._rows(ids)]

    def labels(self, ids: Sequence[int] | np.ndarray | None = None) -> list[str | None]:
        """The labels of these ids, or of all in row order; None where an item has none."""
        return [segment.label(row) for segment, row in self._rows(ids)]

    def label_names(self) -> list[str]:
        """The distinct labels that occur, sorted."""
        return sorted({name for segment in self._live() for name in segment.label_names})

    def get(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """The codes of these ids, uint8 (len(ids), code bytes). KeyError for an id that is not there."""
        found = [segment.codes[row] for segment, row in self._rows(ids)]
        return np.array(found, dtype=np.uint8).reshape(-1, code_bytes(self.bits))

    @property
    def ids(self) -> np.ndarray:
        """All ids in row order, int64."""
        return np.concatenate([np.empty(0, np.int64), *(segment.ids for segment in self._live())])

    @property
    def codes(self) -> np.ndarray:
        """All codes in row order, uint8 (items, code bytes); in the file when they are one segment, else a copy."""
        segments = self._live()
        if len(segments) == 1:
            return segments[0].codes
        return np.concatenate(
            [np.empty((0, code_bytes(self.bits)), np.uint8), *(segment.codes for segment in segments)]
        )

    def _rows(self, ids: Sequence[int] | np.ndarray | None) -> Iterable[tuple[Segment, int]]:
        if ids is None:
            return ((segment, row) for segment in self._live() for row in range(segment.items))
        return (self._row(number) for number in as_ids(ids).reshape(-1).tolist())

    def _row(self, number: int) -> tuple[Segment, int]:
        for segment in self._live():
            row = segment.row_of(number)
            if row is not None:
                return segment, row
        raise KeyError(f"no item with id {number} in {self.path}")

    # the file

    def info(self) -> dict[str, Any]:
        """What is in the file: items, code length, segments, size in bytes, and the manifest."""
        segments = self._live()
        size = {"items": len(self), "bits": self.bits, "segments": len(segments), "bytes": self._mapped.size}
        return {"path": str(self.path), "format": codesbin.VERSION, **size, "manifest": self.manifest}

    def verify(self) -> None:
        """Read and check everything; IdcwhError names the first place that is wrong."""
        segments = self._live()
        self._mapped.verify()
        for segment in segments:
            segment.verify()
        if len(np.unique(self.ids)) != len(self):
            raise IdcwhError(f"{self.path}: an id occurs twice; build it again")

    def close(self) -> None:
        """Let go of the file. Arrays taken from the database stay valid."""
        self._closed = True
        self._segments = []
        self._mapped.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _contents(mapped: codesbin.Mapped) -> tuple[dict[str, Any], list[Segment]]:
    """The manifest and the segments of a mapped file, their sizes checked against each other."""
    manifest: dict[str, Any] = {}
    segments: list[Segment] = []
    for record in mapped.records:
        if record.type == MANIFEST and JSON in record.sections:
            manifest = json.loads(bytes(record.sections[JSON].read()))
        elif record.type == ITEMS:
            segments.append(Segment(record, mapped.bits))
    return manifest, segments


def _merge(parts: list[tuple[np.ndarray, np.ndarray]], k: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `k` of several ranked lists a query, in the order (distance, id)."""
    if len(parts) == 1:
        return parts[0]
    distances, ids = (np.concatenate(column, axis=1) for column in zip(*parts, strict=True))
    order = np.lexsort((ids, distances), axis=1)[:, :k]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(ids, order, axis=1)


def _merge_ranges(parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The hits of several searches within a radius, each query's in the order (distance, id)."""
    if len(parts) == 1:
        return parts[0]
    rows = [np.repeat(np.arange(len(limits) - 1), np.diff(limits)) for limits, _, _ in parts]
    limits, distances, ids = zip(*parts, strict=True)
    order = np.lexsort((np.concatenate(ids), np.concatenate(distances), np.concatenate(rows)))
    return np.add.reduce(limits, axis=0), np.concatenate(distances)[order], np.concatenate(ids)[order]
