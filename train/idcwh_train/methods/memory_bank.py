"""The latest outputs and labels of all training images, which DPSH and DSDH compare with a batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .pairwise import similar


class Memory(nn.Module):
    """The memory of outputs u float32 [images, bits] and of labels.

    Single labels are class indices. With `multi_label`, labels are the rows of a matrix. For 50,000 images of 40,000
    classes these take 0.4 MB or 2 GB. Before its first batch, an image has output 0 and label -1 or none.
    """

    u: Tensor
    labels: Tensor

    def __init__(self, images: int, bits: int, classes: int, multi_label: bool) -> None:
        super().__init__()
        self.multi_label = multi_label
        self.register_buffer("u", torch.zeros(images, bits))
        none = torch.zeros(images, classes, dtype=torch.bool) if multi_label else torch.full((images,), -1)
        self.register_buffer("labels", none)

    @torch.no_grad()
    def refresh(self, rows: Tensor, u: Tensor, y: Tensor) -> None:
        """Stores the outputs u [n, bits] and labels y, bool [n, classes], of images `rows`."""
        self.u[rows] = u.to(self.u.dtype)
        self.labels[rows] = y if self.multi_label else y.int().argmax(dim=1)

    def similar(self, y: Tensor) -> Tensor:
        """Returns S bool [n, images] for labels y, false for images before their first batch."""
        if self.multi_label:
            present = y.any(dim=0)
            return similar(y[:, present], self.labels[:, present])
        return y.int().argmax(dim=1)[:, None] == self.labels

    def times(self, w: Tensor) -> Tensor:
        """Returns Y w [images, k] for w [classes, k], 0 for images before their first batch."""
        if self.multi_label:
            return torch.cat([block.to(w.dtype) @ w for block in self.labels.split(self._rows())])
        return w[self.labels.clamp(min=0)].masked_fill((self.labels < 0)[:, None], 0)

    def gathered(self, b: Tensor, classes: int) -> Tensor:
        """Returns Y' b [classes, k] for b [images, k], the sums over the images of each class."""
        sums = b.new_zeros(classes, b.shape[1])
        if self.multi_label:
            for labels, part in zip(self.labels.split(self._rows()), b.split(self._rows()), strict=True):
                sums += labels.T.to(b.dtype) @ part
            return sums
        seen = self.labels >= 0
        return sums.index_add_(0, self.labels[seen], b[seen])

    def _rows(self) -> int:
        """Returns the number of images per block, so that their labels as floats take 64 MB."""
        return max(1, 2**24 // max(1, self.labels.shape[1]))
