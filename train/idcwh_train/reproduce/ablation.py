"""Rows of the ablation: the centers similarity, and each setting that the recipe changes."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import paper, plan
from .results import Results, Runs
from .tables import Table

_WORDS = {
    "sigma2": "the paper's σ²",
    "beta": "the paper's β",
    "smoothing": "labels not smoothed",
    "start": "centers begin at random",
    "dropout": "no dropout",
    "lr": "the paper's learning rate",
    "center_lr": "the paper's learning rate of centers",
    "schedule": "learning rate in steps",
    "validation": "no images held out",
    "flip": "no flips",
}


@dataclass(frozen=True)
class Row:
    """runs and base: code length -> runs of the row, and of IDCWH as it is; paper: what the paper has there."""

    title: str
    runs: dict[int, Runs]
    base: dict[int, Runs]
    paper: dict[int, float] = field(default_factory=dict)


def rows(table: Table, results: Results) -> list[Row]:
    """IDCWH, IDCWH-Single, settings, all settings; empty where IDCWH was not run, or nothing to compare it with."""
    base = {b: r for b in results.bits() if (r := results.runs("idcwh", b)).evaluations}
    single = {b: r for b in results.bits() if (r := results.runs("idcwh-single", b)).evaluations}
    variants = results.variants(plan.ABLATION)
    if not base or not (single or variants):
        return []
    found = [Row("IDCWH", base, base, _paper(table, "IDCWH"))]
    if single:
        found.append(Row("no centers similarity (IDCWH-Single)", single, base, _paper(table, "IDCWH-Single")))
    settings = []
    for variant, lengths in variants.items():
        runs = {bits: results.runs("idcwh", bits, variant) for bits in lengths}
        settings.append((variant.value == plan.WHOLE, _loss(runs, base), Row(title(str(variant.value)), runs, base)))
    return found + [row for *_, row in sorted(settings, key=lambda item: item[:2])]


def _loss(runs: dict[int, Runs], base: dict[int, Runs]) -> float:
    """Mean difference over the code lengths, to sort by: what costs most comes first."""
    both = [b for b in runs if runs[b].evaluations and b in base]
    return sum(runs[b].mean() - base[b].mean() for b in both) / max(len(both), 1)


def title(setting: str) -> str:
    """Of the row that takes a setting back."""
    if setting == plan.WHOLE:
        return "all of the paper's settings"
    return _WORDS.get(setting, f"the paper's {setting.replace('_', ' ')}")


def lengths(rows: list[Row]) -> list[int]:
    """Code lengths that any row has."""
    return sorted({bits for row in rows for bits in row.runs})


def _paper(table: Table, name: str) -> dict[int, float]:
    numbers = paper.ABLATION.get(table.name, {}).get(name)
    return dict(zip(table.bits, numbers, strict=True)) if numbers else {}
