"""The `where` argument of every search, which limits the items that it may return, and ids as arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..codes import as_array

Where = np.ndarray | range | Sequence[int] | None
_MAX_ID = int(np.iinfo(np.int64).max)


def _ascending(where: range) -> tuple[int, int, int]:
    """Returns (first, last, step) of the members of a range that can be ids, ascending; first > last if none can."""
    if not where:
        return (0, -1, 1)
    low, high, step = min(where[0], where[-1]), max(where[0], where[-1]), abs(where.step)
    return (max(low, low % step), high - max(0, -(-(high - _MAX_ID) // step)) * step, min(step, _MAX_ID))


def engine_where(where: Where, count: int, ids: Callable[[], np.ndarray]) -> np.ndarray | tuple[int, int] | None:
    """Returns `where` as the engine takes it: a mask (bool), ids (int64), a pair of ids (first, last + 1), or None.

    ids: returns the ids of all `count` items in row order, for a range with steps that has far more members than that.
    """
    if where is None:
        return None
    if isinstance(where, range):
        low, high, step = _ascending(where)
        if low > high:
            return (0, 0)
        if step == 1 and high < _MAX_ID:
            return (low, high + 1)
        if (high - low) // step <= 4 * count:
            return low + step * np.arange((high - low) // step + 1, dtype=np.int64)
        names = ids()
        return (names >= low) & (names <= high) & ((names - low) % step == 0)
    chosen = np.asarray(as_array(where, "where"))
    if chosen.dtype == bool and chosen.ndim == 1:
        return np.ascontiguousarray(chosen)
    if chosen.size == 0 and chosen.ndim == 1:
        return np.empty(0, np.int64)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
        raise TypeError(
            "where: expected ids (integers, one dimension), a range or a boolean mask, "
            f"not {chosen.dtype} of shape {chosen.shape}"
        )
    if chosen.dtype == np.uint64:
        chosen = chosen[chosen <= _MAX_ID]  # there are no such ids
    return np.ascontiguousarray(chosen, np.int64)


def as_id_list(ids: np.ndarray | Sequence[int] | int) -> np.ndarray:
    """Returns ids, or a single one, as a contiguous int64 array of one dimension."""
    return np.ascontiguousarray(as_ids(ids).reshape(-1))


def as_ids(ids: np.ndarray | Sequence[int] | int) -> np.ndarray:
    """Returns ids as int64. Raises TypeError or ValueError for invalid ones."""
    values = np.asarray(as_array(ids, "ids"))
    if values.size == 0:
        values = values.astype(np.int64)  # an empty list is float64 to numpy
    if values.dtype.kind not in "iu":
        raise TypeError(f"ids must be whole numbers, not {values.dtype}")
    if values.ndim > 1:
        raise ValueError(f"ids must have one dimension, not shape {values.shape}")
    if values.dtype == np.uint64 and values.size and values.max() > _MAX_ID:
        raise ValueError(f"ids must fit int64, not {int(values.max())}")
    return values.astype(np.int64, copy=False)
