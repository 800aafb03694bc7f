"""The groups of near-duplicates of a database, and the items of a database that a reference has already."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from ..codes import code_bytes
from ..database.database import DatabaseSnapshot
from ..search.join import clusters

Mode = Literal["components", "greedy"]
_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint8)
_CHUNK = 1 << 16  # codes per comparison


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
    database: DatabaseSnapshot,
    radius: int,
    mode: Mode,
    where: np.ndarray | None,
    preference: Preference | None,
    threads: int | None,
) -> list[Group]:
    """Returns the groups with at least two items, in the order of their kept items.

    Args:
        database: the database.
        radius: inclusive radius in bits.
        mode: as in `clusters`. The items are visited in the order of preference.
        where: ids of the items that are compared; None for all.
        preference: order of preference; None for the order of the database. Earlier items win ties.
        threads: number of threads; None for one per core.
    """
    codes, ids = database.codes, database.ids
    rows = np.arange(len(ids)) if where is None else np.flatnonzero(np.isin(ids, where))
    # A group never spans two components, so items without a neighbour need no file size and no second pass.
    rows = rows[_shared(clusters(codes[rows], radius, "components", database.bits, threads=threads))]
    if preference is not None:
        rows = rows[np.argsort(preference(database.keys(ids[rows])), kind="stable")]
    number = clusters(codes[rows], radius, mode, database.bits, threads=threads)
    shared = _shared(number)
    rows, number = rows[shared], number[shared]
    _, first, number = np.unique(number, return_index=True, return_inverse=True)
    keepers = rows[first[number.reshape(-1)]]
    return _grouped(database, database, rows, keepers, _distances(codes, rows, keepers))


def groups_with(
    database: DatabaseSnapshot,
    reference: DatabaseSnapshot,
    radius: int,
    where: np.ndarray | None,
    threads: int | None,
) -> list[Group]:
    """Returns a group per item of the reference that is the nearest one within the radius of items of the database.

    Among equal distances the earlier item of the reference is chosen.
    """
    order, others = np.argsort(database.ids), np.argsort(reference.ids)
    sorted_ids, sorted_others = database.ids[order], reference.ids[others]
    none = np.iinfo(np.int64).max
    best = np.full(len(order), none, np.int64)  # distance and row of the reference in one number
    for i, j, distance in database.join(reference, radius, where, threads=threads):
        rows, kept = order[np.searchsorted(sorted_ids, i)], others[np.searchsorted(sorted_others, j)]
        np.minimum.at(best, rows, (distance.astype(np.int64) << 40) | kept)
    rows = np.flatnonzero(best != none)
    return _grouped(database, reference, rows, best[rows] & ((1 << 40) - 1), best[rows] >> 40)


def removable(groups: list[Group], keys: list[str | None]) -> list[str]:
    """Returns the keys of the duplicates that `idcwh-index remove` can remove without removing another item.

    Args:
        groups: the groups.
        keys: keys of all items of the database.
    """
    found = [item.key for group in groups for item in group.duplicates if item.key is not None]
    times, wanted = dict.fromkeys(found, 0), dict.fromkeys(found, 0)
    for key in found:
        wanted[key] += 1
    for stored in keys:
        if stored is not None and stored in times:
            times[stored] += 1
    return [key for key in wanted if times[key] == wanted[key] and key.splitlines() == [key]]


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


def _grouped(
    database: DatabaseSnapshot, kept: DatabaseSnapshot, rows: np.ndarray, keepers: np.ndarray, distances: np.ndarray
) -> list[Group]:
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


def _items(database: DatabaseSnapshot, ids: np.ndarray, distances: np.ndarray) -> list[Item]:
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
