"""OrthoHash: one loss for all.

Source: Hoe, Ng, Zhang, Chan, Song and Xiang, "One Loss for All: Deep Hashing with a Single Cosine Similarity based
Learning Objective", NeurIPS 2021 (arXiv 2109.14449). Every class has a fixed code c in {-1, 1}^l. Batch norm after the
hash layer balances the bits:

    mean over images of CE with the logits s (cos(h, c_j) - m y_j).

The target is y, and for multi-label images y / |y|.

Deviations: the codes are chosen for large distances. The paper draws them from Bernoulli(1/2).
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from ..models import heads
from ..option_types import ABOVE_0, AT_LEAST_0, option
from .base import Method
from .hash_centers import rows_of_hadamard, spread


class OrthoHash(Method):
    """The cross-entropy of the cosines to fixed codes."""

    name: ClassVar[str] = "orthohash"

    centers: Tensor  # [classes, bits] of +1 and -1

    scale: float = option(8.0, ABOVE_0, "factor s of the cosine")
    margin: float = option(0.2, AT_LEAST_0, "margin m on the cosine of an image's own classes")

    def __init__(self, classes: int, bits: int, images: int = 0, **options: Any) -> None:
        super().__init__(classes, bits, images, **options)
        centers = rows_of_hadamard(classes, bits)
        self.register_buffer("centers", (spread(classes, bits) if centers is None else centers).float())

    def class_centers(self) -> Tensor:
        return self.centers

    def head(self, features: int) -> nn.Module:
        return heads.Normed(features, self.bits)

    def terms(self, h: Tensor, y: Tensor, rows: Tensor) -> dict[str, Tensor]:
        labels = y.to(h.dtype)
        cosine = F.normalize(h) @ (self.centers.to(h.dtype).T / self.bits**0.5)
        logits = self.scale * (cosine - self.margin * labels)
        return {"CE": F.cross_entropy(logits, labels / labels.sum(dim=1, keepdim=True))}
