"""HashModel, which is saved and exported, and Network, which trains one or several of them together.

Both have normalisation, backbone and hash layer in one module, so that training and export cannot differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from . import heads

FEATURE_DEVIATION = 0.37
"""Standard deviation of EfficientNet-Lite0's features on cifar10-mini, on which the recipe frozen was tuned."""
_MOST_DOUBLINGS = 10  # a smaller deviation is rounding


class Embedder(nn.Module):
    """A backbone with normalisation, pixels [n, 3, H, W] of 0 to 255, uint8 or float -> features float32 [n, features].

    The arguments `mean` and `std` are for pixels scaled to 0..1. They are not part of the state_dict, and model.pt has
    them as `normalize`.
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
    """A backbone with one hash layer, pixels -> logits h float32 [n, bits]. Bit i of a code is 1 where h_i >= 0.

    head: the hash layer, see heads.py; by default heads.linear.
    dropout: dropout of the features in training.
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
    """A backbone with one head per code length, which train together.

    A head gets the same gradients as it would alone. The backbone gets the mean of their gradients, so its learning
    rate does not depend on the number of heads. The input of a head is (features - center) scale, see `standardise`.

    lengths: the code lengths, ascending.
    center, scale: 0 and 1, unless the backbone is frozen.
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

        The center is their mean, which would add a large common part to all outputs. The scale is the power of 2 that
        brings their deviation nearest to FEATURE_DEVIATION. The learning rates and the weight decay of a recipe are
        tuned for features of that size, and features of drawings or X-rays are smaller.
        """
        self.center.copy_(features.double().mean(dim=0))
        deviation = float((features - self.center).square_().mean(dim=0).double().mean().sqrt())
        if 0 < deviation < math.inf:
            exponent = round(math.log2(FEATURE_DEVIATION / deviation))
            self.scale = 2.0 ** max(-_MOST_DOUBLINGS, min(_MOST_DOUBLINGS, exponent))

    def standard(self, features: Tensor) -> Tensor:
        """Returns the input of the heads for features [n, features]."""
        x = features.float() - self.center
        return x if self.scale == 1 else x * self.scale

    def logits(self, features: Tensor) -> list[Tensor]:
        """Returns the output of each head for features [n, features], in the order of `lengths`."""
        x = self.dropout(self.standard(features))
        if x.requires_grad and len(self.lengths) > 1:
            x.register_hook(lambda gradient: gradient / len(self.lengths))
        return [self.heads[str(bits)](x) for bits in self.lengths]

    def model(self, bits: int) -> HashModel:
        """Returns the model of one code length for model.pt, which shares the backbone."""
        head = heads.moved(heads.plain(self.heads[str(bits)]), self.center, self.scale)
        return HashModel(self.backbone, self.features, bits, *self.normalize, head=head).eval()
