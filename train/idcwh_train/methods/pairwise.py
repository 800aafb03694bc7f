"""What the methods of pairs and triplets share: who is similar, logistic loss, choosing triplets."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def similar(a: Tensor, b: Tensor) -> Tensor:
    """S bool [n, m]: whether images with labels bool [n, classes] and [m, classes] share one."""
    return a.float() @ b.float().T > 0


def logistic(theta: Tensor, s: Tensor) -> Tensor:
    """-log p(s) = softplus(theta) - s theta, elementwise, for s bool; written so that nothing large is subtracted."""
    return F.softplus(torch.where(s, -theta, theta))


def others(s: Tensor) -> Tensor:
    """bool [n, n], True off the diagonal: pairs of two different images of a batch."""
    return ~torch.eye(len(s), dtype=torch.bool, device=s.device)


def mean_where(values: Tensor, valid: Tensor) -> Tensor:
    """The mean of the valid ones; 0 when there are none."""
    return values.masked_fill(~valid, 0).sum() / valid.sum().clamp(min=1)


def triplets(value: Tensor, s: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of the triplets (q, p, n) in a batch with S_qp = 1, p != q, S_qn = 0, the values of (q, p) and of (q, n).

    value, s   [n, n]
    most       at most so many p and so many n are taken for each q, by chance; memory is n * most^2

    Returns value_qp [n, P, 1], value_qn [n, 1, Q] and which are valid, bool [n, P, Q].
    """

    def chosen(which: Tensor) -> tuple[Tensor, Tensor]:
        most_there = max(1, min(most, int(which.sum(dim=1).max())))
        chance = torch.rand(which.shape, device=which.device).masked_fill(~which, -1)
        found = chance.topk(most_there, dim=1)
        return value.gather(1, found.indices), found.values >= 0

    (qp, is_p), (qn, is_n) = chosen(s & others(s)), chosen(~s)
    return qp[:, :, None], qn[:, None, :], is_p[:, :, None] & is_n[:, None, :]
