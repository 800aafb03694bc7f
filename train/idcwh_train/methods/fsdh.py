"""FSDH on deep features: fast supervised discrete hashing, in closed form.

Source: Gui, Liu, Sun, Tao and Tan, "Fast Supervised Discrete Hashing", IEEE TPAMI 2018 (arXiv 1904.03556).
SDH with the regression turned round, from labels to codes, so that B has a solution in one step:

    min over B, W, P of  ||B - Y W||^2 + lambda ||W||^2 + nu ||B - F(X)||^2,   B = sgn(Y W + nu F(X)).

Deviations: those of SDH.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from .base import sgn
from .dcc import ridge
from .sdh import SDH


class FSDH(SDH):
    """Options as of SDH, without `sweeps`: there are none to count."""

    name: ClassVar[str] = "fsdh"

    def __init__(
        self,
        classes: int,
        bits: int,
        images: int = 0,
        *,
        lam: float = 1.0,
        nu: float = 1e-5,
        anchors: int = 1000,
        width: float = 0.7,
        shrink: float = 1e-3,
        iterations: int = 5,
    ) -> None:
        super().__init__(
            classes, bits, images, lam=lam, nu=nu, anchors=anchors, width=width, shrink=shrink, iterations=iterations
        )

    def step(self, b: Tensor, y: Tensor, f: Tensor) -> tuple[Tensor, Tensor]:
        if bool((y.sum(dim=1) == 1).all()):  # Y'Y is diagonal: nothing to invert, however many classes
            w = y.T @ b / (y.sum(dim=0) + self.lam).clamp(min=1e-12)[:, None]
        else:
            w = ridge(y, b, self.lam)
        return sgn(y @ w + self.nu * f), w
