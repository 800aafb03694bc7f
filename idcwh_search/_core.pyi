"""The C++ engine (csrc/bindings/core.cpp). Arrays are used where they lie, memory-mapped files included: never cast,
never copied.

codes and queries: C-contiguous uint8, shape (n, ceil(bits / 8)), bits 1 to 65535, padding bits zero (not checked
here; see padding_is_zero). ids: int64 [n], unique, in any order; None: row numbers. rows: the rows to search: None for
all, a bool or uint8 for each code, int64 row numbers that ascend, or a tuple (begin, end). threads: 0 takes as many as
the process may run on. Distances are int32, ids int64, in the order (distance, id), ascending. A wrong type is a
TypeError, a wrong shape, layout or range a ValueError, with expected and actual. On Python's main thread a signal whose
handler raises, such as Ctrl-C, ends a search.

Where ids ascend with the rows, passing None and mapping the result (ids[I]) gives the same order and is faster: a
later row then can never displace an equal distance.
"""

from collections.abc import Iterable
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

_Rows = NDArray[np.bool_] | NDArray[np.uint8] | NDArray[np.int64] | tuple[int, int] | None

class _Isa(TypedDict):
    name: str
    supported: bool
    active: bool

def topk(
    codes: NDArray[np.uint8],
    bits: int,
    queries: NDArray[np.uint8],
    k: int,
    ids: NDArray[np.int64] | None = None,
    rows: _Rows = None,
    threads: int | None = 0,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """(D, I), both (nq, min(k, eligible)): the k nearest codes of each query. k >= 0; never padded."""

def topk_ties(
    codes: NDArray[np.uint8],
    bits: int,
    queries: NDArray[np.uint8],
    k: int,
    ids: NDArray[np.int64] | None = None,
    rows: _Rows = None,
    threads: int | None = 0,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """(lims [nq + 1], D, I): the k nearest codes of each query and all that are as near as the k-th."""

def radius(
    codes: NDArray[np.uint8],
    bits: int,
    queries: NDArray[np.uint8],
    radius: int,
    ids: NDArray[np.int64] | None = None,
    rows: _Rows = None,
    threads: int | None = 0,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """(lims [nq + 1], D, I): every code at a distance <= radius; query i has D[lims[i]:lims[i + 1]].

    radius >= 0, a whole number; above bits it takes in everything.
    """

def count(
    codes: NDArray[np.uint8],
    bits: int,
    queries: NDArray[np.uint8],
    radius: int,
    rows: _Rows = None,
    threads: int | None = 0,
) -> NDArray[np.int64]:
    """How many codes lie at a distance <= radius of each query, (nq,)."""

def histogram(
    codes: NDArray[np.uint8],
    bits: int,
    queries: NDArray[np.uint8],
    rows: _Rows = None,
    threads: int | None = 0,
) -> NDArray[np.int64]:
    """How many codes lie at each distance of each query, (nq, bits + 1)."""

def rank(
    codes: NDArray[np.uint8],
    bits: int,
    queries: NDArray[np.uint8],
    ids: NDArray[np.int64] | None = None,
    rows: _Rows = None,
    threads: int | None = 0,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """(D, I), both (nq, eligible): the whole Hamming ranking, by counting sort."""

def isa() -> list[_Isa]:
    """Instruction sets compiled in, slowest first. IdcwhError when IDCWH_ISA asks for one that is not there."""

def set_isa(name: str) -> None:
    """Searches from now on run on this one; "auto" for the best. ValueError: unknown; IdcwhError: not on this
    machine."""

def available_cores() -> int:
    """The number of cores that this process may use: its affinity mask and its CPU quota."""

def crc32c(buffer: bytes | bytearray | memoryview | NDArray[Any], seed: int = 0) -> int:
    """CRC-32C (Castagnoli) of a contiguous buffer; seed continues an earlier one. crc32c(b"123456789") ==
    0xE3069283."""

def padding_is_zero(codes: NDArray[np.uint8], bits: int) -> bool:
    """True when the bits behind the last one are zero in every row."""

def count_pairs(
    queries: NDArray[np.uint8],
    query_labels: NDArray[Any],
    database: NDArray[np.uint8],
    database_labels: NDArray[Any],
    bits: int,
    classes: int | None = None,
    cuts: Iterable[int] = (),
    ranked: bool = True,
    threads: int | None = 0,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """(row, items, relevant, ranked_sum, ranked_hits): what metrics are computed from, for all pairs.

    Labels: int64 [n], one class an item; with `classes`, sets of that many: uint8 [n, ceil(classes/8)], class c in byte
    c // 8 at position c % 8. Items that share a class are relevant to each other. cuts ascend, each >= 1.

    row [queries]: queries with the same code and label share a row of the others. items, relevant [rows, bits + 1]: how
    many database items, and how many relevant ones, lie at each distance. ranked_sum [rows, cuts + 1]: in the order
    (distance, row), the sum over the relevant items in the first K of (relevant items so far / rank), uncut in the last
    column; ranked_hits [rows, cuts]: how many they are. Both have no rows without `ranked`.
    """

def count_distinct(codes: NDArray[np.uint8], bits: int) -> int:
    """How many different codes there are."""

_Where = NDArray[np.bool_] | NDArray[np.int64] | tuple[int, int] | None

class Snapshot:
    """What an Index held at one moment; never changes. See csrc/include/idcwh/index.hpp.

    queries: C-contiguous uint8 (nq, ceil(bits / 8)). where: a mask (bool, in the order of adding), ids (int64, any
    order), a pair (first, last) of ids, last excluded, or None. threads: 0 takes what the index says.
    """

    @property
    def bits(self) -> int: ...
    def __len__(self) -> int: ...
    def topk(
        self, queries: NDArray[np.uint8], k: int, where: _Where = None, threads: int | None = 0
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]: ...
    def topk_ties(
        self, queries: NDArray[np.uint8], k: int, where: _Where = None, threads: int | None = 0
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]: ...
    def radius(
        self, queries: NDArray[np.uint8], radius: int, where: _Where = None, threads: int | None = 0
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]: ...
    def count(
        self, queries: NDArray[np.uint8], radius: int, where: _Where = None, threads: int | None = 0
    ) -> NDArray[np.int64]: ...
    def histogram(
        self, queries: NDArray[np.uint8], where: _Where = None, threads: int | None = 0
    ) -> NDArray[np.int64]: ...
    def rank(
        self, queries: NDArray[np.uint8], where: _Where = None, threads: int | None = 0
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]: ...
    def get(self, ids: NDArray[np.int64]) -> NDArray[np.uint8]: ...
    def ids(self) -> NDArray[np.int64]: ...
    def copy(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """All codes and ids, in the order they were added."""

    def explain(
        self, k: int | None = None, radius: int | None = None, queries: int = 1, where: _Where = None
    ) -> list[dict[str, Any]]:
        """How a search would run, "path", "nanoseconds", "because"; the path it takes first."""

    def structures(self) -> list[dict[str, Any]]:
        """Of each structure "name", "codes", "bytes", "detail"."""

    def memory(self) -> int: ...

class Index:
    """Codes with ids that come and go; searched through snapshots, changed by one thread at a time."""

    def __init__(self, bits: int) -> None: ...
    def snapshot(self) -> Snapshot: ...
    def add(self, codes: NDArray[np.uint8], ids: NDArray[np.int64] | None = None) -> NDArray[np.int64]: ...
    def remove(self, ids: NDArray[np.int64]) -> int:
        """KeyError for an id that is not there."""

    def reserve(self, size: int) -> None: ...
    def optimize(self, memory: int | None = None, threads: int | None = 0) -> None: ...
    def drop_structures(self) -> None: ...
    def set_threads(self, threads: int) -> None: ...

def bit_pairs(codes: NDArray[np.uint8], bits: int, threads: int | None = 0) -> NDArray[np.int64]:
    """In how many codes bits i and j are both set: [bits, bits], symmetric; how often each is, on the diagonal."""

_Strings = list[str | None]

class DatabaseSnapshot(Snapshot):
    """What a database held at one moment. Keys are decoded as file names, labels as UTF-8 with surrogates."""

    @property
    def commit(self) -> int: ...
    def keys(self, ids: NDArray[np.int64] | None = None) -> _Strings: ...
    def labels(self, ids: NDArray[np.int64] | None = None) -> _Strings: ...
    def mtime_signatures(self, ids: NDArray[np.int64] | None = None) -> NDArray[np.uint32]: ...
    def checksums(self, ids: NDArray[np.int64] | None = None) -> NDArray[np.uint64]: ...
    def find(self, keys: _Strings) -> NDArray[np.int64]:
        """The ids of the items with one of these keys, ascending."""

    def manifest(self) -> bytes: ...
    def codes_in_place(self) -> NDArray[np.uint8] | None:
        """All codes over the file, read-only; None when they are not in one piece."""

class Database:
    """A codes.bin. Paths and JSON are bytes."""

    @staticmethod
    def open(path: bytes, write: bool = False) -> Database: ...
    @staticmethod
    def create(path: bytes, bits: int, manifest: bytes, replace: bool = False, on_close: bool = False) -> Database: ...
    @property
    def bits(self) -> int: ...
    @property
    def writable(self) -> bool: ...
    def snapshot(self) -> DatabaseSnapshot: ...
    def info(self) -> dict[str, int]: ...
    def refresh(self) -> bool: ...
    def update(
        self,
        removed: NDArray[np.int64],
        codes: NDArray[np.uint8],
        ids: NDArray[np.int64] | None = None,
        keys: _Strings | None = None,
        labels: _Strings | None = None,
        mtime_signatures: NDArray[np.uint32] | None = None,
        checksums: NDArray[np.uint64] | None = None,
    ) -> NDArray[np.int64]:
        """Remove, then add, in one step; returns the ids of what was added."""

    def remove(self, ids: NDArray[np.int64]) -> int: ...
    def remove_keys(self, keys: _Strings) -> int: ...
    def set_manifest(self, json: bytes) -> None: ...
    def compact(self) -> None: ...
    def set_auto_compact(self, on: bool) -> None: ...
    def optimize(self, memory: int | None = None, threads: int | None = 0) -> None: ...
    def drop_structures(self) -> None: ...
    def check(self, threads: int | None = None) -> dict[str, Any]:
        """ "corrupt", a list of (what, byte, length); "items", "good_items" and "torn"."""

    def close(self) -> None: ...
    def discard(self) -> None: ...
