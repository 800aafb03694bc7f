"""Which items a search may return: the `where` argument of every search, in one place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Where = np.ndarray | range | Sequence[int] | None


def eligible_rows(where: Where, ids: np.ndarray) -> np.ndarray | None:
    """`where` as a boolean mask over rows with these ids (int64 [n]), or None for all of them.

    `where` is an array or list of ids, a `range` of ids, or a boolean mask in row order.
    Ids that are not there select nothing.
    """
    if where is None:
        return None
    if isinstance(where, range):
        if len(where) == 0:
            return np.zeros(len(ids), dtype=bool)
        low, high, step = min(where[0], where[-1]), max(where[0], where[-1]), abs(where.step)
        return (ids >= low) & (ids <= high) & ((ids - low) % step == 0)
    chosen = np.asarray(where)
    if chosen.size == 0 and chosen.dtype != bool:
        return np.zeros(len(ids), dtype=bool)
    if chosen.dtype == bool:
        if chosen.shape != ids.shape:
            raise ValueError(f"where: a mask has one entry per item: expected shape {ids.shape}, not {chosen.shape}")
        return np.ascontiguousarray(chosen)
    if chosen.ndim != 1 or not np.issubdtype(chosen.dtype, np.integer):
        raise TypeError(
            "where: expected ids (integers, one dimension), a range or a boolean mask, "
            f"not {chosen.dtype} of shape {chosen.shape}"
        )
    return np.isin(ids, chosen)


def as_ids(ids: np.ndarray | Sequence[int] | int) -> np.ndarray:
    """Ids as int64; TypeError or ValueError for what are none."""
    values = np.asarray(ids)
    if values.size == 0:
        values = values.astype(np.int64)  # an empty list is float64 to numpy
    if values.dtype.kind not in "iu":
        raise TypeError(f"ids must be whole numbers, not {values.dtype}")
    if values.ndim > 1:
        raise ValueError(f"ids must have one dimension, not shape {values.shape}")
    if values.dtype == np.uint64 and values.size and values.max() > np.iinfo(np.int64).max:
        raise ValueError(f"ids must fit int64, not {int(values.max())}")
    return values.astype(np.int64, copy=False)
