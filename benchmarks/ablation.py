"""Effect of each setting of a recipe on MAP, without the protocol's queries.

    python benchmarks/ablation.py --data cifar10.npz --protocol cifar10-mini --bits 12 48 --seeds 4
    python benchmarks/ablation.py --data cifar10.npz --protocol cifar10-mini --fine-tune --seeds 1

The protocol's training images are split per class and seed: eight tenths train, one tenth are queries, and one tenth is
the database. docs/training.md has the results. Fine-tuning is a cheap variant of the recipe best, with 6 epochs at 64
to 96 pixels.
"""

from __future__ import annotations

import contextlib
import io
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from idcwh_search import datasets
from idcwh_search.cli import common
from idcwh_search.errors import IdcwhError
from idcwh_search.splits import protocols
from idcwh_train import recipes
from idcwh_train.engine import session
from idcwh_train.engine.run_dir import RunDir
from idcwh_train.frozen import features
from idcwh_train.options import Options

_FROZEN, _BEST = "frozen", "best"
Rows = dict[str, tuple[str, dict[str, Any]]]
FROZEN: Rows = {
    "`--recipe paper`": ("paper", {}),
    "paper, `--dropout 0.5 --sigma2 16`": ("paper", {"dropout": 0.5, "method_options": {"sigma2": 16.0}}),
    "paper, `--weight-decay 2e-2`": ("paper", {"weight_decay": 2e-2}),
    "**`--recipe frozen`**": (_FROZEN, {}),
    "frozen, sigma2 4": (_FROZEN, {"method_options": {"sigma2": 4.0}}),
    "frozen, sigma2 8": (_FROZEN, {"method_options": {"sigma2": 8.0}}),
    "frozen, sigma2 16": (_FROZEN, {"method_options": {"sigma2": 16.0}}),
    "frozen, beta 0.01": (_FROZEN, {"method_options": {"beta": 0.01}}),
    "frozen, beta 0.03": (_FROZEN, {"method_options": {"beta": 0.03}}),
    "frozen, beta 0.1": (_FROZEN, {"method_options": {"beta": 0.1}}),
    "frozen, no dropout": (_FROZEN, {"dropout": 0.0}),
    "frozen, the paper's learning rates": (_FROZEN, {"lr": 1e-2, "center_lr": 5e-3}),
    "frozen, L2 as a mean (`sum/ZC`)": (_FROZEN, {"method_options": {"l2_reduction": "sum/ZC"}}),
    "frozen, L2 as a sum (`sum`)": (_FROZEN, {"method_options": {"l2_reduction": "sum"}}),
    "frozen, no label smoothing": (_FROZEN, {"method_options": {"smoothing": 0.0}}),
    "frozen, random initial centers": (_FROZEN, {"method_options": {"start": "normal"}}),
    "frozen, dropout 0.5, weight decay 5e-3": (_FROZEN, {"dropout": 0.5, "weight_decay": 5e-3}),
    "frozen, `--method idcwh-single`": (_FROZEN, {"method": "idcwh-single"}),
    "the same, random initial centers": (_FROZEN, {"method": "idcwh-single", "method_options": {"start": "normal"}}),
}
"""Title in the table -> recipe, and the options that differ from it."""
FINE_TUNED: Rows = {
    "**`--recipe best`**": (_BEST, {}),
    "best, beta 0.003": (_BEST, {"method_options": {"beta": 0.003}}),
    "best, beta 0.1": (_BEST, {"method_options": {"beta": 0.1}}),
    "best, no label smoothing": (_BEST, {"method_options": {"smoothing": 0.0}}),
    "best, random initial centers": (_BEST, {"method_options": {"start": "normal"}}),
    "best, twice the learning rates": (_BEST, {"lr": 0.06, "center_lr": 0.06}),
    "best, `--method idcwh-single`": (_BEST, {"method": "idcwh-single"}),
}
_CHEAP: dict[str, Any] = {"resize": 96, "crop": 96, "start_crop": 64, "pad": 9, "epochs": 6, "average": 0.98}


@common.command
def main(argv: list[str] | None = None) -> int:
    """Prints the table as Markdown."""
    parser = common.Parser(prog="ablation.py", description=__doc__)
    parser.add_argument("--data", required=True, help="dataset in memory: cifar10:DIR or a .npz archive")
    parser.add_argument("--protocol", choices=protocols.NAMES, default="auto", help="split protocol (default auto)")
    parser.add_argument("--fine-tune", action="store_true", help="fine-tuning with the recipe best")
    parser.add_argument("--backbone", default="timm:tf_efficientnet_lite0", help="default: EfficientNet-Lite0")
    parser.add_argument(
        "--bits", type=common.positive, nargs="+", default=[12, 24, 32, 48], help="code lengths (default 12 24 32 48)"
    )
    parser.add_argument("--seeds", type=common.positive, default=3, help="seeds per row, 0, 1, ... (default 3)")
    arguments = parser.parse_args(argv)
    print("| settings |", *(f" {bits} bits |" for bits in arguments.bits), sep="")
    print("|---|", *("---|" for _ in arguments.bits), sep="", flush=True)
    rows = FINE_TUNED if arguments.fine_tune else FROZEN
    shared = {**(_CHEAP if arguments.fine_tune else {"freeze": True}), "backbone": arguments.backbone}
    shared["bits"] = tuple(sorted(arguments.bits))
    with tempfile.TemporaryDirectory() as folder:
        shared |= _of_training_images(arguments.data, arguments.protocol, Path(folder) / "images.npz")
        for name, (recipe, changes) in rows.items():
            given = {**shared, **changes}
            runs = [_map(recipes.options(recipe, {**given, "seed": seed})) for seed in range(arguments.seeds)]
            entries = []
            for bits in arguments.bits:
                values = [maps[bits] for maps in runs]
                spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
                entries.append(f" {statistics.mean(values):.4f}{spread} |")
            print(f"| {name} |", *entries, sep="", flush=True)
    return common.DONE


def _of_training_images(data: str, protocol: str, path: Path) -> dict[str, Any]:
    """Writes the training images of seed 0 as a dataset. Returns the options that split it."""
    dataset = datasets.load(data)
    if not isinstance(dataset.images, np.ndarray) or dataset.multi_label:
        raise IdcwhError("is not supported", path=data, expected="cifar10:DIR or .npz, with one label per image")
    train = protocols.split(dataset, protocols.SplitOptions(protocol), seed=0).train
    np.savez(path, x=dataset.images[train], y=dataset.labels[train])
    tenth = int(np.bincount(dataset.labels[train]).min()) // 10
    return {
        "data": str(path), "protocol": "per-class", "database_without_train": True,
        "query_per_class": tenth, "train_per_class": 8 * tenth, "validation": 0.0, "min_steps": 0,
    }  # fmt: skip


def _map(options: Options) -> dict[int, float]:
    """Returns the MAP of the finished model by code length."""
    quiet = contextlib.redirect_stderr(io.StringIO())
    with tempfile.TemporaryDirectory() as folder, quiet:
        cache = features.default_cache()
        outcome = session.train(options, RunDir(folder), device=torch.device("cpu"), cache=cache, evaluate=True)
    return {bits: found.map for bits, found in outcome.evaluations.items()}


if __name__ == "__main__":
    sys.exit(main(None))
