"""Every search that an index, a database and their snapshots offer.

The engine is csrc/src/index; here its arguments become arrays of the right type, and its answers Python's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from ..codes import check_codes
from .where import Where, as_id_list, engine_where

Ids = np.ndarray | Sequence[int] | int


@dataclass(frozen=True)
class Explanation:
    """The way a search would run: the path taken, and those that were available but look slower.

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


class Searchable:
    """Every search of an index, a database or a snapshot, over the current contents, `_snapshot()`.

    queries are uint8 (nq, ceil(bits / 8)). `where` limits a search to an array or list of ids, a `range` of ids, or a
    boolean mask in the order the codes were added. threads: None takes what the index says, or as many as the process
    may run on. Distances D are int32, ids I int64, ordered by (distance, id). Ctrl-C ends a long search.
    """

    def _snapshot(self) -> _core.Snapshot:
        raise NotImplementedError

    def __reduce__(self) -> Any:
        """Raises TypeError: a copy would hold every code a second time, unseen."""
        raise TypeError(
            f"{type(self).__name__}: copying and pickling are not supported, because they would copy every code; "
            "open a database by its path in the other process instead"
        )

    def __len__(self) -> int:
        return len(self._snapshot())

    @property
    def bits(self) -> int:
        """Code length."""
        return self._snapshot().bits

    @property
    def ids(self) -> np.ndarray:
        """Ids in the order they were added, int64 (n,): a read-only copy."""
        return read_only(self._snapshot().ids())

    @property
    def codes(self) -> np.ndarray:
        """Codes in the order they were added, uint8 (n, ceil(bits / 8)): a read-only copy."""
        return read_only(self._snapshot().copy()[0])

    # searching

    def search(
        self, queries: np.ndarray, k: int, where: Where = None, threads: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns (D, I), the k nearest codes of each query, both (nq, min(k, eligible)), never padded. k: >= 0."""
        view = self._snapshot()
        return view.topk(_queries(queries, view), k, _where(where, view), threads)

    def search_ties(
        self, queries: np.ndarray, k: int, where: Where = None, threads: int | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns (lims, D, I), the k nearest codes of each query and every other code as near as the k-th.

        The hits of query i are D[lims[i]:lims[i + 1]], in order; lims is int64 (nq + 1,).
        """
        view = self._snapshot()
        return view.topk_ties(_queries(queries, view), k, _where(where, view), threads)

    def range_search(
        self, queries: np.ndarray, radius: int, where: Where = None, threads: int | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns (lims, D, I), every code within `radius` of each query, inclusive.

        The hits of query i are D[lims[i]:lims[i + 1]], in order; lims is int64 (nq + 1,). radius: a whole number >=
        0; above `bits` it includes everything.
        """
        view = self._snapshot()
        return view.radius(_queries(queries, view), radius, _where(where, view), threads)

    def count(self, queries: np.ndarray, radius: int, where: Where = None, threads: int | None = None) -> np.ndarray:
        """Returns the number of codes within `radius` of each query, inclusive: int64 (nq,)."""
        view = self._snapshot()
        return view.count(_queries(queries, view), radius, _where(where, view), threads)

    def histogram(self, queries: np.ndarray, where: Where = None, threads: int | None = None) -> np.ndarray:
        """Returns the number of codes at each distance 0, 1, ..., bits of each query: int64 (nq, bits + 1)."""
        view = self._snapshot()
        return view.histogram(_queries(queries, view), _where(where, view), threads)

    def rank(
        self, queries: np.ndarray, where: Where = None, threads: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns (D, I), the full Hamming ranking: every eligible code for each query, both (nq, eligible)."""
        view = self._snapshot()
        return view.rank(_queries(queries, view), _where(where, view), threads)

    # looking up

    def get(self, ids: Ids) -> np.ndarray:
        """Returns the codes with these ids, uint8 (len(ids), ceil(bits / 8)), or (ceil(bits / 8),) for a single id.

        Raises KeyError for an id that is missing.
        """
        codes = self._snapshot().get(as_id_list(ids))
        return codes[0] if np.ndim(ids) == 0 else codes

    def explain(
        self, k: int | None = None, *, radius: int | None = None, queries: int = 1, where: Where = None
    ) -> Explanation:
        """Returns how a search for the k nearest, or within a radius, of `queries` at a time would run, and why."""
        if (k is None) == (radius is None):
            raise ValueError("explain: give either k or radius")
        view = self._snapshot()
        chosen, *others = (
            Explanation(path["path"], path["nanoseconds"], path["because"])
            for path in view.explain(k, radius, queries, _where(where, view))
        )
        return Explanation(chosen.path, chosen.nanoseconds, chosen.because, tuple(others))

    def structures(self) -> list[dict[str, Any]]:
        """Returns what `optimize` built: name, number of codes, bytes of memory, and the parameters in words."""
        return [dict(entry) for entry in self._snapshot().structures()]

    @property
    def memory(self) -> int:
        """Bytes that codes, ids and structures take, room to grow included."""
        return self._snapshot().memory()


def _queries(queries: np.ndarray, view: _core.Snapshot) -> np.ndarray:
    return np.ascontiguousarray(check_codes(queries, view.bits, "queries", contiguous=False))


def _where(where: Where, view: _core.Snapshot) -> np.ndarray | tuple[int, int] | None:
    return engine_where(where, len(view), view.ids)


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _duration(nanoseconds: float) -> str:
    if nanoseconds < 1e3:
        return f"{nanoseconds:.3g} ns"
    return f"{nanoseconds / 1e3:.3g} us" if nanoseconds < 1e6 else f"{nanoseconds / 1e6:.3g} ms"
