"""HammingIndex, the in-memory index of codes with ids. The index in a file is database/database.py."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import _core
from ..codes import check_bits, check_codes
from .base import Ids, Searchable
from .where import as_id_list


class Snapshot(Searchable):
    """The contents of an index at one moment. Later changes of the index do not affect it. It may outlive the index."""

    def __init__(self, view: _core.Snapshot) -> None:
        """Wraps a snapshot of the engine; callers use HammingIndex.snapshot."""
        self._view = view

    def _snapshot(self) -> _core.Snapshot:
        return self._view

    def __repr__(self) -> str:
        return f"Snapshot(bits={self.bits}) of {len(self)} codes"


class HammingIndex(Searchable):
    """An in-memory index of binary codes with unique ids, int64 >= 0.

    Every search is exact, and every result is ordered by (distance, id), ascending. Results do not depend on the
    instruction set, the number of threads or the order in which codes were added.

    Any number of threads may search while another adds and removes. A search never waits, and sees all of a change or
    none of it.

    Args:
        bits: code length, 1 to 65535.
        threads: default number of threads per search; None for the environment variable IDCWH_THREADS, or one per
            available core.
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
        """Returns the current contents, which later changes do not affect."""
        return Snapshot(self._index.snapshot())

    def add(self, codes: np.ndarray, ids: np.ndarray | Sequence[int] | None = None) -> np.ndarray:
        """Adds codes and returns their ids, int64 (n,). An error leaves the index unchanged.

        Args:
            codes: packed codes, uint8 (n, ceil(bits / 8)).
            ids: n new unique ids >= 0. By default they continue from the largest id ever used, so that they are row
                numbers if no ids were ever given.

        Raises:
            TypeError, ValueError: codes or ids are invalid, or an id exists.
        """
        codes = np.ascontiguousarray(check_codes(codes, self.bits, contiguous=False))
        return self._index.add(codes, None if ids is None else as_id_list(ids))

    def remove(self, ids: Ids) -> int:
        """Removes the codes with these ids and returns their number. The other codes keep their order.

        Raises KeyError for a missing id, and then removes nothing.
        """
        return self._index.remove(as_id_list(ids))

    def reserve(self, size: int) -> None:
        """Allocates memory for `size` codes in total."""
        self._index.reserve(size)

    def optimize(self, memory: int | None = None, threads: int | None = None) -> None:
        """Builds index structures that make searches faster. Results do not change.

        Later adds and removes keep the structures up to date. New codes are scanned until there are many, and then the
        structures are built again. `structures` lists them, `explain` describes how a search would run, and
        `drop_structures` frees their memory.

        Args:
            memory: most bytes for the structures; None for 128 bytes per code plus 1 MiB. Long codes are indexed by as
                many of their bits as fit.
            threads: number of threads; None for the setting of the index.
        """
        self._index.optimize(memory, threads)

    def drop_structures(self) -> None:
        """Frees the memory of the structures that `optimize` built."""
        self._index.drop_structures()


def isa() -> list[dict[str, object]]:
    """Returns the instruction sets of the engine, slowest first, each with the keys "name", "supported" and "active".

    The fastest supported one is active, unless the environment variable IDCWH_ISA names another.
    """
    return [dict(entry) for entry in _core.isa()]
