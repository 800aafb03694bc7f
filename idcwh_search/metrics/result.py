"""The result of `evaluate`, with one field per metric. docs/metrics.md defines the metrics."""

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
    """MAP over the first K items, by the three denominators in use. R is the number of relevant items in the database.

    The first three order ties by id. The two tie-aware ones are exact means over all orders of ties. `retrieved` has no
    tie-aware form, because its denominator depends on the order.
    """

    retrieved: float
    """Divided by the number of relevant items among the first K (0 without any), as in HashNet and most code since."""
    min_relevant_k: float
    """Divided by min(R, K), as in landmark retrieval."""
    relevant: float
    """Divided by R, the truncated AP of textbooks."""
    min_relevant_k_tie_aware: float
    relevant_tie_aware: float


@dataclass(frozen=True, eq=False)
class Lookup:
    """Hash lookup: all items within a radius. Arrays are indexed by the radius, so P@H<=2 is precision[2]."""

    precision: Floats
    """float64 [bits + 1], mean over queries of the precision within the radius; 0 for a query with no item there."""
    recall: Floats
    """float64 [bits + 1], mean over queries of the recall within the radius."""
    empty: Floats
    """float64 [bits + 1], share of queries with no item within the radius."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """P@N and R@N of the Hamming ranking, tie-aware, at about 50 values of N from 1 to the size of the database."""

    n: NDArray[np.int64]
    precision: Floats
    recall: Floats


@dataclass(frozen=True, eq=False)
class PrecisionRecall:
    """Precision-recall curve of the Hamming ranking, as means over queries, with ties spread evenly."""

    recall: Floats
    """float64 [100]: 0.01, 0.02, ..., 1."""
    precision: Floats
    """float64 [100], precision where each recall is reached."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Metrics of one evaluation. Every mean is over the queries that have a relevant item in the database."""

    bits: int
    queries: int
    """Number of queries; `queries_without_relevant` of them are left out of every mean."""
    queries_without_relevant: int
    database: int
    """Number of items, in leave-one-out evaluation that of the queries."""

    map: float
    """Tie-aware MAP, the exact mean over all orders of items at equal distance. Independent of the database order."""
    map_optimistic: float
    """MAP with the relevant items first in each tie."""
    map_pessimistic: float
    """MAP with the relevant items last in each tie."""
    map_ranked: float
    """MAP with ties ordered by id (row number), as in most published code. Depends on the database order."""

    map_at: dict[int, MapAtK]
    precision_at: dict[int, float]
    """P@N, tie-aware: expected relevant items among the first N, divided by N or the smaller database size."""
    recall_at: dict[int, float]
    """R@N, tie-aware: expected relevant items among the first N, divided by R."""

    radius: int
    lookup: Lookup = field(repr=False)
    ranking: Ranking = field(repr=False)
    pr_curve: PrecisionRecall = field(repr=False)
    health: CodeStatistics = field(repr=False)
    average_precision: Floats = field(repr=False)
    """Tie-aware AP per query, float64 [queries], for paired tests; NaN for a query without a relevant item."""
    leave_one_out: bool = False
    """True if each item was compared with all others."""

    @property
    def precision_within(self) -> float:
        """P@H<=radius; 0 for a query with no item within the radius."""
        return float(self.lookup.precision[min(self.radius, self.bits)])

    @property
    def recall_within(self) -> float:
        """R@H<=radius."""
        return float(self.lookup.recall[min(self.radius, self.bits)])

    @property
    def empty_within(self) -> float:
        """Share of queries with no item within the radius, each a 0 in P@H<=radius."""
        return float(self.lookup.empty[min(self.radius, self.bits)])

    @property
    def spread(self) -> float:
        """Optimistic minus pessimistic MAP. Ties alone may cause a smaller difference between two methods."""
        return self.map_optimistic - self.map_pessimistic

    def to_dict(self) -> dict[str, Any]:
        """Returns all fields but the AP per query as plain Python, which json.dumps(allow_nan=False) accepts."""
        return {
            "bits": self.bits,
            "queries": self.queries,
            "queries_without_relevant": self.queries_without_relevant,
            "database": self.database,
            "leave_one_out": self.leave_one_out,
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
        """Returns the evaluation from the result of `to_dict`. Its `average_precision` is empty."""
        health = {**content["health"], "bit_correlation": _or_nan(content["health"]["bit_correlation"])}
        given = {"leave_one_out": False, **content, "average_precision": [], "health": _arrays(CodeStatistics, health)}
        for name, kind in (("lookup", Lookup), ("ranking", Ranking), ("pr_curve", PrecisionRecall)):
            given[name] = _arrays(kind, content[name])
        given["map_at"] = {int(k): MapAtK(**v) for k, v in content["map_at"].items()}
        for name in ("precision_at", "recall_at"):
            given[name] = {int(k): v for k, v in content[name].items()}
        result: Evaluation = _arrays(cls, given)
        return result

    def table(self) -> str:
        """Returns the metrics as aligned text, one per line."""
        return table({f"{self.bits} bits": self})


def _lists(curves: Lookup | Ranking | PrecisionRecall) -> dict[str, list[float]]:
    return {column.name: getattr(curves, column.name).tolist() for column in fields(curves)}


def _arrays(kind: Any, content: dict[str, Any]) -> Any:
    """Returns an instance of a dataclass, with arrays in place of lists. Keys that are not fields are ignored."""
    values = {column.name: content[column.name] for column in fields(kind)}
    return kind(**{name: np.array(v) if isinstance(v, list) else v for name, v in values.items()})


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
