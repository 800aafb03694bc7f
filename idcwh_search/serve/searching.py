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

    def _rows(self, job: Search, queries: np.ndarray) -> tuple[list[tuple[np.ndarray, np.ndarray]], list[bool]]:
        """Returns distances and ids per query, and whether hits beyond MAX_RESULTS were cut off."""
        snapshot, extra = job.contents.snapshot, len(job.excluded)
        if job.kind == "k":
            distances, ids = snapshot.search(queries, job.number + extra, job.where, self._threads)
            return list(zip(distances, ids, strict=True)), [False] * len(queries)
        return self._bounded(job, queries, MAX_RESULTS + extra)

    def _bounded(
        self, job: Search, queries: np.ndarray, most: int
    ) -> tuple[list[tuple[np.ndarray, np.ndarray]], list[bool]]:
        """Returns the hits of radius searches and of searches with ties, at most `most` per query.

        The number of hits is counted first, because it may be that of all items.
        """
        snapshot = job.contents.snapshot
        rows: list[tuple[np.ndarray, np.ndarray]] = []
        cut: list[bool] = []
        for query in queries:
            one = query[None]
            if job.kind == "ties":
                (near,), (ids,) = snapshot.search(one, job.number + len(job.excluded), job.where, self._threads)
                near = near[~np.isin(ids, job.excluded)][: job.number]
                radius = int(near[-1]) if len(near) else 0
            else:
                radius = min(job.number, job.contents.bits)
            few = job.contents.items <= most
            count = 0 if few else int(snapshot.count(one, radius, job.where, self._threads)[0])
            if count > most:
                distances, ids = snapshot.search(one, most, job.where, self._threads)
                rows.append((distances[0], ids[0]))
            else:
                _, all_distances, all_ids = snapshot.range_search(one, radius, job.where, self._threads)
                rows.append((all_distances, all_ids))
            cut.append(count > most)
        return rows, cut

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
