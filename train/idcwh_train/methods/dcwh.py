"""DCWH: deep classwise hashing, the predecessor of IDCWH.

Source: Zhe, Chen and Yan, "Deep Class-Wise Hashing: Semantics-Preserving Hashing via Class-Wise Loss", IEEE TNNLS 2019
(arXiv 1803.04137). L1 is the likelihood of the labels under Gaussians around the class centers (IDCWH's eq. 3), which
are the mean outputs of the classes. Two more terms keep the outputs near the cube [-1, 1]^l and near its corners:

    L1 + eta1 sum(relu(-1.1 - h) + relu(h - 1.1)) + eta2 ||b - h||^2,    sums over bits, means over the batch.

Deviations: the means are over the outputs of the previous epoch, not of a separate pass over the training images. Until
the first update, after `every` epochs, the centers are drawn from N(0, 1). log-softmax replaces log(exp + 1e-6), which
loses the gradient of distant images. A multi-label image counts for each of its labels.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ..option_types import ABOVE_0, AT_LEAST_0, option, whole
from .base import Method, quantization

_EDGE = 1.1


class DCWH(Method):
    """The classwise likelihood around the mean outputs of the classes."""

    name: ClassVar[str] = "dcwh"

    centers: Tensor  # mu [classes, bits], without gradient
    sums: Tensor  # sums of the outputs of each class in this epoch
    counts: Tensor  # their numbers
    epoch: Tensor

    sigma2: float = option(1.0, ABOVE_0, "variance of the Gaussians around the class centers")
    eta1: float = option(10.0, AT_LEAST_0, "weight of the distance to the cube")
    eta2: float = option(0.01, AT_LEAST_0, "weight of the quantization term")
    every: int = option(2, whole(1), "epochs between two updates of the centers")

    def __init__(self, classes: int, bits: int, images: int = 0, **options: Any) -> None:
        super().__init__(classes, bits, images, **options)
        self.register_buffer("centers", torch.randn(classes, bits))
        self.register_buffer("sums", torch.zeros(classes, bits))
        self.register_buffer("counts", torch.zeros(classes))
        self.register_buffer("epoch", torch.zeros((), dtype=torch.int64))

    def class_centers(self) -> Tensor:
        return self.centers

    def start_epoch(self) -> None:
        """Sets mu_j to the mean output of class j. A class without images keeps its center."""
        seen = self.counts > 0
        if int(self.epoch) and int(self.epoch) % self.every == 0:
            self.centers[seen] = self.sums[seen] / self.counts[seen, None]
        self.sums.zero_()
        self.counts.zero_()
        self.epoch += 1

    def terms(self, h: Tensor, y: Tensor, rows: Tensor) -> dict[str, Tensor]:
        with torch.no_grad():
            labels = y.to(h.dtype)
            self.sums += labels.T @ h
            self.counts += labels.sum(dim=0)
        scores = (h @ self.centers.T - 0.5 * self.centers.square().sum(dim=1)) / self.sigma2
        outside = F.relu(-_EDGE - h) + F.relu(h - _EDGE)
        return {
            "L1": -F.log_softmax(scores, dim=1).masked_fill(~y, 0).sum(dim=1).mean(),
            "cube": self.eta1 * outside.sum(dim=1).mean(),
            "Q": self.eta2 * quantization(h).mean(),
        }
