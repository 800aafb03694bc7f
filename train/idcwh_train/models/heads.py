"""Heads, the hash layers of the methods, from features to the outputs whose signs are the code.

A head maps float32 [n, features] to h [n, bits]. In eval mode, bit i of a code is 1 where h_i >= 0. model.pt stores the
`config` of a head, from which `build` makes it again. `plain` returns the head for export.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from idcwh_search.errors import InvalidInputError, NotSupportedError


def linear(features: int, bits: int) -> nn.Linear:
    """Returns the hash layer of most methods, a linear layer with Glorot weight and zero bias."""
    layer = nn.Linear(features, bits)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class Sliced(nn.Module):
    """A head with one unit per bit, whose input is a slice of the features (DNNH's divide-and-encode).

    The slices are consecutive and of equal width. If `bits` does not divide the number of features, the last slices are
    one feature wider. Raises InvalidInputError if there are fewer features than bits.
    """

    pattern: Tensor  # [bits, features], 1 where feature j belongs to the slice of bit i

    def __init__(self, features: int, bits: int) -> None:
        super().__init__()
        if features < bits:
            raise InvalidInputError(
                "is invalid for a head of slices",
                path="backbone",
                found=f"{features} features",
                expected=f"at least {bits}, one per bit",
            )
        width, wider = divmod(features, bits)
        widths = torch.full((bits,), width)
        widths[bits - wider :] += 1
        owner = torch.arange(bits).repeat_interleave(widths)
        self.register_buffer("pattern", F.one_hot(owner, bits).T.float().contiguous(), persistent=False)
        self.weight = nn.Parameter(torch.empty(features))
        bound = (6 / (features / bits + 1)) ** 0.5  # Glorot's bound for a layer from one slice to one unit
        nn.init.uniform_(self.weight, -bound, bound)
        self.bias = nn.Parameter(torch.zeros(bits))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.pattern * self.weight, self.bias)


class Normed(nn.Module):
    """A linear layer without bias, then batch norm, so that each bit is 1 for about half of the images."""

    def __init__(self, features: int, bits: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, bits, bias=False)
        nn.init.xavier_uniform_(self.linear.weight)
        self.norm = nn.BatchNorm1d(bits)

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.linear(x)
        if self.training and len(h) == 1:  # one image has no deviation
            n = self.norm
            return F.batch_norm(h, n.running_mean, n.running_var, n.weight, n.bias, training=False, eps=n.eps)
        h = self.norm(h)
        return h


class RBF(nn.Module):
    """Gaussian similarities to `anchors` points in feature space, then a linear layer (SDH's F(x) = P' phi(x)).

    phi_m(x) = exp(-||x - a_m||^2 / (2 width^2)).
    """

    anchors: Tensor  # [m, features]
    width: Tensor  # []

    def __init__(self, features: int, bits: int, anchors: int) -> None:
        super().__init__()
        self.register_buffer("anchors", torch.zeros(anchors, features))
        self.register_buffer("width", torch.ones(()))
        self.linear = linear(anchors, bits)

    def phi(self, x: Tensor) -> Tensor:
        """Returns similarities [n, anchors]. Distances are computed as a matrix product, since ONNX has no cdist."""
        d2 = x.square().sum(dim=1, keepdim=True) - 2 * x @ self.anchors.T + self.anchors.square().sum(dim=1)
        return torch.exp(d2.clamp(min=0) / (-2 * self.width.square()))

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.linear(self.phi(x))
        return h


class ClassCode(nn.Module):
    """A classifier with one code per class.

    In training mode it returns the scores [n, classes], in eval mode the code of the best class as +1 and -1. With
    `multi_label` it returns the sum of the codes of all classes with a sigmoid of at least 1/2, and at least of the
    best class.
    """

    codes: Tensor  # int8 [classes, bits] of +1 and -1

    def __init__(self, features: int, bits: int, classes: int, multi_label: bool = False) -> None:
        super().__init__()
        self.multi_label = multi_label
        self.linear = linear(features, classes)
        self.register_buffer("codes", torch.ones(classes, bits, dtype=torch.int8))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.linear(x)
        if self.training:
            return scores
        if not self.multi_label:
            return self.codes[scores.argmax(dim=1)].float()
        chosen = scores >= scores.amax(dim=1, keepdim=True).clamp(max=0)
        return chosen.float() @ self.codes.float()


def config(head: nn.Module) -> dict[str, Any]:
    """Returns the dictionary from which `build` makes a head of the same kind and shape."""
    match head:
        case nn.Linear():
            return {"kind": "linear"}
        case Sliced():
            return {"kind": "sliced"}
        case Normed():
            return {"kind": "normed"}
        case RBF():
            return {"kind": "rbf", "anchors": len(head.anchors)}
        case ClassCode():
            return {"kind": "class-code", "classes": len(head.codes), "multi_label": head.multi_label}
    raise TypeError(f"not a head: {type(head).__name__}")


def build(config: dict[str, Any], features: int, bits: int) -> nn.Module:
    """Returns a head with random weights. Raises NotSupportedError for an unknown `config`."""
    match config:
        case {"kind": "linear"}:
            return linear(features, bits)
        case {"kind": "sliced"}:
            return Sliced(features, bits)
        case {"kind": "normed"}:
            return Normed(features, bits)
        case {"kind": "rbf", "anchors": int(anchors)} if anchors > 0:
            return RBF(features, bits, anchors)
        case (
            {"kind": "class-code", "classes": int(classes), "multi_label": bool(multi_label)}
            | {"kind": "class-code", "classes": int(classes), "several": bool(multi_label)}  # the key until 0.1
        ) if classes > 0:
            return ClassCode(features, bits, classes, multi_label)
    raise NotSupportedError("head is not supported by this version", found=repr(config)[:200])


@torch.no_grad()
def plain(head: nn.Module) -> nn.Module:
    """Returns the head for export, which is an nn.Linear if the head is affine in eval mode."""
    match head:
        case Sliced():
            return _linear(head.pattern * head.weight, head.bias)
        case Normed():
            norm = head.norm
            assert norm.running_mean is not None and norm.running_var is not None
            scale = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
            bias = norm.bias.double() - norm.running_mean.double() * scale
            return _linear(scale[:, None] * head.linear.weight.double(), bias)
    return head.eval()


@torch.no_grad()
def moved(head: nn.Module, center: Tensor, scale: float = 1.0) -> nn.Module:
    """Returns a head whose output for x is that of `head` for (x - center) scale. `head` is a result of `plain`.

    With center 0 and scale 1 it is the head itself. A scale that is a power of 2 causes no rounding.
    """
    if not center.any() and scale == 1:
        return head
    head = copy.deepcopy(head)
    match head:
        case nn.Linear():
            layer: nn.Linear = head
        case ClassCode():
            layer = head.linear
        case RBF():
            head.anchors /= scale
            head.anchors += center
            head.width /= scale
            return head
        case _:
            raise TypeError(f"not a plain head: {type(head).__name__}")
    layer.weight.mul_(scale)
    layer.bias.sub_((layer.weight.double() @ center.double()).to(layer.bias.dtype))
    return head


def _linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], device=weight.device)
    layer.weight.copy_(weight)
    layer.bias.copy_(bias)
    return layer.eval()
