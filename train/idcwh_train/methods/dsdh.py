"""DSDH: deep supervised discrete hashing.

Source: Li, Sun, He and Tan, "Deep Supervised Discrete Hashing", NIPS 2017 (arXiv 1705.10999). The loss has the
pairs of DPSH, and a linear classifier W of the codes B of all N training images:

    sum_ij log(1 + e^theta_ij) - S_ij theta_ij + mu ||Y - B W||^2 + nu ||W||^2 + eta ||B - U||^2.

Once per epoch, W becomes the ridge regression of Y on B, and B is updated by discrete cyclic coordinate descent. The
gradient of a batch comes from the first and the last term.

Deviations: the pairs are divided by N n as in DPSH, and the other terms by n, so that the weights do not depend on N.
The defaults are the authors' 1, 0.1 and 55, divided by the 5,000 images that they were chosen for. An image without a
code in B takes the signs of its output.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ..option_types import ABOVE_0, AT_LEAST_0, SWITCH, option, whole
from .base import Method, sgn
from .discrete_cyclic import descend, solve
from .memory_bank import Memory
from .pairwise import logistic


class DSDH(Method):
    """The pairwise loss of DPSH, with a linear classifier of discrete codes."""

    name: ClassVar[str] = "dsdh"

    codes: Tensor  # B, int8 [images, bits], 0 for images before their first batch
    classifier: Tensor  # W [bits, classes]

    mu: float = option(2e-4, ABOVE_0, "weight of the classifier's error")
    nu: float = option(2e-5, AT_LEAST_0, "weight of the classifier's norm")
    eta: float = option(0.011, AT_LEAST_0, "weight of the quantization term")
    sweeps: int = option(10, whole(1), "largest number of sweeps over the bits per update of B")
    multi_label: bool = option(True, SWITCH, "multi-label data; off saves memory")

    def __init__(self, classes: int, bits: int, images: int = 0, **options: Any) -> None:
        super().__init__(classes, bits, images, **options)
        self.memory = Memory(images, bits, classes, self.multi_label)
        self.register_buffer("codes", torch.zeros(images, bits, dtype=torch.int8))
        self.register_buffer("classifier", torch.zeros(bits, classes))

    @torch.no_grad()
    def start_epoch(self) -> None:
        """Updates W, then the codes B of the images that have one."""
        if not self.codes.any():
            return
        b = self.codes.to(self.classifier.dtype)  # rows of zeros do not contribute
        self.classifier = solve(b.T @ b, self.memory.gathered(b, self.classes).T, self.nu / self.mu)
        q = self.memory.times(self.classifier.T) + self.eta / self.mu * self.memory.u
        updated = descend(b, q, self.classifier, self.sweeps)
        self.codes = torch.where(self.codes != 0, updated.to(torch.int8), self.codes)

    def terms(self, h: Tensor, y: Tensor, rows: Tensor) -> dict[str, Tensor]:
        self.memory.refresh(rows, h.detach(), y)
        known = self.codes[rows]
        b = torch.where(known != 0, known, sgn(h.detach()).to(torch.int8))
        self.codes[rows] = b
        pairs = logistic(0.5 * h @ self.memory.u.T, self.memory.similar(y)).mean()
        return {"pairs": pairs, "Q": self.eta * (b - h).square().sum(dim=1).mean()}
