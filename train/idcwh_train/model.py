"""The network that makes codes: normalisation, backbone and hash layer in one module, so that no two places differ."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class HashModel(nn.Module):
    """pixels [n, 3, H, W], uint8 or float, 0 to 255 -> logits h float32 [n, bits]. Bit i of a code is 1 where h_i >= 0.

    The hash layer is Linear(features, bits), Glorot weight, zero bias, nothing behind it. `dropout` acts on the
    features, only while training. `mean` and `std` belong to pixels scaled to 0..1 and are not part of the state_dict:
    model.pt keeps them beside it.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        backbone: nn.Module,
        features: int,
        bits: int,
        mean: Sequence[float],
        std: Sequence[float],
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.bits, self.features = bits, features
        self.register_buffer("mean", 255 * torch.tensor(mean).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", 255 * torch.tensor(std).view(1, 3, 1, 1), persistent=False)
        self.backbone = backbone
        self.dropout = nn.Dropout(dropout)
        self.hash = nn.Linear(features, bits)
        nn.init.xavier_uniform_(self.hash.weight)
        nn.init.zeros_(self.hash.bias)

    def forward(self, pixels: Tensor) -> Tensor:
        """Pixels to logits."""
        return self.head(self.embed(pixels))

    def embed(self, pixels: Tensor) -> Tensor:
        """Features [n, features] of pixels as `forward` takes them."""
        out: Tensor = self.backbone((pixels.float() - self.mean) / self.std)
        return out

    def head(self, features: Tensor) -> Tensor:
        """Logits float32 [n, bits] of features; float32 whatever the backbone computed in."""
        h: Tensor = self.hash(self.dropout(features.float()))
        return h
