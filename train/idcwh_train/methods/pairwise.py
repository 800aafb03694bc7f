"""Similarity, logistic loss and sampling of triplets, for the pairwise and triplet losses."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def similar(a: Tensor, b: Tensor) -> Tensor:
    """Returns S bool [n, m], true for images that share a label, from labels bool [n, classes] and [m, classes]."""
    return a.float() @ b.float().T > 0


def logistic(theta: Tensor, s: Tensor) -> Tensor:
    """Returns -log p(s) = softplus(theta) - s theta, elementwise, for s bool, without cancellation."""
    return F.softplus(torch.where(s, -theta, theta))


def others(s: Tensor) -> Tensor:
    """Returns bool [n, n], false on the diagonal, which marks the pairs of two different images of a batch."""
    return ~torch.eye(len(s), dtype=torch.bool, device=s.device)


def mean_where(values: Tensor, valid: Tensor) -> Tensor:
    """Returns the mean of the valid values, or 0 if there are none."""
    return values.masked_fill(~valid, 0).sum() / valid.sum().clamp(min=1)


def triplets(value: Tensor, s: Tensor, max_pairs: int) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the values of triplets (q, p, n) in a batch with S_qp = 1, p != q, S_qn = 0.

    Args:
        value, s: the values and S, [n, n].
        max_pairs: the largest number of random p and of random n per q. Memory is n * max_pairs^2.

    Returns:
        value_qp [n, P, 1], value_qn [n, 1, Q], and bool [n, P, Q], true for valid triplets.
    """

    def chosen(candidates: Tensor) -> tuple[Tensor, Tensor]:
        count = max(1, min(max_pairs, int(candidates.sum(dim=1).max())))
        random = torch.rand(candidates.shape, device=candidates.device).masked_fill(~candidates, -1)
        top = random.topk(count, dim=1)
        return value.gather(1, top.indices), top.values >= 0

    (qp, is_p), (qn, is_n) = chosen(s & others(s)), chosen(~s)
    return qp[:, :, None], qn[:, None, :], is_p[:, :, None] & is_n[:, None, :]
