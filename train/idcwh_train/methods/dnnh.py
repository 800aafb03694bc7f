"""DNNH: simultaneous feature learning and hash coding with deep neural networks.

Source: Lai, Pan, Liu and Yan, "Simultaneous Feature Learning and Hash Coding with Deep Neural Networks", CVPR 2015
(arXiv 1504.03410). The features are divided into l slices, each with one sigmoid unit, whose output s becomes

    g(s) = 0 below 1/2 - epsilon,  s between,  1 above 1/2 + epsilon,

and over triplets (q, p, n) of the batch, in which q shares a label with p and none with n:

    mean of max(0, 1 + ||g_q - g_p||^2 - ||g_q - g_n||^2).

Deviations: the gradient of g is 1 everywhere, because a bit on the wrong side of a step function has no gradient. All
triplets of the batch are used, with up to 50 p and 50 n for each q.
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..models import heads
from ..option_types import AT_LEAST_0, option, whole
from .base import Method
from .pairwise import mean_where, similar, triplets


class DNNH(Method):
    """The triplet loss on bits that each depend on a slice of the features."""

    name: ClassVar[str] = "dnnh"

    epsilon: float = option(0.3, AT_LEAST_0, "half the width of the linear piece; 0.5: no threshold")
    margin: float = option(1.0, AT_LEAST_0, "margin, 1 in the paper")
    max_pairs: int = option(50, whole(1), "largest number of positives and of negatives per query")

    def head(self, features: int) -> nn.Module:
        return heads.Sliced(features, self.bits)

    def terms(self, h: Tensor, y: Tensor, rows: Tensor) -> dict[str, Tensor]:
        g = self.threshold(torch.sigmoid(h))
        norm = g.square().sum(dim=1)
        distance = norm[:, None] + norm - 2 * g @ g.T
        d_qp, d_qn, valid = triplets(distance, similar(y, y), self.max_pairs)
        return {"triplets": mean_where(F.relu(self.margin + d_qp - d_qn), valid)}

    def threshold(self, s: Tensor) -> Tensor:
        """Returns g(s), with the gradient of s."""
        with torch.no_grad():
            g = torch.where(s < 0.5 - self.epsilon, 0, torch.where(s > 0.5 + self.epsilon, 1, s))
        return s + (g - s).detach()
