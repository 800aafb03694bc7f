"""CSQ: central similarity quantization.

Source: Yuan et al., "Central Similarity Quantization for Efficient Image and Video Retrieval", CVPR 2020
(arXiv 1908.00347). Every class has a fixed hash center c in {-1, 1}^l, a row of a Hadamard matrix if l is a power of 2
and there are enough rows. A multi-label image has the majority of its labels' centers. With t = (c + 1) / 2:

    mean over images and bits of BCE((tanh(h) + 1) / 2, t)  +  lambda (|tanh h| - 1)^2.

Deviations: without enough rows, the centers are random codes with large distances, not independent draws from
Bernoulli(1/2). A tie of the majority takes the bit of one random center for all images. The last term is
(|.| - 1)^2 as in the authors' code, and log cosh in the paper.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ..option_types import AT_LEAST_0, option
from .base import Method
from .hash_centers import rows_of_hadamard, spread


class CSQ(Method):
    """The loss with fixed centers, and a term that pulls the outputs towards -1 and 1."""

    name: ClassVar[str] = "csq"

    centers: Tensor  # [classes, bits] of +1 and -1
    tie: Tensor  # [bits]

    lam: float = option(1e-4, AT_LEAST_0, "weight lambda of the quantization term")

    def __init__(self, classes: int, bits: int, images: int = 0, **options: Any) -> None:
        super().__init__(classes, bits, images, **options)
        centers = rows_of_hadamard(classes, bits)
        self.register_buffer("centers", (spread(classes, bits) if centers is None else centers).float())
        self.register_buffer("tie", 2.0 * torch.randint(2, (bits,)) - 1)

    def class_centers(self) -> Tensor:
        return self.centers

    def terms(self, h: Tensor, y: Tensor, rows: Tensor) -> dict[str, Tensor]:
        votes = y.to(h.dtype) @ self.centers.to(h.dtype)
        target = torch.where(votes == 0, self.tie, votes) > 0
        # (tanh(h) + 1) / 2 = sigmoid(2h), and the logit 2h keeps its precision where tanh(h) rounds to 1
        bce = F.binary_cross_entropy_with_logits(2 * h, target.to(h.dtype))
        return {"BCE": bce, "Q": self.lam * (torch.tanh(h).abs() - 1).square().mean()}
