"""Rows of the ablation: the centers similarity, and each setting that the recipe changes."""

from __future__ import annotations

from dataclasses import dataclass, field

from idcwh_train import recipes
from idcwh_train.recipes import Options

from . import grid
from . import published as paper
from .experiments import Result, Variant
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
    """runs and base: code length -> runs of the row, and of IDCWH as it is; paper: what the paper has there; same: code
    lengths at which there is nothing to run, because IDCWH as it is has the paper's value already."""

    title: str
    runs: dict[int, Runs]
    base: dict[int, Runs]
    paper: dict[int, float] = field(default_factory=dict)
    same: frozenset[int] = frozenset()


def rows(table: Table, results: Results) -> list[Row]:
    """IDCWH, IDCWH-Single, settings, all settings; empty where IDCWH was not run, or nothing to compare it with."""
    base = {b: r for b in results.bits() if (r := results.runs("idcwh", b)).evaluations}
    single = {b: r for b in results.bits() if (r := results.runs("idcwh-single", b)).evaluations}
    variants = results.variants(grid.ABLATION)
    if not base or not (single or variants):
        return []
    found = [Row("IDCWH", base, base, _paper(table, "IDCWH"))]
    if single:
        found.append(Row("no centers similarity (IDCWH-Single)", single, base, _paper(table, "IDCWH-Single")))
    settings = []
    for variant, lengths in variants.items():
        runs = {bits: results.runs("idcwh", bits, variant) for bits in lengths}
        row = Row(title(str(variant.value)), runs, base, same=_same(results, variant, set(base) - set(lengths)))
        settings.append((variant.value == grid.WHOLE, _loss(runs, base), row))
    return found + [row for *_, row in sorted(settings, key=lambda item: item[:2])]


def _same(results: Results, variant: Variant, lengths: set[int]) -> frozenset[int]:
    """Those of the lengths at which IDCWH as it is was trained with what the variant takes back, as far as the options
    that the cells record show it."""
    taken_back = next((_options(cell) for cell in results.cells if cell.variant == variant), None)
    if taken_back is None:
        return frozenset()
    found = set()
    for bits in lengths:
        own = [_options(cell) for cell in results.main() if cell.method == "idcwh" and bits in cell.bits]
        # The paper has no options by length, so a cell of another length shows its values.
        changed = [
            {variant.value} if options is None else set(grid.differences(options, taken_back)) for options in own
        ]
        if not any(names if variant.value == grid.WHOLE else variant.value in names for names in changed):
            found.add(bits)
    return frozenset(found)


def _options(cell: Result) -> Options | None:
    """What a cell records; None for one of before or after this program's options."""
    try:
        return recipes.Options(**cell.content["options"])
    except (TypeError, ValueError):
        return None


def _loss(runs: dict[int, Runs], base: dict[int, Runs]) -> float:
    """Mean difference over the code lengths, to sort by: what costs most comes first."""
    both = [b for b in runs if runs[b].evaluations and b in base]
    return sum(runs[b].mean() - base[b].mean() for b in both) / max(len(both), 1)


def title(setting: str) -> str:
    """Of the row that takes a setting back."""
    if setting == grid.WHOLE:
        return "all of the paper's settings"
    return _WORDS.get(setting, f"the paper's {setting.replace('_', ' ')}")


def lengths(rows: list[Row]) -> list[int]:
    """Code lengths that any row has."""
    return sorted({bits for row in rows for bits in row.runs})


def _paper(table: Table, name: str) -> dict[int, float]:
    numbers = paper.ABLATION.get(table.name, {}).get(name)
    return dict(zip(table.bits, numbers, strict=True)) if numbers else {}
