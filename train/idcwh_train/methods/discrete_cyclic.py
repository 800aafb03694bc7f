"""Discrete cyclic coordinate descent: binary codes from a quadratic, bit by bit. For DSDH and SDH."""

from __future__ import annotations

import torch
from torch import Tensor

from .base import sgn


@torch.no_grad()
def descend(b: Tensor, q: Tensor, w: Tensor, sweeps: int) -> Tensor:
    """Returns codes B in {-1, 1}^(N x l) that lower ||Y - B W||^2 - 2 tr(B' (q - Y W')), from the codes b.

    b [N, l]; w [l, C]; q [N, l] = Y W' + what else is linear in B (nu F for a term nu ||B - F||^2). With all other bits
    fixed, the best bit k of every image is sgn(q_k - sum over j != k of b_j (w_j . w_k)) (Shen et
    al., Supervised Discrete Hashing, CVPR 2015), so no step raises the objective. Ends when a sweep changes nothing.
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
    """Returns the X that minimises ||c - a X||^2 + weight ||X||^2, for weight 0 that of the least norm."""
    return solve(a.T @ a, a.T @ c, weight)


def solve(gram: Tensor, right: Tensor, weight: float) -> Tensor:
    """Returns (gram + weight I)^-1 right for a symmetric gram, with the pseudo-inverse of a singular one."""
    gram = gram + weight * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    factor, failed = torch.linalg.cholesky_ex(gram)
    if int(failed):
        return torch.linalg.pinv(gram, hermitian=True) @ right
    return torch.cholesky_solve(right, factor)
