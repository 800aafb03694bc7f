"""Labels of queries and database, checked and converted for the engine.

Two items are relevant to each other if they share a label, in single- and multi-label datasets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codes import as_array


@dataclass(frozen=True, eq=False)
class Relevance:
    """Labels of queries and database.

    Attributes:
        query, database: int64 [n], one class per item; or multi-label uint8 [n, ceil(classes/8)], class c in byte
            c // 8 at position c % 8.
        classes: number of classes of multi-label items; None for one class per item.
    """

    query: NDArray[Any]
    database: NDArray[Any]
    classes: int | None


def relevance(query_labels: Any, database_labels: Any) -> Relevance:
    """Returns both label arrays in the engine's form. Raises ValueError for invalid ones.

    Args:
        query_labels, database_labels: integers >= 0 [n], one class per item; or multi-label booleans (or integers 0
            and 1) [n, C]. Both have the same form. An all-zero row is an item without a label, relevant to nothing.
    """
    query = _labels(query_labels, "query_labels")
    database = query if database_labels is query_labels else _labels(database_labels, "database_labels")
    if query.ndim != database.ndim:
        raise ValueError(
            "query_labels and database_labels: expected the same form, both [n] or both [n, C], "
            f"not {list(query.shape)} and {list(database.shape)}"
        )
    if query.ndim == 1:
        return Relevance(query, database, None)
    if query.shape[1] != database.shape[1]:
        raise ValueError(
            "query_labels and database_labels: expected the same number of classes, "
            f"not {query.shape[1]} and {database.shape[1]}"
        )
    sets = _sets(query)
    return Relevance(sets, sets if database is query else _sets(database), query.shape[1])


def _sets(labels: NDArray[np.bool_]) -> NDArray[np.uint8]:
    return np.packbits(labels, axis=1, bitorder="little")


def _labels(labels: Any, name: str) -> NDArray[Any]:
    array = np.asarray(as_array(labels, name))
    if array.dtype.kind not in "biu" or array.ndim not in (1, 2) or (array.ndim == 1 and array.dtype.kind == "b"):
        raise ValueError(
            f"{name}: expected integers [n] (one class per item) or bool [n, C] (any number of classes), "
            f"not {describe(array)}"
        )
    if array.ndim == 2:
        if array.dtype.kind != "b" and array.size and (array.min() < 0 or array.max() > 1):
            raise ValueError(f"{name}: expected only 0 and 1 in a [n, C] array, found {array.min()} to {array.max()}")
        return array.astype(bool, copy=False)
    if array.size and array.min() < 0:
        raise ValueError(
            f"{name}: expected class numbers >= 0, found {array.min()} "
            "(an item without a label is a row of zeros in the [n, C] form)"
        )
    if array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name}: expected class numbers that fit int64, found {array.max()}")
    return np.ascontiguousarray(array, np.int64)


def describe(array: NDArray[Any]) -> str:
    """Returns dtype and shape as text for messages."""
    return f"{array.dtype} {list(array.shape)}"
