"""Preparation of a run: network, methods, images and features. No files are written here.

Raises IdcwhError for a dataset without labels, without readable images or without anything to evaluate.
"""

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

_WHITENED = 2000  # training images for a first layer that is not trained


class TrainingSetup:
    """Everything that the first step needs. Computing features takes most of the time.

    options: with the current paths of dataset and weights.
    network, methods: a hash layer and a method per code length, on the device.
    source: its `size` images, known by their positions; `rows` of the dataset, ascending, int64 [size].
    labels: those of the source's images, int64 [size] or bool [size, C].
    train, validation: positions of the images that train, and of the validation images.

    splits: by title, the splits that are evaluated at the end, so that their images are in the source as well.
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
            raise InvalidInputError(
                f"has no label on any of {counted(len(split.train), 'training image')}", path=dataset.spec
            )
        train, validation = validation_split(dataset, rows, options.validation, options.seed)
        if options.validation and not len(validation):
            why = f"no validation images: {options.validation:g} of the largest class is less than one image"
            if options.keep == "best":
                raise UsageError(why, path="--keep", found="best", hint="raise --validation, or leave --keep out")
            note(why)
        methods = self._methods(len(train))
        self.network = workers.prepare(self._network(methods).to(device))
        wanted = rows
        for of in splits.values():
            wanted = np.union1d(wanted, np.union1d(of.query, of.database))
        self.source, self.rows = self._source(rows, np.setdiff1d(wanted, rows), cache, workers)
        self.labels = torch.from_numpy(dataset.labels[self.rows])
        self.train, self.validation = self.positions(train), self.positions(validation)
        self._check_readable(splits)
        at_once = min(options.batch_size, len(train)) // workers.count
        if at_once < self.source.min_batch:
            raise InvalidInputError(
                "is too small: batch norm would see no variance",
                path="--batch-size",
                found=f"{counted(at_once, 'training image')} per step and process",
                expected=f"at least {self.source.min_batch}",
                hint="raise it, or train on more images",
            )
        self._whiten()
        if options.freeze:
            _, x = self.source.embed(self.network, self.train)
            self.network.standardise(x)
        self.methods = [method.to(device) for method in methods]

    def positions(self, rows: np.ndarray) -> Tensor:
        """Returns the positions in the source of these rows of the dataset, without those that could not be read."""
        return torch.from_numpy(np.searchsorted(self.rows, rows[np.isin(rows, self.rows)]))

    def _methods(self, images: int) -> list[Method]:
        options, classes, methods = self.options, len(self.dataset.classes), []
        for bits in options.bits:
            torch.manual_seed(mixed(options.seed, bits))  # the centers, whatever was drawn before them
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
        """Returns the source of the training images and of images that are only encoded, with their dataset rows.

        Their features are computed apart, because those of the training images must not depend on the others.
        """
        if not self.options.freeze:
            rows = np.union1d(rows, more)
            return ImageSource(self.network, self.dataset, rows, self.options, self.device, workers), rows
        found = extract(self.network, self.dataset, rows, self.preprocess, self.device, cache)
        if len(more):
            found = joined(found, extract(self.network, self.dataset, more, self.preprocess, self.device, cache))
        source = FeatureSource(self.network, found.x, self.device)
        source.failed.update(found.failed)
        return source, found.rows

    def _check_readable(self, splits: Mapping[str, Split]) -> None:
        """Raises InvalidInputError if no training image or no query can be read, or no query has a relevant image."""
        self._some("training images", self.train, 1)
        for title, of in splits.items():
            queries, database = self.positions(of.query), self.positions(of.database)
            self._some("queries", queries, 1)
            try:
                retrieval.check(self.labels[queries].numpy(), self.labels[database].numpy())
            except EvaluationError as why:
                raise InvalidInputError(f"cannot be evaluated: {why}", path=title) from None

    def _some(self, what: str, positions: Tensor, count: int) -> Batch:
        """Returns the first batch of `count` images with one that can be read. Raises InvalidInputError without one."""
        rows, failed = self.rows[positions.numpy()], dict(self.source.failed)
        for start in range(0, len(rows), count):
            batch = read_one(self.dataset, rows[start : start + count], self.preprocess)
            if len(batch.rows):
                return batch
            failed.update({self.dataset.keys[row]: why for row, why in batch.failed.items()})
        key, why = min(failed.items())
        raise InvalidInputError(f"has no readable image among the {what} ({key}: {why})", path=self.dataset.spec)

    def _whiten(self) -> None:
        """Computes the first layer of a backbone that takes it from some of the training images."""
        whiten = getattr(self.backbone.network, "whiten", None)
        if whiten is None or self.backbone.weights != "none" or self.options.freeze:
            return
        pixels = self._some("training images", self.train, _WHITENED).pixels.to(self.device)
        whiten((pixels.float() - self.network.mean) / self.network.std)


def _labelled(dataset: LabelledImages, rows: np.ndarray) -> np.ndarray:
    """Returns the rows with a label; `Split.remarks` reports how many have none."""
    return rows[dataset.labels[rows].any(axis=1)] if dataset.multi_label else rows
