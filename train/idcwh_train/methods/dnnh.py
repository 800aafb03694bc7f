"""DNNH: simultaneous feature learning and hash coding with deep neural networks.

Source: Lai, Pan, Liu and Yan, "Simultaneous Feature Learning and Hash Coding with Deep Neural Networks", CVPR 2015
(arXiv 1504.03410). The features are divided into l slices, each with one sigmoid unit, whose output s becomes

    g(s) = 0 below 1/2 - epsilon,  s between,  1 above 1/2 + epsilon,

and over triplets (q, p, n) of the batch, in which q shares a label with p and none with n:

    mean of max(0, 1 + ||g_q - g_p||^2 - ||g_q - g_n||^2).

Deviations: the gradient of g is 1 everywhere, since with that of a step function a bit on the wrong side could never
come back; all triplets of the batch, up to 50 p and 50 n for each q.
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..models import heads
from .base import Method, at_least_0, at_least_1
from .pairwise import mean_where, similar, triplets


class DNNH(Method):
    """epsilon: half the width of the linear piece, up to 0.5 (no threshold); margin: 1 in the paper; most: p and n
    taken for each q."""

    name: ClassVar[str] = "dnnh"

    def __init__(
        self,
        classes: int,
        bits: int,
        images: int = 0,
        *,
        epsilon: float = 0.3,
        margin: float = 1.0,
        most: int = 50,
    ) -> None:
        super().__init__(classes, bits, images)
        at_least_0(epsilon=epsilon, margin=margin)
        at_least_1(most=most)
        self.epsilon, self.margin, self.most = float(epsilon), float(margin), int(most)

    def head(self, features: int) -> nn.Module:
        return heads.Sliced(features, self.bits)

    def terms(self, h: Tensor, y: Tensor, rows: Tensor) -> dict[str, Tensor]:
        g = self.threshold(torch.sigmoid(h))
        norm = g.square().sum(dim=1)
        distance = norm[:, None] + norm - 2 * g @ g.T
        d_qp, d_qn, valid = triplets(distance, similar(y, y), self.most)
        return {"triplets": mean_where(F.relu(self.margin + d_qp - d_qn), valid)}

    def threshold(self, s: Tensor) -> Tensor:
        """g(s), with the gradient of s."""
        with torch.no_grad():
            g = torch.where(s < 0.5 - self.epsilon, 0, torch.where(s > 0.5 + self.epsilon, 1, s))
        return s + (g - s).detach()
