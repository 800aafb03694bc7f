"""DHN: deep hashing network.

Source: Zhu, Long, Wang and Cao, "Deep Hashing Network for Efficient Similarity Retrieval", AAAI 2016. With
z = tanh(h), theta_ij = z_i . z_j, over pairs of two images of the batch:

    mean of log(1 + e^theta_ij) - S_ij theta_ij  +  lambda / n sum_i sum_bits log cosh(|z_i| - 1).

Deviations: means in place of sums. `scale` multiplies theta, which saturates for long codes with the paper's scale 1.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ..option_types import ABOVE_0, AT_LEAST_0, option
from .base import Method
from .pairwise import logistic, mean_where, others, similar


class DHN(Method):
    """The pairwise loss on tanh(h)."""

    name: ClassVar[str] = "dhn"
    head_lr: ClassVar[float] = 10.0

    lam: float = option(0.1, AT_LEAST_0, "weight lambda of the quantization term")
    scale: float = option(1.0, ABOVE_0, "factor of the inner product")

    def terms(self, h: Tensor, y: Tensor, rows: Tensor) -> dict[str, Tensor]:
        z = torch.tanh(h)
        s = similar(y, y)
        pairs = mean_where(logistic(self.scale * z @ z.T, s), others(s))
        return {"pairs": pairs, "Q": self.lam * log_cosh(z.abs() - 1).sum(dim=1).mean()}


def log_cosh(x: Tensor) -> Tensor:
    """Returns log((e^x + e^-x) / 2), elementwise, without overflow."""
    return x.abs() + F.softplus(-2 * x.abs()) - math.log(2)
