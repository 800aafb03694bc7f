"""Who is relevant to whom: labels in their two forms, and the relevant database rows of one query.

Two items are relevant to each other when they share a label, the convention of every protocol here (single- and
multi-label).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Relevance(Protocol):
    """relevant(i) gives the database rows that are relevant to query i, ascending."""

    queries: int
    database: int

    def relevant(self, query: int) -> NDArray[np.int64]: ...


class SingleLabel:
    """One class an item: int64 [queries], int64 [database]."""

    def __init__(self, query_labels: NDArray[np.int64], database_labels: NDArray[np.int64]) -> None:
        self.queries, self.database = len(query_labels), len(database_labels)
        self._order = np.argsort(database_labels, kind="stable")  # the rows of each class, class after class
        ordered = database_labels[self._order]
        self._first = np.searchsorted(ordered, query_labels, side="left")
        self._last = np.searchsorted(ordered, query_labels, side="right")

    def relevant(self, query: int) -> NDArray[np.int64]:
        return self._order[self._first[query] : self._last[query]]


class MultiLabel:
    """Any number of classes an item, none included: bool [queries, C], bool [database, C]."""

    def __init__(self, query_labels: NDArray[np.bool_], database_labels: NDArray[np.bool_]) -> None:
        self.queries, self.database = len(query_labels), len(database_labels)
        self._query = query_labels
        self._by_class = np.ascontiguousarray(database_labels.T)

    def relevant(self, query: int) -> NDArray[np.int64]:
        return np.flatnonzero(np.logical_or.reduce(self._by_class[self._query[query]], axis=0))


def relevance(query_labels: Any, database_labels: Any) -> Relevance:
    """Check both label arrays and pair them.

    query_labels, database_labels: integers >= 0 of shape [n], one class an item; or booleans (or integers 0 and 1) of
    shape [n, C], where an all-zero row is an item without a label, relevant to nothing. Both in the same form.
    ValueError otherwise.
    """
    query, database = _labels(query_labels, "query_labels"), _labels(database_labels, "database_labels")
    if query.ndim != database.ndim:
        raise ValueError(
            "query_labels and database_labels: expected the same form, both [n] or both [n, C], "
            f"not {list(query.shape)} and {list(database.shape)}"
        )
    if query.ndim == 1:
        return SingleLabel(query, database)
    if query.shape[1] != database.shape[1]:
        raise ValueError(
            "query_labels and database_labels: expected the same number of classes, "
            f"not {query.shape[1]} and {database.shape[1]}"
        )
    return MultiLabel(query, database)


def _labels(labels: Any, name: str) -> NDArray[Any]:
    array = np.asarray(labels)
    if array.dtype.kind not in "biu" or array.ndim not in (1, 2) or (array.ndim == 1 and array.dtype.kind == "b"):
        raise ValueError(
            f"{name}: expected integers [n] (one class an item) or bool [n, C] (any number of classes), "
            f"not {describe(array)}"
        )
    if array.ndim == 2:
        if array.dtype.kind != "b" and array.size and (array.min() < 0 or array.max() > 1):
            raise ValueError(f"{name}: expected only 0 and 1 in a [n, C] array, found {array.min()} to {array.max()}")
        return array.astype(bool)
    if array.size and array.min() < 0:
        raise ValueError(
            f"{name}: expected class numbers >= 0, found {array.min()} "
            "(items without a label need the [n, C] form, with a row of zeros)"
        )
    if array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name}: expected class numbers that fit int64, found {array.max()}")
    return array.astype(np.int64)


def describe(array: NDArray[Any]) -> str:
    """dtype and shape, for messages."""
    return f"{array.dtype} {list(array.shape)}"
