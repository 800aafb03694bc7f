"""The pictures of the report, PNG files drawn from cells: the paper's figures and the ablation.

The t-SNE is in `tsne.py`. Colours, dashes and markers belong to a method, so it looks the same in every picture.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from idcwh_search._util.atomic import PNG, replacing
from idcwh_search.metrics.plots import COLOURS, DASHES, STYLE, new_figure, prepare

from . import ablation, grid, tsne
from .results import Results, Runs, of_the_same_seeds
from .tables import NAMES, Table, display

MARKERS = "osD^vP*X<>phd8"


@dataclass(frozen=True)
class Picture:
    name: str
    path: Path
    title: str
    caption: str


def draw(folder: Path, table: Table, results: Results) -> list[Picture]:
    """Every picture that the cells have the numbers for, in reading order. IdcwhError without matplotlib."""
    from matplotlib import rc_context

    prepare(folder)
    found = []
    with rc_context(STYLE):
        for name, (make, title, caption) in _DRAWINGS.items():
            figure = make(table, results)
            if figure is None:
                continue
            path = folder / f"{results.setup.slug}-{name}.png"
            with replacing(path, PNG) as file:
                figure.savefig(file, format="png", metadata={"Software": None})
            found.append(Picture(name, path, title, caption.format(bits=_length(table, results))))
    return found


def style(method: str) -> dict[str, Any]:
    """IDCWH stands out; everything else by colour, dashes and marker together."""
    number = list(NAMES).index(method) if method in NAMES else len(NAMES)
    look: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[number % len(DASHES)]}
    return look | {"marker": MARKERS[number % len(MARKERS)], "linewidth": 3 if method == "idcwh" else 1.6,
                   "zorder": 3 if method == "idcwh" else 2, "markersize": 6}  # fmt: skip


def lookup(table: Table, results: Results) -> Any:
    """P@H<=2 and R@H<=2 against the code length."""
    measured = _measured(results)
    if not measured or len(results.bits()) < 2:
        return None
    figure, (left, right) = new_figure(12, 5.6, columns=2)
    for axes, number, name in (
        (left, lambda e: e.precision_within, "P@H≤2"),
        (right, lambda e: e.recall_within, "R@H≤2"),
    ):
        for method, by_length in measured.items():
            _line(axes, by_length, number, label=display(method), **style(method))
        axes.set(xlabel="code length, bits", ylabel=name, xticks=results.bits(), ylim=(0, 1.02))
    left.set_title("Precision within Hamming radius 2")
    right.set_title("Recall within Hamming radius 2")
    _legend(figure, left)
    return figure


def curves(table: Table, results: Results) -> Any:
    """P@N and the PR curve at one length, of the first seed."""
    bits = _length(table, results)
    runs = {m: r for m in results.methods() if (r := results.runs(m, bits)).evaluations}
    if not runs:
        return None
    figure, (left, right) = new_figure(12, 5.6, columns=2)
    for method, run in runs.items():
        e, look = run.first, style(method)
        left.plot(e.ranking.n, e.ranking.precision, label=display(method), **look, markevery=(0.03, 0.14))
        right.plot(e.pr_curve.recall, e.pr_curve.precision, **look, markevery=(0.03, 0.14))
    left.set_xscale("log")
    left.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    left.set(xlabel="N, images returned", ylabel="P@N", ylim=(0, 1.02), title=f"Precision of the first N, {bits} bits")
    left.set_xlim(1, max(int(r.first.ranking.n[-1]) for r in runs.values()))
    right.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02), title=f"Precision-recall, {bits} bits")
    _legend(figure, left)
    return figure


def sweeps(table: Table, results: Results) -> Any:
    """MAP of IDCWH over sigma^2 and over beta, a line a length; the recipe's own value is ringed."""
    variants = {kind: results.variants(kind) for kind in grid.SWEEPS}
    if not any(variants.values()):
        return None
    figure, panels = new_figure(12, 4.8, columns=2)
    labels = {"sigma2": r"$\sigma^2$, variance around the centers", "beta": r"$\beta$, weight of the quantization term"}
    for axes, (kind, of) in zip(panels, variants.items(), strict=True):
        for number, bits in enumerate(sorted({bits for lengths in of.values() for bits in lengths})):
            points = {float(v.value): results.runs("idcwh", bits, v) for v, lengths in of.items() if bits in lengths}
            own = _own(results, bits, kind)
            if own is not None:
                points[own] = results.runs("idcwh", bits)
            points = of_the_same_seeds({value: runs for value, runs in sorted(points.items()) if runs.evaluations})
            look = {"color": COLOURS[number], "linestyle": DASHES[number], "marker": MARKERS[number]}
            _line(axes, points, lambda e: e.map, label=f"{bits} bits", **look)
            failed = [float(v.value) for v in of if (r := results.runs("idcwh", bits, v)).reasons and not r.evaluations]
            if failed:
                place = axes.get_xaxis_transform()  # x as the data, y as a share of the height
                axes.plot(failed, [0.02 + 0.04 * number] * len(failed), "x", color=COLOURS[number], transform=place,
                    label=f"{bits} bits: failed")  # fmt: skip
            if own in points:
                ring = {"s": 220, "facecolors": "none", "edgecolors": COLOURS[number], "linewidths": 1.6, "zorder": 4}
                axes.scatter([own], [points[own].mean()], **ring)
        axes.set_xscale("log")
        axes.set_xticks(sorted(float(v.value) for v in of), minor=False)
        axes.set_xticks([], minor=True)
        axes.set(xlabel=labels[kind], ylabel="MAP", title=f"MAP of IDCWH over {labels[kind].split(',')[0]}")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.margins(y=0.15)
        if of:
            handles, texts = axes.get_legend_handles_labels()
            texts, handles = zip(*sorted(zip(texts, handles, strict=True), key=lambda item: item[0]), strict=True)
            axes.legend(handles, texts, loc="best")
    return figure


def bars(table: Table, results: Results) -> Any:
    """What each part is worth: the difference to IDCWH as it is."""
    rows = ablation.rows(table, results)
    if len(rows) < 3:  # IDCWH and IDCWH-Single alone: the table says it
        return None
    lengths = [b for b in ablation.lengths(rows) if any(b in row.runs and len(row.runs) < 4 for row in rows[2:])]
    lengths = lengths or ablation.lengths(rows)
    rows = rows[1:]
    figure, axes = new_figure(11, 1.6 + len(rows) * (0.25 + 0.2 * len(lengths)))
    height = 0.8 / len(lengths)
    for number, bits in enumerate(lengths):
        look = {"color": COLOURS[number], "hatch": ("", "///", "...", "xx")[number % 4], "edgecolor": "white"}
        at, values, errors = [], [], []
        for place, row in enumerate(rows):
            runs, base = row.runs.get(bits), row.base.get(bits)
            if runs is not None and base is not None and runs.evaluations and base.evaluations:
                at.append(place - 0.4 + height * (number + 0.5))
                difference, deviation = runs.against(base)
                values.append(difference)
                errors.append(deviation or 0.0)
        axes.barh(at, values, height, label=f"{bits} bits", **look)
        if any(errors):
            axes.errorbar(values, at, xerr=errors, fmt="none", ecolor="#222222", elinewidth=1.2, capsize=3)
    axes.axvline(0, color="#222222", linewidth=1)
    axes.set_yticks(range(len(rows)), [row.title for row in rows])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.1)
    axes.set(xlabel="difference in MAP to IDCWH with the whole recipe", title="What each part is worth")
    axes.legend(loc="best")
    return figure


def embedded(table: Table, results: Results) -> Any:
    """t-SNE of h and of the codes."""
    return tsne.figure(results, _length(table, results))


_DRAWINGS: dict[str, tuple[Callable[[Table, Results], Any], str, str]] = {
    "lookup": (
        lookup,
        "Hash lookup within radius 2",
        "P@H≤2 and R@H≤2 against the code length: mean over seeds, bars of one standard deviation. A query that finds "
        "nothing counts as 0.",
    ),
    "curves": (
        curves,
        "P@N and precision-recall",
        "Precision of the first N images and precision-recall curve of the Hamming ranking at {bits} bits, ties "
        "averaged; first seed.",
    ),
    "tsne": (
        embedded,
        "What the codes look like",
        "t-SNE of queries at {bits} bits, first seed. Top: the real-valued outputs h, with the mean Euclidean distance "
        "of the drawn pairs of the same class (d_w) and of different classes (d_b). Bottom: the codes, with the mean "
        "Hamming distance of queries to database images.",
    ),
    "sweeps": (
        sweeps,
        "Sensitivity to σ² and β",
        "MAP of IDCWH with other values of σ² and β, everything else as in the recipe; ringed: the recipe's "
        "own value. It was not chosen here.",
    ),
    "ablation": (
        bars,
        "What each part is worth",
        "Difference in MAP when one part of IDCWH or of its recipe is taken back: mean over seeds, bars of one "
        "standard deviation of the difference.",
    ),
}


def _length(table: Table, results: Results) -> int:
    """The code length of curves and pictures."""
    lengths = results.bits()
    return table.shown_bits if table.shown_bits in lengths else max(lengths, default=table.shown_bits)


def _measured(results: Results) -> dict[str, dict[int, Runs]]:
    measured = {m: {b: r for b in results.bits() if (r := results.runs(m, b)).evaluations} for m in results.methods()}
    return {m: by_length for m, by_length in measured.items() if by_length}


def _own(results: Results, bits: int, kind: str) -> float | None:
    """The value that the table's own IDCWH has at this length."""
    for cell in results.main():
        if cell.method == "idcwh" and bits in cell.bits:
            return float(cell.method_options(bits).get(kind, grid.DEFAULTS[kind]))
    return None


def _line(axes: Any, points: dict[Any, Runs], number: Callable[[Any], float], **look: Any) -> None:
    """Means, with bars of a deviation where there are several seeds."""
    deviations = [runs.deviation(number) for runs in points.values()]
    errors = None if None in deviations or not deviations else deviations
    axes.errorbar(
        list(points), [runs.mean(number) for runs in points.values()], yerr=errors, capsize=3, elinewidth=1, **look
    )


def _legend(figure: Any, axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(7, -(-len(labels) // (1 + len(labels) // 8))),
        frameon=False,
    )
