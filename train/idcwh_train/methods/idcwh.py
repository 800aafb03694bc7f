"""IDCWH: classwise hashing with learnable centers and centers similarity learning.

Source: Zhang and Yan, "Improved Deep Classwise Hashing With Centers Similarity Learning for Image Retrieval",
arXiv 2103.09442. docs/training.md lists the choices that the paper leaves open.

Notation: n images, l bits, C classes, of which Z are in the batch. The logits are h, and b = sgn(h) with sgn(0) = +1.
The learnable centers are mu_j, and the binary centers are u_j.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import Method, sgn
from .hash_centers import spread
from .idcwh_options import IDCWHOptions


class IDCWH(IDCWHOptions, Method):
    """The loss L = L1 + gamma L2 + beta Q (eq. 13)."""

    name: ClassVar[str] = "idcwh"

    def __init__(self, classes: int, bits: int, images: int = 0, **options: Any) -> None:
        super().__init__(classes, bits, images, **options)
        drawn = torch.randn(classes, bits) if self.start == "normal" else spread(classes, bits).float()
        self.centers = nn.Parameter(drawn)  # mu
        self.votes: Tensor  # sum_j of eq. 14, in integers
        self.register_buffer("votes", torch.zeros(classes, bits, dtype=torch.int32))

    def class_centers(self) -> Tensor:
        return self.centers

    def start_epoch(self) -> None:
        """Sets U = 0 at the start of each epoch (Algorithm 1)."""
        self.votes.zero_()

    def terms(self, h: Tensor, y: Tensor, rows: Tensor) -> dict[str, Tensor]:
        b = sgn(h.detach())
        terms = {"L1": self.classwise(h, y), "Q": self.beta * self._over_batch((b - h).square().sum(dim=1))}
        if self.gamma:
            terms["L2"] = self.gamma * self.centers_similarity(*self.vote(b, y), n=len(h))
        return terms

    def classwise(self, h: Tensor, y: Tensor) -> Tensor:
        """Returns L1 (eq. 3): minus the log-likelihood of the labels under Gaussians around the centers.

        ||h||^2 is the same for every class and cancels in the softmax. Leaving it out of -||h - mu||^2 / 2 avoids the
        cancellation of two large squares.
        """
        scores = (h @ self.centers.T - 0.5 * self.centers.square().sum(dim=1)) / self.sigma2
        log_p = F.log_softmax(scores, dim=1)
        loss = -log_p.masked_fill(~y, 0).sum(dim=1)
        if self.smoothing:  # multi-label rows keep their weight
            loss = (1 - self.smoothing) * loss - self.smoothing * y.sum(dim=1) * log_p.mean(dim=1)
        return self._over_batch(loss)

    @torch.no_grad()
    def vote(self, b: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Adds the signs of a batch to the votes (eq. 14). Returns the Z classes present and their u [Z, l] (eq. 7)."""
        present = y.any(dim=0).nonzero().squeeze(1)
        # float32 sums of +1 and -1 are exact for batches below 2^24 images
        self.votes[present] += (y[:, present].T.to(b.dtype) @ b).to(torch.int32)
        return present, sgn(self.votes[present]).to(b.dtype)

    def centers_similarity(self, present: Tensor, u: Tensor, n: int) -> Tensor:
        """Returns L2 (eq. 11), which pulls the center of a class to its binary center and away from the others.

        theta_ij = l/2 cos(u_i, mu_j) (eq. 10). -(s theta - log(1 + e^theta)) is the binary cross-entropy of s with the
        logit theta. Only the centers have a gradient.
        """
        classes, bits = self.centers.shape
        theta = 0.5 * bits * F.normalize(u) @ F.normalize(self.centers).T
        same = F.one_hot(present, classes).to(theta.dtype)
        total = F.binary_cross_entropy_with_logits(theta, same, reduction="sum")
        return total / {"sum/Z": len(u), "sum": 1, "sum/ZC": len(u) * classes, "sum/n": n}[self.l2_reduction]

    def _over_batch(self, per_image: Tensor) -> Tensor:
        return per_image.mean() if self.reduction == "mean" else per_image.sum()


class IDCWHSingle(IDCWH):
    """IDCWH-Single, the paper's ablation without centers similarity, gamma = 0."""

    name: ClassVar[str] = "idcwh-single"

    def __init__(self, classes: int, bits: int, images: int = 0, **options: Any) -> None:
        super().__init__(classes, bits, images, **{"gamma": 0.0, **options})
        if self.gamma:
            raise ValueError(f"gamma: expected 0, not {self.gamma!r}; with gamma > 0 the method is idcwh")
