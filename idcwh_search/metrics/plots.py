"""Plots of evaluations as PNG files. matplotlib is imported only when a plot is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, cycle
from pathlib import Path
from typing import Any

import numpy as np

from .._util.atomic import PNG, check_target, replacing
from ..errors import NotWrittenError, not_installed
from .result import Evaluation

# Okabe and Ito's colours are distinct with any colour vision, and the dashes are in black-and-white print. Their yellow
# is left out: it is too pale on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
DASHES = ("-", "--", "-.", ":")
STYLE: Any = {
    "font.size": 11,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "legend.framealpha": 0.85,
    "legend.edgecolor": "none",
    "lines.linewidth": 2,
}
DPI = 150

Evaluations = Mapping[str, Evaluation]


NAMES = ("map.png", "pr_curve.png", "precision_at_n.png", "within_radius.png", "distances.png")


def prepare(folder: Path, names: Sequence[str] = ()) -> None:
    """Creates the folder, and checks matplotlib and the files to replace. Commands call it before long work.

    Raises:
        NotInstalledError: matplotlib is not installed.
        NotWrittenError: the folder cannot be created or written.
        AlreadyExistsError: a file of this name exists and is not a PNG image.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise not_installed(error) from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NotWrittenError(path=folder, found=error.strerror, expected="a folder for plots") from error
    for name in names:
        check_target(folder / name, PNG)


def save(evaluations: Evaluations, folder: Path) -> list[Path]:
    """Draws every plot into `folder`, which is created if missing, and returns the files in the order of NAMES."""
    prepare(folder)
    drawings = (mean_average_precision, precision_recall, precision_at_n, within_radius, distances)
    for name, draw in zip(NAMES, drawings, strict=True):
        _write(draw, evaluations, folder / name)
    return [folder / name for name in NAMES]


def mean_average_precision(evaluations: Evaluations) -> Any:
    """Returns a figure of the tie-aware MAP with the range between the pessimistic and the optimistic order of ties."""
    figure, axes = new_figure(7.5, 1.6 + 0.5 * len(evaluations))
    for row, (colour, evaluation) in enumerate(zip(cycle(COLOURS), evaluations.values(), strict=False)):
        ends = [evaluation.map_pessimistic, evaluation.map_optimistic]
        axes.plot(ends, [row, row], color=colour, alpha=0.35, linewidth=7)
        axes.plot(evaluation.map, row, "o", color=colour, markersize=8)
        axes.annotate(f"{evaluation.map:.4f}", (evaluation.map, row), (0, 9), textcoords="offset points", ha="center")
    axes.set_yticks(range(len(evaluations)), list(evaluations))
    axes.set_ylim(len(evaluations) - 0.4, -0.7)
    axes.set_xlim(0, 1.02)
    axes.grid(axis="y", visible=False)
    axes.set(xlabel="MAP", title="Tie-aware MAP; bar: from pessimistic to optimistic order of ties")
    return figure


def precision_recall(evaluations: Evaluations) -> Any:
    """Returns a figure of the precision-recall curve of the Hamming ranking."""
    figure, axes = new_figure()
    for (name, evaluation), style in zip(evaluations.items(), styles(), strict=False):
        axes.plot(evaluation.pr_curve.recall, evaluation.pr_curve.precision, label=name, **style)
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
    axes.set_title("Precision-recall, Hamming ranking")
    axes.legend()
    return figure


def precision_at_n(evaluations: Evaluations) -> Any:
    """Returns a figure of P@N over N on a logarithmic axis."""
    figure, axes = new_figure()
    for (name, evaluation), style in zip(evaluations.items(), styles(), strict=False):
        axes.plot(evaluation.ranking.n, evaluation.ranking.precision, label=name, **style)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set(xlabel="N, items returned", ylabel="P@N", ylim=(0, 1.02), title="Precision of the first N (ties averaged)")
    axes.set_xlim(1, max(int(e.ranking.n[-1]) for e in evaluations.values()))
    axes.legend()
    return figure


def within_radius(evaluations: Evaluations) -> Any:
    """Returns a figure of P@H<=r and R@H<=r over the radius r, up to the first radius with recall 1."""
    figure, (left, right) = new_figure(11, 4.6, columns=2)
    reach = max(int(np.argmax(e.lookup.recall >= 1 - 1e-12)) for e in evaluations.values())
    for (name, evaluation), style in zip(evaluations.items(), styles(), strict=False):
        radii = np.arange(min(reach, evaluation.bits) + 1)
        for axes, values in ((left, evaluation.lookup.precision), (right, evaluation.lookup.recall)):
            axes.plot(radii, values[radii], label=name, marker="o", markersize=3.5, **style)
    left.set(ylabel="P@H≤r", title="Precision within radius r (empty ball: 0)")
    right.set(ylabel="R@H≤r", title="Recall within radius r")
    for axes in (left, right):
        axes.set(xlabel="radius r, bits", ylim=(0, 1.02), xlim=(0, max(reach, 1)))
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend()
    return figure


def distances(evaluations: Evaluations) -> Any:
    """Returns a figure of distance histograms: pairs that share a label, and pairs that share none.

    Each evaluation has a panel, and each histogram sums to 1.
    """
    columns = min(len(evaluations), 2 if len(evaluations) == 4 else 3)
    rows = -(-len(evaluations) // columns)
    figure, panels = new_figure(1.5 + 4.8 * columns, 0.6 + 3.6 * rows, rows=rows, columns=columns)
    panels = np.atleast_1d(panels).ravel()
    for axes, (name, evaluation) in zip(panels, evaluations.items(), strict=False):
        health = evaluation.health
        at = np.arange(evaluation.bits + 1)
        kinds = (
            ("within class", health.distances_within, health.d_w, COLOURS[0], "///"),
            ("between classes", health.distances_between, health.d_b, COLOURS[1], ""),
        )
        for label, counts, mean, colour, hatch in kinds:
            if not counts.sum():
                continue
            share = counts / counts.sum()
            style = {"color": colour, "alpha": 0.45, "hatch": hatch, "edgecolor": colour, "linewidth": 0.4}
            axes.bar(at, share, width=1, label=f"{label}, mean {mean:.1f}", **style)
            axes.axvline(mean, ymax=0.78, color=colour, linestyle="--", linewidth=1.5)
        axes.set(title=name, xlabel="Hamming distance, bits", ylabel="share of pairs")
        axes.set_xlim(-0.5, evaluation.bits + 0.5)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_ylim(0, 1.3 * axes.get_ylim()[1])  # room for the legend above the bars
        axes.legend(loc="upper left")
    for axes in panels[len(evaluations) :]:
        axes.set_visible(False)
    return figure


def new_figure(width: float = 7.0, height: float = 5.0, *, rows: int = 1, columns: int = 1) -> tuple[Any, Any]:
    """Returns a figure that needs no window system or global state, and its axes. Sizes are in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    return figure, figure.subplots(rows, columns)


def styles() -> Iterator[dict[str, str]]:
    """Yields colours and dashes. Seven and four have no common factor, so 28 curves differ."""
    for number in count():
        yield {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[number % len(DASHES)]}


def _write(draw: Callable[[Evaluations], Any], evaluations: Evaluations, path: Path) -> None:
    from matplotlib import rc_context

    with rc_context(STYLE), replacing(path, PNG) as file:
        draw(evaluations).savefig(file, format="png")
