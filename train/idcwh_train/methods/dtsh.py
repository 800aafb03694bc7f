"""DTSH: deep supervised hashing with triplet labels.

Source: Wang, Shi and Kitani, "Deep Supervised Hashing with Triplet Labels", ACCV 2016 (arXiv 1612.03900).
With theta_ij = u_i . u_j / 2 and margin alpha = l / 2, over triplets (q, p, n) of the batch in which q shares a label
with p and none with n:

    mean of -log sigmoid(theta_qp - theta_qn - alpha)  +  eta / n sum_i ||sgn(u_i) - u_i||^2.

Deviations: means over the triplets and over the n images replace sums, so that the step does not depend on the batch
size and its classes. All triplets of the batch are used, with up to 50 p and 50 n for each q, drawn in every step.
"""

from __future__ import annotations

from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from ..option_types import AT_LEAST_0, option, whole
from .base import Method, quantization
from .pairwise import mean_where, similar, triplets


class DTSH(Method):
    """The triplet loss."""

    name: ClassVar[str] = "dtsh"

    eta: float = option(0.1, AT_LEAST_0, "weight of the quantization term")
    margin: float = option(0.5, AT_LEAST_0, "margin alpha divided by the code length")
    max_pairs: int = option(50, whole(1), "largest number of positives and of negatives per query")

    def terms(self, h: Tensor, y: Tensor, rows: Tensor) -> dict[str, Tensor]:
        theta_qp, theta_qn, valid = triplets(0.5 * h @ h.T, similar(y, y), self.max_pairs)
        loss = F.softplus(theta_qn - theta_qp + self.margin * self.bits)
        return {"triplets": mean_where(loss, valid), "Q": self.eta * quantization(h).mean()}
