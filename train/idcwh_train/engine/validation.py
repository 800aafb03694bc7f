"""MAP on validation images, and the weights with the best one. The protocol's queries are not used here."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..models.hash_model import Network
from .epoch_log import Record, named
from .retrieval import EvaluationError, evaluate
from .setup import TrainingSetup
from .source import Source
from .trainer import Trainer

_QUERIES, _DATABASE = 1000, 4000
"""Largest numbers of images that are encoded each time: enough for two digits of MAP, and cheap beside an epoch."""


class Validation:
    """Measures MAP during training. With `keep best`, `best` has the weights of the best epoch; otherwise None."""

    def __init__(self, setup: TrainingSetup, trainer: Trainer) -> None:
        self.setup, self.trainer = setup, trainer
        self.best: dict[str, Any] | None = None

    def measure(self, record: Record) -> None:
        """Adds the MAP of the validation images to the record of an epoch."""
        setup, trainer = self.setup, self.trainer
        if not len(setup.validation):
            return
        found = validation_map(setup.source, trainer.result, setup.train, setup.validation, setup.labels.numpy())
        record.update({named("map", bits, setup.network.lengths): value for bits, value in found.items()})
        mean = sum(found.values()) / len(found) if found else 0.0
        if setup.options.keep == "best" and (self.best is None or mean > self.best["map"]):
            weights = {name: value.clone() for name, value in trainer.weights(trainer.result).items()}
            methods = [{name: value.clone() for name, value in state.items()} for state in trainer.method_state()]
            self.best = {"map": mean, "epoch": record["epoch"], "weights": weights, "methods": methods}

    def restore(self, best: dict[str, Any] | None) -> None:
        """Continues with the best weights of a checkpoint. Raises ValueError for tensors of another network."""
        if best is not None:
            self.trainer.check_fits(best["weights"])
        self.best = best


def validation_map(
    source: Source, network: Network, train: Tensor, validation: Tensor, labels: np.ndarray
) -> dict[int, float]:
    """Returns the tie-aware MAP of validation images against training images for each code length.

    Both are positions in the source, whose labels are `labels`. Returns nothing if no query has a relevant image.
    """
    picked = torch.linspace(0, len(train) - 1, min(len(train), _DATABASE)).long()
    try:
        found = evaluate(source, network, validation[:_QUERIES], train[picked], labels, at=())
    except EvaluationError:
        return {}
    return {bits: of.map for bits, of in found.items()}
