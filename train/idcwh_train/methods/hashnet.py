"""HashNet: deep learning to hash by continuation.

Source: Cao, Long, Wang and Yu, "HashNet: Deep Learning to Hash by Continuation", ICCV 2017 (arXiv 1702.00758).
With g = tanh(beta h), theta_ij = alpha g_i . g_j, alpha = 10 / l, over pairs of two images of the batch:

    mean of w_ij (log(1 + e^theta_ij) - S_ij theta_ij),   w_ij = |S| / |S1| if S_ij = 1, |S| / |S0| if S_ij = 0.

|S|, |S1| and |S0| are the numbers of all, similar and dissimilar pairs in the batch. As in the authors' code, beta is
sqrt(1 + 0.005 t), where the step t is rounded down to a multiple of 200, so that tanh approaches the sign.

Deviations: pairs are within one batch, while the authors draw two batches. The factor c_ij for partly shared labels is
left out, as in the authors' code.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ..option_types import ABOVE_0, AT_LEAST_0, option, whole
from .base import Method
from .pairwise import logistic, mean_where, others, similar


class HashNet(Method):
    """The weighted pairwise loss on tanh(beta h) with growing beta."""

    name: ClassVar[str] = "hashnet"
    head_lr: ClassVar[float] = 10.0

    step: Tensor

    scale: float = option(10.0, ABOVE_0, "alpha times the code length")
    growth: float = option(0.005, AT_LEAST_0, "growth of beta per step")
    every: int = option(200, whole(1), "steps between two changes of beta")

    def __init__(self, classes: int, bits: int, images: int = 0, **options: Any) -> None:
        super().__init__(classes, bits, images, **options)
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def terms(self, h: Tensor, y: Tensor, rows: Tensor) -> dict[str, Tensor]:
        step = int(self.step)
        beta = (1 + self.growth * (step - step % self.every)) ** 0.5
        self.step += 1
        g = torch.tanh(beta * h)
        s = similar(y, y)
        pair = others(s)
        pairs, alike = pair.sum().to(h.dtype), (s & pair).sum()
        weight = torch.where(s, pairs / alike.clamp(min=1), pairs / (pairs - alike).clamp(min=1))
        theta = self.scale / self.bits * g @ g.T
        return {"pairs": mean_where(weight * logistic(theta, s), pair)}
