"""The figures of the report, which are PNG files: the paper's figures and the ablation.

The colour, dashes and marker of a method are the same in every figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from idcwh_search._util.atomic import PNG, replacing
from idcwh_search.errors import not_installed
from idcwh_search.metrics.plots import COLOURS, DASHES, STYLE, new_figure, prepare

from . import ablation, grid
from .results import Results, Runs, with_common_seeds
from .tables import NAMES, Table, display

MARKERS = "osD^vP*X<>phd8"
EMBEDDED = ("idcwh", "idcwh-single", "dcwh", "dtsh")
"""The methods in the t-SNE figure, if their experiments have logits."""


class Figure(NamedTuple):
    """A figure in the report."""

    path: Path
    title: str
    caption: str


def draw(folder: Path, table: Table, results: Results) -> list[Figure]:
    """Writes every figure that has experiments, and returns them in the order of the report.

    Raises IdcwhError if matplotlib is not installed.
    """
    from matplotlib import rc_context

    prepare(folder)
    written = []
    with rc_context(STYLE):
        for name, (make, title, caption) in _FIGURES.items():
            if (figure := make(table, results)) is not None:
                path = folder / f"{results.setup.slug}-{name}.png"
                with replacing(path, PNG) as file:
                    figure.savefig(file, format="png", metadata={"Software": None})
                written.append(Figure(path, title, caption.format(bits=results.shown_bits())))
    return written


def lookup(table: Table, results: Results) -> Any:
    """Returns the figure of P@H<=2 and R@H<=2 against the code length."""
    measured = {method: by_bits for method in results.methods() if (by_bits := results.measured(method))}
    if not measured or len(results.bits()) < 2:
        return None
    figure, (left, right) = new_figure(12, 5.6, columns=2)
    for method, by_bits in measured.items():
        _line(left, by_bits, lambda e: e.precision_within, label=display(method), **_style(method))
        _line(right, by_bits, lambda e: e.recall_within, **_style(method))
    shared = {"xlabel": "code length, bits", "xticks": results.bits(), "ylim": (0, 1.02)}
    left.set(ylabel="P@H≤2", title="Precision within Hamming radius 2", **shared)
    right.set(ylabel="R@H≤2", title="Recall within Hamming radius 2", **shared)
    _legend_below(figure)
    return figure


def curves(table: Table, results: Results) -> Any:
    """Returns the figure of P@N and the precision-recall curve at one code length, of the first seed."""
    bits = results.shown_bits()
    first = {method: runs.first for method in results.methods() if (runs := results.runs(method, bits)).evaluations}
    if not first:
        return None
    figure, (left, right) = new_figure(12, 5.6, columns=2)
    for method, e in first.items():
        look = {**_style(method), "markevery": (0.03, 0.14)}
        left.plot(e.ranking.n, e.ranking.precision, label=display(method), **look)
        right.plot(e.pr_curve.recall, e.pr_curve.precision, **look)
    left.set(xlabel="N, images returned", ylabel="P@N", xscale="log", ylim=(0, 1.02))
    left.set_title(f"Precision of the first N images, {bits} bits")
    left.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    right.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02), title=f"Precision-recall, {bits} bits")
    _legend_below(figure)
    return figure


def tsne(table: Table, results: Results) -> Any:
    """Returns the figure of t-SNE, with the logits h above and the codes below, and one column per method."""
    columns = list(_logits(results))
    if not columns:
        return None
    side = 5.4 if len(columns) < 3 else 4.0
    figure, panels = new_figure(side * len(columns), 2 * side - 0.2, rows=2, columns=len(columns))
    for (method, h, labels, names, health), axes in zip(columns, np.reshape(panels, (2, -1)).T, strict=True):
        within, between = distances(h, labels)
        titles = (
            f"outputs h\n$d_w$ {within:.2f}, $d_b$ {between:.2f}",
            f"codes\n$d_w$ {health.d_w:.2f}, $d_b$ {health.d_b:.2f} bits",
        )
        placed = (embed(h, "euclidean"), embed((h >= 0).astype(np.float32), "hamming"))
        for panel, xy, title in zip(axes, placed, titles, strict=True):
            for number, name in enumerate(names):
                look = {"color": f"C{number}", "marker": MARKERS[number % 3]}
                panel.scatter(*xy[labels == number].T, s=14, alpha=0.65, linewidths=0, label=name, **look)
            panel.set(title=f"{display(method)}, {title}", xticks=[], yticks=[])
    _legend_below(figure, markerscale=2)
    return figure


def _logits(results: Results) -> Iterator[tuple[str, np.ndarray, np.ndarray, list[str], Any]]:
    """Yields method, logits, labels, class names and code statistics of the first seed of each method."""
    bits = results.shown_bits()
    for method in EMBEDDED:
        ones = [one for one in results.main() if one.method == method and bits in one.evaluations]
        kept = min(ones, key=lambda one: one.seed).logits() if ones else None
        if kept is not None and len(kept["h"]) > 3:
            health = results.runs(method, bits).first.health
            yield method, kept["h"], kept["labels"], list(map(str, kept["classes"])), health


def embed(x: np.ndarray, metric: str) -> np.ndarray:
    """Returns two coordinates per row, the same at every call."""
    try:
        from sklearn.manifold import TSNE
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise not_installed(error) from None
    # scikit-learn divides the initial coordinates of "pca" by their deviation, which fails for constant columns
    start = "pca" if np.linalg.matrix_rank(x - x.mean(axis=0)) >= 2 else "random"
    model = TSNE(perplexity=min(30, (len(x) - 1) / 3), metric=metric, init=start, random_state=0)
    with threadpool_limits(1):  # more threads are slower, and sum in another order
        xy: np.ndarray = model.fit_transform(x)
    return xy


def distances(h: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Returns the mean Euclidean distances of image pairs of the same class, and of image pairs of two classes."""
    from sklearn.metrics import pairwise_distances

    d = pairwise_distances(h.astype(np.float64))
    same = labels[:, None] == labels
    within, between = d[same & ~np.eye(len(h), dtype=bool)], d[~same]
    return tuple(float(pairs.mean()) if len(pairs) else float("nan") for pairs in (within, between))  # type: ignore[return-value]


def sweeps(table: Table, results: Results) -> Any:
    """Returns the figure of IDCWH's MAP over sigma^2 and over beta, with the recipe's values circled."""
    swept = {kind: results.variants(kind) for kind in grid.SWEEPS}
    if not any(swept.values()):
        return None
    figure, panels = new_figure(12, 4.8, columns=2)
    labels = {"sigma2": r"$\sigma^2$, variance around the centers", "beta": r"$\beta$, weight of the quantization term"}
    for axes, (kind, variants) in zip(panels, swept.items(), strict=True):
        axes.set(xscale="log", xlabel=labels[kind], ylabel="MAP")
        axes.set_title(f"MAP of IDCWH over {labels[kind].partition(',')[0]}")
        axes.set_xticks(sorted(float(variant.value) for variant in variants))
        axes.set_xticks([], minor=True)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        for number, bits in enumerate(sorted({bits for lengths in variants.values() for bits in lengths})):
            points = {float(v.value): runs for v in variants if (runs := results.runs("idcwh", bits, v)).evaluations}
            main = [one for one in results.main() if one.method == "idcwh" and bits in one.evaluations]
            recipe = float(main[0].method_options(bits).get(kind, grid.DEFAULTS[kind])) if main else None
            if recipe is not None:
                points[recipe] = results.runs("idcwh", bits)
            points = with_common_seeds(dict(sorted(points.items())))
            look = {"color": COLOURS[number], "linestyle": DASHES[number], "marker": MARKERS[number]}
            _line(axes, points, lambda e: e.map, label=f"{bits} bits", **look)
            if recipe is not None:
                axes.plot(recipe, points[recipe].mean(), "o", color=COLOURS[number], fillstyle="none", markersize=15)
        if variants:
            axes.legend()
    return figure


def bars(table: Table, results: Results) -> Any:
    """Returns the figure of the differences in MAP between each row of the ablation and IDCWH."""
    rows = ablation.rows(table, results)
    if len(rows) < 3:  # without settings, the table is enough
        return None
    base, *rows = rows
    lengths = ablation.lengths(rows[1:])
    figure, axes = new_figure(11, 1.6 + len(rows) * (0.25 + 0.2 * len(lengths)))
    height = 0.8 / len(lengths)
    for number, bits in enumerate(lengths):
        drawn = {place: row.runs[bits] for place, row in enumerate(rows) if bits in row.runs}
        drawn = {place: runs for place, runs in drawn.items() if runs.evaluations and bits in base.runs}
        differences = [runs.against(base.runs[bits]) for runs in drawn.values()]
        axes.barh(
            [place - 0.4 + height * (number + 0.5) for place in drawn],
            [difference for difference, _ in differences],
            height,
            xerr=[deviation or 0.0 for _, deviation in differences],
            capsize=3,
            label=f"{bits} bits",
            color=COLOURS[number],
            hatch=("", "///", "...", "xx")[number % 4],
            edgecolor="white",
        )
    axes.axvline(0, color="black", linewidth=1)
    axes.set_yticks(range(len(rows)), [row.title for row in rows])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set(xlabel="difference in MAP to IDCWH with the whole recipe", title="Ablation")
    axes.legend()
    return figure


_FIGURES: dict[str, tuple[Callable[[Table, Results], Any], str, str]] = {
    "lookup": (
        lookup,
        "Hash lookup within radius 2",
        "P@H≤2 and R@H≤2 against the code length: mean over seeds, bars of one standard deviation. A query without "
        "results counts as 0.",
    ),
    "curves": (
        curves,
        "P@N and precision-recall",
        "Precision of the first N images, and precision-recall curve of the Hamming ranking, at {bits} bits for the "
        "first seed. Ties are averaged.",
    ),
    "tsne": (
        tsne,
        "t-SNE of outputs and codes",
        "t-SNE of queries at {bits} bits for the first seed. Top: the real-valued outputs h, with the mean Euclidean "
        "distance of plotted pairs of the same class (d_w) and of different classes (d_b). Bottom: the codes, with the "
        "mean Hamming distances of queries to database images.",
    ),
    "sweeps": (
        sweeps,
        "Sensitivity to σ² and β",
        "MAP of IDCWH with other values of σ² and β, and the other settings of the recipe. The recipe's value is "
        "circled. It was not chosen from these results.",
    ),
    "ablation": (
        bars,
        "Differences of the ablation",
        "Difference in MAP without one part of IDCWH or of its recipe: mean over seeds, bars of one standard "
        "deviation.",
    ),
}


def _style(method: str) -> dict[str, Any]:
    """Returns colour, dashes and marker of a method. IDCWH has a thicker line above the others."""
    number = list(NAMES).index(method) if method in NAMES else len(NAMES)
    look = {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[number % len(DASHES)]}
    first = {"linewidth": 3, "zorder": 3} if method == "idcwh" else {"linewidth": 1.6, "zorder": 2}
    return {**look, **first, "marker": MARKERS[number % len(MARKERS)], "markersize": 6}


def _line(axes: Any, points: dict[Any, Runs], number: Callable[[Any], float], **look: Any) -> None:
    """Draws the means, with bars of one standard deviation if all points have several seeds."""
    spread = [runs.spread(number) for runs in points.values()]
    deviations = [deviation for _, deviation in spread if deviation is not None]
    errors = deviations if len(deviations) == len(spread) > 0 else None
    axes.errorbar(list(points), [mean for mean, _ in spread], yerr=errors, capsize=3, elinewidth=1, **look)


def _legend_below(figure: Any, **more: Any) -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(5, len(labels)), frameon=False, **more)
