"""The groups of near-duplicates among items, and the items that a reference has already."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

import numpy as np

from ..codes import code_bytes
from ..search.join import clusters, join, self_join
from .not_duplicates import NotDuplicates

Mode = Literal["components", "greedy"]
_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint8)
_CHUNK = 1 << 16  # codes per comparison


class Items(Protocol):
    """Codes with ids, keys and labels: a snapshot of a database, or images in memory."""

    @property
    def bits(self) -> int:
        """Code length."""

    @property
    def codes(self) -> np.ndarray:
        """Packed codes, uint8 (n, code bytes)."""

    @property
    def ids(self) -> np.ndarray:
        """Ids in the order of `codes`, int64 (n,)."""

    def keys(self, ids: np.ndarray) -> list[str | None]:
        """Returns the keys of these ids."""

    def labels(self, ids: np.ndarray) -> list[str | None]:
        """Returns the labels of these ids."""


class Item(NamedTuple):
    """An item of a group with its distance to the kept item."""

    distance: int
    id: int
    key: str | None
    label: str | None


class Group(NamedTuple):
    """The item to keep, and its duplicates ordered by (distance, id)."""

    keeper: Item
    duplicates: list[Item]


Preference = Callable[[list[str | None]], np.ndarray]
"""A function that returns a number per key; the item with the smallest number is kept."""


def groups_within(
    database: Items,
    radius: int,
    mode: Mode,
    where: np.ndarray | None,
    preference: Preference | None,
    threads: int | None,
    apart: NotDuplicates | None = None,
) -> list[Group]:
    """Returns the groups with at least two items, in the order of their kept items.

    Args:
        database: the database.
        radius: inclusive radius in bits.
        mode: as in `clusters`. The items are visited in the order of preference.
        where: ids of the items that are compared; None for all.
        preference: order of preference; None for the order of the database. Earlier items win ties.
        threads: number of threads; None for one per core.
        apart: pairs of keys that do not count as near. Two items with one key are never apart.
    """
    codes, ids = database.codes, database.ids
    rows = np.arange(len(ids)) if where is None else np.flatnonzero(np.isin(ids, where))
    # A group never spans two components, so items without a neighbour need no file size and no second pass.
    number = clusters(codes[rows], radius, "components", database.bits, threads=threads)
    shared = _shared(number)
    rows, number = rows[shared], number[shared]
    if preference is not None:
        order = np.argsort(preference(database.keys(ids[rows])), kind="stable")
        rows, number = rows[order], number[order]
    named = np.full(len(rows), -1) if apart is None else apart.numbers(database.keys(ids[rows]))
    split = _with_several(number, named)
    if mode == "greedy":
        number[~split] = clusters(codes[rows[~split]], radius, mode, database.bits, threads=threads)
    if apart is not None and split.any():
        near = _Near(codes[rows[split]], named[split], apart, radius, database.bits, threads)
        number[split] = number.max(initial=0) + 1 + (near.greedy() if mode == "greedy" else near.components())
    shared = _shared(number)
    rows, number = rows[shared], number[shared]
    _, first, number = np.unique(number, return_index=True, return_inverse=True)
    keepers = rows[first[number.reshape(-1)]]
    return _grouped(database, database, rows, keepers, _distances(codes, rows, keepers))


def _with_several(number: np.ndarray, named: np.ndarray) -> np.ndarray:
    """Returns True for each item of a component in which at least two different keys have a number."""
    has = named >= 0
    components, times = np.unique(np.unique(np.stack([number[has], named[has]]), axis=1)[0], return_counts=True)
    return np.isin(number, components[times > 1])


class _Near:
    """The graph of near items, without the edges between items that are apart.

    A node stands for all items with one code and one number of their key. Nodes are numbered by their first items. Only
    two nodes with numbered keys can be apart, and these are few.
    """

    def __init__(
        self, codes: np.ndarray, named: np.ndarray, apart: NotDuplicates, radius: int, bits: int, threads: int | None
    ) -> None:
        parts = np.concatenate([codes, named[:, None].view(np.uint8)], axis=1)
        _, first, node = np.unique(
            np.ascontiguousarray(parts).view(f"V{parts.shape[1]}")[:, 0], return_index=True, return_inverse=True
        )
        order = np.argsort(first)
        self._node = np.argsort(order)[node.reshape(-1)]
        self._codes, self._named = codes[first[order]], named[first[order]]
        self._apart, self._radius, self._bits, self._threads = apart, radius, bits, threads

    def _are_near(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = self._named[a], self._named[b]
        return (a == b) | ~self._apart.has(a, b)

    def greedy(self) -> np.ndarray:
        """Returns the cluster of each item, as `clusters` does with mode "greedy"."""
        found = [np.zeros(0, np.int64)]
        for i, j, _ in self_join(self._codes, self._radius, self._bits, threads=self._threads):
            near = self._are_near(i, j)
            found.append(i[near] << 32 | j[near])
        edges = np.sort(np.concatenate(found))
        begins = np.searchsorted(edges >> 32, np.arange(len(self._codes) + 1))
        others = edges & 0xFFFFFFFF
        keeper = np.full(len(self._codes), -1)
        for node in range(len(keeper)):
            if keeper[node] < 0:
                keeper[node] = node
                near = others[begins[node] : begins[node + 1]]
                keeper[near[keeper[near] < 0]] = node
        return keeper[self._node]

    def components(self) -> np.ndarray:
        """Returns the cluster of each item, as `clusters` does with mode "components".

        The engine clusters the nodes whose keys have no number. The other nodes then connect these clusters.
        """
        plain, others = np.flatnonzero(self._named < 0), np.flatnonzero(self._named >= 0)
        number = np.empty(len(self._codes), np.int64)
        number[plain] = clusters(self._codes[plain], self._radius, "components", self._bits, threads=self._threads)
        number[others] = len(plain) + np.arange(len(others))
        parent: dict[int, int] = {}

        def root(at: int) -> int:
            while (above := parent.get(at, at)) != at:
                parent[at] = at = parent.get(above, above)
            return at

        for i, j, _ in join(self._codes[others], self._codes, self._radius, self._bits, threads=self._threads):
            i = others[i]
            near = self._are_near(i, j)
            for a, b in np.unique(np.stack([number[i[near]], number[j[near]]]), axis=1).T.tolist():
                parent[root(a)] = root(b)
        values, node = np.unique(number, return_inverse=True)
        return np.array([root(value) for value in values.tolist()])[node.reshape(-1)][self._node]


def groups_with(
    database: Items,
    reference: Items,
    radius: int,
    where: np.ndarray | None,
    threads: int | None,
    apart: NotDuplicates | None = None,
) -> list[Group]:
    """Returns a group per item of the reference that is the nearest one within the radius of items of the database.

    Among equal distances the earlier item of the reference is chosen. Items whose keys are `apart` do not meet.
    """
    ids = database.ids
    rows = np.arange(len(ids)) if where is None else np.flatnonzero(np.isin(ids, where))
    none = np.iinfo(np.int64).max
    best = np.full(len(rows), none, np.int64)  # distance and row of the reference in one number
    if apart is not None:
        named, other_named = apart.numbers(database.keys(ids[rows])), apart.numbers(reference.keys(reference.ids))
    for i, j, distance in join(database.codes[rows], reference.codes, radius, database.bits, threads=threads):
        if apart is not None:
            near = ~apart.has(named[i], other_named[j])
            i, j, distance = i[near], j[near], distance[near]
        np.minimum.at(best, i, (distance.astype(np.int64) << 40) | j)
    found = best != none
    return _grouped(database, reference, rows[found], best[found] & ((1 << 40) - 1), best[found] >> 40)


def removable(groups: list[Group], keys: list[str | None]) -> list[str]:
    """Returns the keys that only duplicates have, so that removing them removes no other item.

    Args:
        groups: the groups.
        keys: keys of all items.
    """
    found = [item.key for group in groups for item in group.duplicates if item.key is not None]
    times, wanted = dict.fromkeys(found, 0), dict.fromkeys(found, 0)
    for key in found:
        wanted[key] += 1
    for stored in keys:
        if stored is not None and stored in times:
            times[stored] += 1
    return [key for key in wanted if times[key] == wanted[key]]


def _shared(number: np.ndarray) -> np.ndarray:
    """Returns True for each item of a group with at least two items."""
    return np.bincount(number)[number] > 1 if len(number) else np.zeros(0, bool)


def _distances(codes: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    found = np.zeros(len(a), np.int64)
    step = max(1, _CHUNK * code_bytes(64) // max(codes.shape[1], 1))
    for start in range(0, len(a), step):
        part = slice(start, start + step)
        found[part] = _ONES[codes[a[part]] ^ codes[b[part]]].sum(axis=1, dtype=np.int64)
    return found


def _grouped(database: Items, kept: Items, rows: np.ndarray, keepers: np.ndarray, distances: np.ndarray) -> list[Group]:
    """Returns the groups of rows of `database`, with a keeper per row among the rows of `kept`."""
    if database is kept:
        others = rows != keepers
        rows, keepers, distances = rows[others], keepers[others], distances[others]
    ids, kept_ids = database.ids[rows], kept.ids[keepers]
    order = np.lexsort((ids, distances, keepers))
    ids, kept_ids, distances, keepers = ids[order], kept_ids[order], distances[order], keepers[order]
    starts = np.flatnonzero(np.r_[True, keepers[1:] != keepers[:-1]]) if len(keepers) else np.zeros(0, np.int64)
    heads = _items(kept, kept_ids[starts], np.zeros(len(starts), np.int64))
    items, ends = _items(database, ids, distances), [*starts[1:].tolist(), len(ids)]
    return [Group(head, items[a:b]) for head, a, b in zip(heads, starts.tolist(), ends, strict=False)]


def _items(database: Items, ids: np.ndarray, distances: np.ndarray) -> list[Item]:
    columns = distances.tolist(), ids.tolist(), database.keys(ids), database.labels(ids)
    return [Item(*values) for values in zip(*columns, strict=True)]


def largest(paths: list[str | None]) -> np.ndarray:
    """Returns the preference for large files. Missing files (None) come last."""
    return np.array([1 if path is None else -_status(path)[0] for path in paths], np.int64)


def oldest(paths: list[str | None]) -> np.ndarray:
    """Returns the preference for files with an early mtime. Missing files (None) come last."""
    last = np.iinfo(np.int64).max
    return np.array([last if path is None else _status(path)[1] for path in paths], np.int64)


def _status(path: str) -> tuple[int, int]:
    """Returns the size and the mtime in nanoseconds of a file, or of a member of a tar file."""
    from ..images import tar

    if inside := tar.stat(path):
        return inside[0], inside[2]
    status = os.stat(path)  # noqa: PTH116
    return status.st_size, status.st_mtime_ns
