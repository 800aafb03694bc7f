"""The writer of a run's model files. checkpoint.py defines their format."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from idcwh_search._util.console import note
from idcwh_search.datasets import training_images

from ..data import kept_images
from ..methods.base import Method
from ..options import Options
from .checkpoint import save_model
from .code_stats import class_count, summary
from .divergence import DivergedError
from .epoch_log import CLOCKS, Record, named
from .run_dir import RunDir
from .setup import TrainingSetup
from .source import encode
from .trainer import Trainer

_CHECKED = 32  # training images that a model encodes before it is written


class ModelWriter:
    """The writer of the model of each code length.

    options: the recorded options, with the paths that the run was started with.
    kept: the epoch of the weights.
    """

    def __init__(self, setup: TrainingSetup, trainer: Trainer, options: Options, record: Record, kept: int) -> None:
        self.setup, self.trainer, self.options, self.record, self.kept = setup, trainer, options, record, kept

    def check_outputs(self) -> None:
        """Raises DivergedError if outputs of the finished network are not finite. Warns if its codes have collapsed."""
        setup = self.setup
        images = len(setup.train)
        some = torch.linspace(0, images - 1, min(images, _CHECKED), dtype=torch.float64).long()
        kept, outputs = encode(setup.source, setup.network, setup.train[some])
        if not all(h.isfinite().all() for h in outputs.values()):
            raise DivergedError("the outputs of the finished model are not finite; it is not written")
        for bits, h in outputs.items() if setup.workers.first else ():
            problem = summary(h, class_count(setup.labels[kept])).get("collapse")
            if problem and named("collapse", bits, setup.network.lengths) not in self.record:
                note(f"warning: the finished model of {bits} bits: {problem}; this did not occur during training")

    def write(self, run_dir: RunDir) -> None:
        """Writes model.pt, or model-<bits>.pt for each of several code lengths."""
        setup = self.setup
        sample = kept_images.pick(setup.dataset, setup.split.train, setup.preprocess, self.options.seed)
        for (bits, path), method in zip(run_dir.models(self.options.bits).items(), setup.methods, strict=True):
            save_model(run_dir.new(path), setup.network.model(bits), self._content(method, sample))

    def _content(self, method: Method, sample: dict[str, Any]) -> dict[str, Any]:
        setup, split, backbone = self.setup, self.setup.split, self.setup.backbone
        return {
            "classes": list(setup.dataset.classes),
            "backbone": backbone.config,
            "method": {"name": method.name, **method.options()},
            "preprocess": setup.preprocess.to_dict(),
            "normalize": {"mean": list(backbone.mean), "std": list(backbone.std)},
            "centers": self._centers(method),
            "sample": sample,
            "training": {
                "seed": self.options.seed,
                "epochs": self.trainer.position.epoch,
                "finished": self.trainer.finished,
                "kept": self.kept,
                "protocol": {"name": split.name, "sha256": split.sha256()},
                "options": self.options.to_dict(),
                "images": training_images.record(setup.dataset, setup.rows[self._trained()]),
                "weights": backbone.weights,
                "metrics": {name: value for name, value in self.record.items() if name not in CLOCKS},
                "torch": str(torch.__version__),
            },
        }

    def _trained(self) -> np.ndarray:
        """Returns the positions of the training images, with the validation images, which `--keep best` depends on."""
        return torch.cat([self.setup.train, self.setup.validation]).sort().values.numpy()

    def _centers(self, method: Method) -> torch.Tensor | None:
        """Returns the class centers, with NaN for a class without a training image."""
        centers = method.class_centers()
        if centers is None:
            return None
        labels = self.setup.labels[self.setup.train]
        trained = labels.any(dim=0) if labels.ndim == 2 else torch.bincount(labels, minlength=len(centers)) > 0
        return torch.where(trained[:, None], centers.detach().cpu(), torch.nan)
