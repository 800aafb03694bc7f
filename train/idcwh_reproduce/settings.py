"""The settings, protocol and machine in the report, and warnings about experiments that do not match."""

from __future__ import annotations

import json
from typing import Any

from . import grid, markup
from .experiments import Result
from .results import Results
from .tables import Table, display

_IDENTITY = {"seed", "bits", "method", "method_options", "length_options"}


def warnings(table: Table, results: Results) -> list[str]:
    """Returns paragraphs about other protocols, datasets or settings, and about images that could not be read."""
    paragraphs: list[str] = []
    if others := other_protocols(table, results):
        paragraphs.append(
            f"**Not the table's protocol.** Some experiments have the protocol {' and '.join(others)}. That of the "
            f"table is {table.name} ({_sizes(table.sizes[0])}). No difference to the paper's values is given."
        )
    datasets = {one.content["dataset"]["sha256"] for one in results.experiments}
    if len(datasets) > 1:
        paragraphs.append(f"**The experiments have {len(datasets)} different datasets.**")
    if names := _different(results):
        paragraphs.append(
            f"**Settings differ between experiments**, beyond the differences of the recipe: {', '.join(names)}. "
            "Run the command again to train all experiments with the same settings."
        )
    joint = {len(one.bits) > 1 for one in results.experiments}
    if len(joint) > 1:
        paragraphs.append("**Some code lengths were trained together** on one backbone, and others alone.")
    elif joint == {True} and not results.setup.freeze:
        paragraphs.append("The code lengths were trained together on one backbone.")
    if unreadable := {key for one in results.experiments for key in one.content["unreadable"]}:
        first = markup.text(min(unreadable))
        paragraphs.append(f"**{len(unreadable):,} images could not be read** and were skipped, the first is {first}.")
    return paragraphs


def other_protocols(table: Table, results: Results) -> list[str]:
    """Returns descriptions of protocols whose name or sizes differ from the table's."""
    protocols = [p for one in results.experiments if (p := one.content["protocol"])]
    others = [p for p in protocols if p["name"] != table.name or p["sizes"] not in table.sizes]
    return sorted({f"{markup.text(p['name'])} ({_sizes(p['sizes'])})" for p in others})


def _different(results: Results) -> list[str]:
    """Returns the settings that differ between experiments, except those that the recipe or the variant sets."""
    values: dict[str, set[str]] = {}
    changed = set()
    for one in results.experiments:
        expected = grid.recipe(one)
        varied = one.variant.value if one.variant else None
        for name, value in one.content["options"].items():
            if name not in _IDENTITY and name not in ("data", varied):
                values.setdefault(name, set()).add(json.dumps(value))
                if value != expected.get(name):
                    changed.add(name)
    return sorted(name for name in changed if len(values[name]) > 1)


def blocks(results: Results) -> list[str]:
    """Returns a table of the settings, and paragraphs about protocols and machines."""
    main = results.main() or results.experiments
    values: dict[str, dict[str, list[str]]] = {}  # setting -> value -> methods
    for method in sorted({one.method for one in main}):
        by_options: dict[str, list[int]] = {}  # options of the method -> code lengths
        for one in main:
            if one.method == method:
                for name, value in one.content["options"].items():
                    if name not in _IDENTITY:
                        methods = values.setdefault(name, {}).setdefault(markup.code(json.dumps(value)), [])
                        methods += [display(method)] * (display(method) not in methods)
                for bits in one.bits:
                    options = ", ".join(f"{name} {_short(v)}" for name, v in one.method_options(bits).items())
                    by_options.setdefault(options or "defaults", []).append(bits)
        lines = [
            f"{', '.join(map(str, sorted(set(lengths))))} bits: {markup.text(text)}"
            for text, lengths in by_options.items()
        ]
        values[f"options of {display(method)}"] = {"; ".join(lines): []}
    rows = [
        [name, "; ".join(f"{value} ({', '.join(m)})" if len(by_value) > 1 else value for value, m in by_value.items())]
        for name, by_value in values.items()
    ]
    table = markup.table(["setting", "value"], rows, words=True)
    return [markup.folded("Settings", [table]), *_protocols(results.experiments), *_machines(results.experiments)]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _sizes(sizes: dict[str, int]) -> str:
    names = {"query": "queries", "train": "training", "database": "database"}
    return ", ".join(f"{n:,} {names.get(part, part)}" for part, n in sizes.items())


def _protocols(experiments: list[Result]) -> list[str]:
    lines: dict[str, None] = {}  # unique and in order
    for one in sorted(experiments, key=lambda one: one.seed):
        if p := one.content["protocol"]:
            hashes = ", ".join(f"{part} `{value[:12]}`" for part, value in p["sha256"].items())
            title = f"Protocol {markup.text(p['name'])}, seed {p['seed']}: {_sizes(p['sizes'])}"
            lines[f"{title}. SHA-256 checksums of the lists: {hashes}."] = None
    return list(lines)


def _machines(experiments: list[Result]) -> list[str]:
    """Returns one paragraph per combination of machine and versions, with its commands."""
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
        spent = f"{total:,.1f} minutes, of which {training:,.1f} training"
        spent += f" ({cpu:,.1f} CPU minutes)" * (cpu > 0)  # earlier versions do not record them
        commands = "; ".join(markup.code(command) for command in dict.fromkeys(c["command"] for c in contents))
        lines.append(f"{len(contents):,} experiments in {spent}, on {text} Command: {commands}")
    return lines
