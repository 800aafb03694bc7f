"""Similarity, logistic loss and sampling of triplets, for the methods of pairs and triplets."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def similar(a: Tensor, b: Tensor) -> Tensor:
    """Returns S bool [n, m]: whether images with labels bool [n, classes] and [m, classes] share one."""
    return a.float() @ b.float().T > 0


def logistic(theta: Tensor, s: Tensor) -> Tensor:
    """Returns -log p(s) = softplus(theta) - s theta, elementwise, for s bool, without subtracting large numbers."""
    return F.softplus(torch.where(s, -theta, theta))


def others(s: Tensor) -> Tensor:
    """Returns bool [n, n], True off the diagonal: pairs of two different images of a batch."""
    return ~torch.eye(len(s), dtype=torch.bool, device=s.device)


def mean_where(values: Tensor, valid: Tensor) -> Tensor:
    """Returns the mean of the valid values, or 0 without any."""
    return values.masked_fill(~valid, 0).sum() / valid.sum().clamp(min=1)


def triplets(value: Tensor, s: Tensor, max_pairs: int) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the values of triplets (q, p, n) in a batch with S_qp = 1, p != q, S_qn = 0.

    Args:
        value, s: [n, n].
        max_pairs: at most this many random p and n per q; memory is n * max_pairs^2.

    Returns value_qp [n, P, 1], value_qn [n, 1, Q] and their validity, bool [n, P, Q].
    """

    def chosen(which: Tensor) -> tuple[Tensor, Tensor]:
        most_there = max(1, min(max_pairs, int(which.sum(dim=1).max())))
        chance = torch.rand(which.shape, device=which.device).masked_fill(~which, -1)
        found = chance.topk(most_there, dim=1)
        return value.gather(1, found.indices), found.values >= 0

    (qp, is_p), (qn, is_n) = chosen(s & others(s)), chosen(~s)
    return qp[:, :, None], qn[:, None, :], is_p[:, :, None] & is_n[:, None, :]
