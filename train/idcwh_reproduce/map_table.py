"""The main table of the report, with MAP of every method at every code length and the paper's values."""

from __future__ import annotations

from . import markup, tables
from .results import Results, Runs

NO_DATA, NOT_RUN = "data not available", "not run"


def order(table: tables.Table, results: Results) -> list[str]:
    """Returns the methods in the order of the table: the paper's rows, others, and later methods."""
    return [*table.methods, *(m for m in results.methods() if m not in table.all_methods), *tables.BEYOND]


def blocks(table: tables.Table, results: Results, comparable: bool, missing: str) -> list[str]:
    """Returns the table and an explanation of its entries.

    Args:
        comparable: prints the difference to the paper's values.
        missing: the text of an entry without an experiment.
    """
    lengths, methods = sorted({*table.bits, *results.bits()}), order(table, results)
    means = {bits: [r.mean() for m in methods if (r := results.runs(m, bits)).evaluations] for bits in lengths}
    rows = []
    for method in methods:
        absent = "needs --freeze" if method in tables.CLOSED_FORM and not results.setup.freeze else missing
        printed, row = table.row(method), [tables.display(method)]
        for bits in lengths:
            runs = results.runs(method, bits)
            best = bool(runs.evaluations) and len(means[bits]) > 1 and runs.mean() == max(means[bits])
            row.append(markup.entry(*_lines(runs, printed, bits, comparable, absent), best=best))
        rows.append(row)
    difference = " and the difference to it" if comparable else ""
    text = (
        "The first line of an entry is the mean over seeds ± their standard deviation (n - 1). The best of each column "
        f"is bold. The second line is the paper's value (paper*: its run with GoogLeNet){difference}. The third line "
        "is the range of MAP over the orders of items at equal distance (ties). A smaller difference is not "
        "significant."
    )
    return [markup.table(["method", *(f"{bits} bits" for bits in lengths)], rows), *([text] if results.bits() else [])]


def _lines(runs: Runs, printed: tables.Printed | None, bits: int, comparable: bool, absent: str) -> list[str]:
    seeds, failed = len(runs.evaluations), len(runs.reasons)
    lines = [markup.plus_minus(*runs.spread()) if seeds else f"failed ({failed})" if failed else absent]
    if printed and (value := printed.numbers.get(bits)) is not None:
        line = f"paper{'*' * printed.name.endswith('*')} {value:.{printed.digits}f}"
        if printed.doubtful:
            line += " (see below)"
        elif comparable and seeds:
            line += f", {runs.mean() - value:+.{printed.digits}f}"
        lines.append(line)
    if seeds:
        lines.append(f"ties {runs.mean(lambda e: e.spread):.4f}")
    if seeds and (seeds > 1 or failed):
        lines.append(f"{seeds} seed{'s' * (seeds > 1)}" + (f", {failed} failed" if failed else ""))
    return lines
