"""Metrics for Prometheus. Each service has a registry of its own."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

CONTENT_TYPE = CONTENT_TYPE_LATEST
STAGES = ("decode", "preprocess", "encode", "search")
_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Counters and histograms of a service. `stages` has one histogram per stage of a query."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        requests = Counter("idcwh_requests", "Answered requests", ["route", "status"], registry=self.registry)
        seconds = Histogram(
            "idcwh_request_seconds", "Time of requests", ["route"], buckets=_SECONDS, registry=self.registry
        )
        stage = Histogram(
            "idcwh_stage_seconds", "Time of each stage of a query", ["stage"], buckets=_SECONDS, registry=self.registry
        )
        batch = Histogram("idcwh_batch_size", "Queries per batch", ["stage"], buckets=_SIZES, registry=self.registry)
        self.stages = {name: stage.labels(name) for name in STAGES}
        self.batches = {name: batch.labels(name) for name in ("encode", "search")}
        self.refreshes = Counter("idcwh_refreshes", "Refreshes of the database", ["result"], registry=self.registry)
        for result in ("changed", "failed"):  # from the start, so that the first failure is an increase
            self.refreshes.labels(result)
        ProcessCollector(registry=self.registry)
        self._requests, self._seconds = requests, seconds
        self._known: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Adds a gauge whose value is computed when it is read."""
        Gauge(name, text, registry=self.registry).set_function(value)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Counts an answered request."""
        known = self._known.get((route, status))
        if known is None:  # `labels` is slow
            known = self._requests.labels(route, str(status)), self._seconds.labels(route)
            self._known[route, status] = known
        known[0].inc()
        known[1].observe(seconds)

    def text(self) -> bytes:
        """Returns all metrics in the format of Prometheus."""
        return generate_latest(self.registry)
