"""Real-valued outputs of queries, kept beside a cell for the pictures of t-SNE."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from idcwh_search.datasets import LabelledImages
from idcwh_search.images.preprocess import Preprocess
from idcwh_search.splits import protocols
from idcwh_train.engine import checkpoint
from idcwh_train.engine.run_dir import PROTOCOL
from idcwh_train.frozen import features

_CLASSES, _QUERIES = 10, 2000
"""The paper draws ten classes of CIFAR-100; more colours cannot be told apart."""


def query_logits(
    model_file: Path, dataset: LabelledImages, device: torch.device, cache: Path | None
) -> dict[str, np.ndarray]:
    """h float32 [m, bits] of at most 2,000 queries of at most ten classes, labels int64 [m] (numbers into classes),
    classes str: of a model, in the folder of its run."""
    split = protocols.load(model_file.parent / PROTOCOL, dataset)
    model, content = checkpoint.load_model(model_file)
    rows, labels, classes = pick(dataset, split.query)
    preprocess = Preprocess.from_dict(content["preprocess"])
    # the features of a frozen backbone are the same for every method; others are nobody's business later
    frozen = bool(content["training"]["options"]["freeze"])
    found = features.extract(model, dataset, rows, preprocess, device, cache if frozen else None)
    with torch.inference_mode():
        h = model.head(found.x).float().numpy()
    return {"h": h, "labels": labels[np.isin(rows, found.rows)], "classes": np.array(classes)}


def pick(dataset: LabelledImages, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Rows of queries to draw, their classes as 0, 1, ..., and the names of those. Of more classes than ten, ten drawn
    by their names (of several labels a picture: the ten most frequent, pictures that have one label only)."""
    if dataset.multi_label:
        queries = queries[dataset.labels[queries].sum(axis=1) == 1]
        labels = dataset.labels[queries].argmax(axis=1)
        counts = np.bincount(labels, minlength=len(dataset.classes))
        chosen = np.argsort(-counts, kind="stable")[: min(_CLASSES, np.count_nonzero(counts))]
    else:
        labels = dataset.labels[queries]
        present = np.unique(labels)
        chosen = present[protocols.seeded_order(0, (dataset.classes[c] for c in present))][:_CLASSES]
    chosen = np.sort(chosen)
    kept = np.flatnonzero(np.isin(labels, chosen))
    kept = (
        kept[np.unique(np.linspace(0, len(kept) - 1, min(len(kept), _QUERIES)).round().astype(int))]
        if len(kept)
        else kept
    )
    return queries[kept], np.searchsorted(chosen, labels[kept]), [dataset.classes[c] for c in chosen]
