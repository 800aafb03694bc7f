"""HashModel, which is saved and exported, and Network, which trains one or several of them at once.

Both hold normalisation, backbone and hash layer in one module, so that no two places differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from . import heads

FEATURE_DEVIATION = 0.37
"""Deviation of EfficientNet-Lite0's features around their mean on cifar10-mini, where the frozen recipe was tuned."""
_MOST_DOUBLINGS = 10  # features of almost no deviation are rounding


class Embedder(nn.Module):
    """pixels [n, 3, H, W], uint8 or float, 0 to 255 -> features float32 [n, features].

    `mean` and `std` belong to pixels scaled to 0..1 and are not part of the state_dict: model.pt keeps them beside it.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, backbone: nn.Module, features: int, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.features = features
        self.normalize = tuple(mean), tuple(std)
        self.register_buffer("mean", 255 * torch.tensor(mean).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", 255 * torch.tensor(std).view(1, 3, 1, 1), persistent=False)
        self.backbone = backbone

    def normalise(self, pixels: Tensor) -> Tensor:
        """Returns the input of the backbone for pixels."""
        return (pixels.float() - self.mean) / self.std

    def embed(self, pixels: Tensor) -> Tensor:
        """Returns the features of pixels in the precision of the backbone."""
        out: Tensor = self.backbone(self.normalise(pixels))
        return out


class HashModel(Embedder):
    """pixels -> logits h float32 [n, bits]. Bit i of a code is 1 where h_i >= 0.

    `head` is the hash layer, see heads.py; without one it is Linear(features, bits), Glorot weight, zero bias.
    `dropout` acts on the features, only while training.
    """

    def __init__(
        self,
        backbone: nn.Module,
        features: int,
        bits: int,
        mean: Sequence[float],
        std: Sequence[float],
        dropout: float = 0.0,
        head: nn.Module | None = None,
    ) -> None:
        super().__init__(backbone, features, mean, std)
        self.bits = bits
        self.dropout = nn.Dropout(dropout)
        self.hash = heads.linear(features, bits) if head is None else head

    def forward(self, pixels: Tensor) -> Tensor:
        """Returns the logits of pixels."""
        return self.head(self.embed(pixels))

    def head(self, features: Tensor) -> Tensor:
        """Returns the logits float32 [n, bits] of features of any precision."""
        h: Tensor = self.hash(self.dropout(features.float()))
        return h


class Network(Embedder):
    """A backbone with a head for each code length, trained together. `lengths` are ascending.

    A head learns what it would learn alone on these features. The backbone sees the mean of their gradients, so its
    learning rate does not depend on their number. A head sees (features - center) scale. Both are 0 and 1 unless the
    backbone is frozen, see `standardise`.
    """

    center: Tensor
    scale: float = 1.0

    def __init__(
        self,
        backbone: nn.Module,
        features: int,
        mean: Sequence[float],
        std: Sequence[float],
        layers: dict[int, nn.Module],
        dropout: float = 0.0,
    ) -> None:
        super().__init__(backbone, features, mean, std)
        self.lengths = sorted(layers)
        self.register_buffer("center", torch.zeros(features), persistent=False)
        self.dropout = nn.Dropout(dropout)
        self.heads = nn.ModuleDict({str(bits): layers[bits] for bits in self.lengths})

    def standardise(self, features: Tensor) -> None:
        """Sets `center` and `scale` from the features [n, features] of the training images.

        The center is their mean, without which all outputs have one large part in common. The scale is the power of 2
        that brings their deviation nearest to FEATURE_DEVIATION: the steps and the weight decay of a recipe suit
        features of that size, and those of drawings or X-rays are smaller.
        """
        self.center.copy_(features.double().mean(dim=0))
        deviation = float((features - self.center).square_().mean(dim=0).double().mean().sqrt())
        if 0 < deviation < math.inf:
            exponent = round(math.log2(FEATURE_DEVIATION / deviation))
            self.scale = 2.0 ** max(-_MOST_DOUBLINGS, min(_MOST_DOUBLINGS, exponent))

    def standard(self, features: Tensor) -> Tensor:
        """Returns features [n, features] as a head sees them."""
        x = features.float() - self.center
        return x if self.scale == 1 else x * self.scale

    def logits(self, features: Tensor) -> list[Tensor]:
        """Returns the output of each head for features [n, features], in the order of `lengths`."""
        x = self.dropout(self.standard(features))
        if x.requires_grad and len(self.lengths) > 1:
            x.register_hook(lambda gradient: gradient / len(self.lengths))
        return [self.heads[str(bits)](x) for bits in self.lengths]

    def model(self, bits: int) -> HashModel:
        """Returns the model of one code length as it is saved; it shares the backbone."""
        head = heads.moved(heads.plain(self.heads[str(bits)]), self.center, self.scale)
        return HashModel(self.backbone, self.features, bits, *self.normalize, head=head).eval()
