"""MAP of IDCWH's default recipe on small datasets, compared with simpler methods on the same frozen features.

    python benchmarks/small_sets.py [--bits 32] [--seeds 3] [--json FILE]

The datasets are scikit-learn's digits, with 20 queries per class, and demo/cifar10 with its own split. A seed draws the
queries of digits, the initial weights and the batches. The other methods are OrthoHash with the same recipe, and the
signs of random projections of scikit-learn's shrinkage LDA (mean of 5 projections). Features are EfficientNet-Lite0's,
computed once and cached.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import statistics
import tempfile
from pathlib import Path
from typing import Any

import common
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from idcwh_search import datasets
from idcwh_search.codes import pack
from idcwh_search.datasets import LabelledImages
from idcwh_search.images.preprocess import Preprocess
from idcwh_search.metrics import evaluate
from idcwh_search.splits import protocols
from idcwh_train import recipes
from idcwh_train.engine import session
from idcwh_train.engine.run_dir import RunDir
from idcwh_train.frozen import features
from idcwh_train.models import backbones
from idcwh_train.models.hash_model import Embedder

BACKBONE = "timm:tf_efficientnet_lite0"
DEMO = Path(__file__).parent.parent / "demo" / "cifar10"
METHODS = ("idcwh", "orthohash", "lda")
_PROJECTIONS = 5


def digits(folder: Path) -> dict[str, Any]:
    """Writes digits as a dataset. Returns the options that name and split it."""
    loaded = load_digits()
    images = np.repeat((loaded.images * 255 / 16).round().astype(np.uint8)[..., None], 3, axis=3)
    np.savez(folder / "digits.npz", x=images, y=loaded.target)
    return {"data": str(folder / "digits.npz"), "protocol": "per-class", "query_per_class": 20}


def measured(method: str, bits: int, seed: int, split: dict[str, Any]) -> float:
    """Returns the MAP of the protocol's queries."""
    return discriminant(bits, seed, split) if method == "lda" else trained(method, bits, seed, split)


def trained(method: str, bits: int, seed: int, split: dict[str, Any]) -> float:
    """Returns the MAP of a model of idcwh-train --freeze."""
    options = recipes.options(
        "frozen", {"freeze": True, "backbone": BACKBONE, "method": method, "bits": bits, "seed": seed, **split}
    )
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        cache = features.default_cache()
        done = session.train(options, RunDir(folder), device=torch.device("cpu"), cache=cache, evaluate=True)
    return done.evaluations[bits].map


def discriminant(bits: int, seed: int, split: dict[str, Any]) -> float:
    """Returns the MAP of the signs of random projections of a shrinkage LDA, on the same features."""
    dataset = datasets.load(split["data"])
    options = protocols.SplitOptions(**{k: v for k, v in split.items() if k in ("protocol", *protocols.OPTIONS)})
    parts = protocols.split(dataset, options, seed=seed)
    x, labels = _features(dataset), dataset.labels
    lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(x[parts.train], labels[parts.train])
    queries, database = lda.transform(x[parts.query]), lda.transform(x[parts.database])
    center, maps = lda.transform(x[parts.train]).mean(axis=0), []
    for draw in range(_PROJECTIONS):
        projection = np.random.default_rng((seed, draw)).standard_normal((queries.shape[1], bits))
        codes = [pack((part - center) @ projection) for part in (queries, database)]
        result = evaluate.evaluate(codes[0], labels[parts.query], codes[1], labels[parts.database], bits=bits, at=())
        maps.append(result.map)
    return statistics.mean(maps)


def _features(dataset: LabelledImages) -> np.ndarray:
    backbone = backbones.create(BACKBONE, "imagenet", 224, seed=0)
    model = Embedder(backbone.network.eval(), backbone.features, backbone.mean, backbone.std)
    with contextlib.redirect_stderr(io.StringIO()):
        extracted = features.extract(
            model, dataset, np.arange(len(dataset)), Preprocess(), torch.device("cpu"), features.default_cache()
        )
    return extracted.x.numpy()


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bits", type=int, default=32, help="code length (default 32)")
    parser.add_argument("--seeds", type=int, default=3, help="seeds per method, 0, 1, ... (default 3)")
    parser.add_argument("--json", metavar="FILE", help="JSON file of the results")
    options = parser.parse_args()
    here, rows = common.machine("torch", "numpy", "scikit-learn"), []
    print(common.describe(here))
    print(f"| MAP at {options.bits} bits |", *(f" {method} |" for method in METHODS), sep="")
    print("|---|", *("---|" for _ in METHODS), sep="", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, split in (
            ("digits", digits(Path(folder))), ("demo/cifar10", {"data": str(DEMO), "protocol": "own"}),
        ):  # fmt: skip
            maps = {m: [measured(m, options.bits, seed, split) for seed in range(options.seeds)] for m in METHODS}
            rows.append({"dataset": name, "bits": options.bits, "map": maps})
            print(f"| {name} |", *(f" {_shown(values)} |" for values in maps.values()), sep="", flush=True)
    common.write_json(options.json, here, rows)


def _shown(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4f}{spread}"


if __name__ == "__main__":
    main()
