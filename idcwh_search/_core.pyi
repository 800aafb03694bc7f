"""The bindings of the C++ engine (csrc/bindings/core.cpp).

Arrays, including memory-mapped ones, are used in place and are never cast or copied. These arguments and results are
common to all functions:

    codes, queries  C-contiguous uint8 (n, ceil(bits / 8)), padding bits zero; searches of arrays check the queries
    bits            code length, 1 to 65535
    ids             unique int64 [n] in any order; None for row numbers
    rows            rows to search: None for all, bool or uint8 per code, ascending int64 row numbers, or a tuple
                    (begin, end)
    threads         number of threads; 0 for one per available core
    D, I            distances int32 and ids int64, ordered by (distance, id), ascending
    lims            int64 (nq + 1,); query i has the hits D[lims[i]:lims[i + 1]]

A wrong type raises TypeError, and a wrong shape, layout or range ValueError, with the expected and the actual value. On
Python's main thread a signal handler that raises, such as that of Ctrl-C, ends a search.

If ids ascend with the rows, pass None and map the result (ids[I]). The order is the same, and the search is faster,
because a later row never displaces one at equal distance.
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
    """Returns (D, I), the k >= 0 nearest codes per query, both (nq, min(k, eligible)) without padding."""

def topk_ties(
    codes: NDArray[np.uint8],
    bits: int,
    queries: NDArray[np.uint8],
    k: int,
    ids: NDArray[np.int64] | None = None,
    rows: _Rows = None,
    threads: int | None = 0,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Returns (lims, D, I), the k nearest codes per query and every other code as near as the k-th."""

def radius(
    codes: NDArray[np.uint8],
    bits: int,
    queries: NDArray[np.uint8],
    radius: int,
    ids: NDArray[np.int64] | None = None,
    rows: _Rows = None,
    threads: int | None = 0,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Returns (lims, D, I), every code at a distance <= radius per query. The radius is an integer >= 0."""

def count(
    codes: NDArray[np.uint8],
    bits: int,
    queries: NDArray[np.uint8],
    radius: int,
    rows: _Rows = None,
    threads: int | None = 0,
) -> NDArray[np.int64]:
    """Returns the number of codes at a distance <= radius per query, (nq,)."""

def histogram(
    codes: NDArray[np.uint8],
    bits: int,
    queries: NDArray[np.uint8],
    rows: _Rows = None,
    threads: int | None = 0,
) -> NDArray[np.int64]:
    """Returns the number of codes at each distance per query, (nq, bits + 1)."""

def rank(
    codes: NDArray[np.uint8],
    bits: int,
    queries: NDArray[np.uint8],
    ids: NDArray[np.int64] | None = None,
    rows: _Rows = None,
    threads: int | None = 0,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Returns (D, I), the full Hamming ranking by counting sort, both (nq, eligible)."""

class Join:
    """Iterator over blocks (I, J, D) of pairs. Memory of dropped blocks serves later ones."""

    def __iter__(self) -> Join: ...
    def __next__(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]: ...
    def explain(self) -> str:
        """Returns how the pairs are found, as text."""

def join(
    a: NDArray[np.uint8],
    b: NDArray[np.uint8] | None,
    bits: int,
    radius: int,
    max_pairs: int | None,
    block: int,
    threads: int | None,
) -> Join:
    """Returns the pairs within the radius: of two arrays of codes, or of one if `b` is None."""

def join_snapshots(
    a: Snapshot,
    b: Snapshot | None,
    radius: int,
    where: NDArray[Any] | tuple[int, int] | None,
    max_pairs: int | None,
    block: int,
    threads: int | None,
) -> Join:
    """Returns the pairs of ids within the radius: of two snapshots, or of one if `b` is None."""

def join_count(a: NDArray[np.uint8], b: NDArray[np.uint8] | None, bits: int, radius: int, threads: int | None) -> int:
    """Returns the number of pairs that `join` finds."""

def clusters(codes: NDArray[np.uint8], bits: int, radius: int, greedy: bool, threads: int | None) -> NDArray[np.int64]:
    """Returns the cluster of each code, numbered in the order of their first rows."""

def isa() -> list[_Isa]:
    """Returns the compiled instruction sets, slowest first. Raises IdcwhError if IDCWH_ISA names an unavailable one."""

def set_isa(name: str) -> None:
    """Selects the instruction set of later searches; "auto" selects the fastest.

    Raises ValueError for an unknown one, and IdcwhError for one that this machine does not support.
    """

def available_cores() -> int:
    """Returns the number of cores that this process may use, by its affinity mask and its CPU quota."""

def crc32c(buffer: bytes | bytearray | memoryview | NDArray[Any], seed: int = 0) -> int:
    """Returns the CRC-32C (Castagnoli) of a contiguous buffer. `seed` is the checksum of preceding bytes.

    crc32c(b"123456789") == 0xE3069283.
    """

def padding_is_zero(codes: NDArray[np.uint8], bits: int) -> bool:
    """Returns True if the padding bits of every row are zero."""

def count_pairs(
    queries: NDArray[np.uint8],
    query_labels: NDArray[Any],
    database: NDArray[np.uint8],
    database_labels: NDArray[Any],
    bits: int,
    classes: int | None = None,
    cuts: Iterable[int] = (),
    ranked: bool = True,
    leave_one_out: bool = False,
    threads: int | None = 0,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Returns the counts of all pairs from which metrics are computed.

    Items that share a class are relevant to each other. Queries with the same code and label share a row of the counts.

    Args:
        query_labels, database_labels: int64 [n], one class per item; with `classes` multi-label uint8
            [n, ceil(classes/8)], class c in byte c // 8 at position c % 8.
        classes: number of classes of multi-label items; None for one class per item.
        cuts: ascending ranks >= 1.
        ranked: False to leave out ranked_sum and ranked_hits, which then have no rows.
        leave_one_out: True to compare each item with all others. Queries and database are then the same arrays, and
            ranked_sum and ranked_hits have one row per query.

    Returns:
        row: [queries], row of each query in the other arrays.
        items, relevant: [rows, bits + 1], number of database items, and of relevant ones, at each distance.
        ranked_sum: [rows, cuts + 1], sum of (relevant so far / rank) over the relevant items among the first K in the
            order (distance, row). The last column has no cut.
        ranked_hits: [rows, cuts], number of relevant items among the first K in that order.
    """

def count_distinct(codes: NDArray[np.uint8], bits: int) -> int:
    """Returns the number of different codes."""

_Where = NDArray[np.bool_] | NDArray[np.int64] | tuple[int, int] | None

_Exclude = NDArray[np.int64] | None

class Snapshot:
    """The contents of an Index at one moment (csrc/include/idcwh/index.hpp).

    queries: C-contiguous uint8 (nq, ceil(bits / 8)).
    where: bool mask in row order, int64 ids in any order, half-open range of ids (first, last), or None.
    threads: number of threads; 0 for the setting of the index.
    exclude: C-contiguous int64 (nq, m), ids that a query must not return; None for none. Results of topk and rank with
        fewer items end with the id -1 at the distance 2147483647.
    """

    @property
    def bits(self) -> int: ...
    def __len__(self) -> int: ...
    def topk(
        self,
        queries: NDArray[np.uint8],
        k: int,
        where: _Where = None,
        threads: int | None = 0,
        exclude: _Exclude = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]: ...
    def topk_ties(
        self,
        queries: NDArray[np.uint8],
        k: int,
        where: _Where = None,
        threads: int | None = 0,
        exclude: _Exclude = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]: ...
    def radius(
        self,
        queries: NDArray[np.uint8],
        radius: int,
        where: _Where = None,
        threads: int | None = 0,
        exclude: _Exclude = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]: ...
    def count(
        self,
        queries: NDArray[np.uint8],
        radius: int,
        where: _Where = None,
        threads: int | None = 0,
        exclude: _Exclude = None,
    ) -> NDArray[np.int64]: ...
    def histogram(
        self, queries: NDArray[np.uint8], where: _Where = None, threads: int | None = 0, exclude: _Exclude = None
    ) -> NDArray[np.int64]: ...
    def rank(
        self, queries: NDArray[np.uint8], where: _Where = None, threads: int | None = 0, exclude: _Exclude = None
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]: ...
    def get(self, ids: NDArray[np.int64]) -> NDArray[np.uint8]: ...
    def ids(self) -> NDArray[np.int64]: ...
    def copy(self, where: _Where = None) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Returns copies of the eligible codes and ids, in the order they were added."""

    def explain(
        self, k: int | None = None, radius: int | None = None, queries: int = 1, where: _Where = None
    ) -> list[dict[str, Any]]:
        """Returns "path", "nanoseconds" and "because" of each execution path, the selected one first."""

    def structures(self) -> list[dict[str, Any]]:
        """Returns "name", "codes", "bytes" and "detail" of each index structure."""

    def memory(self) -> int: ...

class Index:
    """An in-memory index of codes with ids. Searches use snapshots, and one thread at a time changes it."""

    def __init__(self, bits: int) -> None: ...
    def snapshot(self) -> Snapshot: ...
    def add(self, codes: NDArray[np.uint8], ids: NDArray[np.int64] | None = None) -> NDArray[np.int64]: ...
    def remove(self, ids: NDArray[np.int64]) -> int:
        """Removes the codes with these ids and returns their number. Raises KeyError for a missing id."""

    def reserve(self, size: int) -> None: ...
    def optimize(self, memory: int | None = None, threads: int | None = 0) -> None: ...
    def drop_structures(self) -> None: ...
    def set_threads(self, threads: int) -> None: ...

def bit_pairs(codes: NDArray[np.uint8], bits: int, threads: int | None = 0) -> NDArray[np.int64]:
    """Returns the number of codes in which bits i and j are both 1, [bits, bits]. The diagonal counts single bits."""

_Strings = list[str | None]

class DatabaseSnapshot(Snapshot):
    """The contents of a database at one moment. Keys are decoded as file names, labels as UTF-8 with surrogates."""

    @property
    def commit(self) -> int: ...
    def keys(self, ids: NDArray[np.int64] | None = None) -> _Strings: ...
    def labels(self, ids: NDArray[np.int64] | None = None) -> _Strings: ...
    def mtime_signatures(self, ids: NDArray[np.int64] | None = None) -> NDArray[np.uint32]: ...
    def checksums(self, ids: NDArray[np.int64] | None = None) -> NDArray[np.uint64]: ...
    def find(self, keys: _Strings) -> NDArray[np.int64]:
        """Returns the ids of the items with one of these keys, ascending."""

    def label_counts(self) -> list[tuple[str, int]]:
        """Returns the number of items with each label, in no particular order."""

    def match(
        self, labels: list[str] | None = None, key_prefixes: _Strings | None = None
    ) -> tuple[NDArray[np.bool_], list[bool]]:
        """Returns a mask of the items with one of the labels and one of the prefixes, and per prefix if a key has it.

        The mask is in the order of rows. A label is the whole text of an item's label.
        """

    def manifest(self) -> bytes: ...
    def codes_in_place(self) -> NDArray[np.uint8] | None:
        """Returns all codes as a read-only view of the file, or None if the file has several segments."""

class Database:
    """A codes.bin file. Paths and JSON are bytes."""

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
        """Removes and adds items in one atomic step, and returns the ids of the added ones."""

    def remove(self, ids: NDArray[np.int64]) -> int: ...
    def remove_keys(self, keys: _Strings) -> int: ...
    def set_manifest(self, json: bytes) -> None: ...
    def compact(self) -> None: ...
    def set_auto_compact(self, on: bool) -> None: ...
    def optimize(self, memory: int | None = None, threads: int | None = 0) -> None: ...
    def drop_structures(self) -> None: ...
    def check(self, threads: int | None = None, since: int = 0) -> dict[str, Any]:
        """Returns "corrupt", a list of (what, offset, length); and "items", "good_items" and "torn"."""

    def close(self) -> None: ...
    def discard(self) -> None: ...
