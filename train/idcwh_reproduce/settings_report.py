"""The settings and the machine that a table's cells record, and what about them the reader has to know first."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from . import grid, markup
from .experiments import Result
from .results import Results
from .tables import Table as PaperTable
from .tables import display

_NOT_SETTINGS = {"seed", "bits", "method", "method_options", "length_options"}


def warnings(table: PaperTable, results: Results) -> list[str]:
    """Another protocol than the table's, cells that were not made under the same settings, unreadable pictures."""
    found: list[str] = []
    if others := other_protocols(table, results):
        found.append(
            f"**Not the table's protocol.** There are cells of the protocol {' and '.join(others)}; the table's is "
            f"{table.name} ({_sizes(table.sizes[0])}). No difference to the paper's numbers is given."
        )
    sets = {(c.content["dataset"]["images"], c.content["dataset"]["sha256"]) for c in results.cells}
    if len(sets) > 1:
        found.append(f"**{len(sets)} different sets of images** are in this table.")
    if varying := _varying(results):
        found.append(
            f"**Settings differ between cells**, beyond what the recipe has for each method: {', '.join(varying)}. "
            "Some cells are of another run; start the command again to bring all to the same settings."
        )
    together = {len(c.bits) > 1 for c in results.cells}
    if len(together) > 1:
        found.append("**Some code lengths were trained together**, on one backbone, others alone.")
    elif together == {True} and not results.setup.freeze:
        found.append("The code lengths were trained together, on one backbone.")
    unreadable = {key for c in results.cells for key in c.content["unreadable"]}
    if unreadable:
        found.append(
            f"**{len(unreadable):,} images could not be read** and were left out, {markup.text(min(unreadable))} first."
        )
    return found


def other_protocols(table: PaperTable, results: Results) -> list[str]:
    """Protocols of its cells that are not the table's, by name or by sizes: in words."""
    found = [c.content["protocol"] for c in results.cells if c.content["protocol"]]
    others = [p for p in found if p["name"] != table.name or p["sizes"] not in table.sizes]
    return sorted({f"{markup.text(p['name'])} ({_sizes(p['sizes'])})" for p in others})


def blocks(results: Results) -> list[str]:
    """Settings that all cells of the table share; those that depend on the method; protocol; machine; command."""
    main = results.main() or results.cells
    values = _values(main)
    shared = [[name, markup.code(next(iter(of)))] for name, of in values.items() if len(of) == 1]
    different = [name for name, of in values.items() if len(of) > 1]
    methods = []
    for method in results.methods():
        of = [cell for cell in main if cell.method == method]
        own = _values(of)
        methods.append(
            [
                display(method),
                *(markup.text(", ".join(sorted(own[name]))) for name in different),
                markup.text(_options(of)),
            ]
        )
    tables = [markup.table(["setting", "value"], shared, words=True)]
    if methods:
        tables.append(markup.table(["method", *different, "options of the method"], methods, words=True))
    return [markup.folded("Settings", tables), *_protocols(results.cells), *_machines(results.cells)]


def _values(cells: Iterable[Result]) -> dict[str, dict[str, None]]:
    """Setting -> the values it has in these cells, in order."""
    values: dict[str, dict[str, None]] = {}
    for cell in cells:
        for name, value in cell.content["options"].items():
            if name not in _NOT_SETTINGS:
                values.setdefault(name, {})[json.dumps(value)] = None
    return values


def _varying(results: Results) -> list[str]:
    """Settings in which cells differ where neither the recipe nor the variant explains it."""
    seen: dict[str, set[tuple[str, bool]]] = {}
    for cell in results.cells:
        expected = grid.recipe(cell)
        for name, value in _compared(cell).items():
            seen.setdefault(name, set()).add((json.dumps(value, sort_keys=True), value == expected.get(name)))
    # All alike (--set), or each as its recipe has it.
    return sorted(
        name for name, of in seen.items() if len({v for v, _ in of}) > 1 and not all(as_is for _, as_is in of)
    )


def _compared(cell: Result) -> dict[str, Any]:
    """The settings of a cell without those that are its own, and without what its variant is about."""
    own = _NOT_SETTINGS | {"data"} | ({str(cell.variant.value)} if cell.variant else set())
    return {name: value for name, value in cell.content["options"].items() if name not in own}


def _options(cells: list[Result]) -> str:
    """The method's own options, by length where they depend on it."""
    said: dict[str, list[int]] = {}
    for bits, own in sorted({b: cell.method_options(b) for cell in cells for b in cell.bits}.items()):
        text = ", ".join(f"{name} {_short(value)}" for name, value in own.items()) or "defaults"
        said.setdefault(text, []).append(bits)
    if len(said) == 1:
        return next(iter(said))
    return "; ".join(f"{', '.join(map(str, lengths))} bits: {text}" for text, lengths in said.items())


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _protocols(cells: list[Result]) -> list[str]:
    lines: dict[str, None] = {}
    for cell in sorted(cells, key=lambda cell: cell.seed):
        if p := cell.content["protocol"]:
            hashes = ", ".join(f"{part} `{value[:12]}`" for part, value in p["sha256"].items())
            what = f"Protocol {markup.text(p['name'])}, seed {p['seed']}: {_sizes(p['sizes'])}"
            lines[f"{what}. SHA-256 of the lists: {hashes}."] = None
    return list(lines)


def _sizes(sizes: dict[str, int]) -> str:
    """In words."""
    names = {"query": "queries", "train": "training", "database": "database"}
    return ", ".join(f"{n:,} {names.get(part, part)}" for part, n in sizes.items())


def _machines(cells: list[Result]) -> list[str]:
    """A paragraph for each combination of machine and versions, with the commands that ran there."""
    groups: dict[str, list[Result]] = {}
    for cell in cells:
        m, v = cell.content["machine"], cell.content["versions"]
        where = f"{markup.text(m['cpu'])} (family {m['family']}), {m['cores']} cores, {' '.join(m['flags'])}"
        if m["gpu"]:
            where += f", {m['gpu']}"
        what = ", ".join(f"{name} {version}" for name, version in v.items())
        source = f", revision `{cell.content['revision']}`" if cell.content["revision"] else ""
        groups.setdefault(f"{where}. {what}{source}.", []).append(cell)
    lines = []
    for text, of in groups.items():
        total, training, cpu = (
            sum(cell.content["seconds"].get(clock, 0.0) for cell in of) / 60
            for clock in ("total", "training", "training_cpu")
        )
        spent = f"{total:,.1f} minutes, {training:,.1f} of them training"
        if cpu:  # cells of before it was counted have none
            spent += f" ({cpu:,.1f} CPU minutes)"
        commands = "; ".join(markup.code(command) for command in dict.fromkeys(cell.content["command"] for cell in of))
        lines.append(f"{len(of):,} cells in {spent}, on {text} Command: {commands}")
    return lines
