"""t-SNE of what a model says of queries: the real-valued outputs h above, their codes below, a column a method."""

from __future__ import annotations

from typing import Any

import numpy as np

from idcwh_search.errors import not_installed
from idcwh_search.metrics.plots import COLOURS, new_figure

from .results import Results
from .tables import display

SHOWN = ("idcwh", "idcwh-single", "dcwh", "dtsh")
"""Methods that are drawn where their cells keep logits."""
_MARKERS = "os^"
_COLOURS = (*COLOURS, "#882255", "#999933", "#999999")
_PERPLEXITY = 30


def figure(results: Results, bits: int) -> Any:
    """A matplotlib figure, or None without logits to draw. IdcwhError without scikit-learn."""
    columns = {}
    for method in SHOWN:
        for cell in sorted(results.main(), key=lambda cell: cell.seed):
            if cell.method == method and bits in cell.evaluations and (kept := cell.logits()) is not None:
                if kept["h"].shape[1] == bits and len(kept["h"]) > 3:
                    columns[method] = (kept, cell.evaluations[bits].health)
                break
    if not columns:
        return None
    side = 5.4 if len(columns) < 3 else 4.0
    drawn, panels = new_figure(side * len(columns), 2 * side - 0.2, rows=2, columns=len(columns))
    panels = np.array(panels).reshape(2, len(columns))
    for column, (method, (kept, health)) in enumerate(columns.items()):
        h, labels, names = kept["h"], kept["labels"], [str(name) for name in kept["classes"]]
        within, between = distances(h, labels)
        codes = h >= 0
        above, below = panels[:, column]
        _scatter(above, embed(h, "euclidean"), labels, names)
        above.set_title(f"{display(method)}, outputs h\n$d_w$ {within:.2f}, $d_b$ {between:.2f}")
        _scatter(below, embed(codes.astype(np.float32), "hamming"), labels, names)
        below.set_title(f"{display(method)}, codes\n$d_w$ {health.d_w:.2f}, $d_b$ {health.d_b:.2f} bits")
    handles, texts = panels[0, 0].get_legend_handles_labels()
    drawn.legend(handles, texts, loc="outside lower center", ncols=min(5, len(texts)), frameon=False, markerscale=2)
    return drawn


def embed(x: np.ndarray, metric: str) -> np.ndarray:
    """Two coordinates a row, the same at every call."""
    try:
        from sklearn.manifold import TSNE
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise not_installed(error) from None
    perplexity = min(_PERPLEXITY, (len(x) - 1) / 3)
    # scikit-learn scales the first coordinates itself; a constant column would leave it nothing to scale
    start = "pca" if np.linalg.matrix_rank(x - x.mean(axis=0)) >= 2 else "random"
    tsne = TSNE(perplexity=perplexity, metric=metric, init=start, learning_rate="auto", random_state=0)
    with threadpool_limits(1):  # a few thousand points: more threads wait for each other, and add up in another order
        found: np.ndarray = tsne.fit_transform(x)
    return found


def distances(h: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Mean Euclidean distance of different pictures of the same class, and of pictures of different classes."""
    x = h.astype(np.float64)
    squares = (x**2).sum(axis=1)
    d = np.sqrt(np.maximum(squares[:, None] + squares - 2 * x @ x.T, 0))
    same = labels[:, None] == labels
    different = ~same
    np.fill_diagonal(same, False)
    return tuple(float(d[pairs].mean()) if pairs.any() else float("nan") for pairs in (same, different))  # type: ignore[return-value]


def _scatter(axes: Any, xy: np.ndarray, labels: np.ndarray, names: list[str]) -> None:
    """Points with a colour and a marker a class, and its name where its middle is."""
    from matplotlib.patheffects import withStroke

    for number, name in enumerate(names):
        points = xy[labels == number]
        if not len(points):
            continue
        look = {"color": _COLOURS[number % len(_COLOURS)], "marker": _MARKERS[number // len(_COLOURS) % len(_MARKERS)]}
        axes.scatter(*points.T, s=14, alpha=0.65, linewidths=0, label=name, **look)
    for number, name in enumerate(names):
        points = xy[labels == number]
        if len(points):
            halo = [withStroke(linewidth=3, foreground="white")]
            axes.text(*np.median(points, axis=0), name, ha="center", va="center", fontsize=10, path_effects=halo)
    middle, reach = (xy.max(axis=0) + xy.min(axis=0)) / 2, 0.53 * np.ptp(xy, axis=0).max()
    axes.set(xlim=(middle[0] - reach, middle[0] + reach), ylim=(middle[1] - reach, middle[1] + reach))
    axes.set(xticks=[], yticks=[], aspect="equal")
    axes.grid(visible=False)
    for side in axes.spines.values():
        side.set(visible=True, color="#bbbbbb")
