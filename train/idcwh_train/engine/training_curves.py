"""curves.png: loss, codes and validation MAP over the epochs of log.jsonl."""

from __future__ import annotations

import json
from itertools import cycle
from pathlib import Path
from typing import Any

from idcwh_search._util.atomic import PNG, replacing
from idcwh_search.errors import CorruptFileError
from idcwh_search.metrics.plots import COLOURS, DASHES, STYLE, new_figure, prepare

from .epoch_log import CLOCKS
from .run_dir import CURVES, LOG

_SECOND = (
    "map",
    "bit_bias",
    "distinct",
)  # panels of their own; every other number of a code length is a term of the loss
_PLAIN = ("epoch", "lr", *CLOCKS, "unlabelled", "untaken", "encoded", "distinct_codes")


def draw(folder: Path) -> Path | None:
    """Writes folder/curves.png from folder/log.jsonl; returns None for fewer than two epochs.

    Raises IdcwhError without matplotlib, or for a log that cannot be read.
    """
    records = read(folder / LOG)
    if len(records) < 2:
        return None
    prepare(folder)
    from matplotlib import rc_context

    with rc_context(STYLE):
        try:
            figure = plot([with_share(record) for record in records])
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise CorruptFileError(f"is not the log of a training ({error!r})", path=folder / LOG) from None
        path = folder / CURVES
        with replacing(path, PNG) as file:
            figure.savefig(file, format="png", metadata={"Software": None})
    return path


def plot(records: list[dict[str, Any]]) -> Any:
    """Returns a matplotlib figure of the records of log.jsonl: terms of the loss, statistics of the codes, MAP."""
    lengths = _lengths(records)
    validation = [f"map{of}" for of in lengths if any(f"map{of}" in record for record in records)]
    figure, axes = new_figure(14.5 if validation else 10, 4.4, columns=3 if validation else 2)
    terms = dict.fromkeys(name.split("@")[0] for record in records for name in record if _is_term(name))
    _panel(axes[0], records, lengths, dict(zip(terms, cycle(DASHES), strict=False)))
    axes[0].set(title="Terms of the loss", ylabel="mean over the epoch", yscale="symlog", xlabel="epoch")
    _panel(axes[1], records, lengths, {"bit_bias": "-", "distinct": "--"})
    axes[1].set(title="Training codes", ylim=(-0.02, 1.02), xlabel="epoch")
    axes[1].set_ylabel("bit bias (0 is best, 1 constant); share of distinct codes", fontsize=9)
    if validation:
        _panel(axes[2], records, lengths, {"map": "o-"})
        axes[2].set(title="MAP of validation images", ylim=(-0.02, 1.02), xlabel="epoch")
    return figure


def _panel(axes: Any, records: list[dict[str, Any]], lengths: list[str], styles: dict[str, str]) -> None:
    """Draws a line per number and code length: the style is the number, the colour the length or, with a single one,
    the number as well."""
    from matplotlib.ticker import MaxNLocator

    alone = len(lengths) == 1
    for (name, style), own in zip(styles.items(), cycle(COLOURS), strict=False):
        for of, colour in zip(lengths, cycle(COLOURS), strict=False):
            points = [(record["epoch"], record[name + of]) for record in records if name + of in record]
            if points:
                axes.plot(*zip(*points, strict=True), style, color=own if alone else colour, markersize=4)
        if len(styles) > 1:
            axes.plot([], [], style, color=own if alone else "black", label=name.replace("_", " "))
    for of, colour in zip(lengths, cycle(COLOURS), strict=False):
        if of:
            axes.plot([], [], color=colour, label=f"{of[1:]} bits")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, handlelength=3.5)  # long enough that dashes can be told from dots
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _lengths(records: list[dict[str, Any]]) -> list[str]:
    """Returns the endings of the names: "" for one code length, "@12", "@24" for several."""
    found = {name[name.index("@") :] for record in records for name in record if "@" in name}
    return sorted(found, key=lambda of: int(of[1:])) or [""]


def with_share(record: dict[str, Any]) -> dict[str, Any]:
    """Returns a record with `distinct` added, the share of distinct codes."""
    found = dict(record)
    for name in record:
        plain, at, of = name.partition("@")
        if plain == "distinct_codes":
            found[f"distinct{at}{of}"] = record[name] / record[f"encoded{at}{of}"]
    return found


def _is_term(name: str) -> bool:
    plain = name.split("@")[0]
    return plain not in (*_PLAIN, *_SECOND) and not plain.startswith("collapse")


def read(path: Path) -> list[dict[str, Any]]:
    """Returns the records of a log.jsonl. Raises CorruptFileError for another file."""
    try:
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError, RecursionError) as error:
        raise CorruptFileError(f"is not the log of a training ({error})", path=path) from None
    if not all(isinstance(record, dict) and isinstance(record.get("epoch"), int) for record in records):
        raise CorruptFileError("is not the log of a training", path=path, expected="one record of an epoch per line")
    return [{_current(name): value for name, value in record.items()} for record in records]


def _current(name: str) -> str:
    """Returns the current name of a number; earlier versions call the bit bias bit balance."""
    return name.replace("bit_balance", "bit_bias") if name.startswith("bit_balance") else name
