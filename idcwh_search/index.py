"""HammingIndex: codes with ids in memory, searched exactly. What lies in a file is database.py's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from . import _core
from .codes import check_bits, check_codes, code_bytes
from .selection import Where, as_ids, eligible_rows


class HammingIndex:
    """Binary codes of `bits` bits, each with an id: int64, >= 0, unique.

    Every search is exact, and every result is ordered by (distance, id), ascending, whatever the instruction set, the
    number of threads or the order in which the codes were added. Distances are int32, ids int64.

    Searches may run in several threads at once, but not while another thread adds or removes.
    """

    def __init__(self, bits: int) -> None:
        self._bits = check_bits(bits)
        self._codes = np.empty((0, code_bytes(bits)), np.uint8)  # with room to grow: the first _size rows count
        self._ids = np.empty(0, np.int64)
        self._size = 0
        self._next_id = 0
        self._ascending = True
        # Rows in ascending order of id; None where not known yet, or where that is the order of the rows.
        self._by_id: np.ndarray | None = None

    @property
    def bits(self) -> int:
        """Code length."""
        return self._bits

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"HammingIndex(bits={self._bits}) of {self._size} codes"

    @property
    def ids(self) -> np.ndarray:
        """The ids in row order, int64 (n,); read-only."""
        return _read_only(self._ids[: self._size])

    @property
    def codes(self) -> np.ndarray:
        """The codes in row order, uint8 (n, ceil(bits / 8)); read-only."""
        return _read_only(self._codes[: self._size])

    # changing

    def add(self, codes: np.ndarray, ids: np.ndarray | Sequence[int] | None = None) -> np.ndarray:
        """Add codes, uint8 (n, ceil(bits / 8)), and return their ids, int64 (n,).

        ids: one for each code, >= 0, none twice and none that is here already. By default they go on from the largest
        id ever used: the row numbers, as long as nothing else was asked for. After an error the index is as it was.
        """
        check_codes(codes, self._bits, contiguous=False)
        new = self._new_ids(len(codes), ids)
        self._reserve(self._size + len(codes))
        end = self._size + len(codes)
        self._codes[self._size : end] = codes
        self._ids[self._size : end] = new
        if len(new):
            joins = self._size == 0 or self._ids[self._size - 1] < new[0]
            self._ascending = self._ascending and bool(joins) and _ascends(new)
            self._next_id = max(self._next_id, int(new.max()) + 1)
        self._size = end
        self._by_id = None
        return new

    def remove(self, ids: np.ndarray | Sequence[int] | int) -> int:
        """Remove the codes with these ids and return how many; the others keep their order. KeyError for an id that
        is not here, and then nothing is removed."""
        rows = np.unique(self._rows(ids))
        if len(rows) == 0:
            return 0
        keep = np.ones(self._size, bool)
        keep[rows] = False
        left = self._size - len(rows)
        self._codes = self._codes[: self._size][keep]
        self._ids = self._ids[: self._size][keep]
        self._size = left
        self._ascending = self._ascending or _ascends(self._ids)
        self._by_id = None
        return len(rows)

    # searching

    def search(
        self, queries: np.ndarray, k: int, where: Where = None, threads: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(D, I): the k nearest codes of each query, both of shape (nq, min(k, eligible)); never padded.

        queries: uint8 (nq, ceil(bits / 8)). k: >= 0. where: limits the search to an array of ids, a range of ids, or
        a boolean mask in row order. threads: None takes as many as the process may run on.
        """
        distances, ids = _core.topk(*self._arguments(queries, where, threads, k))
        return distances, self._from_rows(ids)

    def range_search(
        self, queries: np.ndarray, radius: int, where: Where = None, threads: int | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(lims, D, I): every code within `radius` of each query, the radius included.

        The hits of query i are D[lims[i]:lims[i + 1]], in order; lims is int64 (nq + 1,). radius: a whole number >=
        0; above `bits` it takes in everything.
        """
        lims, distances, ids = _core.radius(*self._arguments(queries, where, threads, radius))
        return lims, distances, self._from_rows(ids)

    def rank(
        self, queries: np.ndarray, where: Where = None, threads: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(D, I): the full Hamming ranking, every eligible code for each query, both of shape (nq, eligible)."""
        distances, ids = _core.rank(*self._arguments(queries, where, threads))
        return distances, self._from_rows(ids)

    # looking up

    def get(self, ids: np.ndarray | Sequence[int] | int) -> np.ndarray:
        """The codes with these ids, uint8 (len(ids), ceil(bits / 8)), or (ceil(bits / 8),) for a single id. KeyError
        for an id that is not here."""
        codes = self._codes[self._rows(ids)]
        return codes[0] if np.ndim(ids) == 0 else codes

    # inside

    def _arguments(self, queries: np.ndarray, where: Where, threads: int | None, *wanted: int) -> tuple:
        queries = np.ascontiguousarray(check_codes(queries, self._bits, "queries", contiguous=False))
        ids = self._ids[: self._size]
        consecutive = self._ascending and self._size and int(ids[-1]) - int(ids[0]) == self._size - 1
        rows = eligible_rows(where, self._size, int(ids[0]) if consecutive else None, lambda: ids)
        # Ascending ids are in the order of the rows, so row numbers rank the same, and the engine is faster with them.
        engine_ids = None if self._ascending else ids
        codes = self._codes[: self._size]
        return (codes, self._bits, queries, *wanted, engine_ids, rows, 0 if threads is None else threads)

    def _from_rows(self, found: np.ndarray) -> np.ndarray:
        if not self._ascending or self._size == 0 or self._ids[self._size - 1] == self._size - 1:
            return found  # already ids: ascending from 0 without a gap, they are the row numbers
        return self._ids[found]

    def _new_ids(self, count: int, ids: np.ndarray | Sequence[int] | None) -> np.ndarray:
        if ids is None:
            if self._next_id + count > 1 << 63:
                raise ValueError(f"ids: none are left after {self._next_id - 1}; give them explicitly")
            return np.arange(self._next_id, self._next_id + count, dtype=np.int64)
        new = as_ids(ids)
        if new.shape != (count,):
            raise ValueError(f"ids must have one entry per code: expected shape ({count},), not {new.shape}")
        if count == 0:
            return new
        if new.min() < 0:
            raise ValueError(f"ids must be >= 0, not {int(new.min())}")
        if not _ascends(new):
            ordered = np.sort(new)
            twice = ordered[1:][ordered[1:] == ordered[:-1]]
            if len(twice):
                raise ValueError(f"ids must be unique, but {int(twice[0])} is given twice")
        if self._size and new.min() < self._next_id:
            taken = new[self._find(new) >= 0]
            if len(taken):
                raise ValueError(f"ids must be new, but {int(taken[0])} is in the index already")
        return new.copy()

    def _reserve(self, size: int) -> None:
        if size <= len(self._codes):
            return
        room = max(size, len(self._codes) + len(self._codes) // 2)
        codes = np.empty((room, self._codes.shape[1]), np.uint8)
        ids = np.empty(room, np.int64)
        codes[: self._size], ids[: self._size] = self._codes[: self._size], self._ids[: self._size]
        self._codes, self._ids = codes, ids

    def _find(self, wanted: np.ndarray) -> np.ndarray:
        """The row of each id, -1 where it is not here."""
        ids = self._ids[: self._size]
        if self._size == 0:
            return np.full(len(wanted), -1, np.int64)
        if not self._ascending and self._by_id is None:
            self._by_id = np.argsort(ids, kind="stable")
        at = np.minimum(np.searchsorted(ids, wanted, sorter=self._by_id), self._size - 1)
        rows = at if self._by_id is None else self._by_id[at]
        return np.where(ids[rows] == wanted, rows, -1)

    def _rows(self, ids: np.ndarray | Sequence[int] | int) -> np.ndarray:
        wanted = as_ids(ids).reshape(-1)
        rows = self._find(wanted)
        if (rows < 0).any():
            raise KeyError(f"no code has id {int(wanted[rows < 0][0])}; the index holds {self._size} codes")
        return rows


def isa() -> list[dict[str, object]]:
    """The instruction sets of the engine, slowest first: name, whether this machine supports it, whether it is active.

    The best supported one is active unless the environment variable IDCWH_ISA names another.
    """
    return [dict(entry) for entry in _core.isa()]


def _ascends(ids: np.ndarray) -> bool:
    return bool((ids[1:] > ids[:-1]).all())


def _read_only(view: np.ndarray) -> np.ndarray:
    view = view.view()
    view.flags.writeable = False
    return view
