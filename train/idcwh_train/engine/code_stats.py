"""Whether the codes are good for anything, seen live on what the network puts out while it trains."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from idcwh_search._util.wording import counted


def class_count(labels: Tensor) -> int:
    """Classes that occur in labels, int64 [n] or bool [n, C]."""
    return int(labels.any(dim=0).sum()) if labels.ndim == 2 else len(torch.unique(labels))


def summary(h: Tensor, classes: int) -> dict[str, Any]:
    """`Codes.summary` of outputs [n, bits] of pictures of so many classes."""
    codes = Codes(h.shape[1])
    codes.add(h)
    return codes.summary(classes)


class Codes:
    """The codes of an epoch's training images, as they went by (with dropout and augmentation)."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.clear()

    def clear(self) -> None:
        """Forget the last epoch."""
        self._packed: list[Tensor] = []  # uint8 [n, bytes]
        self._spread = 0.0  # largest deviation of an output within a batch

    @torch.no_grad()
    def add(self, h: Tensor) -> None:
        """Outputs [n, bits] of a batch."""
        h = h.detach().float().cpu()
        if h.shape[1] != self.bits or not len(h):
            return  # a head whose training outputs are not those of the code (class scores)
        self._packed.append(torch.from_numpy(np.packbits(h.numpy() >= 0, axis=1, bitorder="little")))
        self._spread = max(self._spread, float(h.std(dim=0, correction=0).max()))

    def summary(self, classes: int) -> dict[str, Any]:
        """distinct_codes of `encoded` images; bit_bias: mean over the bits of |share of ones - share of zeros|, 0 is
        best and 1 means constant; collapse: what is wrong, where there are fewer codes than half of what `classes`
        classes could have.
        """
        if not self._packed:
            return {}
        packed = torch.cat(self._packed).numpy()
        distinct = len(np.unique(packed.view(np.dtype((np.void, packed.shape[1])))))
        ones = np.unpackbits(packed, axis=1, count=self.bits, bitorder="little").mean(axis=0)
        found: dict[str, Any] = {
            "distinct_codes": distinct,
            "encoded": len(packed),
            "bit_bias": float(np.abs(2 * ones - 1).mean()),
        }
        possible = min(classes, 2 ** min(self.bits, 62))
        if len(packed) > 1 and classes > 1 and distinct < max(2, possible / 2):
            what = "the outputs are constant" if self._spread < 1e-6 else f"{distinct} distinct codes"
            found["collapse"] = (
                f"the codes have collapsed: {what} for {counted(len(packed), 'image')} of {counted(classes, 'class')}"
            )
        return found

    def state(self) -> dict[str, Any]:
        """For a checkpoint in the middle of an epoch."""
        bytes_ = -(-self.bits // 8)
        packed = torch.cat(self._packed) if self._packed else torch.zeros(0, bytes_, dtype=torch.uint8)
        return {"packed": packed, "spread": self._spread}

    def restore(self, state: dict[str, Any]) -> None:
        """Back to what `state` gave."""
        self._packed = [state["packed"]] if len(state["packed"]) else []
        self._spread = state["spread"]
