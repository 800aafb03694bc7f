"""The search of idcwh-search: hits with keys and labels, and counts of ties.

The order is (distance, id), as in the library. The only difference is that among equal distances the query's own file
comes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..database.database import Database

TOP = 10
"""Default number of hits per query without a radius."""


class Hit(NamedTuple):
    """A hit of a query. Ranks start at 1."""

    rank: int
    distance: int
    id: int
    key: str | None
    label: str | None


@dataclass(frozen=True)
class Query:
    """A query: its name, its code, its image (None for a bare code), and the keys that each of its files may have."""

    name: str
    code: np.ndarray
    image: Path | bytes | None = None
    files: tuple[frozenset[str], ...] = ()


@dataclass(frozen=True)
class Ties:
    """Items tied with the last hit, if not all of them are shown: their distance, number, and number shown."""

    distance: int
    items: int
    shown: int


@dataclass(frozen=True)
class Answer:
    """A query and its hits in order. `self_ids` are the ids of hits that are the query's own files."""

    query: Query
    hits: list[Hit]
    self_ids: list[int]
    ties: Ties | None


@dataclass(frozen=True)
class Search:
    """The options of a search.

    Attributes:
        top: number of hits per query; None for TOP, or for all within the radius.
        radius: largest distance of a hit, in bits; None for any.
        where: ids to search, int64; None for all.
        exclude_self: True to leave out the query's own files.
        threads: number of threads; None for one per core.
    """

    top: int | None = None
    radius: int | None = None
    where: np.ndarray | None = None
    exclude_self: bool = False
    threads: int | None = None

    def run(self, database: Database, queries: list[Query]) -> Iterator[Answer]:
        """Searches for all queries in one batch, and returns their answers in order, built lazily."""
        if not queries:
            return iter(())
        excluded = _table(_self_ids(database, queries)) if self.exclude_self else None
        codes = np.stack([query.code for query in queries])
        rows = self._rows(database, codes, excluded)
        ties = self._ties(database, queries, rows, excluded)
        rows = [(distances[: self._top], ids[: self._top]) for distances, ids in rows]
        if not self.exclude_self:
            self._include_self(database, queries, rows, ties)
        return (self._answer(database, *found) for found in zip(queries, rows, ties, strict=True))

    @property
    def _top(self) -> int | None:
        return TOP if self.top is None and self.radius is None else self.top

    def _rows(self, database: Database, codes: np.ndarray, excluded: np.ndarray | None) -> list[_Row]:
        """Returns distances and ids per query, one hit more than `top`, which shows if the last hit has ties."""
        if self.radius is None:
            d, i = database.search(codes, (self._top or 0) + 1, self.where, self.threads, exclude=excluded)
            return [(distances[ids >= 0], ids[ids >= 0]) for distances, ids in zip(d, i, strict=True)]
        radius = min(self.radius, database.bits)
        limits, d, i = database.range_search(codes, radius, self.where, self.threads, exclude=excluded)
        return [*zip(np.split(d, limits[1:-1]), np.split(i, limits[1:-1]), strict=True)]

    def _ties(
        self,
        database: Database,
        queries: list[Query],
        rows: list[_Row],
        excluded: np.ndarray | None,
    ) -> list[Ties | None]:
        """Returns per query the ties that `top` cuts off, counted in one batch per distance."""
        ties: list[Ties | None] = [None] * len(queries)
        top = self._top
        cut = {
            n: int(distances[top - 1])
            for n, (distances, _) in enumerate(rows)
            if top and len(distances) > top and distances[top] == distances[top - 1]
        }
        for distance in set(cut.values()):
            members = [n for n, at in cut.items() if at == distance]
            codes = np.stack([queries[n].code for n in members])
            others = None if excluded is None else excluded[members]
            counts = database.count(codes, distance, self.where, self.threads, exclude=others)
            for n, within in zip(members, counts.tolist(), strict=True):
                nearer = int((rows[n][0] < distance).sum())
                ties[n] = Ties(distance, within - nearer, (top or 0) - nearer)
        return ties

    def _searched(self, ids: np.ndarray) -> np.ndarray:
        return ids if self.where is None else ids[np.isin(ids, self.where)]

    def _include_self(
        self, database: Database, queries: list[Query], rows: list[_Row], ties: list[Ties | None]
    ) -> None:
        """Replaces tied hits by the query's own files if `top` cut those off.

        The look-up reads all keys of the database, once for all queries. It is therefore done only for files below the
        root that are not among the hits already.
        """
        pending = {
            n: Query(query.name, query.code, files=inside)
            for n, (query, (_, ids), tied) in enumerate(zip(queries, rows, ties, strict=True))
            if tied is not None and (inside := _inside(query)) and _missing(inside, database.keys(ids))
        }
        for (n, query), self_ids in zip(pending.items(), _self_ids(database, list(pending.values())), strict=True):
            (distances, ids), tied = rows[n], ties[n]
            assert tied is not None
            self_ids = self._searched(self_ids)
            self_ids = self_ids[_distances(database, query, self_ids) == tied.distance]
            nearer, others = np.split(ids, [len(ids) - tied.shown])
            others = others[~np.isin(others, self_ids)]
            rows[n] = distances, np.concatenate([nearer, np.concatenate([self_ids, others])[: tied.shown]])

    def _answer(self, database: Database, query: Query, row: _Row, ties: Ties | None) -> Answer:
        (distances, ids), self_ids = row, _NONE
        keys = database.keys(ids)
        if query.files and not self.exclude_self:
            names = frozenset[str | None]().union(*query.files)
            self_ids = ids[np.array([key in names for key in keys], bool)]
        if len(self_ids):
            order = np.lexsort((ids, ~np.isin(ids, self_ids), distances))
            ids, keys = ids[order], [keys[n] for n in order.tolist()]
        columns = (range(1, len(ids) + 1), distances.tolist(), ids.tolist(), keys, database.labels(ids))
        return Answer(query, list(map(Hit._make, zip(*columns, strict=True))), self_ids.tolist(), ties)


_Row = tuple[np.ndarray, np.ndarray]
"""Distances and ids of a query's hits."""

_NONE = np.empty(0, np.int64)


def _inside(query: Query) -> tuple[frozenset[str], ...]:
    """Returns the files of a query that are below the root, each as its possible keys."""
    return tuple(keys for keys in query.files if not all(key.startswith("../") for key in keys))


def _missing(files: tuple[frozenset[str], ...], keys: list[str | None]) -> bool:
    return any(file.isdisjoint(keys) for file in files)


def _self_ids(database: Database, queries: list[Query]) -> list[np.ndarray]:
    """Returns the ids of the own files per query, ascending."""
    wanted = frozenset[str]().union(*(keys for query in queries for keys in query.files))
    found = database.find(sorted(wanted)) if wanted else _NONE
    ids: dict[str | None, list[int]] = {}
    for id_, key in zip(found.tolist(), database.keys(found), strict=True):
        ids.setdefault(key, []).append(id_)
    return [
        np.array(sorted({id_ for keys in query.files for key in keys for id_ in ids.get(key, ())}), np.int64)
        for query in queries
    ]


def _table(ids: list[np.ndarray]) -> np.ndarray:
    """Returns ids per query as int64 (nq, m), filled up with -1."""
    table = np.full((len(ids), max(map(len, ids))), -1, np.int64)
    for row, its in zip(table, ids, strict=True):
        row[: len(its)] = its
    return table


def _distances(database: Database, query: Query, ids: np.ndarray) -> np.ndarray:
    return np.unpackbits(database.get(ids) ^ query.code, axis=1).sum(axis=1) if len(ids) else _NONE
