"""HammingIndex: codes with ids in memory, searched exactly. Codes in a file are database/database.py."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import _core
from ..codes import check_bits, check_codes
from .base import Ids, Searchable
from .where import as_id_list


class Snapshot(Searchable):
    """The contents of an index at one moment. It stays as it is while the index changes, and may outlive it."""

    def __init__(self, view: _core.Snapshot) -> None:
        """Use HammingIndex.snapshot."""
        self._view = view

    def _snapshot(self) -> _core.Snapshot:
        return self._view

    def __repr__(self) -> str:
        return f"Snapshot(bits={self.bits}) of {len(self)} codes"


class HammingIndex(Searchable):
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
        """Returns the current contents, for as long as the snapshot is kept."""
        return Snapshot(self._index.snapshot())

    def add(self, codes: np.ndarray, ids: np.ndarray | Sequence[int] | None = None) -> np.ndarray:
        """Adds codes, uint8 (n, ceil(bits / 8)), and returns their ids, int64 (n,).

        ids: one per code, >= 0, unique and new. By default they continue from the largest id ever used: the row
        numbers, unless ids were given before. After an error the index is as it was.
        """
        codes = np.ascontiguousarray(check_codes(codes, self.bits, contiguous=False))
        return self._index.add(codes, None if ids is None else as_id_list(ids))

    def remove(self, ids: Ids) -> int:
        """Removes the codes with these ids and returns their number; the others keep their order.

        Raises KeyError for an id that is missing, and then nothing is removed.
        """
        return self._index.remove(as_id_list(ids))

    def reserve(self, size: int) -> None:
        """Allocates room for this many codes in all."""
        self._index.reserve(size)

    def optimize(self, memory: int | None = None, threads: int | None = None) -> None:
        """Builds what makes searches faster, in at most `memory` bytes beyond codes and ids; results do not change.

        memory: None for 128 bytes per code and 1 MiB. Wide codes are indexed by as many of their bits as fit.

        Later adds and removes keep it up to date: new codes are scanned until they are many, then it is built again.
        `structures` returns what was built, `explain` what a search would do with it. `drop_structures` frees the
        memory.
        """
        self._index.optimize(memory, threads)

    def drop_structures(self) -> None:
        """Frees the memory of what `optimize` built."""
        self._index.drop_structures()


def isa() -> list[dict[str, object]]:
    """Returns the instruction sets of the engine, slowest first: name, supported by this machine, active.

    The best supported one is active unless the environment variable IDCWH_ISA names another.
    """
    return [dict(entry) for entry in _core.isa()]
