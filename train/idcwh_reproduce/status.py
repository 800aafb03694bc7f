"""What `idcwh-reproduce --list` prints."""

from __future__ import annotations

from pathlib import Path

from idcwh_search._util.console import one_line

from . import experiments, published, report, tables


def text(out: Path | None) -> str:
    """What each table needs; with a folder, how long its cells took."""
    lines = []
    for table in tables.TABLES.values():
        lengths = ", ".join(map(str, table.bits))
        lines += [
            f"{table.name}: {published.LABELS[table.name]}",
            f"  needs    {table.needs}",
            f"  lengths  {lengths} bits",
            f"  methods  {', '.join(table.every_method)}",
        ]
    if out is not None:
        lines += ["", *_times(out)]
    return "\n".join(map(one_line, lines))


def _times(out: Path) -> list[str]:
    found = list(experiments.read_all(out / "cells"))
    if not found:
        return [f"{out}: no cells yet"]
    kept = report.remembered(out)
    width = max(len(cell.path.stem) for cell in found)
    lines = [f"{out}: {kept['table'] if kept else 'cells'}, seconds in all (of which training)"]
    for cell in found:
        seconds = cell.content["seconds"]
        state = "" if cell.done else f"  failed: {cell.reason}"
        lines.append(f"  {cell.path.stem:<{width}}  {seconds['total']:9.1f}  ({seconds['training']:.1f}){state}")
    total = sum(cell.content["seconds"]["total"] for cell in found)
    return [*lines, f"  {f'{len(found):,} cells':<{width}}  {total:9.1f}"]
