"""The ablation: MAP without the centers similarity, and without each setting of the recipe."""

from __future__ import annotations

from dataclasses import dataclass

from idcwh_train.options import Options

from . import grid, markup
from .experiments import Result, Variant
from .results import Results, Runs
from .tables import Table

_TITLES = {
    grid.WHOLE: "all of the paper's settings",
    "sigma2": "the paper's σ²",
    "beta": "the paper's β",
    "smoothing": "labels not smoothed",
    "start": "centers begin at random",
    "dropout": "no dropout",
    "lr": "the paper's learning rate",
    "center_lr": "the paper's learning rate of centers",
    "schedule": "learning rate in steps",
    "validation": "no validation images",
    "flip": "no flips",
}


@dataclass(frozen=True)
class Row:
    """Runs by code length, and the paper's numbers.

    same: code lengths without runs of this row, because IDCWH as it is has the paper's value already.
    """

    title: str
    runs: dict[int, Runs]
    paper: dict[int, float]
    same: frozenset[int] = frozenset()


def rows(table: Table, results: Results) -> list[Row]:
    """Returns IDCWH, IDCWH-Single, single settings, all settings. Empty without IDCWH or without anything else."""
    base, single, variants = (
        results.measured("idcwh"), results.measured("idcwh-single"), results.variants(grid.ABLATION)
    )  # fmt: skip
    if not base or not (single or variants):
        return []
    found = [Row("IDCWH", base, table.by_bits(table.ablation.get("IDCWH", "")))]
    if single:
        numbers = table.by_bits(table.ablation.get("IDCWH-Single", ""))
        found.append(Row("no centers similarity (IDCWH-Single)", single, numbers))

    def loss(variant: Variant) -> tuple[bool, float]:
        both = results.measured("idcwh", variant).items()
        differences = [runs.mean() - base[bits].mean() for bits, runs in both if bits in base]
        return variant.value == grid.WHOLE, sum(differences) / max(len(differences), 1)

    for variant in sorted(variants, key=loss):
        name, lengths = str(variant.value), variants[variant]
        runs = {bits: results.runs("idcwh", bits, variant) for bits in lengths}
        title = _TITLES.get(name, f"the paper's {name.replace('_', ' ')}")
        found.append(Row(title, runs, {}, _same(results, variant, set(base) - set(lengths))))
    return found


def lengths(rows: list[Row]) -> list[int]:
    """Returns the code lengths that any row has."""
    return sorted({bits for row in rows for bits in row.runs})


def blocks(table: Table, results: Results) -> list[str]:
    """Returns the text and the table, or nothing without an ablation."""
    found = rows(table, results)
    if not found:
        return []
    text = (
        "MAP without one part of IDCWH, and below it the difference to the first row, seed by seed. A setting that is "
        'taken back has the value of `--recipe paper` ("the same": the first row has it, too). Number of epochs, size '
        "of the images and precision stay, so that all rows cost the same."
    )
    head = ["", *(f"{bits} bits" for bits in lengths(found))]
    body = [[row.title, *(_entry(row, found[0], bits) for bits in lengths(found))] for row in found]
    return ["### Ablation", text, markup.table(head, body)]


def _entry(row: Row, base: Row, bits: int) -> str:
    runs = row.runs.get(bits, Runs())
    if bits in row.same:
        return "the same"
    if not runs.evaluations:
        return "failed" if runs.reasons else "not run"
    lines = [markup.plus_minus(*runs.spread())]
    if row is not base and bits in base.runs:
        lines.append(markup.plus_minus(*runs.against(base.runs[bits]), sign="+"))
    if bits in row.paper:
        lines.append(f"paper {row.paper[bits]:.4f}")
    return markup.entry(*lines)


def _same(results: Results, variant: Variant, lengths: set[int]) -> frozenset[int]:
    """Returns the lengths at which IDCWH as it is was trained with the value that the variant takes back."""
    # The paper has no options by code length, so an experiment of any length shows its values.
    taken_back = next((_options(one) for one in results.experiments if one.variant == variant), None)

    def differs(one: Result) -> bool:
        own = _options(one)
        if own is None or taken_back is None:
            return True
        names = grid.differences(own, taken_back)
        return bool(names) if variant.value == grid.WHOLE else variant.value in names

    main = [one for one in results.main() if one.method == "idcwh"]
    return frozenset(bits for bits in lengths if not any(differs(one) for one in main if bits in one.bits))


def _options(one: Result) -> Options | None:
    """Returns the recorded options, or None if they are of another version."""
    try:
        return Options(**one.content["options"])
    except (TypeError, ValueError):
        return None
