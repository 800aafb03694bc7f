"""SDH on deep features: supervised discrete hashing, in closed form.

Source: Shen, Shen, Liu and Shen, "Supervised Discrete Hashing", CVPR 2015, with the l2 loss:

    min over B, W, P of  ||Y - B W||^2 + lambda ||W||^2 + nu ||B - F(X)||^2,   F(X) = phi(X) P,   B in {-1, 1}^(N x l),

phi Gaussian similarities to anchors. In turn: P and W by least squares, B bit by bit (discrete cyclic coordinate
descent). A new image has the code sgn(F(x)). Deviations: those of anchored.py.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from ..option_types import option, whole
from .anchored import Anchored
from .discrete_cyclic import descend, ridge


class SDH(Anchored):
    """B bit by bit."""

    name: ClassVar[str] = "sdh"

    sweeps: int = option(10, whole(1), "sweeps over the bits in a step of B")

    def step(self, b: Tensor, y: Tensor, f: Tensor) -> tuple[Tensor, Tensor]:
        w = ridge(b, y, self.lam)
        return descend(b, y @ w.T + self.nu * f, w, self.sweeps), w
