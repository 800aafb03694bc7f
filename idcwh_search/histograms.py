"""The one pass over queries x database that every metric is computed from.

Per query: how many database items, and how many relevant ones, lie at each Hamming distance; and, for the one reading
that is not a function of those two rows (ties broken by id), the sums of precision at the relevant items. What the
numbers mean is decided in `average_precision.py` and `metrics.py`; a faster pass only has to fill the same arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .relevance import Relevance
from .runtime import available_cores

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


_STEP = 32  # codes of queries a task


@dataclass(frozen=True, eq=False)
class Histograms:
    """What one pass leaves, a row per query.

    items           int64 [queries, bits + 1]: database items at distance 0, 1, ..., bits
    relevant        int64 [queries, bits + 1]: those of them that are relevant
    ranked_sum      float64 [queries, cuts + 1]: order by (distance, id); sum over the relevant items in the first K of
                    (relevant items so far / rank), for each cut K; the last column is uncut
    ranked_hits     int64 [queries, cuts]: relevant items in the first K of that order
    """

    items: Ints
    relevant: Ints
    ranked_sum: Floats
    ranked_hits: Ints


def histograms(
    queries: NDArray[np.uint8],
    database: NDArray[np.uint8],
    relevance: Relevance,
    bits: int,
    cuts: Sequence[int] = (),
    threads: int | None = None,
) -> Histograms:
    """Count, for packed codes uint8 [n, ceil(bits/8)] whose padding bits are zero. Memory: O(queries x bits +
    database x threads).
    """
    nq = len(queries)
    result = Histograms(
        items=np.zeros((nq, bits + 1), np.int64),
        relevant=np.zeros((nq, bits + 1), np.int64),
        ranked_sum=np.zeros((nq, len(cuts) + 1), np.float64),
        ranked_hits=np.zeros((nq, len(cuts)), np.int64),
    )
    # Good codes repeat: queries with the same code share the distances and the order, which are most of the work.
    words = _words(queries)
    codes, group = np.unique(words, axis=1, return_inverse=True)
    members = np.split(np.argsort(group.ravel(), kind="stable"), np.cumsum(np.bincount(group.ravel()))[:-1])
    rows = _words(database)

    def fill(start: int) -> None:
        for code in range(start, min(start + _STEP, len(members))):
            _one_code(codes[:, code], members[code], rows, relevance, bits, cuts, result)

    # Freeing one large block teaches glibc to keep freed memory instead of giving it back to the system; without this,
    # every temporary array below is page-faulted anew, which took a third of the time.
    np.empty(1 << 24, np.uint8)
    # threads help: numpy lets go of the interpreter lock while it sorts and counts
    with ThreadPoolExecutor(threads or available_cores()) as pool:
        try:
            for _ in pool.map(fill, range(0, len(members), _STEP)):
                pass
        finally:
            pool.shutdown(cancel_futures=True)  # an interrupt does not wait for the rest
    return result


def _one_code(
    code: NDArray[np.uint64],
    members: Ints,
    database: NDArray[np.uint64],
    relevance: Relevance,
    bits: int,
    cuts: Sequence[int],
    result: Histograms,
) -> None:
    """Fill the rows of all queries that have this code."""
    distance = _distances(code, database)
    items = np.bincount(distance, minlength=bits + 1)
    ends = np.cumsum(items)
    rank = np.empty(len(distance), np.int32 if len(distance) < 1 << 31 else np.int64)
    # the order of (distance, id): a stable sort, which is a radix sort for integers this narrow
    rank[np.argsort(distance, kind="stable")] = np.arange(len(distance), dtype=rank.dtype)
    for query in members:
        hits = np.sort(rank[relevance.relevant(query)])  # 0-based
        result.items[query] = items
        result.relevant[query] = np.diff(np.searchsorted(hits, ends), prepend=0)
        precision = np.arange(1.0, len(hits) + 1) / (hits + 1.0)
        within = np.searchsorted(hits, cuts)
        result.ranked_hits[query] = within
        result.ranked_sum[query] = [precision[:k].sum() for k in (*within, len(hits))]


def _words(codes: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Packed codes as 64-bit words, uint64 [words, n], zeros behind the last byte: XOR and popcount see eight
    bytes at a time.
    """
    n, width = codes.shape
    padded = np.zeros((n, -(-width // 8) * 8), np.uint8)
    padded[:, :width] = codes
    return np.ascontiguousarray(padded.view(np.uint64).T)


def _distances(code: NDArray[np.uint64], database: NDArray[np.uint64]) -> NDArray[np.unsignedinteger]:
    """Hamming distances of one code to all, [n] in the narrowest type that holds them."""
    if len(code) == 1:
        return _popcount(database[0] ^ code[0])
    total = np.zeros(database.shape[1], np.uint8 if len(code) * 64 < 256 else np.uint16)
    for row, word in zip(database, code, strict=True):
        total += _popcount(row ^ word)
    return total


if hasattr(np, "bitwise_count"):

    def _popcount(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
        return np.bitwise_count(words)

else:  # numpy 1
    _PAIRS = np.arange(1 << 16, dtype=np.uint16).view(np.uint8).reshape(-1, 2)
    _TABLE = np.unpackbits(_PAIRS, axis=1).sum(axis=1, dtype=np.uint8)

    def _popcount(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
        return _TABLE[words.view(np.uint16)].reshape(-1, 4).sum(axis=1, dtype=np.uint8)
