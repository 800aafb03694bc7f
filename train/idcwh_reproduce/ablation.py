"""The ablation, MAP without the centers similarity and without each setting of the recipe."""

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
    "smoothing": "no label smoothing",
    "start": "random initial centers",
    "dropout": "no dropout",
    "lr": "the paper's learning rate",
    "center_lr": "the paper's learning rate of centers",
    "schedule": "step schedule of the learning rate",
    "validation": "no validation images",
    "flip": "no flips",
}


@dataclass(frozen=True)
class Row:
    """A row of the table: the runs by code length, and the paper's values.

    same: code lengths without runs of this row, because the recipe already has the paper's value.
    """

    title: str
    runs: dict[int, Runs]
    paper: dict[int, float]
    same: frozenset[int] = frozenset()


def rows(table: Table, results: Results) -> list[Row]:
    """Returns the rows: IDCWH, IDCWH-Single, one per setting, and all settings. IDCWH alone gives no rows."""
    base, single, variants = (
        results.measured("idcwh"), results.measured("idcwh-single"), results.variants(grid.ABLATION)
    )  # fmt: skip
    if not base or not (single or variants):
        return []
    table_rows = [Row("IDCWH", base, table.by_bits(table.ablation.get("IDCWH", "")))]
    if single:
        numbers = table.by_bits(table.ablation.get("IDCWH-Single", ""))
        table_rows.append(Row("no centers similarity (IDCWH-Single)", single, numbers))

    def loss(variant: Variant) -> tuple[bool, float]:
        both = results.measured("idcwh", variant).items()
        differences = [runs.mean() - base[bits].mean() for bits, runs in both if bits in base]
        return variant.value == grid.WHOLE, sum(differences) / max(len(differences), 1)

    for variant in sorted(variants, key=loss):
        name, lengths = str(variant.value), variants[variant]
        runs = {bits: results.runs("idcwh", bits, variant) for bits in lengths}
        title = _TITLES.get(name, f"the paper's {name.replace('_', ' ')}")
        table_rows.append(Row(title, runs, {}, _same(results, variant, set(base) - set(lengths))))
    return table_rows


def lengths(rows: list[Row]) -> list[int]:
    """Returns the code lengths of all rows."""
    return sorted({bits for row in rows for bits in row.runs})


def blocks(table: Table, results: Results) -> list[str]:
    """Returns the text and the table, or nothing without an ablation."""
    table_rows = rows(table, results)
    if not table_rows:
        return []
    text = (
        "MAP without one part of IDCWH, and below it the mean difference to the first row over the common seeds. Each "
        'row sets one setting to its value in `--recipe paper`. "the same" means that the first row has this value as '
        "well. The number of epochs, the image size and the precision do not change, so all rows have the same cost."
    )
    head = ["", *(f"{bits} bits" for bits in lengths(table_rows))]
    body = [[row.title, *(_entry(row, table_rows[0], bits) for bits in lengths(table_rows))] for row in table_rows]
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
    """Returns the code lengths at which the table's IDCWH has the value of the variant."""
    # The paper's options do not depend on the code length, so an experiment of any length has its values.
    varied = next((_options(one) for one in results.experiments if one.variant == variant), None)

    def differs(one: Result) -> bool:
        options = _options(one)
        if options is None or varied is None:
            return True
        names = grid.differences(options, varied)
        return bool(names) if variant.value == grid.WHOLE else variant.value in names

    main = [one for one in results.main() if one.method == "idcwh"]
    return frozenset(bits for bits in lengths if not any(differs(one) for one in main if bits in one.bits))


def _options(one: Result) -> Options | None:
    """Returns the recorded options, or None if they are not valid in this version."""
    try:
        return Options(**one.content["options"])
    except (TypeError, ValueError):
        return None
