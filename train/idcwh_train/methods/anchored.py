"""The common part of SDH and FSDH, which fit codes B together with F(X) = phi(X) P.

phi are Gaussian similarities to anchors, which are drawn from the training images. B, in `step` of the subclass, and P
are computed in turn, P by least squares.

Deviations from the papers: the width of phi is `width` times the root mean squared distance between images and anchors.
phi is centred as in the authors' code. P is a ridge regression, whose weight is 0 in the papers, because a thousand
anchors overfit a few thousand images.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from idcwh_search.errors import InvalidInputError

from ..models import heads
from ..option_types import ABOVE_0, AT_LEAST_0, option, whole
from .base import Method, sgn
from .discrete_cyclic import ridge


class Anchored(Method):
    """A method in closed form that computes P, W and B in turn."""

    closed_form: ClassVar[bool] = True

    lam: float = option(1.0, AT_LEAST_0, "weight lambda of the classifier's norm")
    nu: float = option(1e-5, AT_LEAST_0, "weight nu of the distance to F(X)")
    anchors: int = option(1000, whole(1), "number of anchors, at most one per image")
    width: float = option(0.7, ABOVE_0, "relative width of phi")
    shrink: float = option(1e-3, AT_LEAST_0, "ridge weight of P per image")
    iterations: int = option(5, whole(1), "rounds of P, W and B")

    def head(self, features: int) -> nn.Module:
        return heads.RBF(features, self.bits, min(self.anchors, self.images))

    @torch.no_grad()
    def fit(self, x: Tensor, y: Tensor, generator: torch.Generator) -> nn.Module:
        labelled = y.any(dim=1)
        x, y = x[labelled], y[labelled]
        if not len(x):
            raise InvalidInputError("has no training images with a label", path=self.name)
        head = self._anchored(x, generator).to(x.device)
        phi = torch.cat([head.phi(part).double() for part in x.split(8192)])
        mean = phi.mean(dim=0)
        p = self._solve(phi - mean, y.double(), generator)
        head.linear.weight.copy_(p.T)
        head.linear.bias.copy_(-mean @ p)
        return head

    def _anchored(self, x: Tensor, generator: torch.Generator) -> heads.RBF:
        chosen = torch.randperm(len(x), generator=generator)[: self.anchors].to(x.device)
        head = heads.RBF(x.shape[1], self.bits, len(chosen))
        anchors = x[chosen]
        center = x.double().mean(dim=0)  # E||x - a||^2 is the sum of the mean squared distances of x and a to it
        d2 = sum(float((part.double() - center).square().sum(dim=1).mean()) for part in (x, anchors))
        head.anchors.copy_(anchors)
        head.width.fill_(max(self.width * d2**0.5, 1e-6))
        return head

    def _solve(self, phi: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
        """Returns P [anchors, bits] for phi [N, anchors] and Y [N, classes]."""
        b = sgn(torch.randn(len(phi), self.bits, dtype=torch.float64, generator=generator)).to(phi.device)
        shrink = self.shrink * len(phi)
        p = ridge(phi, b, shrink)
        for _ in range(self.iterations):
            b, _ = self.step(b, y, phi @ p)
            p = ridge(phi, b, shrink)
        return p

    def step(self, b: Tensor, y: Tensor, f: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the next B, and W, from B [N, bits], Y [N, classes] and F [N, bits]."""
        raise NotImplementedError
