"""Conversion of the `where` filter and of ids into the engine's form."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..codes import as_array

Where = np.ndarray | range | Sequence[int] | None
_MAX_ID = int(np.iinfo(np.int64).max)


def _ascending(where: range) -> tuple[int, int, int]:
    """Returns (first, last, step) of the valid ids in a range, ascending; first > last if there are none."""
    if not where:
        return (0, -1, 1)
    low, high, step = min(where[0], where[-1]), max(where[0], where[-1]), abs(where.step)
    return (max(low, low % step), high - max(0, -(-(high - _MAX_ID) // step)) * step, min(step, _MAX_ID))


def engine_where(where: Where, count: int, ids: Callable[[], np.ndarray]) -> np.ndarray | tuple[int, int] | None:
    """Returns `where` in the engine's form: a mask (bool), ids (int64), a pair of ids (first, last + 1), or None.

    Args:
        where: filter of the caller.
        count: number of items.
        ids: function that returns the ids of all items in row order. It is called for a range with a step and far more
            members than items.

    Raises:
        TypeError: `where` has a wrong dtype or shape.
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
    try:
        chosen = np.asarray(as_array(where, "where"))
    except ValueError:  # lists of different lengths
        raise TypeError("where: expected one filter, not a list of filters, which only searches accept") from None
    if chosen.dtype == bool and chosen.ndim == 1:
        return np.ascontiguousarray(chosen)
    if chosen.size == 0 and chosen.ndim == 1:
        return np.empty(0, np.int64)
    if chosen.dtype.kind in "iu" and chosen.dtype.itemsize == 1:
        raise TypeError(f"where: {chosen.dtype} may be a mask or ids; convert it to bool or int64")
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
        raise TypeError(
            "where: expected ids (integers, one dimension), a range or a boolean mask, "
            f"not {chosen.dtype} of shape {chosen.shape}"
        )
    if chosen.dtype == np.uint64:
        chosen = chosen[chosen <= _MAX_ID]  # larger ids do not exist
    return np.ascontiguousarray(chosen, np.int64)


def as_id_list(ids: np.ndarray | Sequence[int] | int) -> np.ndarray:
    """Returns one or more ids as a contiguous int64 array of one dimension. Raises the errors of `as_ids`."""
    return np.ascontiguousarray(as_ids(ids).reshape(-1))


def as_ids(ids: np.ndarray | Sequence[int] | int) -> np.ndarray:
    """Returns ids as int64. Raises TypeError for a wrong dtype, ValueError for a wrong shape or a too large id."""
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
