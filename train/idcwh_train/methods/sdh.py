"""SDH on deep features: supervised discrete hashing, in closed form.

Source: Shen, Shen, Liu and Shen, "Supervised Discrete Hashing", CVPR 2015, with the l2 loss:

    min over B, W, P of  ||Y - B W||^2 + lambda ||W||^2 + nu ||B - F(X)||^2,   F(X) = phi(X) P,   B in {-1, 1}^(N x l),

phi are Gaussian similarities to anchors. P and W by least squares, and B by discrete cyclic coordinate descent, are
computed in turn. A new image has the code sgn(F(x)). Deviations: see anchored.py.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from ..option_types import option, whole
from .anchored import Anchored
from .discrete_cyclic import descend, ridge


class SDH(Anchored):
    """The method with B computed bit by bit."""

    name: ClassVar[str] = "sdh"

    sweeps: int = option(10, whole(1), "largest number of sweeps over the bits per step of B")

    def step(self, b: Tensor, y: Tensor, f: Tensor) -> tuple[Tensor, Tensor]:
        w = ridge(b, y, self.lam)
        return descend(b, y @ w.T + self.nu * f, w, self.sweeps), w
