"""The result of `evaluate`: the metrics by name. docs/metrics.md defines them, evaluate.py computes them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .code_stats import CodeStatistics
from .table import table

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MapAtK:
    """MAP over the first K items, by the three denominators in use. R: relevant items of a query in the whole database.

    The plain three order ties by id. The tie-aware two are exact means over all orders of ties; hits among the first
    K change with that order, so the first denominator has no such closed mean.
    """

    retrieved: float
    """Divided by the relevant items among the first K (0 when there are none): HashNet and most code since."""
    min_relevant_k: float
    """Divided by min(R, K): landmark retrieval's."""
    relevant: float
    """Divided by R: the textbook's truncated AP."""
    min_relevant_k_tie_aware: float
    relevant_tie_aware: float


@dataclass(frozen=True, eq=False)
class Lookup:
    """Hash lookup: everything within a radius, as arrays over radius 0, 1, ..., bits. P@H<=2 is precision[2]."""

    precision: Floats
    """float64 [bits + 1], mean over queries of relevant / found within the radius; a ball with nothing in it
    counts as 0.
    """
    recall: Floats
    """float64 [bits + 1], mean over queries of relevant found within the radius / R."""
    empty: Floats
    """float64 [bits + 1], share of queries that find nothing within the radius."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """P@N and R@N along the Hamming ranking, tie-aware, at some fifty N from 1 to the whole database."""

    n: NDArray[np.int64]
    precision: Floats
    recall: Floats


@dataclass(frozen=True, eq=False)
class PrecisionRecall:
    """PR curve of the Hamming ranking: mean over queries of the precision where each recall is reached, ties
    spread evenly.
    """

    recall: Floats
    """float64 [100]: 0.01, 0.02, ..., 1."""
    precision: Floats
    """float64 [100]."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Metrics of one set of codes. Every mean is over the queries that have a relevant item in the database."""

    bits: int
    queries: int
    """Queries given; `queries_without_relevant` of them count nowhere."""
    queries_without_relevant: int
    database: int

    map: float
    """Tie-aware: the exact mean over all orders of items at equal distance. Does not depend on the order of the
    database.
    """
    map_optimistic: float
    """Relevant items first among equals."""
    map_pessimistic: float
    """Relevant items last among equals."""
    map_ranked: float
    """Ties by id (the row number), what most published code computes; changes when the database is permuted."""

    map_at: dict[int, MapAtK]
    precision_at: dict[int, float]
    """P@N, tie-aware: expected relevant items among the first N, divided by N (by the database size when that is
    smaller).
    """
    recall_at: dict[int, float]
    """R@N, tie-aware: the same divided by R."""

    radius: int
    lookup: Lookup = field(repr=False)
    ranking: Ranking = field(repr=False)
    pr_curve: PrecisionRecall = field(repr=False)
    health: CodeStatistics = field(repr=False)
    average_precision: Floats = field(repr=False)
    """Tie-aware AP of each query, float64 [queries], NaN where the query has no relevant item; for paired tests."""

    @property
    def precision_within(self) -> float:
        """P@H<=radius; an empty ball counts as 0."""
        return float(self.lookup.precision[min(self.radius, self.bits)])

    @property
    def recall_within(self) -> float:
        """R@H<=radius."""
        return float(self.lookup.recall[min(self.radius, self.bits)])

    @property
    def empty_within(self) -> float:
        """Share of queries that find nothing within the radius, each a 0 in P@H<=radius."""
        return float(self.lookup.empty[min(self.radius, self.bits)])

    @property
    def spread(self) -> float:
        """Optimistic minus pessimistic MAP: smaller differences between methods may be the order of ties alone."""
        return self.map_optimistic - self.map_pessimistic

    def to_dict(self) -> dict[str, Any]:
        """Returns everything but the AP per query, as plain Python that json.dumps takes with allow_nan=False."""
        return {
            "bits": self.bits,
            "queries": self.queries,
            "queries_without_relevant": self.queries_without_relevant,
            "database": self.database,
            "map": self.map,
            "map_optimistic": self.map_optimistic,
            "map_pessimistic": self.map_pessimistic,
            "map_spread": self.spread,
            "map_ranked": self.map_ranked,
            "map_at": {str(k): asdict(v) for k, v in self.map_at.items()},
            "precision_at": {str(k): v for k, v in self.precision_at.items()},
            "recall_at": {str(k): v for k, v in self.recall_at.items()},
            "radius": self.radius,
            "precision_within": self.precision_within,
            "recall_within": self.recall_within,
            "empty_within": self.empty_within,
            "lookup": _lists(self.lookup),
            "ranking": _lists(self.ranking),
            "pr_curve": _lists(self.pr_curve),
            "health": self.health.to_dict(),
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Evaluation:
        """Returns the evaluation of a `to_dict`. It lacks the AP of each query: `average_precision` is empty."""
        health = {**content["health"], "bit_correlation": _or_nan(content["health"]["bit_correlation"])}
        given = {**content, "average_precision": [], "health": _arrays(CodeStatistics, health)}
        for name, kind in (("lookup", Lookup), ("ranking", Ranking), ("pr_curve", PrecisionRecall)):
            given[name] = _arrays(kind, content[name])
        given["map_at"] = {int(k): MapAtK(**v) for k, v in content["map_at"].items()}
        for name in ("precision_at", "recall_at"):
            given[name] = {int(k): v for k, v in content[name].items()}
        result: Evaluation = _arrays(cls, given)
        return result

    def table(self) -> str:
        """Returns the numbers as aligned text, one per line."""
        return table({f"{self.bits} bits": self})


def _lists(curves: Lookup | Ranking | PrecisionRecall) -> dict[str, list[float]]:
    return {column.name: getattr(curves, column.name).tolist() for column in fields(curves)}


def _arrays(kind: Any, content: dict[str, Any]) -> Any:
    """Returns an instance of a dataclass, with arrays for lists. Keys that are no fields are left out."""
    values = {column.name: content[column.name] for column in fields(kind)}
    return kind(**{name: np.array(v) if isinstance(v, list) else v for name, v in values.items()})


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
