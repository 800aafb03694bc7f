"""The logits of queries that are stored with an experiment for t-SNE."""

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
"""Largest numbers of classes and queries. The paper plots ten classes of CIFAR-100."""


def query_logits(
    model_file: Path, dataset: LabelledImages, device: torch.device, cache: Path | None
) -> dict[str, np.ndarray]:
    """Returns h float32 [m, bits], labels int64 [m] and classes str [C] for a model in the folder of its run."""
    split = protocols.load(model_file.parent / PROTOCOL, dataset)
    model, content = checkpoint.load_model(model_file)
    rows, labels, classes = pick(dataset, split.query)
    preprocess = Preprocess.from_dict(content["preprocess"])
    # Only the features of a frozen backbone are cached, since they are the same for every method.
    frozen = bool(content["training"]["options"]["freeze"])
    computed = features.extract(model, dataset, rows, preprocess, device, cache if frozen else None)
    with torch.inference_mode():
        h = model.head(computed.x).float().numpy()
    return {"h": h, "labels": labels[np.isin(rows, computed.rows)], "classes": np.array(classes)}


def pick(dataset: LabelledImages, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Returns rows, labels 0, 1, ... and class names of at most 2,000 queries of at most ten classes.

    The choice of classes depends on their names. In a multi-label dataset they are the most frequent classes, and only
    images with one label are used.
    """
    labels = dataset.labels[queries]
    if dataset.multi_label:
        single = labels.sum(axis=1) == 1
        queries, labels = queries[single], labels[single].argmax(axis=1)
        counts = np.bincount(labels, minlength=len(dataset.classes))
        chosen = np.argsort(-counts, kind="stable")[: min(_CLASSES, np.count_nonzero(counts))]
    else:
        present = np.unique(labels)
        chosen = present[protocols.seeded_order(0, (dataset.classes[c] for c in present))][:_CLASSES]
    chosen = np.sort(chosen)
    kept = np.flatnonzero(np.isin(labels, chosen))
    kept = kept[np.unique(np.linspace(0, len(kept) - 1, min(len(kept), _QUERIES)).round().astype(int))]
    return queries[kept], np.searchsorted(chosen, labels[kept]), [dataset.classes[c] for c in chosen]
