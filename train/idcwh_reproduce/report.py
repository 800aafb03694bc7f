"""The report of a folder, in report.md, report.html and results.json. It depends only on the experiments."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from idcwh_search._util.atomic import begins_with, check_target, replacing
from idcwh_search._util.console import note

from . import ablation, experiments, map_table, markup, settings, tables
from .experiments import Result, Setup
from .results import Results, gather

_TABLE, _NUMBERS = "table.json", "results.json"
_KINDS = {
    "report.md": begins_with("report of idcwh-reproduce", rb"# [^\n]*: the paper's table, reproduced\n"),
    "report.html": begins_with("report of idcwh-reproduce", rb"<!doctype html>.*<title>[^<]*, reproduced</title>"),
    _NUMBERS: begins_with("summary of idcwh-reproduce", rb'\{"table": "[^"]*", "groups": \['),
    _TABLE: begins_with("file of idcwh-reproduce", rb'\{"table": "[^"]*", "unavailable": '),
}


def write(out: Path, table: tables.Table, unavailable: str | None, figures: bool = True) -> list[Path]:
    """Writes report.md, report.html and results.json, and returns their paths.

    Args:
        unavailable: the reason why the table's dataset could not be read; ignored if there are experiments.
    """
    done = list(experiments.read_all(out / "experiments"))
    blocks = [f"# {table.title}: the paper's table, reproduced", *_opening(table, done)]
    for results in gather(done):
        blocks += _section(out, table, results, figures)
    if not done:
        if unavailable:
            reason = markup.text(unavailable)
            blocks.append(f"**{map_table.NO_DATA.capitalize()}**: {reason}. The table needs {table.needs}.")
        missing = map_table.NO_DATA if unavailable else map_table.NOT_RUN
        nothing = Results(Setup("", "", freeze=True), [])
        blocks += ["## MAP by Hamming ranking", *map_table.blocks(table, nothing, False, missing)]
    blocks += ["## The paper's table as printed", _printed(table), *table.doubtful.values()]
    texts = {
        "report.md": "\n\n".join(blocks) + "\n",
        "report.html": markup.page(f"{table.title}, reproduced", blocks, out),
        _NUMBERS: _numbers(table.name, done),
    }
    for name, text in texts.items():
        with replacing(out / name, _KINDS[name]) as file:
            file.write(text.encode(errors="backslashreplace"))  # a path in a command may not be UTF-8
    return [out / name for name in texts]


def check(out: Path) -> None:
    """Raises IdcwhError if a file of the report would replace a file of another type."""
    for name, kind in _KINDS.items():
        if name != _TABLE and os.path.lexists(out / name):  # `remember` checks _TABLE
            check_target(out / name, kind)


def _opening(table: tables.Table, done: Sequence[Result]) -> list[str]:
    epoch = "All values are of the last epoch"
    if any(one.content["options"].get("keep", "last") != "last" for one in done):
        epoch = "Values are of the last epoch, or with `keep best` of the epoch with the best validation MAP"
    trained = sum(one.done for one in done)
    failed = f", {len(done) - trained:,} failed" if trained < len(done) else ""
    return [
        f"MAP by Hamming ranking as in docs/metrics.md, compared with {table.label} of Zhang and Yan, arXiv "
        f"2103.09442. {epoch}. No choice was made by evaluating the queries.",
        f"{trained:,} trained experiment{'s' * (trained != 1)}{failed}.",
    ]


def _section(out: Path, table: tables.Table, results: Results, figures: bool) -> list[str]:
    comparable = not settings.other_protocols(table, results)
    blocks = [f"## {results.setup.title}", *settings.warnings(table, results), "### MAP by Hamming ranking"]
    blocks += map_table.blocks(table, results, comparable, map_table.NOT_RUN)
    if failed := [[one.title, markup.text(one.reason)] for one in results.experiments if not one.done]:
        blocks += ["### Experiments that failed", markup.table(["experiment", "reason"], failed, words=True)]
    bits = results.shown_bits()
    if methods := [m for m in map_table.order(table, results) if results.runs(m, bits).evaluations]:
        blocks += [f"### Other metrics at {bits} bits", _measures(results, methods, bits)]
    blocks += ablation.blocks(table, results)
    if figures:
        from .figures import draw

        for figure in draw(out / "figures", table, results):
            blocks += [f"### {figure.title}", markup.figure(figure.path, figure.caption, out)]
    return [*blocks, "### Settings and machine", *settings.blocks(results)]


def _measures(results: Results, methods: Sequence[str], bits: int) -> str:
    runs = {method: results.runs(method, bits) for method in methods}
    cuts = set.intersection(*(set(e.precision_at) for r in runs.values() for e in r.evaluations.values()))
    columns: list[tuple[str, Any, int]] = [
        ("MAP", lambda e: e.map, 4),
        ("pessimistic", lambda e: e.map_pessimistic, 4),
        ("optimistic", lambda e: e.map_optimistic, 4),
        *((f"P@{k:,}", lambda e, k=k: e.precision_at[k], 4) for k in (100, 1000) if k in cuts),
        ("P@H≤2", lambda e: e.precision_within, 4),
        ("R@H≤2", lambda e: e.recall_within, 4),
        ("d_w", lambda e: e.health.d_w, 2),
        ("d_b", lambda e: e.health.d_b, 2),
        ("distinct codes", lambda e: float(e.health.distinct_database), 0),
    ]
    rows = []
    for method, r in runs.items():
        seconds = sum(r.seconds) / len(r.seconds)
        entries = [f"{r.mean(number):,.{digits}f}" for _, number, digits in columns]
        rows.append([tables.display(method), *entries, f"{seconds:,.1f}" if seconds else "-"])
    return markup.table(["method", *(name for name, _, _ in columns), "training, s"], rows)


def _printed(table: tables.Table) -> str:
    blocks = []
    for title, printed in ((table.label, table.printed), ("Table IV", table.ablation)):
        if printed:
            rows = [[markup.text(name), *numbers.split()] for name, numbers in printed.items()]
            blocks.append(markup.table([title, *(f"{bits} bits" for bits in table.bits)], rows))
    blocks.append(r"\* with the GoogLeNet backbone, run by the paper's authors.")
    return markup.folded("All rows, with the original baselines", blocks)


def _numbers(table: str, done: Sequence[Result]) -> str:
    """Returns the content of results.json, which has all experiments without their curves.

    A group has the common values of its experiments: settings, protocol per seed, machine, versions and command. Its
    `experiments` are one per line, with the metrics of each code length.
    """
    groups: dict[str, dict[str, Any]] = {}
    for one in done:
        content = one.content
        names = ("recipe", "backbone", "freeze", "versions", "machine", "revision", "command")
        shared = {name: content[name] for name in names}
        shared["images"] = {name: content["dataset"][name] for name in ("images", "sha256")}
        group = groups.setdefault(json.dumps(shared), {**shared, "protocols": {}, "experiments": []})
        if protocol := content["protocol"]:
            group["protocols"][str(one.seed)] = {name: protocol[name] for name in ("name", "sha256")}
        row = {name: content[name] for name in ("method", "seed", "variant", "status", "reason", "seconds", "options")}
        row["options"] = {name: value for name, value in content["options"].items() if name != "data"}
        row["numbers"] = {str(bits): _single(evaluation.to_dict()) for bits, evaluation in one.evaluations.items()}
        group["experiments"].append(row)
    text = json.dumps({"table": table, "groups": list(groups.values())}, allow_nan=False)
    return re.sub(r'\{(?="recipe"|"method": "[^"]*", "seed")', "\n{", text) + "\n"


def _single(evaluation: dict[str, Any]) -> dict[str, Any]:
    """Returns the single values of an evaluation, and the precision at a few ranks."""
    whole = {**evaluation, "health": _single(evaluation["health"])} if evaluation.get("health") else evaluation
    kept = ("precision_at", "health")
    return {name: v for name, v in whole.items() if v is None or isinstance(v, int | float) or name in kept}


def remember(out: Path, table: str, unavailable: str | None) -> None:
    """Writes the table of a folder, and the reason why its dataset is not available, for --report-only."""
    with replacing(out / _TABLE, _KINDS[_TABLE]) as file:
        file.write(json.dumps({"table": table, "unavailable": unavailable}).encode())


def remembered(out: Path) -> dict[str, Any] | None:
    """Returns the content that `remember` wrote, or None. Reports a file that is not usable."""
    path = out / _TABLE
    try:
        content = json.loads(path.read_bytes())
        if content["table"] in tables.TABLES and isinstance(content["unavailable"], str | None):
            return dict(content)
        reason = f"its table is not one of {', '.join(tables.TABLES)}"
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = error.strerror or str(error)
    except (ValueError, KeyError, TypeError, RecursionError):
        reason = "is corrupt"
    note(f"{path}: is invalid ({reason}); name the table on the command line")
    return None
