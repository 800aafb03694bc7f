"""The search interface of indexes, databases and their snapshots. The engine itself is in csrc/src/index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .. import _core
from .batches import Exclude, Wheres, batches, joined_counts, joined_hits, joined_rankings
from .join import BLOCK, Join, clusters, count_pairs
from .where import Where, as_id_list, engine_where

Ids = np.ndarray | Sequence[int] | int


@dataclass(frozen=True)
class Explanation:
    """The execution path of a search with its estimated time, and the slower paths that were available.

    Attributes:
        path: "scan", "groups", "table" or "multi-index".
        nanoseconds: expected time per query on one thread.
        because: statistics on which the estimate is based.
        others: explanations of the paths not taken.
    """

    path: str
    nanoseconds: float
    because: str
    others: tuple[Explanation, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.path}, about {_duration(self.nanoseconds)} per query: {self.because}"]
        lines += [f"not {other.path}, about {_duration(other.nanoseconds)}: {other.because}" for other in self.others]
        return "\n".join(lines)


class Searchable:
    """Base class of everything that can be searched: indexes, databases and snapshots.

    All search methods share these arguments and results. Ctrl-C ends a long search.

    Args:
        queries: packed codes, uint8 (nq, ceil(bits / 8)).
        where: items that may be returned; None for all. An array or list of ids, a `range` of ids, or a boolean mask
            in the order the codes were added. A list of such filters has one per query. Queries with equal filters are
            searched together, so the time is that of one call per distinct filter.
        threads: number of threads; None for the setting of the index, by default one per available core.
        exclude: ids that must not be returned, such as that of the query itself: integers (nq,) or (nq, m), one row
            per query. Missing ids, such as -1, exclude nothing. The time is that of a search for k + m codes.

    Returns:
        Distances D, int32, and ids I, int64, ordered by (distance, id).
    """

    def _snapshot(self) -> _core.Snapshot:
        raise NotImplementedError

    def __reduce__(self) -> Any:
        """Raises TypeError, because a copy would silently hold every code a second time."""
        raise TypeError(
            f"{type(self).__name__}: copying and pickling are not supported, because they would copy every code; "
            "open a database by its path in the other process instead"
        )

    def __len__(self) -> int:
        return len(self._snapshot())

    @property
    def bits(self) -> int:
        """Code length in bits."""
        return self._snapshot().bits

    @property
    def ids(self) -> np.ndarray:
        """Ids in the order they were added, int64 (n,), as a read-only copy."""
        return read_only(self._snapshot().ids())

    @property
    def codes(self) -> np.ndarray:
        """Codes in the order they were added, uint8 (n, ceil(bits / 8)), as a read-only copy."""
        return read_only(self._snapshot().copy()[0])

    # searching

    def search(
        self,
        queries: np.ndarray,
        k: int,
        where: Wheres = None,
        threads: int | None = None,
        *,
        exclude: Exclude = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns (D, I), the k >= 0 nearest codes per query, both (nq, min(k, eligible)).

        If `exclude` or one filter per query leave different numbers of eligible codes, the columns are those of the
        query with the most. The rows of the others end in the distance 2147483647 and the id -1.
        """
        view = self._snapshot()
        parts = batches(queries, where, exclude, view)
        return joined_rankings(parts, [view.topk(p.queries, k, p.where, threads, p.exclude) for p in parts])

    def search_ties(
        self,
        queries: np.ndarray,
        k: int,
        where: Wheres = None,
        threads: int | None = None,
        *,
        exclude: Exclude = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns (lims, D, I), the k nearest codes per query and every other code as near as the k-th.

        The hits of query i are D[lims[i]:lims[i + 1]] and I[lims[i]:lims[i + 1]]; lims is int64 (nq + 1,).
        """
        view = self._snapshot()
        parts = batches(queries, where, exclude, view)
        return joined_hits(parts, [view.topk_ties(p.queries, k, p.where, threads, p.exclude) for p in parts])

    def range_search(
        self,
        queries: np.ndarray,
        radius: int,
        where: Wheres = None,
        threads: int | None = None,
        *,
        exclude: Exclude = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns (lims, D, I), every code within an inclusive `radius` >= 0 per query, in bits.

        The hits of query i are D[lims[i]:lims[i + 1]] and I[lims[i]:lims[i + 1]]; lims is int64 (nq + 1,).
        """
        view = self._snapshot()
        parts = batches(queries, where, exclude, view)
        return joined_hits(parts, [view.radius(p.queries, radius, p.where, threads, p.exclude) for p in parts])

    def count(
        self,
        queries: np.ndarray,
        radius: int,
        where: Wheres = None,
        threads: int | None = None,
        *,
        exclude: Exclude = None,
    ) -> np.ndarray:
        """Returns the number of codes within an inclusive `radius` per query: int64 (nq,)."""
        view = self._snapshot()
        parts = batches(queries, where, exclude, view)
        return joined_counts(parts, [view.count(p.queries, radius, p.where, threads, p.exclude) for p in parts])

    def histogram(
        self, queries: np.ndarray, where: Wheres = None, threads: int | None = None, *, exclude: Exclude = None
    ) -> np.ndarray:
        """Returns the number of codes at each distance 0, 1, ..., bits per query: int64 (nq, bits + 1)."""
        view = self._snapshot()
        parts = batches(queries, where, exclude, view)
        return joined_counts(parts, [view.histogram(p.queries, p.where, threads, p.exclude) for p in parts])

    def rank(
        self, queries: np.ndarray, where: Wheres = None, threads: int | None = None, *, exclude: Exclude = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns (D, I), the full Hamming ranking of all eligible codes per query, both (nq, eligible).

        Rows with fewer eligible codes than the longest end as in `search`.
        """
        view = self._snapshot()
        parts = batches(queries, where, exclude, view)
        return joined_rankings(parts, [view.rank(p.queries, p.where, threads, p.exclude) for p in parts])

    # all pairs

    def self_join(
        self,
        radius: int,
        where: Where = None,
        *,
        max_pairs: int | None = None,
        block: int = BLOCK,
        threads: int | None = None,
    ) -> Join:
        """Returns all pairs of ids i < j at a distance of at most `radius` bits, as blocks (I, J, D).

        The pairs are those of the current contents: later changes do not affect them. The codes are copied. See
        `idcwh_search.self_join` for the other arguments.
        """
        view = self._snapshot()
        return Join(_core.join_snapshots(view, None, radius, _where(where, view), max_pairs, block, threads))

    def join(
        self,
        other: Searchable,
        radius: int,
        where: Where = None,
        *,
        max_pairs: int | None = None,
        block: int = BLOCK,
        threads: int | None = None,
    ) -> Join:
        """Returns all pairs of an id of this (I) and an id of `other` (J) within `radius`, as blocks (I, J, D).

        `where` filters this side. Raises ValueError if the code lengths differ, TypeError if `other` cannot be
        searched. See `self_join` for the rest.
        """
        if not isinstance(other, Searchable):
            raise TypeError(
                f"other: is invalid (found {type(other).__name__}, expected an index, a database or a snapshot); "
                "pass two arrays to idcwh_search.join"
            )
        view, others = self._snapshot(), other._snapshot()
        if view.bits != others.bits:
            raise ValueError(f"other: code length does not match (found {others.bits} bits, expected {view.bits})")
        return Join(_core.join_snapshots(view, others, radius, _where(where, view), max_pairs, block, threads))

    def count_pairs(self, radius: int, where: Where = None, *, threads: int | None = None) -> int:
        """Returns the number of pairs that `self_join` finds."""
        view = self._snapshot()
        return count_pairs(_items(view, where)[0], radius, view.bits, threads=threads)

    def clusters(
        self,
        radius: int,
        mode: Literal["components", "greedy"] = "components",
        where: Where = None,
        *,
        threads: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns (ids, clusters), int64 (n,) both, in the order the codes were added.

        See `idcwh_search.clusters` for the modes.
        """
        view = self._snapshot()
        codes, ids = _items(view, where)
        return ids, clusters(codes, radius, mode, view.bits, threads=threads)

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
        """Returns the execution path and the estimated time of a search, without running it.

        For a search that excludes m ids per query, pass k + m.

        Args:
            k: number of nearest codes; give either `k` or `radius`.
            radius: inclusive radius in bits.
            queries: number of queries per call.
            where: items that may be returned.
        """
        if (k is None) == (radius is None):
            raise ValueError("explain: give either k or radius")
        view = self._snapshot()
        chosen, *others = (
            Explanation(path["path"], path["nanoseconds"], path["because"])
            for path in view.explain(k, radius, queries, _where(where, view))
        )
        return Explanation(chosen.path, chosen.nanoseconds, chosen.because, tuple(others))

    def structures(self) -> list[dict[str, Any]]:
        """Returns the index structures that `optimize` built: name, codes, bytes of memory, and parameters as text."""
        return [dict(entry) for entry in self._snapshot().structures()]

    @property
    def memory(self) -> int:
        """Memory of codes, ids and structures in bytes, including reserved space."""
        return self._snapshot().memory()


def _where(where: Where, view: _core.Snapshot) -> np.ndarray | tuple[int, int] | None:
    return engine_where(where, len(view), view.ids)


def _items(view: _core.Snapshot, where: Where) -> tuple[np.ndarray, np.ndarray]:
    """Returns the codes and ids of the eligible items, in the order they were added."""
    return view.copy(_where(where, view))


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _duration(nanoseconds: float) -> str:
    if nanoseconds < 1e3:
        return f"{nanoseconds:.3g} ns"
    return f"{nanoseconds / 1e3:.3g} us" if nanoseconds < 1e6 else f"{nanoseconds / 1e6:.3g} ms"
