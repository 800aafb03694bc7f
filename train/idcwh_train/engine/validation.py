"""Validation MAP during training, and the weights of the best epoch. The protocol's queries are not used here."""

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
"""The largest numbers of images that are encoded, so that validation takes less time than an epoch."""


class Validation:
    """The measurement of validation MAP during training.

    best: with `keep best`, the weights, MAP and number of the best epoch; otherwise None.
    """

    def __init__(self, setup: TrainingSetup, trainer: Trainer) -> None:
        self.setup, self.trainer = setup, trainer
        self.best: dict[str, Any] | None = None

    def measure(self, record: Record) -> None:
        """Adds the validation MAP to the record of an epoch."""
        setup, trainer = self.setup, self.trainer
        if not len(setup.validation):
            return
        maps = validation_map(setup.source, trainer.result, setup.train, setup.validation, setup.labels.numpy())
        record.update({named("map", bits, setup.network.lengths): value for bits, value in maps.items()})
        mean = sum(maps.values()) / len(maps) if maps else 0.0
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

    The result is empty if no query has a relevant image.

    Args:
        train, validation: positions of the images in the source.
        labels: the labels of the source's images.
    """
    picked = torch.linspace(0, len(train) - 1, min(len(train), _DATABASE)).long()
    try:
        evaluations = evaluate(source, network, validation[:_QUERIES], train[picked], labels, at=())
    except EvaluationError:
        return {}
    return {bits: evaluation.map for bits, evaluation in evaluations.items()}
