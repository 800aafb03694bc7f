"""Preparation of a run: network, methods, images and features. No files are written here except cached features."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from idcwh_search._util.console import note
from idcwh_search._util.wording import counted
from idcwh_search.datasets import LabelledImages
from idcwh_search.errors import InvalidInputError, UsageError
from idcwh_search.images.preprocess import Preprocess
from idcwh_search.splits.protocols import Split

from ..data.loader import Batch, read_one
from ..data.validation_split import validation_split
from ..frozen.features import extract, joined
from ..methods.base import Method, create
from ..models.backbones import Backbone
from ..models.hash_model import Network
from ..options import Options
from . import retrieval
from .distributed import Workers
from .retrieval import EvaluationError
from .source import FeatureSource, ImageSource, Source
from .trainer import mixed

_WHITENED = 2000  # training images from which a whitening first layer is computed


class TrainingSetup:
    """Everything that the first step needs. Computing features takes most of the time.

    options: with the current paths of dataset and weights.
    network, methods: on the device, with one hash layer and one method per code length.
    source: the training images and those of `splits`, identified by their positions.
    rows: the dataset rows of the source's images, ascending, int64 [size].
    labels: the labels of the source's images, int64 [size] or bool [size, C].
    train, validation: positions of the training images, and of the validation images.
    splits: the splits that are evaluated at the end, by title.

    Raises IdcwhError for a dataset without labels, without readable images or without anything to evaluate.
    """

    def __init__(
        self,
        options: Options,
        dataset: LabelledImages,
        split: Split,
        backbone: Backbone,
        device: torch.device,
        cache: Path | None,
        workers: Workers,
        splits: Mapping[str, Split],
    ) -> None:
        self.options, self.dataset, self.backbone, self.device = options, dataset, backbone, device
        self.split, self.splits, self.workers = split, splits, workers
        self.preprocess = Preprocess(options.resize, options.crop)
        rows = _labelled(dataset, split.train)
        if not len(rows):
            problem = f"has no labels (found {counted(len(split.train), 'training image')} without)"
            raise InvalidInputError(problem, path=dataset.spec)
        train, validation = validation_split(dataset, rows, options.validation, options.seed)
        if options.validation and not len(validation):
            problem = f"there are no validation images: {options.validation:g} of the largest class is less than one"
            if options.keep == "best":
                raise UsageError(problem, path="--keep", found="best", hint="raise --validation, or leave --keep out")
            note(problem)
        methods = self._methods(len(train))
        self.network = workers.prepare(self._network(methods).to(device))
        needed = rows
        for evaluated in splits.values():
            needed = np.union1d(needed, np.union1d(evaluated.query, evaluated.database))
        self.source, self.rows = self._source(rows, np.setdiff1d(needed, rows), cache, workers)
        self.labels = torch.from_numpy(dataset.labels[self.rows])
        self.train, self.validation = self.positions(train), self.positions(validation)
        self._check_readable(splits)
        shard = min(options.batch_size, len(train)) // workers.count
        if shard < self.source.min_batch:
            raise InvalidInputError(
                "is invalid: batch norm needs several values per channel",
                path="--batch-size",
                found=f"{counted(shard, 'training image')} per step and process",
                expected=f"at least {self.source.min_batch}",
                hint="raise it, or train on more images",
            )
        self._whiten()
        if options.freeze:
            _, x = self.source.embed(self.network, self.train)
            self.network.standardise(x)
        self.methods = [method.to(device) for method in methods]

    def positions(self, rows: np.ndarray) -> Tensor:
        """Returns the positions in the source of these dataset rows, without images that could not be read."""
        return torch.from_numpy(np.searchsorted(self.rows, rows[np.isin(rows, self.rows)]))

    def _methods(self, images: int) -> list[Method]:
        options, classes, methods = self.options, len(self.dataset.classes), []
        for bits in options.bits:
            torch.manual_seed(mixed(options.seed, bits))  # so that the centers do not depend on earlier draws
            multi_label = self.dataset.multi_label
            methods.append(create(options.method, classes, bits, images, options.of_method(bits), multi_label))
        return methods

    def _network(self, methods: list[Method]) -> Network:
        options, backbone, layers = self.options, self.backbone, {}
        for bits, method in zip(options.bits, methods, strict=True):
            torch.manual_seed(options.seed)
            layers[bits] = method.head(backbone.features)
        return Network(backbone.network, backbone.features, backbone.mean, backbone.std, layers, options.dropout)

    def _source(
        self, rows: np.ndarray, more: np.ndarray, cache: Path | None, workers: Workers
    ) -> tuple[Source, np.ndarray]:
        """Returns the source of the training images `rows` and of `more` images to encode, with its dataset rows.

        The two parts are computed separately, so that the features of `rows` do not depend on `more`.
        """
        if not self.options.freeze:
            rows = np.union1d(rows, more)
            return ImageSource(self.network, self.dataset, rows, self.options, self.device, workers), rows
        features = extract(self.network, self.dataset, rows, self.preprocess, self.device, cache)
        if len(more):
            features = joined(features, extract(self.network, self.dataset, more, self.preprocess, self.device, cache))
        source = FeatureSource(self.network, features.x, self.device)
        source.failed.update(features.failed)
        return source, features.rows

    def _check_readable(self, splits: Mapping[str, Split]) -> None:
        """Raises InvalidInputError if no training image or no query can be read, or no query has a relevant image."""
        self._first_readable("training images", self.train, 1)
        for title, split in splits.items():
            queries, database = self.positions(split.query), self.positions(split.database)
            self._first_readable("queries", queries, 1)
            try:
                retrieval.check(self.labels[queries].numpy(), self.labels[database].numpy())
            except EvaluationError as reason:
                raise InvalidInputError(f"cannot be evaluated: {reason}", path=title) from None

    def _first_readable(self, kind: str, positions: Tensor, count: int) -> Batch:
        """Returns the first batch of `count` images that is not empty. Raises InvalidInputError if there is none.

        kind: the images, for the error.
        """
        rows, failed = self.rows[positions.numpy()], dict(self.source.failed)
        for start in range(0, len(rows), count):
            batch = read_one(self.dataset, rows[start : start + count], self.preprocess)
            if len(batch.rows):
                return batch
            failed.update({self.dataset.keys[row]: reason for row, reason in batch.failed.items()})
        key, reason = min(failed.items())
        raise InvalidInputError(f"has no readable image among the {kind} ({key}: {reason})", path=self.dataset.spec)

    def _whiten(self) -> None:
        """Computes the first layer of a backbone with whitening from some of the training images."""
        whiten = getattr(self.backbone.network, "whiten", None)
        if whiten is None or self.backbone.weights != "none" or self.options.freeze:
            return
        pixels = self._first_readable("training images", self.train, _WHITENED).pixels.to(self.device)
        whiten((pixels.float() - self.network.mean) / self.network.std)


def _labelled(dataset: LabelledImages, rows: np.ndarray) -> np.ndarray:
    """Returns the rows with a label. `Split.remarks` reports the number of the others."""
    return rows[dataset.labels[rows].any(axis=1)] if dataset.multi_label else rows
