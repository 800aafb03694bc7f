"""DPSH: deep pairwise-supervised hashing.

Source: Li, Wang and Kang, "Feature Learning Based Deep Supervised Hashing with Pairwise Labels", IJCAI 2016
(arXiv 1511.03855), the relaxed objective. With S_ij = 1 if images i and j share a label, theta_ij = u_i . u_j / 2:

    (sum_ij log(1 + e^theta_ij) - S_ij theta_ij  +  eta sum_i ||sgn(u_i) - u_i||^2) / (N n),

i over the n images of the batch, j over all N training images. A memory has the outputs U of all N without gradient,
and is updated with the batch before the loss.

Deviations: the division by N n, as in the authors' later code, makes the learning rate independent of the dataset. The
gradient is half of the paper's, where a pair also counts as (j, i).
"""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from ..option_types import AT_LEAST_0, SWITCH, option
from .base import Method, quantization
from .memory_bank import Memory
from .pairwise import logistic


class DPSH(Method):
    """The pairwise loss against a memory of the outputs of all images."""

    name: ClassVar[str] = "dpsh"

    eta: float = option(10.0, AT_LEAST_0, "weight of the quantization term, 10 to 100 in the paper")
    multi_label: bool = option(True, SWITCH, "multi-label data; off saves memory")

    def __init__(self, classes: int, bits: int, images: int = 0, **options: Any) -> None:
        super().__init__(classes, bits, images, **options)
        self.memory = Memory(images, bits, classes, self.multi_label)

    def terms(self, h: Tensor, y: Tensor, rows: Tensor) -> dict[str, Tensor]:
        self.memory.refresh(rows, h.detach(), y)
        theta = 0.5 * h @ self.memory.u.T
        pairs = logistic(theta, self.memory.similar(y)).mean()
        return {"pairs": pairs, "Q": self.eta / self.images * quantization(h).mean()}
