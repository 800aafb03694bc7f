"""A small convolutional network for images of about 32 x 32 pixels, trained from scratch in minutes.

Source: Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU" (arXiv 2404.00498). The first layer whitens patches of
2 x 2 pixels and does not train. Three groups of two convolutions follow, which start close to the identity and pool
early. Deviations: fewer channels, for CPUs, and a global maximum at the end, so that any image size is accepted.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
"""Mean and standard deviation of CIFAR-10's training images. The first layer whitens, so they suit other images too."""

WIDTHS = (48, 128, 192)
_PATCH = 2
_EPS = 5e-4


class Compact(nn.Module):
    """The network, [n, 3, H, W] normalised float with H and W of at least 16 -> [n, WIDTHS[-1]]."""

    def __init__(self, widths: tuple[int, int, int] = WIDTHS) -> None:
        super().__init__()
        patch = 3 * _PATCH**2
        self.whitening = nn.Conv2d(3, 2 * patch, _PATCH)
        self.whitening.requires_grad_(False)
        channels = 2 * patch
        groups = []
        for width in widths:
            groups.append(_group(channels, width))
            channels = width
        self.groups = nn.Sequential(*groups)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the features of images."""
        x = self.groups(F.gelu(self.whitening(x)))
        return torch.amax(x, dim=(2, 3))

    @torch.no_grad()
    def whiten(self, x: Tensor) -> None:
        """Sets the first layer from normalised images [n, 3, H, W].

        Its filters are the principal components of their patches, scaled to variance 1, and the negated components.
        """
        patches = x.unfold(2, _PATCH, 1).unfold(3, _PATCH, 1).permute(0, 2, 3, 1, 4, 5).reshape(-1, 3 * _PATCH**2)
        patches = patches.double()
        values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
        scaled = (vectors / (values + _EPS).sqrt()).T.reshape(-1, 3, _PATCH, _PATCH)
        self.whitening.weight.copy_(torch.cat([scaled, -scaled]))
        assert self.whitening.bias is not None
        self.whitening.bias.zero_()


def _group(channels: int, width: int) -> nn.Module:
    """Returns two convolutions, with pooling after the first, which makes the rest cheaper."""
    return nn.Sequential(
        _conv(channels, width), nn.MaxPool2d(2), nn.BatchNorm2d(width), nn.GELU(),
        _conv(width, width), nn.BatchNorm2d(width), nn.GELU(),
    )  # fmt: skip


def _conv(channels: int, width: int) -> nn.Conv2d:
    """Returns a 3 x 3 convolution. The first output channels start as the identity, the others are random."""
    conv = nn.Conv2d(channels, width, 3, padding=1, bias=False)
    with torch.no_grad():
        nn.init.dirac_(conv.weight[: min(channels, width)])
    return conv
