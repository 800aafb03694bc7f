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
_HITS = 160_000_000  # most hits of a call of range_search for several queries, 1.9 GB
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
        return (self.contents, self.kind, self.number, id(self.where))


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
        rows, truncated = self._rows(first, queries, _exclude(jobs))
        all_ids = [np.ascontiguousarray(ids) for _, ids in rows]
        kept = [(distances.tolist(), ids.tolist()) for distances, ids in rows]
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

    def _rows(self, job: Search, queries: np.ndarray, exclude: np.ndarray | None) -> tuple[list[_Row], list[bool]]:
        """Returns distances and ids per query, and whether hits beyond MAX_RESULTS were cut off."""
        if job.kind == "k":
            rows = self._nearest(job, queries, job.number, exclude)
        elif job.kind == "radius":
            rows = self._within(job, queries, min(job.number, job.contents.bits), exclude)
        else:
            rows = [self._with_ties(job, queries[i : i + 1], _row(exclude, i)) for i in range(len(queries))]
        return [(near[:MAX_RESULTS], ids[:MAX_RESULTS]) for near, ids in rows], [len(i) > MAX_RESULTS for _, i in rows]

    def _nearest(self, job: Search, queries: np.ndarray, k: int, exclude: np.ndarray | None) -> list[_Row]:
        threads = self._threads_of(job, queries)
        found = job.contents.snapshot.search(queries, k, job.where, threads, exclude=exclude)
        rows = zip(*found, strict=True)
        if exclude is None:
            return list(rows)
        return [(near[ids >= 0], ids[ids >= 0]) for near, ids in rows]

    def _threads_of(self, job: Search, queries: np.ndarray) -> int | None:
        """Returns 1 for a batch that takes less time than starting threads."""
        return 1 if len(queries) * self._expected.get(self._cost_key(job), 1.0) < _FAST else self._threads

    def _within(self, job: Search, queries: np.ndarray, radius: int, exclude: np.ndarray | None) -> list[_Row]:
        """Returns the hits within a radius, at most one more than MAX_RESULTS per query if there may be many.

        A radius may have all items as hits. Hits are therefore counted first, until a radius is known to have few.
        """
        snapshot, items = job.contents.snapshot, job.contents.items
        threads = self._threads_of(job, queries)
        few, size = np.ones(len(queries), bool), max(1, _HITS // max(items, 1))
        if items > MAX_RESULTS and (job.contents is not self._sparse_of or radius > self._sparse):
            counts = snapshot.count(queries, radius, job.where, threads, exclude=exclude)
            few, size = counts <= MAX_RESULTS, len(queries)
            if job.where is None and counts.max() <= MAX_RESULTS // 10:
                self._sparse_of, self._sparse = job.contents, radius
        rows: list[_Row] = [(_NO_DISTANCES, _NO_IDS)] * len(queries)
        direct, many = np.flatnonzero(few), np.flatnonzero(~few)
        for start in range(0, len(direct), size):
            chosen = direct[start : start + size]
            without = _row(exclude, chosen)
            limits, distances, ids = snapshot.range_search(queries[chosen], radius, job.where, threads, exclude=without)
            for n, position in enumerate(chosen.tolist()):
                span = slice(int(limits[n]), int(limits[n + 1]))
                rows[position] = distances[span], ids[span]
        if len(many):
            nearest = self._nearest(job, queries[many], MAX_RESULTS + 1, _row(exclude, many))
            for position, row in zip(many.tolist(), nearest, strict=True):
                rows[position] = row
        return rows

    def _with_ties(self, job: Search, query: np.ndarray, exclude: np.ndarray | None) -> _Row:
        """Returns the k nearest and every other item as near as the k-th."""
        ((near, _),) = self._nearest(job, query, job.number, exclude)
        return self._within(job, query, int(near[-1]) if len(near) else 0, exclude)[0]

    def _histogram(self, job: Search) -> list[int]:
        query = np.frombuffer(job.code, np.uint8)[None]
        counts = job.contents.snapshot.histogram(query, job.where, self._threads, exclude=_exclude([job]))[0]
        result: list[int] = counts.tolist()
        return result


def _exclude(jobs: Sequence[Search]) -> np.ndarray | None:
    """Returns the excluded ids, one row per job, filled with -1; None without any."""
    most = max(len(job.excluded) for job in jobs)
    if most == 0:
        return None
    return np.array([job.excluded + (-1,) * (most - len(job.excluded)) for job in jobs], np.int64)


def _row(exclude: np.ndarray | None, at: int | np.ndarray) -> np.ndarray | None:
    """Returns the rows of some queries."""
    return None if exclude is None else exclude[np.atleast_1d(at)]
