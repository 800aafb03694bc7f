"""class-code: a classifier, and a random code for each class. The baseline that a closed set of classes calls for.

Not in the paper. Sablayrolles, Douze, Usunier and Jegou, "How should we evaluate supervised hashing?", ICASSP 2017
(arXiv 1609.06753), show that where queries and database have the classes of the training set, the code of the predicted
class beats most supervised hashing; a method that does not beat it has learned no more than to classify. Loss:
cross-entropy; where an image may have several labels, binary cross-entropy, summed over the classes. Code: that of
the best class; for several labels the sign of the sum of the codes of the classes found (heads.ClassCode).
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
    """A classifier. An image of several labels shares the cross-entropy among them unless `multi_label` is on."""

    name: ClassVar[str] = "class-code"

    codes: Tensor  # int8 [classes, bits]; also in the head

    multi_label: bool = option(False, SWITCH, "multi-label images, by binary cross-entropy")

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
        """Returns the cross-entropy; h are the classifier's scores [n, classes]."""
        labels = y.to(h.dtype)
        if self.multi_label:
            bce = F.binary_cross_entropy_with_logits(h, labels, reduction="none")
            return {"BCE": bce.sum(dim=1).mean()}
        return {"CE": F.cross_entropy(h, labels / labels.sum(dim=1, keepdim=True))}
