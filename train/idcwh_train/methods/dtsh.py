"""DTSH: deep supervised hashing with triplet labels.

Source: Wang, Shi and Kitani, "Deep Supervised Hashing with Triplet Labels", ACCV 2016 (arXiv 1612.03900).
With theta_ij = u_i . u_j / 2 and margin alpha = l / 2, over triplets (q, p, n) of the batch in which q shares a label
with p and none with n:

    mean of -log sigmoid(theta_qp - theta_qn - alpha)  +  eta / n sum_i ||sgn(u_i) - u_i||^2.

Deviations: the mean over the triplets and over the n images in place of sums, so that neither the batch nor its classes
change the step; all triplets of the batch, up to 50 p and 50 n for each q, drawn anew in every step.
"""

from __future__ import annotations

from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from .base import Method, at_least_0, at_least_1, quantization
from .pairwise import mean_where, similar, triplets


class DTSH(Method):
    """eta: weight of the quantization; margin: alpha over l; most: p and n taken for each q."""

    name: ClassVar[str] = "dtsh"

    def __init__(
        self,
        classes: int,
        bits: int,
        images: int = 0,
        *,
        eta: float = 0.1,
        margin: float = 0.5,
        most: int = 50,
    ) -> None:
        super().__init__(classes, bits, images)
        at_least_0(eta=eta, margin=margin)
        at_least_1(most=most)
        self.eta, self.margin, self.most = float(eta), float(margin), int(most)

    def terms(self, h: Tensor, y: Tensor, rows: Tensor) -> dict[str, Tensor]:
        theta_qp, theta_qn, valid = triplets(0.5 * h @ h.T, similar(y, y), self.most)
        loss = F.softplus(theta_qn - theta_qp + self.margin * self.bits)
        return {"triplets": mean_where(loss, valid), "Q": self.eta * quantization(h).mean()}
