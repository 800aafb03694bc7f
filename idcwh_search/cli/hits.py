"""Hits of queries in a database, with keys, labels and counts of ties: what `idcwh-search` prints.

The order (distance, id) is the library's. Only here, among equal distances, the query's own file comes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..database.database import Database

TOP = 10
"""Hits per query where neither a number nor a radius is given."""


class Hit(NamedTuple):
    """One result of a query."""

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
    """Items at the distance of the last hit, where not all of them are hits: how many there are, and are shown."""

    distance: int
    items: int
    shown: int


@dataclass(frozen=True)
class Answer:
    """A query and its hits, in order. self_ids: the hits that are the query's own files."""

    query: Query
    hits: list[Hit]
    self_ids: list[int]
    ties: Ties | None


@dataclass(frozen=True)
class Search:
    """The options of a search.

    top: number of hits per query; None: TOP, or all within the radius.
    radius: largest distance of a hit; None: any.
    where: ids to search, int64; None: all.
    exclude_self: leaves the query's own files out.
    threads: number of threads; None: one per core.
    """

    top: int | None = None
    radius: int | None = None
    where: np.ndarray | None = None
    exclude_self: bool = False
    threads: int | None = None

    def run(self, database: Database, queries: list[Query]) -> Iterator[Answer]:
        """Searches for all queries in one batch, and returns the answers in their order, each made on request."""
        if not queries:
            return iter(())
        excluded = _own_ids(database, queries) if self.exclude_self else [_NONE] * len(queries)
        codes = np.stack([query.code for query in queries])
        rows = list(self._rows(database, codes, excluded))
        ties = self._ties(database, queries, rows, excluded)
        rows = [(distances[: self._top], ids[: self._top]) for distances, ids in rows]
        if not self.exclude_self:
            self._take_in_own(database, queries, rows, ties)
        return (self._answer(database, *found) for found in zip(queries, rows, ties, strict=True))

    @property
    def _top(self) -> int | None:
        return TOP if self.top is None and self.radius is None else self.top

    def _rows(self, database: Database, codes: np.ndarray, excluded: list[np.ndarray]) -> Iterator[_Row]:
        """Yields distances and ids of each query, one more than the top, which shows whether the last one ties."""
        if self.radius is None:
            k = (self._top or 0) + 1 + max(map(len, excluded))
            found = zip(*database.search(codes, k, self.where, self.threads), strict=True)
        else:
            limits, d, i = database.range_search(codes, min(self.radius, database.bits), self.where, self.threads)
            found = zip(np.split(d, limits[1:-1]), np.split(i, limits[1:-1]), strict=True)
        for (distances, ids), own in zip(found, excluded, strict=True):
            kept = ~np.isin(ids, own) if len(own) else slice(None)
            yield distances[kept], ids[kept]

    def _ties(
        self,
        database: Database,
        queries: list[Query],
        rows: list[_Row],
        excluded: list[np.ndarray],
    ) -> list[Ties | None]:
        """Returns for each query the ties that the top cuts off, counted in one batch per distance."""
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
            for n, within in zip(members, database.count(codes, distance, self.where, self.threads), strict=True):
                nearer = int((rows[n][0] < distance).sum())
                own = int((_distances(database, queries[n], self._searched(excluded[n])) <= distance).sum())
                ties[n] = Ties(distance, int(within) - nearer - own, (top or 0) - nearer)
        return ties

    def _searched(self, ids: np.ndarray) -> np.ndarray:
        return ids if self.where is None else ids[np.isin(ids, self.where)]

    def _take_in_own(self, database: Database, queries: list[Query], rows: list[_Row], ties: list[Ties | None]) -> None:
        """Puts own files in the place of other hits where they tie and the top cuts them off.

        Finding them reads every key of the database, once for all queries, so it is done only for files in the folder
        of the database's images that are not among the hits already.
        """
        pending = {
            n: Query(query.name, query.code, files=inside)
            for n, (query, (_, ids), tied) in enumerate(zip(queries, rows, ties, strict=True))
            if tied is not None and (inside := _inside(query)) and _missing(inside, database.keys(ids))
        }
        for (n, query), own in zip(pending.items(), _own_ids(database, list(pending.values())), strict=True):
            (distances, ids), tied = rows[n], ties[n]
            assert tied is not None
            own = self._searched(own)
            own = own[_distances(database, query, own) == tied.distance]
            nearer, others = np.split(ids, [len(ids) - tied.shown])
            others = others[~np.isin(others, own)]
            rows[n] = distances, np.concatenate([nearer, np.concatenate([own, others])[: tied.shown]])

    def _answer(self, database: Database, query: Query, row: _Row, ties: Ties | None) -> Answer:
        (distances, ids), own = row, _NONE
        keys = database.keys(ids)
        if query.files and not self.exclude_self:
            names = frozenset[str | None]().union(*query.files)
            own = ids[np.array([key in names for key in keys], bool)]
        if len(own):
            order = np.lexsort((ids, ~np.isin(ids, own), distances))
            ids, keys = ids[order], [keys[n] for n in order.tolist()]
        columns = (range(1, len(ids) + 1), distances.tolist(), ids.tolist(), keys, database.labels(ids))
        return Answer(query, list(map(Hit._make, zip(*columns, strict=True))), own.tolist(), ties)


_Row = tuple[np.ndarray, np.ndarray]
"""Distances and ids of the hits of a query."""

_NONE = np.empty(0, np.int64)


def _inside(query: Query) -> tuple[frozenset[str], ...]:
    """Returns the files of a query that are in the folder of the database's images."""
    return tuple(keys for keys in query.files if not all(key.startswith("../") for key in keys))


def _missing(files: tuple[frozenset[str], ...], keys: list[str | None]) -> bool:
    return any(file.isdisjoint(keys) for file in files)


def _own_ids(database: Database, queries: list[Query]) -> list[np.ndarray]:
    """Returns the ids of each query's own files, ascending."""
    wanted = frozenset[str]().union(*(keys for query in queries for keys in query.files))
    found = database.find(sorted(wanted)) if wanted else _NONE
    ids: dict[str | None, list[int]] = {}
    for id_, key in zip(found.tolist(), database.keys(found), strict=True):
        ids.setdefault(key, []).append(id_)
    return [
        np.array(sorted({id_ for keys in query.files for key in keys for id_ in ids.get(key, ())}), np.int64)
        for query in queries
    ]


def _distances(database: Database, query: Query, ids: np.ndarray) -> np.ndarray:
    return np.unpackbits(database.get(ids) ^ query.code, axis=1).sum(axis=1) if len(ids) else _NONE
