"""The report's main table: MAP of every method at every length, beside the paper's."""

from __future__ import annotations

from . import markup, published, settings_report, tables
from .results import Results, Runs
from .tables import display

NOT_RUN, NO_DATA = "not run", "data not available here"


def how_to_read(comparable: bool) -> str:
    """What stands in a cell; comparable: whether the difference to the paper does."""
    difference = " and the difference to it" if comparable else ""
    return (
        "The first line of a cell is the mean over seeds ± their standard deviation (n - 1), bold where it is the best "
        f"of its column; then the paper's number (paper*: its run with GoogLeNet){difference}; then the ties: how far "
        "the MAP moves between the worst and the best order of items at equal distance. A difference smaller than that "
        "says nothing."
    )


def order(table: tables.Table, results: Results | None) -> list[str]:
    """Methods as the table lists them: the paper's rows, others, and those beyond the paper."""
    extra = [] if results is None else [m for m in results.methods() if m not in table.every_method]
    return [*table.methods, *extra, *tables.BEYOND]


def build(table: tables.Table, results: Results | None, unavailable: bool) -> str:
    """results: None where nothing was trained; unavailable: whether that is for want of data."""
    lengths = sorted({*table.bits, *(results.bits() if results else ())})
    methods = order(table, results)
    runs = {(m, b): results.runs(m, b) if results else Runs() for m in methods for b in lengths}
    means = {b: [r.mean() for m in methods if (r := runs[m, b]).evaluations] for b in lengths}
    best = {b: max(found) if len(found) > 1 else None for b, found in means.items()}
    comparable = results is None or not settings_report.other_protocols(table, results)
    rows = []
    for method in methods:
        without = NO_DATA if unavailable else NOT_RUN
        if results is not None and method in tables.CLOSED_FORM and not results.setup.freeze:
            without = "needs --freeze"
        printed = published.row(table.name, method)
        row = [display(method)]
        for bits in lengths:
            theirs = printed.numbers[table.bits.index(bits)] if printed and bits in table.bits else None
            row.append(_entry(runs[method, bits], printed, theirs, best[bits], comparable, without))
        rows.append(row)
    return markup.table(["method", *(f"{bits} bits" for bits in lengths)], rows)


def _entry(
    runs: Runs,
    printed: published.Printed | None,
    theirs: float | None,
    best: float | None,
    comparable: bool,
    without: str,
) -> str:
    beside = []
    if printed is not None and theirs is not None:
        beside.append(f"paper{'*' if printed.name.endswith('*') else ''} {theirs:.{printed.digits}f}")
        if printed.doubtful:
            beside[0] += " (see below)"
    if not runs.evaluations:
        return markup.entry(f"failed ({len(runs.reasons)})" if runs.reasons else without, *beside)
    mean, deviation = runs.mean(), runs.deviation()
    if printed is not None and theirs is not None and comparable and not printed.doubtful:
        beside[0] += f", {mean - theirs:+.{printed.digits}f}"
    beside.append(f"ties {runs.mean(lambda e: e.spread):.4f}")
    if len(runs.evaluations) > 1 or runs.reasons:
        beside.append(
            f"{len(runs.evaluations)} seed{'s' * (len(runs.evaluations) > 1)}"
            + (f", {len(runs.reasons)} failed" if runs.reasons else "")
        )
    shown = f"{mean:.4f}" + (f" ± {deviation:.4f}" if deviation is not None else "")
    return markup.entry(shown, *beside, best=mean == best)
