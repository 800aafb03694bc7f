"""Searches of the service: a batch of queries against the contents that each of them has seen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..hexadecimal import to_hex
from .metrics import Metrics
from .store import Contents

MAX_RESULTS = 10_000
_HITS = 20_000_000  # most hits of a call of range_search, 240 MB
_NO_DISTANCES, _NO_IDS = np.empty(0, np.int32), np.empty(0, np.int64)
_Row = tuple[np.ndarray, np.ndarray]
_FAST = 0.0005  # seconds of a batch below which a change of threads would take longer


@dataclass
class Search:
    """A query and its options.

    Attributes:
        contents: the items.
        code: the query, packed.
        kind: "k" nearest, all within a "radius", or k nearest with "ties".
        number: k or the radius.
        where: ids that may be returned, int64, or None. Equal filters have the same array.
        excluded: ids to leave out.
        codes: True for the codes of the hits.
        histogram: True for the number of items at each distance.
    """

    contents: Contents
    code: bytes
    kind: str
    number: int
    where: np.ndarray | None = None
    excluded: tuple[int, ...] = ()
    codes: bool = False
    histogram: bool = False

    def group(self) -> tuple[Any, ...]:
        """Returns what searches in one call have in common."""
        number = self.number if self.kind == "radius" else self.number + len(self.excluded)
        return (self.contents, self.kind, number, id(self.where))


@dataclass
class Found:
    """The hits of a search, ordered by (distance, id).

    Attributes:
        hits: distance, id, key, label and, if requested, code.
        truncated: True if there are more hits than MAX_RESULTS.
        histogram: number of items at each distance, if requested.
        seconds: time of the batch.
    """

    hits: list[dict[str, Any]]
    truncated: bool = False
    histogram: list[int] | None = None
    seconds: float = field(default=0.0)


class Searcher:
    """The function of a batch of searches. `inline` predicts if a batch is fast enough for the event loop."""

    def __init__(self, metrics: Metrics, threads: int | None) -> None:
        self._metrics, self._threads = metrics, threads
        self._expected: dict[tuple[Any, ...], float] = {}  # seconds per query
        self._expected_of: Contents | None = None
        self._sparse = -1  # largest radius that is known to have few hits
        self._sparse_of: Contents | None = None

    def inline(self, jobs: Sequence[Search]) -> bool:
        """Returns True if the batch is expected to take less than a change of threads."""
        if jobs[0].contents is not self._expected_of:
            return False
        total = 0.0
        for job in jobs:
            total += self._expected.get(self._cost_key(job), 1.0)
            if total > _FAST:
                return False
        return True

    def __call__(self, jobs: Sequence[Search]) -> list[Found | Exception]:
        started = time.perf_counter()
        groups: dict[tuple[Any, ...], list[int]] = {}
        for position, job in enumerate(jobs):
            groups.setdefault(job.group(), []).append(position)
        results: list[Found | Exception] = [Found([])] * len(jobs)
        for positions in groups.values():
            members = [jobs[position] for position in positions]
            begin = time.perf_counter()
            try:
                found: Sequence[Found | Exception] = self._group(members)
            except Exception as error:
                found = [error] * len(members)
            self._learn(members[0], (time.perf_counter() - begin) / len(members))
            for position, one in zip(positions, found, strict=True):
                results[position] = one
        seconds = time.perf_counter() - started
        self._metrics.batches["search"].observe(len(jobs))
        for one in results:
            self._metrics.stages["search"].observe(seconds)
            if isinstance(one, Found):
                one.seconds = seconds
        return results

    @staticmethod
    def _cost_key(job: Search) -> tuple[Any, ...]:
        return (job.kind, job.number, job.where is None, job.histogram, job.codes)

    def _learn(self, job: Search, seconds: float) -> None:
        if job.contents is not self._expected_of:
            self._expected_of, self._expected = job.contents, {}
        key = self._cost_key(job)
        if len(self._expected) > 1000:
            self._expected.clear()
        known = self._expected.get(key)
        self._expected[key] = seconds if known is None else 0.8 * known + 0.2 * seconds

    def _group(self, jobs: list[Search]) -> list[Found]:
        first = jobs[0]
        contents = first.contents
        snapshot = contents.snapshot
        queries = np.frombuffer(b"".join([job.code for job in jobs]), np.uint8).reshape(len(jobs), -1)
        rows, truncated = self._rows(first, queries)
        all_ids: list[np.ndarray] = []
        kept: list[tuple[list[int], list[int]]] = []
        for job, (distances, ids) in zip(jobs, rows, strict=True):
            if job.excluded:
                own = ~np.isin(ids, job.excluded)
                distances, ids = distances[own], ids[own]
                if job.kind == "k":
                    distances, ids = distances[: job.number], ids[: job.number]
            all_ids.append(np.ascontiguousarray(ids))
            kept.append((distances.tolist(), ids.tolist()))
        joined = all_ids[0] if len(all_ids) == 1 else np.concatenate(all_ids)
        keys, labels = snapshot.keys(joined), snapshot.labels(joined)
        found, at = [], 0
        for job, (near, names), cut in zip(jobs, kept, truncated, strict=True):
            end = at + len(names)
            hits = [
                {"distance": distance, "id": id_, "key": key, "label": label}
                for distance, id_, key, label in zip(near, names, keys[at:end], labels[at:end], strict=True)
            ]
            if job.codes:
                texts = to_hex(snapshot.get(joined[at:end]), snapshot.bits, first.contents.order)
                for hit, text in zip(hits, texts, strict=True):
                    hit["code"] = text
            one = Found(hits, cut)
            if job.histogram:
                one.histogram = self._histogram(job)
            found.append(one)
            at = end
        return found

    def _rows(self, job: Search, queries: np.ndarray) -> tuple[list[_Row], list[bool]]:
        """Returns distances and ids per query, and whether hits beyond MAX_RESULTS were cut off."""
        snapshot, extra = job.contents.snapshot, len(job.excluded)
        if job.kind == "k":
            distances, ids = snapshot.search(queries, job.number + extra, job.where, self._threads_of(job, queries))
            return list(zip(distances, ids, strict=True)), [False] * len(queries)
        most = MAX_RESULTS + extra
        if job.kind == "radius":
            rows = self._within(job, queries, min(job.number, job.contents.bits), most)
        else:
            rows = [self._with_ties(job, query[None], most) for query in queries]
        return [(distances[:most], ids[:most]) for distances, ids in rows], [len(ids) > most for _, ids in rows]

    def _threads_of(self, job: Search, queries: np.ndarray) -> int | None:
        """Returns 1 for a batch that takes less time than starting threads."""
        return 1 if len(queries) * self._expected.get(self._cost_key(job), 1.0) < _FAST else self._threads

    def _within(self, job: Search, queries: np.ndarray, radius: int, most: int) -> list[_Row]:
        """Returns the hits within a radius, at most one more than `most` per query if there may be many.

        A radius may have all items as hits. Hits are therefore counted first, until a radius is known to have few.
        """
        snapshot, items = job.contents.snapshot, job.contents.items
        threads = self._threads_of(job, queries)
        few = np.ones(len(queries), bool)
        if items > most and (job.contents is not self._sparse_of or radius > self._sparse):
            counts = snapshot.count(queries, radius, job.where, threads)
            few = counts <= most
            if job.where is None and counts.max() <= most // 10:
                self._sparse_of, self._sparse = job.contents, radius
        rows: list[_Row] = [(_NO_DISTANCES, _NO_IDS)] * len(queries)
        direct, many = np.flatnonzero(few), np.flatnonzero(~few)
        size = max(1, _HITS // max(items, 1))
        for start in range(0, len(direct), size):
            chosen = direct[start : start + size]
            limits, distances, ids = snapshot.range_search(queries[chosen], radius, job.where, threads)
            for n, position in enumerate(chosen.tolist()):
                span = slice(int(limits[n]), int(limits[n + 1]))
                rows[position] = distances[span], ids[span]
        if len(many):
            nearest = zip(*snapshot.search(queries[many], most + 1, job.where, threads), strict=True)
            for position, row in zip(many.tolist(), nearest, strict=True):
                rows[position] = row
        return rows

    def _with_ties(self, job: Search, query: np.ndarray, most: int) -> _Row:
        """Returns the k nearest and every other item as near as the k-th."""
        (near,), (ids,) = job.contents.snapshot.search(query, job.number + len(job.excluded), job.where, self._threads)
        near = near[~np.isin(ids, job.excluded)][: job.number]
        return self._within(job, query, int(near[-1]) if len(near) else 0, most)[0]

    def _histogram(self, job: Search) -> list[int]:
        query = np.frombuffer(job.code, np.uint8)[None]
        counts = job.contents.snapshot.histogram(query, job.where, self._threads)[0]
        if job.excluded:
            codes = job.contents.snapshot.get(np.array(job.excluded, np.int64))
            if job.where is not None:
                codes = codes[np.isin(job.excluded, job.where)]
            for distance in np.unpackbits(codes ^ query, axis=1).sum(axis=1).tolist():
                counts[distance] -= 1
        result: list[int] = counts.tolist()
        return result
