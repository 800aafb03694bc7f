"""The plots of log.jsonl in curves.png: loss, statistics of the codes and validation MAP per epoch."""

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

_EXPECTED = "a log of idcwh-train, with one record per epoch and line"
_STATISTICS = ("map", "bit_bias", "distinct")  # values in the second and third panel
_NOT_PLOTTED = ("epoch", "lr", *CLOCKS, "unlabelled", "untaken", "encoded", "distinct_codes")


def draw(folder: Path) -> Path | None:
    """Writes folder/curves.png from folder/log.jsonl. Returns its path, or None for fewer than two epochs.

    Raises IdcwhError if matplotlib is not installed, or if the log cannot be read.
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
            raise CorruptFileError(f"is corrupt ({error!r})", path=folder / LOG, expected=_EXPECTED) from None
        path = folder / CURVES
        with replacing(path, PNG) as file:
            figure.savefig(file, format="png", metadata={"Software": None})
    return path


def plot(records: list[dict[str, Any]]) -> Any:
    """Returns a matplotlib figure of log records: terms of the loss, statistics of the codes, validation MAP."""
    lengths = _lengths(records)
    validated = any(f"map{length}" in record for length in lengths for record in records)
    figure, axes = new_figure(14.5 if validated else 10, 4.4, columns=3 if validated else 2)
    terms = dict.fromkeys(name.split("@")[0] for record in records for name in record if _is_term(name))
    _panel(axes[0], records, lengths, dict(zip(terms, cycle(DASHES), strict=False)))
    axes[0].set(title="Terms of the loss", ylabel="mean over the epoch", yscale="symlog", xlabel="epoch")
    _panel(axes[1], records, lengths, {"bit_bias": "-", "distinct": "--"})
    axes[1].set(title="Training codes", ylim=(-0.02, 1.02), xlabel="epoch")
    axes[1].set_ylabel("bit bias (0 is best, 1 constant); share of distinct codes", fontsize=9)
    if validated:
        _panel(axes[2], records, lengths, {"map": "o-"})
        axes[2].set(title="Validation MAP", ylim=(-0.02, 1.02), xlabel="epoch")
    return figure


def _panel(axes: Any, records: list[dict[str, Any]], lengths: list[str], styles: dict[str, str]) -> None:
    """Draws one line per name and code length.

    The line style shows the name. The colour shows the code length, or the name if there is a single code length.
    """
    from matplotlib.ticker import MaxNLocator

    single = len(lengths) == 1
    for (name, style), name_colour in zip(styles.items(), cycle(COLOURS), strict=False):
        for length, colour in zip(lengths, cycle(COLOURS), strict=False):
            points = [(record["epoch"], record[name + length]) for record in records if name + length in record]
            if points:
                axes.plot(*zip(*points, strict=True), style, color=name_colour if single else colour, markersize=4)
        if len(styles) > 1:
            axes.plot([], [], style, color=name_colour if single else "black", label=name.replace("_", " "))
    for length, colour in zip(lengths, cycle(COLOURS), strict=False):
        if length:
            axes.plot([], [], color=colour, label=f"{length[1:]} bits")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, handlelength=3.5)  # long enough to distinguish dashes from dots
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _lengths(records: list[dict[str, Any]]) -> list[str]:
    """Returns the suffixes of the names: "" for one code length, "@12" and "@24" for several."""
    suffixes = {name[name.index("@") :] for record in records for name in record if "@" in name}
    return sorted(suffixes, key=lambda suffix: int(suffix[1:])) or [""]


def with_share(record: dict[str, Any]) -> dict[str, Any]:
    """Returns a record with `distinct` added, the share of distinct codes."""
    result = dict(record)
    for name in record:
        plain, at, bits = name.partition("@")
        if plain == "distinct_codes":
            result[f"distinct{at}{bits}"] = record[name] / record[f"encoded{at}{bits}"]
    return result


def _is_term(name: str) -> bool:
    """Returns True for the name of a term of the loss."""
    plain = name.split("@")[0]
    return plain not in (*_NOT_PLOTTED, *_STATISTICS) and not plain.startswith("collapse")


def read(path: Path) -> list[dict[str, Any]]:
    """Returns the records of a log.jsonl. Raises CorruptFileError for another file."""
    try:
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError, RecursionError) as error:
        raise CorruptFileError(f"is corrupt ({error})", path=path, expected=_EXPECTED) from None
    if not all(isinstance(record, dict) and isinstance(record.get("epoch"), int) for record in records):
        raise CorruptFileError(path=path, expected=_EXPECTED)
    return [{_current(name): value for name, value in record.items()} for record in records]


def _current(name: str) -> str:
    """Returns the current name of a value. Earlier versions call the bit bias bit balance."""
    return name.replace("bit_balance", "bit_bias") if name.startswith("bit_balance") else name
