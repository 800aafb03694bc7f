"""Evaluations as aligned text, with one column per evaluation and one row per metric."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isnan
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from .result import Evaluation

Line: TypeAlias = "tuple[str, Callable[[Evaluation], str]]"


def table(evaluations: Mapping[str, Evaluation]) -> str:
    """Returns text without a final line break. Metrics that an evaluation lacks, such as a cut, are blank."""
    lines = list(_lines(evaluations))
    columns = [[name, *(text(evaluation) for _, text in lines)] for name, evaluation in evaluations.items()]
    first = ["", *(label for label, _ in lines)]
    width = max(map(len, first))
    widths = [max(map(len, column)) for column in columns]
    rows = (
        label.ljust(width) + "".join(f"  {text:>{w}}" for text, w in zip(texts, widths, strict=True))
        for label, *texts in zip(first, *columns, strict=True)
    )
    return "\n".join(row.rstrip() for row in rows)


def _lines(evaluations: Mapping[str, Evaluation]) -> Iterator[Line]:
    cuts = sorted({k for evaluation in evaluations.values() for k in evaluation.map_at})
    radii = sorted({evaluation.radius for evaluation in evaluations.values()})
    yield "bits", lambda e: f"{e.bits}"
    yield "queries", lambda e: f"{e.queries:,}"
    yield "  without a relevant item, left out", lambda e: f"{e.queries_without_relevant:,}"
    yield "database", lambda e: f"{e.database:,}"
    if any(evaluation.leave_one_out for evaluation in evaluations.values()):
        yield "  without the query itself", lambda e: "yes" if e.leave_one_out else "no"
    yield "MAP (tie-aware)", lambda e: _number(e.map)
    yield "  optimistic, relevant first in a tie", lambda e: _number(e.map_optimistic)
    yield "  pessimistic, relevant last", lambda e: _number(e.map_pessimistic)
    yield "  optimistic - pessimistic", lambda e: _number(e.spread)
    yield "  ranked, ties by id", lambda e: _number(e.map_ranked)
    for k in cuts:
        yield from _at_cut(k)
    for r in radii:
        yield from _at_radius(r)
    yield "distinct codes, database", lambda e: f"{e.health.distinct_database:,}"
    yield "distinct codes, queries", lambda e: f"{e.health.distinct_queries:,}"
    yield "bits that never change", lambda e: f"{e.health.constant_bits}"
    yield "share of ones, lowest bit", lambda e: f"{e.health.bit_balance.min():.3f}"
    yield "share of ones, highest bit", lambda e: f"{e.health.bit_balance.max():.3f}"
    yield "bit correlation, mean of |r|", lambda e: _number(e.health.bit_correlation, 3)
    yield "within-class distance d_w", lambda e: _number(e.health.d_w, 2)
    yield "between-class distance d_b", lambda e: _number(e.health.d_b, 2)


def _at_cut(k: int) -> Iterator[Line]:
    def by(denominator: str) -> Callable[[Evaluation], str]:
        return lambda e: _number(getattr(e.map_at[k], denominator)) if k in e.map_at else ""

    yield f"MAP@{k}, by hits in the top K", by("retrieved")
    yield "  by min(R, K)", by("min_relevant_k")
    yield "  by min(R, K), tie-aware", by("min_relevant_k_tie_aware")
    yield "  by R", by("relevant")
    yield "  by R, tie-aware", by("relevant_tie_aware")
    yield f"P@{k}", lambda e: _number(e.precision_at[k]) if k in e.precision_at else ""
    yield f"R@{k}", lambda e: _number(e.recall_at[k]) if k in e.recall_at else ""


def _at_radius(r: int) -> Iterator[Line]:
    yield f"P@H<={r}", lambda e: _number(e.precision_within) if e.radius == r else ""
    yield f"R@H<={r}", lambda e: _number(e.recall_within) if e.radius == r else ""
    yield "  queries that find nothing there", lambda e: f"{e.empty_within:.1%}" if e.radius == r else ""


def _number(value: float, digits: int = 4) -> str:
    return "-" if isnan(value) else f"{value:.{digits}f}"
