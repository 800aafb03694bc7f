"""class-code: a classifier with a random code for each class, the baseline for a closed set of classes.

Source: Sablayrolles, Douze, Usunier and Jegou, "How should we evaluate supervised hashing?", ICASSP 2017
(arXiv 1609.06753). If queries and database have the classes of the training images, the code of the predicted class
beats most supervised hashing methods. A method that does not beat it has only learned to classify. The IDCWH paper does
not compare with it.

The loss is cross-entropy. For multi-label data it is binary cross-entropy, summed over the classes. heads.ClassCode
returns the code of the best class. For multi-label data it returns the sum of the codes of the predicted classes.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from ..models import heads
from ..option_types import SWITCH, option
from .base import Method
from .hash_centers import spread


class ClassCode(Method):
    """A classifier. Without `multi_label`, an image with more than one label has a uniform target over its labels."""

    name: ClassVar[str] = "class-code"

    codes: Tensor  # int8 [classes, bits]; also in the head

    multi_label: bool = option(False, SWITCH, "multi-label data: binary cross-entropy")

    def __init__(self, classes: int, bits: int, images: int = 0, **options: Any) -> None:
        super().__init__(classes, bits, images, **options)
        self.register_buffer("codes", spread(classes, bits))

    def class_centers(self) -> Tensor:
        return self.codes.float()

    def head(self, features: int) -> nn.Module:
        head = heads.ClassCode(features, self.bits, self.classes, self.multi_label)
        head.codes.copy_(self.codes)
        return head

    def terms(self, h: Tensor, y: Tensor, rows: Tensor) -> dict[str, Tensor]:
        """Returns the cross-entropy of the classifier's scores h [n, classes]."""
        labels = y.to(h.dtype)
        if self.multi_label:
            bce = F.binary_cross_entropy_with_logits(h, labels, reduction="none")
            return {"BCE": bce.sum(dim=1).mean()}
        return {"CE": F.cross_entropy(h, labels / labels.sum(dim=1, keepdim=True))}
