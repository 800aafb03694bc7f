"""What the loop trains on: a tensor of features, or pictures read and augmented while it runs.

Pictures are known by their position, 0 to size - 1.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from idcwh_search.datasets import LabelledImages
from idcwh_search.images import Preprocess

from .model import HashModel
from .reading import read
from .recipes import Options

_ENCODE_BATCH = 64


class Source(Protocol):
    """`size` pictures of which `failed` (key -> reason) could not be read so far, and the network that they train."""

    size: int
    failed: dict[str, str]

    def batches(self, plan: list[Tensor], epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """For each array in the plan: the positions that could be read, and what `logits` takes for them."""

    def logits(self, x: Tensor) -> Tensor:
        """h [n, bits] with gradient, in training mode."""

    def encode(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """The positions that could be read, and their h [n, bits] on the CPU as they will be encoded: eval mode, no
        augmentation."""


class FeatureSource:
    """Features of a frozen backbone; only the hash layer trains."""

    def __init__(self, model: HashModel, x: Tensor, device: torch.device) -> None:
        self.model, self.x, self.size = model, x.to(device), len(x)
        self.failed: dict[str, str] = {}
        model.requires_grad_(False)
        model.hash.requires_grad_(True)

    def batches(self, plan: list[Tensor], epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        for positions in plan:
            yield positions, self.x[positions.to(self.x.device)]

    def logits(self, x: Tensor) -> Tensor:
        self.model.dropout.train()
        return self.model.head(x)

    def encode(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        self.model.eval()
        with torch.inference_mode():
            return positions, self.model.head(self.x[positions.to(self.x.device)]).cpu()


class ImageSource:
    """Pictures; the whole network trains. The shorter side is scaled to `resize`; training sees a random square of side
    `crop` within the centred square of side `resize`, everything that is encoded sees the centre crop.
    """

    def __init__(
        self, model: HashModel, dataset: LabelledImages, rows: np.ndarray, options: Options, device: torch.device
    ) -> None:
        self.model, self.dataset, self.rows, self.options, self.device = model, dataset, rows, options, device
        self.size = len(rows)
        self.failed: dict[str, str] = {}
        self._position = {int(row): i for i, row in enumerate(rows)}
        model.backbone.to(memory_format=torch.channels_last)

    def batches(self, plan: list[Tensor], epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        side, crop = self.options.resize, self.options.crop

        def augment(row: int, pixels: np.ndarray) -> np.ndarray:
            random = np.random.default_rng([self.options.seed, epoch, row])
            top, left = random.integers(0, side - crop + 1, 2)
            cut = pixels[top : top + crop, left : left + crop]
            return cut[:, ::-1] if self.options.flip and random.random() < 0.5 else cut

        square = Preprocess(resize=side, crop=side)
        for batch in read(self.dataset, (self.rows[p.numpy()] for p in plan), square, augment):
            self._note(batch.failed)
            yield self._positions(batch.rows), batch.pixels

    def logits(self, x: Tensor) -> Tensor:
        self.model.train()
        with self._autocast():
            features = self.model.embed(x.to(self.device, non_blocking=True))
        return self.model.head(features)

    def encode(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        self.model.eval()
        rows = self.rows[positions.numpy()]
        plan = [rows[i : i + _ENCODE_BATCH] for i in range(0, len(rows), _ENCODE_BATCH)]
        kept, h = [], []
        with torch.inference_mode():
            for batch in read(self.dataset, plan, Preprocess(self.options.resize, self.options.crop)):
                self._note(batch.failed)
                if not len(batch.rows):
                    continue
                with self._autocast():
                    features = self.model.embed(batch.pixels.to(self.device))
                kept.append(self._positions(batch.rows))
                h.append(self.model.head(features).cpu())
        if not h:
            return torch.zeros(0, dtype=torch.int64), torch.zeros(0, self.model.bits)
        return torch.cat(kept), torch.cat(h)

    def _positions(self, rows: Tensor) -> Tensor:
        return torch.tensor([self._position[int(row)] for row in rows], dtype=torch.int64)

    def _autocast(self) -> contextlib.AbstractContextManager[object]:
        if self.options.precision == "bfloat16":
            return torch.autocast(self.device.type, torch.bfloat16)
        return contextlib.nullcontext()

    def _note(self, failed: dict[int, str]) -> None:
        self.failed.update({self.dataset.keys[row]: reason for row, reason in failed.items()})
