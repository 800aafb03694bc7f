"""HammingIndex: codes with ids in memory, searched exactly. What lies in a file is database.py's.

The engine is csrc/src/index; here its arguments become arrays of the right type, and its answers Python's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core
from .codes import check_bits, check_codes
from .selection import Where, as_id_list, engine_where

Ids = np.ndarray | Sequence[int] | int


@dataclass(frozen=True)
class Explanation:
    """How a search would run: the path taken, and those that were there but look slower.

    path          "scan", "groups", "table" or "multi-index"
    nanoseconds   expected for one query on one thread
    because       the statistics that the estimate rests on
    others        the same of the paths not taken
    """

    path: str
    nanoseconds: float
    because: str
    others: tuple[Explanation, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.path}, about {_duration(self.nanoseconds)} a query: {self.because}"]
        lines += [f"not {other.path}, about {_duration(other.nanoseconds)}: {other.because}" for other in self.others]
        return "\n".join(lines)


class _Searchable:
    """Every search that an index and a snapshot of it offer.

    queries are uint8 (nq, ceil(bits / 8)). `where` limits a search to an array or list of ids, a `range` of ids, or a
    boolean mask in the order the codes were added. threads: None takes what the index says (HammingIndex(threads=)).
    Distances D are int32, ids I int64, ordered by (distance, id). Ctrl-C ends a long search.
    """

    def _snapshot(self) -> _core.Snapshot:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._snapshot())

    @property
    def bits(self) -> int:
        """Code length."""
        return self._snapshot().bits

    @property
    def ids(self) -> np.ndarray:
        """All ids in the order they were added, int64 (n,): a read-only copy."""
        return _read_only(self._snapshot().copy()[1])

    @property
    def codes(self) -> np.ndarray:
        """All codes in the order they were added, uint8 (n, ceil(bits / 8)): a read-only copy."""
        return _read_only(self._snapshot().copy()[0])

    # searching

    def search(
        self, queries: np.ndarray, k: int, where: Where = None, threads: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(D, I): the k nearest codes of each query, both of shape (nq, min(k, eligible)); never padded. k: >= 0."""
        view = self._snapshot()
        return view.topk(_queries(queries, view), k, _where(where, view), threads)

    def search_ties(
        self, queries: np.ndarray, k: int, where: Where = None, threads: int | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(lims, D, I): the k nearest codes of each query and, beyond them, every code as near as the k-th.

        The hits of query i are D[lims[i]:lims[i + 1]], in order; lims is int64 (nq + 1,).
        """
        view = self._snapshot()
        return view.topk_ties(_queries(queries, view), k, _where(where, view), threads)

    def range_search(
        self, queries: np.ndarray, radius: int, where: Where = None, threads: int | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(lims, D, I): every code within `radius` of each query, the radius included.

        The hits of query i are D[lims[i]:lims[i + 1]], in order; lims is int64 (nq + 1,). radius: a whole number >=
        0; above `bits` it takes in everything.
        """
        view = self._snapshot()
        return view.radius(_queries(queries, view), radius, _where(where, view), threads)

    def count(self, queries: np.ndarray, radius: int, where: Where = None, threads: int | None = None) -> np.ndarray:
        """How many codes lie within `radius` of each query, inclusive: int64 (nq,)."""
        view = self._snapshot()
        return view.count(_queries(queries, view), radius, _where(where, view), threads)

    def histogram(self, queries: np.ndarray, where: Where = None, threads: int | None = None) -> np.ndarray:
        """How many codes lie at each distance 0, 1, ..., bits of each query: int64 (nq, bits + 1)."""
        view = self._snapshot()
        return view.histogram(_queries(queries, view), _where(where, view), threads)

    def rank(
        self, queries: np.ndarray, where: Where = None, threads: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(D, I): the full Hamming ranking, every eligible code for each query, both of shape (nq, eligible)."""
        view = self._snapshot()
        return view.rank(_queries(queries, view), _where(where, view), threads)

    # looking up

    def get(self, ids: Ids) -> np.ndarray:
        """The codes with these ids, uint8 (len(ids), ceil(bits / 8)), or (ceil(bits / 8),) for a single id. KeyError
        for an id that is not here."""
        codes = self._snapshot().get(as_id_list(ids))
        return codes[0] if np.ndim(ids) == 0 else codes

    def explain(
        self, k: int | None = None, *, radius: int | None = None, queries: int = 1, where: Where = None
    ) -> Explanation:
        """How a search for the k nearest, or within a radius, of this many queries at a time would run, and why."""
        if (k is None) == (radius is None):
            raise ValueError("explain: give either k or radius")
        view = self._snapshot()
        chosen, *others = (
            Explanation(path["path"], path["nanoseconds"], path["because"])
            for path in view.explain(k, radius, queries, _where(where, view))
        )
        return Explanation(chosen.path, chosen.nanoseconds, chosen.because, tuple(others))

    def structures(self) -> list[dict[str, Any]]:
        """What `optimize` has built: name, codes that it covers, bytes of memory, and its parameters in words."""
        return [dict(entry) for entry in self._snapshot().structures()]

    @property
    def memory(self) -> int:
        """Bytes that codes, ids and structures take, room to grow included."""
        return self._snapshot().memory()


class Snapshot(_Searchable):
    """What an index held at one moment. It stays as it is while the index changes, and may outlive it."""

    def __init__(self, view: _core.Snapshot) -> None:
        """Use HammingIndex.snapshot."""
        self._view = view

    def _snapshot(self) -> _core.Snapshot:
        return self._view

    def __repr__(self) -> str:
        return f"Snapshot(bits={self.bits}) of {len(self)} codes"


class HammingIndex(_Searchable):
    """Binary codes of `bits` bits, each with an id: int64, >= 0, unique.

    Every search is exact, and every result is ordered by (distance, id), ascending, whatever the instruction set, the
    number of threads or the order in which the codes were added.

    Any number of threads may search while another adds and removes: a search sees all of a change or nothing of it,
    and never waits. threads: what a search uses that does not say; None: as many as the process may run on, or the
    environment variable IDCWH_THREADS.
    """

    def __init__(self, bits: int, threads: int | None = None) -> None:
        self._index = _core.Index(check_bits(bits))
        if threads is not None:
            self._index.set_threads(threads)

    def _snapshot(self) -> _core.Snapshot:
        return self._index.snapshot()

    def __repr__(self) -> str:
        return f"HammingIndex(bits={self.bits}) of {len(self)} codes"

    def snapshot(self) -> Snapshot:
        """The index as it is now, for as long as the snapshot is kept."""
        return Snapshot(self._index.snapshot())

    def add(self, codes: np.ndarray, ids: np.ndarray | Sequence[int] | None = None) -> np.ndarray:
        """Add codes, uint8 (n, ceil(bits / 8)), and return their ids, int64 (n,).

        ids: one for each code, >= 0, none twice and none that is here already. By default they go on from the largest
        id ever used: the row numbers, as long as nothing else was asked for. After an error the index is as it was.
        """
        codes = np.ascontiguousarray(check_codes(codes, self.bits, contiguous=False))
        return self._index.add(codes, None if ids is None else as_id_list(ids))

    def remove(self, ids: Ids) -> int:
        """Remove the codes with these ids and return how many; the others keep their order. KeyError for an id that
        is not here, and then nothing is removed."""
        return self._index.remove(as_id_list(ids))

    def reserve(self, size: int) -> None:
        """Make room for this many codes in all."""
        self._index.reserve(size)

    def optimize(self, memory: int | None = None, threads: int | None = None) -> None:
        """Build what makes searches faster, in at most `memory` bytes beyond codes and ids; results do not change.

        Later adds and removes keep it up to date: new codes are scanned until they are many, then it is built anew.
        `structures` tells what was built, `explain` what a search would do with it, `drop_structures` gives the
        memory back.
        """
        self._index.optimize(memory, threads)

    def drop_structures(self) -> None:
        """Give back the memory of what `optimize` has built."""
        self._index.drop_structures()


def isa() -> list[dict[str, object]]:
    """The instruction sets of the engine, slowest first: name, whether this machine supports it, whether it is active.

    The best supported one is active unless the environment variable IDCWH_ISA names another.
    """
    return [dict(entry) for entry in _core.isa()]


def _queries(queries: np.ndarray, view: _core.Snapshot) -> np.ndarray:
    return np.ascontiguousarray(check_codes(queries, view.bits, "queries", contiguous=False))


def _where(where: Where, view: _core.Snapshot) -> np.ndarray | tuple[int, int] | None:
    return engine_where(where, len(view), lambda: view.copy()[1])


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _duration(nanoseconds: float) -> str:
    if nanoseconds < 1e3:
        return f"{nanoseconds:.3g} ns"
    return f"{nanoseconds / 1e3:.3g} us" if nanoseconds < 1e6 else f"{nanoseconds / 1e6:.3g} ms"
