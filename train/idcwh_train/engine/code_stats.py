"""Statistics of the codes during training: distinct codes, bit bias and collapsed codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from idcwh_search._util.wording import counted


def class_count(labels: Tensor) -> int:
    """Returns the number of classes that occur in labels, int64 [n] or bool [n, C]."""
    return int(labels.any(dim=0).sum()) if labels.ndim == 2 else len(torch.unique(labels))


def summary(h: Tensor, classes: int) -> dict[str, Any]:
    """Returns `Codes.summary` for the outputs [n, bits] of images of `classes` classes."""
    codes = Codes(h.shape[1])
    codes.add(h)
    return codes.summary(classes)


class Codes:
    """The codes of an epoch's training images, with dropout and augmentation."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.clear()

    def clear(self) -> None:
        """Removes the codes of the last epoch."""
        self._packed: list[Tensor] = []  # uint8 [n, bytes]
        self._spread = 0.0  # largest standard deviation of an output within a batch

    @torch.no_grad()
    def add(self, h: Tensor) -> None:
        """Adds the outputs [n, bits] of a batch."""
        h = h.detach().float().cpu()
        if h.shape[1] != self.bits or not len(h):
            return  # in training, some heads return class scores instead of logits
        self._packed.append(torch.from_numpy(np.packbits(h.numpy() >= 0, axis=1, bitorder="little")))
        self._spread = max(self._spread, float(h.std(dim=0, correction=0).max()))

    def summary(self, classes: int) -> dict[str, Any]:
        """Returns the statistics by name.

        distinct_codes, encoded: numbers of distinct codes and of images.
        bit_bias: mean over the bits of |share of ones - share of zeros|; 0 is best, 1 means constant.
        collapse: a message, present if there are fewer distinct codes than half of min(classes, 2^bits).
        """
        if not self._packed:
            return {}
        packed = torch.cat(self._packed).numpy()
        distinct = len(np.unique(packed.view(np.dtype((np.void, packed.shape[1])))))
        ones = np.unpackbits(packed, axis=1, count=self.bits, bitorder="little").mean(axis=0)
        statistics: dict[str, Any] = {
            "distinct_codes": distinct,
            "encoded": len(packed),
            "bit_bias": float(np.abs(2 * ones - 1).mean()),
        }
        possible = min(classes, 2 ** min(self.bits, 62))
        if len(packed) > 1 and classes > 1 and distinct < max(2, possible / 2):
            problem = "the outputs are constant" if self._spread < 1e-6 else f"{distinct} distinct codes"
            sizes = f"{counted(len(packed), 'image')} of {counted(classes, 'class')}"
            statistics["collapse"] = f"the codes have collapsed: {problem} for {sizes}"
        return statistics

    def state(self) -> dict[str, Any]:
        """Returns the state for a checkpoint within an epoch."""
        bytes_ = -(-self.bits // 8)
        packed = torch.cat(self._packed) if self._packed else torch.zeros(0, bytes_, dtype=torch.uint8)
        return {"packed": packed, "spread": self._spread}

    def restore(self, state: dict[str, Any]) -> None:
        """Restores the result of `state`."""
        self._packed = [state["packed"]] if len(state["packed"]) else []
        self._spread = state["spread"]
