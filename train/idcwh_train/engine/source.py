"""Sources of training batches: a tensor of features, or images that are read and augmented during training.

An image is identified by its position in the source, 0 to size - 1.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from idcwh_search.datasets import LabelledImages
from idcwh_search.images.preprocess import Preprocess

from ..data.augment import augment
from ..data.loader import read
from ..frozen.features import compute
from ..models.hash_model import Network
from ..options import Options
from .distributed import Workers

_SIZE_STEP = 16  # pixels; every network accepts multiples of it


class Source(Protocol):
    """The interface of a source.

    size: number of images.
    min_batch: smallest number of images per step.
    failed: images that could not be read so far, key -> reason.
    """

    size: int
    min_batch: int
    failed: dict[str, str]

    def batches(self, plan: list[Tensor], epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yields for each tensor of the plan the positions that could be read, and their input for `logits`."""

    def logits(self, network: Network, x: Tensor) -> list[Tensor]:
        """Returns the output of each head for a batch, with gradients, in training mode."""

    def embed(self, network: Network, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the positions that could be read, and their features in eval mode, without augmentation."""


class FeatureSource:
    """A source of features of a frozen backbone. Only the heads train."""

    def __init__(self, network: Network, x: Tensor, device: torch.device) -> None:
        self.x, self.size = x.to(device), len(x)
        self.failed: dict[str, str] = {}
        network.requires_grad_(False)
        network.heads.requires_grad_(True)
        self.min_batch = 1  # every head can train on a single image, see heads.Normed

    def batches(self, plan: list[Tensor], epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        for positions in plan:
            yield positions, self.x[positions.to(self.x.device)]

    def logits(self, network: Network, x: Tensor) -> list[Tensor]:
        network.dropout.train()
        network.heads.train()
        return network.logits(x)

    def embed(self, network: Network, positions: Tensor) -> tuple[Tensor, Tensor]:
        return positions, self.x[positions.to(self.x.device)]


class ImageSource:
    """A source of images. The whole network trains.

    The shorter side is scaled to `resize`. Training uses a random square of side `crop` within the centred square of
    side `resize`, and encoding uses the centre crop.
    """

    def __init__(
        self,
        network: Network,
        dataset: LabelledImages,
        rows: np.ndarray,
        options: Options,
        device: torch.device,
        workers: Workers,
    ) -> None:
        self.dataset, self.rows, self.options, self.device, self.workers = dataset, rows, options, device, workers
        self.size = len(rows)
        self.failed: dict[str, str] = {}
        self._position = {int(row): i for i, row in enumerate(rows)}
        network.backbone.to(memory_format=torch.channels_last)
        side = options.start_crop or options.crop
        self.min_batch = _min_batch(network, torch.zeros(1, 3, side, side, device=device))

    def batches(self, plan: list[Tensor], epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        options, crop = self.options, self._crop(epoch)
        side = round(options.resize * crop / options.crop)
        hole = round(options.erase * crop)

        def augmented(rows: np.ndarray, pixels: np.ndarray) -> np.ndarray:
            return augment(pixels, rows, options.seed, epoch, crop=crop, pad=options.pad, flip=options.flip, hole=hole)

        square = Preprocess(resize=side, crop=side)
        for batch in read(self.dataset, (self.rows[p.numpy()] for p in plan), square, augmented):
            self.failed.update({self.dataset.keys[row]: reason for row, reason in batch.failed.items()})
            yield self._positions(batch.rows), batch.pixels

    def _crop(self, epoch: int) -> int:
        """Returns the side of the crop, which grows from start_crop to crop in the first two thirds of the epochs."""
        start, crop = self.options.start_crop, self.options.crop
        if start is None:
            return crop
        share = min(1.0, epoch / max(1.0, 2 * self.options.epochs / 3))
        return min(crop, int(start + share * (crop - start)) // _SIZE_STEP * _SIZE_STEP if share < 1 else crop)

    def logits(self, network: Network, x: Tensor) -> list[Tensor]:
        network.train()
        with self._autocast():
            features = network.embed(x.to(self.device, non_blocking=True))
        return network.logits(features)

    def embed(self, network: Network, positions: Tensor) -> tuple[Tensor, Tensor]:
        options = self.options
        preprocess = Preprocess(options.resize, options.crop)
        rows = self.rows[self.workers.shard(positions).numpy()]
        computed = compute(network, self.dataset, rows, preprocess, self.device, options.precision)
        self.failed.update(computed.failed)
        kept = self._positions(torch.from_numpy(computed.rows))
        return self.workers.gather(kept), self.workers.gather(computed.x.to(self.device))

    def _positions(self, rows: Tensor) -> Tensor:
        return torch.tensor([self._position[int(row)] for row in rows], dtype=torch.int64)

    def _autocast(self) -> contextlib.AbstractContextManager[object]:
        if self.options.precision == "bfloat16":
            return torch.autocast(self.device.type, torch.bfloat16)
        return contextlib.nullcontext()


def _min_batch(network: Network, image: Tensor) -> int:
    """Returns 2 if a batch norm would get a single value per channel from one image, and 1 otherwise.

    This depends on the size of the last feature maps, so a copy of the network is run on one image.
    """
    trial = copy.deepcopy(network).train()
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        try:
            trial.logits(trial.embed(image))
        except ValueError:
            return 2
    return 1


def encode(source: Source, network: Network, positions: Tensor) -> tuple[Tensor, dict[int, Tensor]]:
    """Returns the positions that could be read, and their outputs h [n, bits] on the CPU for each code length."""
    network.dropout.eval()
    network.heads.eval()
    kept, x = source.embed(network, positions)
    with torch.inference_mode():
        outputs = network.logits(x)
    return kept, {bits: h.cpu() for bits, h in zip(network.lengths, outputs, strict=True)}
