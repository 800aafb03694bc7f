"""What the report says: built from the cells of a folder and from nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from idcwh_search._util.atomic import begins_with, check_target, replacing
from idcwh_search._util.console import note

from . import ablation, experiments, map_table, markup, published, results_json, settings_report, tables
from .map_table import NO_DATA, NOT_RUN
from .results import Results, gather
from .tables import display

_TABLE = "table.json"
_KINDS = {
    "report.md": begins_with("report of idcwh-reproduce", rb"# [^\n]*: the paper's table, reproduced\n"),
    "report.html": begins_with("report of idcwh-reproduce", rb"<!doctype html>.*<title>[^<]*, reproduced</title>"),
    results_json.NAME: begins_with("summary of idcwh-reproduce", rb'\{"table": "[^"]*", "groups": \['),
    _TABLE: begins_with("file of idcwh-reproduce", rb'\{"table": "[^"]*", "unavailable": '),
}


def write(out: Path, table: tables.Table, unavailable: str | None, figures: bool = True) -> list[Path]:
    """report.md, report.html and results.json, of DIR/cells. unavailable: why the table's data could not be read."""
    found = gather(experiments.read_all(out / "cells"))
    if found:
        unavailable = None  # it was there when they were made
    blocks: list[str] = [
        markup.heading(f"{table.title}: the paper's table, reproduced", 1),
        *_opening(table, found, unavailable),
    ]
    for results in found or [None]:  # type: ignore[list-item]
        blocks += _section(out, table, results, unavailable, figures)
    blocks += [markup.heading("The paper's table as printed"), _printed(table), *_doubts(table)]
    texts = {
        "report.md": "\n\n".join(blocks) + "\n",
        "report.html": markup.page(f"{table.title}, reproduced", blocks, out),
        results_json.NAME: results_json.text(table.name, (cell for results in found for cell in results.cells)),
    }
    for name, text in texts.items():
        with replacing(out / name, _KINDS[name]) as file:
            file.write(text.encode(errors="backslashreplace"))  # of a command with a name that is not UTF-8
    return [out / name for name in texts]


def check(out: Path) -> None:
    """Raises IdcwhError where a file of a report would replace one that is none."""
    for name, kind in _KINDS.items():
        if name != _TABLE and os.path.lexists(out / name):  # `remember` checks the other, before any work too
            check_target(out / name, kind)


def _opening(table: tables.Table, found: Sequence[Results], unavailable: str | None) -> list[str]:
    done = sum(cell.done for results in found for cell in results.cells)
    failed = sum(not cell.done for results in found for cell in results.cells)
    lines = [
        f"MAP by Hamming ranking, measured as docs/metrics.md defines it, beside {published.LABELS[table.name]} of "
        f"Zhang and Yan, arXiv 2103.09442. {_epoch(found)}; nothing was chosen by looking at the queries.",
        f"{done:,} trained cell{'s' * (done != 1)}" + (f", {failed:,} that failed" if failed else "") + ".",
    ]
    if unavailable:
        lines.append(f"**{NO_DATA.capitalize()}**: {markup.text(unavailable)}. The table needs {table.needs}.")
    return lines


def _epoch(found: Sequence[Results]) -> str:
    kept = {cell.content["options"].get("keep", "last") for results in found for cell in results.cells}
    if kept <= {"last"}:
        return "Every number is of the last epoch"
    return "Numbers are of the last epoch, or of the best on held-out training images where `keep` says so"


def _section(
    out: Path, table: tables.Table, results: Results | None, unavailable: str | None, figures: bool
) -> list[str]:
    if results is None:
        return [markup.heading("MAP by Hamming ranking"), map_table.build(table, None, bool(unavailable))]
    blocks: list[str] = [markup.heading(results.setup.title)]
    blocks += settings_report.warnings(table, results)
    blocks += [
        markup.heading("MAP by Hamming ranking", 3),
        map_table.build(table, results, False),
        map_table.how_to_read(not settings_report.other_protocols(table, results)),
    ]
    blocks += _failures(results)
    shown = [bits for bits in results.bits() if bits == table.shown_bits] or results.bits()[-1:]
    for bits in shown:
        if measured := [m for m in map_table.order(table, results) if results.runs(m, bits).evaluations]:
            blocks += [markup.heading(f"Other measures at {bits} bits", 3), _measures(results, measured, bits)]
    bars: list[str] = []
    if figures:
        from . import figures as drawing

        for picture in drawing.draw(out / "figures", table, results):
            if picture.name == "ablation":
                bars.append(markup.figure(picture.path, picture.caption, out))
            else:
                blocks += [markup.heading(picture.title, 3), markup.figure(picture.path, picture.caption, out)]
    blocks += [*_ablation(table, results), *bars]
    blocks += [markup.heading("Settings and machine", 3), *settings_report.blocks(results)]
    return blocks


def _failures(results: Results) -> list[str]:
    failed = [cell for cell in results.cells if not cell.done]
    if not failed:
        return []
    rows = [
        [
            f"{display(c.method)}, {'+'.join(map(str, c.bits))} bits, seed {c.seed}"
            + (f", {c.variant.kind} {c.variant.value}" if c.variant else ""),
            markup.text(c.reason or ""),
        ]
        for c in failed
    ]
    return [markup.heading("Cells that failed", 3), markup.table(["cell", "reason"], rows, words=True)]


def _measures(results: Results, methods: Sequence[str], bits: int) -> str:
    runs = {method: results.runs(method, bits) for method in methods}
    cuts = sorted(set.intersection(*(set(e.precision_at) for r in runs.values() for e in r.evaluations.values())))
    columns: list[tuple[str, Any, int]] = [("MAP", lambda e: e.map, 4)]
    columns += [("pessimistic", lambda e: e.map_pessimistic, 4), ("optimistic", lambda e: e.map_optimistic, 4)]
    columns += [(f"P@{k:,}", lambda e, k=k: e.precision_at[k], 4) for k in cuts if k in (100, 1000)]
    columns += [("P@H≤2", lambda e: e.precision_within, 4), ("R@H≤2", lambda e: e.recall_within, 4)]
    columns += [("d_w", lambda e: e.health.d_w, 2), ("d_b", lambda e: e.health.d_b, 2)]
    columns += [("distinct codes", lambda e: float(e.health.distinct_database), 0)]
    rows = []
    for method, r in runs.items():
        entries = [f"{r.mean(number):,.{digits}f}" for _, number, digits in columns]
        rows.append(
            [display(method), *entries, f"{seconds:,.1f}" if (seconds := sum(r.seconds) / len(r.seconds)) else "-"]
        )
    return markup.table(["method", *(name for name, _, _ in columns), "training, s"], rows)


def _ablation(table: tables.Table, results: Results) -> list[str]:
    rows = ablation.rows(table, results)
    if not rows:
        return []
    lengths = ablation.lengths(rows)
    shown = []
    for row in rows:
        entries = []
        for bits in lengths:
            runs, base = row.runs.get(bits), row.base.get(bits)
            if bits in row.same:
                entries.append("the same")
                continue
            if runs is None or not runs.evaluations:
                entries.append(NOT_RUN if runs is None or not runs.reasons else "failed")
                continue
            deviation = runs.deviation()
            lines = [f"{runs.mean():.4f}" + (f" ± {deviation:.4f}" if deviation is not None else "")]
            if base is not None and base is not runs and base.evaluations:
                difference, of_it = runs.against(base)
                lines.append(f"{difference:+.4f}" + (f" ± {of_it:.4f}" if of_it is not None else ""))
            if (theirs := row.paper.get(bits)) is not None:
                lines.append(f"paper {theirs:.4f}")
            entries.append(markup.entry(*lines))
        shown.append([row.title, *entries])
    text = (
        "What IDCWH's parts are worth: MAP, and below it the difference to the first row, seed by seed. Each row takes "
        'back one thing; a setting that is taken back has the value of `--recipe paper` ("the same": the first row has '
        "it, too). Number of epochs, size of the images and precision stay, so that all rows cost the same."
    )
    return [markup.heading("Ablation", 3), text, markup.table(["", *(f"{b} bits" for b in lengths)], shown)]


def _printed(table: tables.Table) -> str:
    rows = [
        [markup.text(name), *(f"{v:.{published.digits(row)}f}" for v in row)]
        for name, row in published.TABLES[table.name].items()
    ]
    blocks = [markup.table([published.LABELS[table.name], *(f"{bits} bits" for bits in table.bits)], rows)]
    if table.name in published.ABLATION:
        rows = [
            [markup.text(name), *(f"{value:.4f}" for value in row)]
            for name, row in published.ABLATION[table.name].items()
        ]
        blocks.append(markup.table(["Table IV", *(f"{bits} bits" for bits in table.bits)], rows))
    blocks.append(r"\* with the GoogLeNet backbone, run by the paper's authors.")
    return markup.folded("All rows, with the originals of the baselines", blocks)


def _doubts(table: tables.Table) -> list[str]:
    return [why for (name, _), why in published.DOUBTFUL.items() if name == table.name]


def remember(out: Path, table: str, unavailable: str | None) -> None:
    """Which table a folder is of, and why its data is missing, for a report without a run."""
    with replacing(out / _TABLE, _KINDS[_TABLE]) as file:
        file.write(json.dumps({"table": table, "unavailable": unavailable}).encode())


def remembered(out: Path) -> dict[str, Any] | None:
    """What `remember` wrote, or None; what is there and not that is said."""
    path = out / _TABLE
    try:
        content = json.loads(path.read_bytes())
        table, unavailable = content["table"], content["unavailable"]
        if isinstance(table, str) and table in tables.TABLES and isinstance(unavailable, str | None):
            return {"table": table, "unavailable": unavailable}
        reason = f"table: expected one of {', '.join(tables.TABLES)}"
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = error.strerror or str(error)
    except (ValueError, KeyError, TypeError, RecursionError):
        reason = "damaged"
    note(f"{path}: does not say which table the folder is of ({reason}); name the table")
    return None
