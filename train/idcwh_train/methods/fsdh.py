"""FSDH on deep features: fast supervised discrete hashing, in closed form.

Source: Gui, Liu, Sun, Tao and Tan, "Fast Supervised Discrete Hashing", IEEE TPAMI 2018 (arXiv 1904.03556).
SDH with the regression from labels to codes, so that B has a solution in one step:

    min over B, W, P of  ||B - Y W||^2 + lambda ||W||^2 + nu ||B - F(X)||^2,   B = sgn(Y W + nu F(X)).

Deviations: see anchored.py.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from .anchored import Anchored
from .base import sgn
from .discrete_cyclic import ridge


class FSDH(Anchored):
    """The method with B in one step, without sweeps."""

    name: ClassVar[str] = "fsdh"

    def step(self, b: Tensor, y: Tensor, f: Tensor) -> tuple[Tensor, Tensor]:
        if bool((y.sum(dim=1) == 1).all()):  # Y'Y is diagonal, so no matrix is inverted
            w = y.T @ b / (y.sum(dim=0) + self.lam).clamp(min=1e-12)[:, None]
        else:
            w = ridge(y, b, self.lam)
        return sgn(y @ w + self.nu * f), w
