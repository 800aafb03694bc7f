"""Discrete cyclic coordinate descent for DSDH and SDH: binary codes that minimise a quadratic function, bit by bit."""

from __future__ import annotations

import torch
from torch import Tensor

from .base import sgn


@torch.no_grad()
def descend(b: Tensor, q: Tensor, w: Tensor, sweeps: int) -> Tensor:
    """Returns codes B in {-1, 1}^(N x l) that lower ||Y - B W||^2 - 2 tr(B' (q - Y W')), starting from b.

    With all other bits fixed, the best bit k of an image is sgn(q_k - sum over j != k of b_j (w_j . w_k)), so no step
    raises the objective. The descent ends after a sweep without changes.

    Args:
        b: initial codes [N, l].
        q: Y W' and the other linear terms in B, [N, l]; a term nu ||B - F||^2 adds nu F.
        w: W [l, C].
        sweeps: largest number of sweeps over the bits.

    Source: Shen et al., "Supervised Discrete Hashing", CVPR 2015.
    """
    b = b.clone()
    gram = w @ w.T
    gram.fill_diagonal_(0)
    for _ in range(sweeps):
        before = b.clone()
        for k in range(b.shape[1]):
            b[:, k] = sgn(q[:, k] - b @ gram[:, k])
        if torch.equal(b, before):
            break
    return b


def ridge(a: Tensor, c: Tensor, weight: float) -> Tensor:
    """Returns the X that minimises ||c - a X||^2 + weight ||X||^2. With weight 0 it has the least norm."""
    return solve(a.T @ a, a.T @ c, weight)


def solve(gram: Tensor, right: Tensor, weight: float) -> Tensor:
    """Returns (gram + weight I)^-1 right for a symmetric gram, with the pseudo-inverse if the sum is singular."""
    gram = gram + weight * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    factor, failed = torch.linalg.cholesky_ex(gram)
    if int(failed):
        return torch.linalg.pinv(gram, hermitian=True) @ right
    return torch.cholesky_solve(right, factor)
