"""What the report says: built from the cells of a folder and from nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from idcwh_search.files import replacing

from . import cells, document, paper, settings, tables
from .document import Block, Entry, Figure, Folded, Heading, Paragraph, Table
from .results import Results, Runs, gather
from .tables import display

NOT_RUN, NO_DATA = "not run", "data not available here"


def write(out: Path, table: tables.Table, unavailable: str | None, figures: bool = True) -> list[Path]:
    """report.md and report.html, of DIR/cells. unavailable: why the table's data could not be read, if so."""
    found = gather(cells.read_all(out / "cells"))
    blocks: list[Block] = [
        Heading(f"{table.title}: the paper's table, reproduced", 1),
        *_opening(table, found, unavailable),
    ]
    for results in found or [None]:  # type: ignore[list-item]
        blocks += _section(out, table, results, unavailable, figures)
    blocks += [Heading("The paper's table as printed"), _printed(table), *_doubts(table)]
    md, page = out / "report.md", out / "report.html"
    for path, text in (
        (md, document.markdown(blocks, out)),
        (page, document.page(f"{table.title}, reproduced", blocks)),
    ):
        with replacing(path) as file:
            file.write(text.encode())
    return [md, page]


def _opening(table: tables.Table, found: Sequence[Results], unavailable: str | None) -> list[Block]:
    done = sum(cell.done for results in found for cell in results.cells)
    failed = sum(not cell.done for results in found for cell in results.cells)
    lines = [
        f"MAP by Hamming ranking, measured as docs/metrics.md defines it, beside {paper.LABELS[table.name]} of Zhang "
        "and Yan, arXiv 2103.09442. Every number is of the last epoch; nothing was chosen by looking at the queries.",
        f"{done:,} trained cells" + (f", {failed:,} that failed" if failed else "") + ".",
    ]
    if unavailable:
        lines.append(f"**{NO_DATA.capitalize()}**: {unavailable}. The table needs {table.needs}.")
    return [Paragraph(line) for line in lines]


def _section(
    out: Path, table: tables.Table, results: Results | None, unavailable: str | None, figures: bool
) -> list[Block]:
    if results is None:
        return [Heading("MAP by Hamming ranking"), _map(table, None, unavailable)]
    blocks: list[Block] = [Heading(results.setup.title[0].upper() + results.setup.title[1:])]
    blocks += settings.warnings(table, results)
    blocks += [Heading("MAP by Hamming ranking", 3), _map(table, results, unavailable), Paragraph(_HOW_TO_READ)]
    blocks += _failures(results)
    shown = [bits for bits in results.bits() if bits == table.shown_bits] or results.bits()[-1:]
    for bits in shown:
        if measured := [m for m in _order(table, results) if results.runs(m, bits).evaluations]:
            blocks += [Heading(f"Other measures at {bits} bits", 3), _measures(results, measured, bits)]
    if figures:
        from . import figures as drawing

        for picture in drawing.draw(out / "figures", table, results):
            blocks += [Heading(picture.title, 3), Figure(picture.path, picture.caption)]
    blocks += _ablation(table, results)
    blocks += [Heading("Settings and machine", 3), *settings.blocks(results)]
    return blocks


_HOW_TO_READ = (
    "The first line of a cell is the mean over seeds ± their standard deviation (n - 1), bold where it is the best of "
    "its column; then the paper's number and the difference to it; then the ties: how far the MAP moves between the "
    "worst and the best order of items at equal distance. A difference smaller than that says nothing."
)


def _order(table: tables.Table, results: Results | None) -> list[str]:
    extra = [] if results is None else [m for m in results.methods() if m not in table.every_method]
    return [*table.methods, *extra, *tables.BEYOND]


def _map(table: tables.Table, results: Results | None, unavailable: str | None) -> Table:
    lengths = sorted({*table.bits, *(results.bits() if results else ())})
    methods = _order(table, results)
    runs = {(m, b): results.runs(m, b) if results else Runs() for m in methods for b in lengths}
    best = {b: max((r.mean() for m in methods if (r := runs[m, b]).evaluations), default=None) for b in lengths}
    rows = []
    for method in methods:
        row: list[Entry | str] = [display(method)]
        printed = paper.row(table.name, method)
        for bits in lengths:
            row.append(_map_entry(table, method, bits, runs[method, bits], printed, best[bits], unavailable))
        rows.append(row)
    return Table(["method", *(f"{bits} bits" for bits in lengths)], rows)


def _map_entry(
    table: tables.Table,
    method: str,
    bits: int,
    runs: Runs,
    printed: tuple[str, paper.Row] | None,
    best: float | None,
    unavailable: str | None,
) -> Entry:
    theirs = printed[1][table.bits.index(bits)] if printed and bits in table.bits else None
    name, doubtful = (printed[0], (table.name, printed[0]) in paper.DOUBTFUL) if printed else ("", False)
    digits = 3 if theirs is not None and round(theirs, 3) == theirs and table.name.startswith("cifar10") else 4
    lines = []
    if theirs is not None:
        lines = [f"paper {theirs:.{digits}f}" + (" (DCWH's CIFAR-100 row)" if doubtful else "")]
        if name.endswith("*"):
            lines[0] = f"paper* {theirs:.{digits}f}"
    if not runs.evaluations:
        return Entry((f"failed ({len(runs.reasons)})" if runs.reasons else NO_DATA if unavailable else NOT_RUN, *lines))
    mean, deviation = runs.mean(), runs.deviation()
    if theirs is not None and not doubtful:
        lines[0] += f", {mean - theirs:+.{digits}f}"
    lines.append(f"ties {runs.mean(lambda e: e.spread):.4f}")
    if len(runs.evaluations) > 1 or runs.reasons:
        lines.append(f"{len(runs.evaluations)} seeds" + (f", {len(runs.reasons)} failed" if runs.reasons else ""))
    shown = f"{mean:.4f}" + (f" ± {deviation:.4f}" if deviation is not None else "")
    return Entry((shown, *lines), best=mean == best)


def _failures(results: Results) -> list[Block]:
    failed = [cell for cell in results.cells if not cell.done]
    if not failed:
        return []
    rows = [
        [
            f"{display(c.method)}, {'+'.join(map(str, c.bits))} bits, seed {c.seed}"
            + (f", {c.variant.kind} {c.variant.value}" if c.variant else ""),
            c.reason or "",
        ]
        for c in failed
    ]
    return [Heading("Cells that failed", 3), Table(["cell", "reason"], rows)]


def _measures(results: Results, methods: Sequence[str], bits: int) -> Table:
    runs = {method: results.runs(method, bits) for method in methods}
    cuts = sorted(set.intersection(*(set(r.first.precision_at) for r in runs.values())))
    columns: list[tuple[str, Any, int]] = [("MAP", lambda e: e.map, 4)]
    columns += [("pessimistic", lambda e: e.map_pessimistic, 4), ("optimistic", lambda e: e.map_optimistic, 4)]
    columns += [(f"P@{k:,}", lambda e, k=k: e.precision_at[k], 4) for k in cuts if k in (100, 1000)]
    columns += [("P@H≤2", lambda e: e.precision_within, 4), ("R@H≤2", lambda e: e.recall_within, 4)]
    columns += [("d_w", lambda e: e.health.d_w, 2), ("d_b", lambda e: e.health.d_b, 2)]
    columns += [("distinct codes", lambda e: float(e.health.distinct_database), 0)]
    rows: list[list[Entry | str]] = []
    for method, r in runs.items():
        entries: list[Entry | str] = [f"{r.mean(number):,.{digits}f}" for _, number, digits in columns]
        rows.append([display(method), *entries, f"{sum(r.seconds) / len(r.seconds):,.1f}"])
    return Table(["method", *(name for name, _, _ in columns), "training, s"], rows)


def _ablation(table: tables.Table, results: Results) -> list[Block]:
    from . import ablation

    rows = ablation.rows(table, results)
    if not rows:
        return []
    lengths = ablation.lengths(rows)
    shown = []
    for row in rows:
        entries: list[Entry | str] = []
        for bits in lengths:
            runs, base = row.runs.get(bits), row.base.get(bits)
            if runs is None or not runs.evaluations:
                entries.append(NOT_RUN if runs is None or not runs.reasons else "failed")
                continue
            deviation = runs.deviation()
            lines = [f"{runs.mean():.4f}" + (f" ± {deviation:.4f}" if deviation is not None else "")]
            if base is not None and base is not runs and base.evaluations:
                lines.append(f"{runs.mean() - base.mean():+.4f}")
            if (theirs := row.paper.get(bits)) is not None:
                lines.append(f"paper {theirs:.4f}")
            entries.append(Entry(tuple(lines)))
        shown.append([row.title, *entries])
    text = (
        "What IDCWH's parts are worth: MAP, and below it the difference to the first row. Each row takes back one "
        "thing; a setting that is taken back has the value of `--recipe paper`."
    )
    return [Heading("Ablation", 3), Paragraph(text), Table(["", *(f"{b} bits" for b in lengths)], shown)]


def _printed(table: tables.Table) -> Folded:
    rows = [[name, *(f"{value:g}" for value in row)] for name, row in paper.TABLES[table.name].items()]
    blocks: list[Block] = [Table([paper.LABELS[table.name], *(f"{bits} bits" for bits in table.bits)], rows)]
    if table.name in paper.ABLATION:
        rows = [[name, *(f"{value:.4f}" for value in row)] for name, row in paper.ABLATION[table.name].items()]
        blocks.append(Table(["Table IV", *(f"{bits} bits" for bits in table.bits)], rows))
    blocks.append(Paragraph("* with the GoogLeNet backbone, run by the paper's authors."))
    return Folded("All rows, with the originals of the baselines", blocks)


def _doubts(table: tables.Table) -> list[Block]:
    return [Paragraph(why) for (name, _), why in paper.DOUBTFUL.items() if name == table.name]


def remember(out: Path, table: str, unavailable: str | None) -> None:
    """Which table a folder is of, and why its data is missing, for a report without a run."""
    with replacing(out / "table.json") as file:
        file.write(json.dumps({"table": table, "unavailable": unavailable}).encode())


def remembered(out: Path) -> dict[str, Any] | None:
    """What `remember` wrote, or None."""
    try:
        content = json.loads((out / "table.json").read_bytes())
        return content if isinstance(content, dict) and content.get("table") in tables.TABLES else None
    except (OSError, ValueError):
        return None
