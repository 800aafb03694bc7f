"""The report's settings, protocol and machine, and warnings about experiments that do not belong together."""

from __future__ import annotations

import json
from typing import Any

from . import grid, markup
from .experiments import Result
from .results import Results
from .tables import Table, display

_IDENTITY = {"seed", "bits", "method", "method_options", "length_options"}


def warnings(table: Table, results: Results) -> list[str]:
    """Returns paragraphs about another protocol, other datasets or settings, and images that could not be read."""
    found: list[str] = []
    if others := other_protocols(table, results):
        found.append(
            f"**Not the table's protocol.** There are experiments of the protocol {' and '.join(others)}; the table's "
            f"is {table.name} ({_sizes(table.sizes[0])}). No difference to the paper's numbers is given."
        )
    datasets = {one.content["dataset"]["sha256"] for one in results.experiments}
    if len(datasets) > 1:
        found.append(f"**{len(datasets)} different datasets** are in this table.")
    if names := _different(results):
        found.append(
            f"**Settings differ between experiments**, beyond the recipe's for each method: {', '.join(names)}. "
            "Some are of another run; start the command again to bring all to the same settings."
        )
    together = {len(one.bits) > 1 for one in results.experiments}
    if len(together) > 1:
        found.append("**Some code lengths were trained together**, on one backbone, others alone.")
    elif together == {True} and not results.setup.freeze:
        found.append("The code lengths were trained together, on one backbone.")
    if unreadable := {key for one in results.experiments for key in one.content["unreadable"]}:
        first = markup.text(min(unreadable))
        found.append(f"**{len(unreadable):,} images could not be read** and were left out, {first} first.")
    return found


def other_protocols(table: Table, results: Results) -> list[str]:
    """Returns descriptions of protocols that are not the table's, by name or by sizes."""
    protocols = [p for one in results.experiments if (p := one.content["protocol"])]
    others = [p for p in protocols if p["name"] != table.name or p["sizes"] not in table.sizes]
    return sorted({f"{markup.text(p['name'])} ({_sizes(p['sizes'])})" for p in others})


def _different(results: Results) -> list[str]:
    """Returns settings that differ between experiments, unless all are as recipe and variant have them."""
    values: dict[str, set[str]] = {}
    changed = set()
    for one in results.experiments:
        expected = grid.recipe(one)
        about = one.variant.value if one.variant else None
        for name, value in one.content["options"].items():
            if name not in _IDENTITY and name not in ("data", about):
                values.setdefault(name, set()).add(json.dumps(value))
                if value != expected.get(name):
                    changed.add(name)
    return sorted(name for name in changed if len(values[name]) > 1)


def blocks(results: Results) -> list[str]:
    """Returns a table of the settings, and paragraphs about protocols and machines."""
    main = results.main() or results.experiments
    values: dict[str, dict[str, list[str]]] = {}  # setting -> value -> methods
    for method in sorted({one.method for one in main}):
        own: dict[str, list[int]] = {}
        for one in main:
            if one.method == method:
                for name, value in one.content["options"].items():
                    if name not in _IDENTITY:
                        methods = values.setdefault(name, {}).setdefault(markup.code(json.dumps(value)), [])
                        methods += [display(method)] * (display(method) not in methods)
                for bits in one.bits:
                    options = ", ".join(f"{name} {_short(v)}" for name, v in one.method_options(bits).items())
                    own.setdefault(options or "defaults", []).append(bits)
        lines = [f"{', '.join(map(str, sorted(set(of))))} bits: {markup.text(text)}" for text, of in own.items()]
        values[f"options of {display(method)}"] = {"; ".join(lines): []}
    rows = [
        [name, "; ".join(f"{value} ({', '.join(of)})" if len(each) > 1 else value for value, of in each.items())]
        for name, each in values.items()
    ]
    table = markup.table(["setting", "value"], rows, words=True)
    return [markup.folded("Settings", [table]), *_protocols(results.experiments), *_machines(results.experiments)]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _sizes(sizes: dict[str, int]) -> str:
    names = {"query": "queries", "train": "training", "database": "database"}
    return ", ".join(f"{n:,} {names.get(part, part)}" for part, n in sizes.items())


def _protocols(experiments: list[Result]) -> list[str]:
    lines: dict[str, None] = {}  # each line once, in order
    for one in sorted(experiments, key=lambda one: one.seed):
        if p := one.content["protocol"]:
            hashes = ", ".join(f"{part} `{value[:12]}`" for part, value in p["sha256"].items())
            title = f"Protocol {markup.text(p['name'])}, seed {p['seed']}: {_sizes(p['sizes'])}"
            lines[f"{title}. SHA-256 of the lists: {hashes}."] = None
    return list(lines)


def _machines(experiments: list[Result]) -> list[str]:
    """Returns a paragraph per combination of machine and versions, with the commands that ran there."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for content in (one.content for one in experiments):
        m = content["machine"]
        machine = f"{markup.text(m['cpu'])} (family {m['family']}), {m['cores']} cores, {' '.join(m['flags'])}"
        gpu = f", {m['gpu']}" if m["gpu"] else ""
        versions = ", ".join(f"{name} {version}" for name, version in content["versions"].items())
        source = f", revision `{content['revision']}`" if content["revision"] else ""
        groups.setdefault(f"{machine}{gpu}. {versions}{source}.", []).append(content)
    lines = []
    for text, contents in groups.items():
        total, training, cpu = (
            sum(content["seconds"].get(clock, 0.0) for content in contents) / 60
            for clock in ("total", "training", "training_cpu")
        )
        spent = f"{total:,.1f} minutes, {training:,.1f} of them training"
        spent += f" ({cpu:,.1f} CPU minutes)" * (cpu > 0)  # earlier versions did not count them
        commands = "; ".join(markup.code(command) for command in dict.fromkeys(c["command"] for c in contents))
        lines.append(f"{len(contents):,} experiments in {spent}, on {text} Command: {commands}")
    return lines
