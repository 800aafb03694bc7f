"""Queries of one call that have different filters: a batch per filter, and the results in the order of the queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from ..codes import as_array, check_codes
from .where import Where, engine_where

Wheres = Where | Sequence[Where]
Exclude = np.ndarray | Sequence[int] | Sequence[Sequence[int]] | None

NO_ID = -1
NO_DISTANCE = int(np.iinfo(np.int32).max)


class Batch(NamedTuple):
    """Queries with one filter, in the form of the engine, and their rows among all queries (None for all)."""

    queries: np.ndarray
    where: np.ndarray | tuple[int, int] | None
    exclude: np.ndarray | None
    rows: np.ndarray | None = None


def batches(queries: np.ndarray, where: Wheres, exclude: Exclude, view: _core.Snapshot) -> list[Batch]:
    """Returns the batches of a call, one per distinct filter.

    Raises:
        TypeError, ValueError: an argument is invalid.
    """
    codes = np.ascontiguousarray(check_codes(queries, view.bits, "queries", contiguous=False))
    ids = _exclude(exclude, len(codes))
    filters = _one_per_query(where, len(codes))
    if filters is None:
        return [Batch(codes, engine_where(where, len(view), view.ids), ids)]  # type: ignore[arg-type]
    equal: dict[Any, list[int]] = {}
    keys: dict[int, Any] = {}  # by identity, so that one array for many queries is read once
    for row, one in enumerate(filters):
        if id(one) not in keys:
            keys[id(one)] = _key(one)
        equal.setdefault(keys[id(one)], []).append(row)
    parts = []
    for members in equal.values():
        rows = np.array(members)
        one = engine_where(filters[members[0]], len(view), view.ids)
        parts.append(Batch(codes[rows], one, None if ids is None else ids[rows], rows))
    return parts


def joined_rankings(parts: list[Batch], found: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Returns (D, I) of all queries. Rows with fewer items than the longest end in NO_DISTANCE and NO_ID."""
    if parts[0].rows is None:
        distances, ids = found[0]
    else:
        shape = sum(len(its) for its, _ in found), max(its.shape[1] for its, _ in found)
        distances, ids = np.full(shape, NO_DISTANCE, np.int32), np.full(shape, NO_ID, np.int64)
        for part, (its, names) in zip(parts, found, strict=True):
            distances[part.rows, : its.shape[1]] = its
            ids[part.rows, : its.shape[1]] = names
    if parts[0].exclude is None or not ids.size or (ids[:, -1] != NO_ID).any():
        return distances, ids
    columns = int((ids != NO_ID).sum(axis=1).max())
    return np.ascontiguousarray(distances[:, :columns]), np.ascontiguousarray(ids[:, :columns])


def joined_hits(
    parts: list[Batch], found: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns (lims, D, I) of all queries."""
    if parts[0].rows is None:
        return found[0]
    sizes = joined_counts(parts, [np.diff(limits) for limits, _, _ in found])
    lims = np.concatenate([[0], np.cumsum(sizes)])
    distances, ids = np.empty(lims[-1], np.int32), np.empty(lims[-1], np.int64)
    for part, (limits, its, names) in zip(parts, found, strict=True):
        at = np.repeat(lims[part.rows] - limits[:-1], np.diff(limits)) + np.arange(len(its))
        distances[at], ids[at] = its, names
    return lims, distances, ids


def joined_counts(parts: list[Batch], found: list[np.ndarray]) -> np.ndarray:
    """Returns the counts of all queries, one row or number per query."""
    if parts[0].rows is None:
        return found[0]
    counts = np.empty((sum(map(len, found)), *found[0].shape[1:]), np.int64)
    for part, its in zip(parts, found, strict=True):
        counts[part.rows] = its
    return counts


def _one_per_query(where: Wheres, count: int) -> Sequence[Where] | None:
    """Returns the filters if `where` is a list of them, which its first element shows; None for a single filter."""
    if not isinstance(where, list | tuple) or not where:
        return None
    first = where[0]
    if not (first is None or isinstance(first, list | tuple | range) or getattr(first, "ndim", 0) == 1):
        return None
    if len(where) != count:
        raise ValueError(f"where: expected one filter per query (found {len(where)}, expected {count})")
    return where


def _key(where: Where) -> Any:
    """Returns a value that is equal for equal filters."""
    if where is None or isinstance(where, range):
        return where
    array = np.asarray(as_array(where, "where"))
    return array.dtype.str, array.shape, array.tobytes()


def _exclude(exclude: Exclude, count: int) -> np.ndarray | None:
    """Returns excluded ids as int64 (nq, m). Raises TypeError for a wrong dtype, ValueError for a wrong shape."""
    if exclude is None:
        return None
    try:
        ids = np.asarray(as_array(exclude, "exclude"))
    except ValueError:  # lists of different lengths
        raise ValueError("exclude: expected as many ids for every query; fill up with -1") from None
    if ids.size == 0:
        ids = ids.astype(np.int64)  # an empty list is float64 to numpy
    if ids.dtype.kind not in "iu":
        raise TypeError(f"exclude: expected ids (integers), not {ids.dtype}")
    if ids.ndim not in (1, 2) or len(ids) != count:
        raise ValueError(
            f"exclude: expected ids of shape ({count},) or ({count}, m), one row per query, not {ids.shape}"
        )
    # A uint64 above the largest id becomes negative, and is then ignored like any missing id.
    return np.ascontiguousarray(ids.reshape(count, ids.shape[1] if ids.ndim == 2 else 1), np.int64)
