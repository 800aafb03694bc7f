"""Folding of batch norm into the preceding convolution, which makes a frozen backbone faster.

A forward pass finds the convolution before each batch norm. The result is compared with the original network.
benchmarks/features.py measures the speed.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

_NORMS = (nn.BatchNorm2d,)


def folded(network: nn.Module, example: Tensor) -> nn.Module:
    """Returns a copy of `network` in eval mode with its batch norms folded where possible.

    Returns the network itself, in eval mode, if the copy differs by more than rounding for the input `example`. This
    happens if another layer also reads the output of a convolution.
    """
    network = network.eval()
    copied = copy.deepcopy(network)
    with torch.no_grad():
        expected = network(example)
        for conv, name in _pairs(copied, example):
            norm = copied.get_submodule(name)
            _fold(conv, norm)
            copied.set_submodule(name, _activation(norm))
        same = torch.allclose(copied(example), expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))
    return copied if same else network


def _pairs(network: nn.Module, example: Tensor) -> list[tuple[nn.Conv2d, str]]:
    """Returns (convolution, path of the batch norm that reads its output), in the order of execution."""
    outputs: dict[int, tuple[nn.Conv2d, Tensor]] = {}  # holds the tensor, so that its id is not used again
    pairs: list[tuple[nn.Conv2d, str]] = []

    def after_conv(conv: nn.Conv2d, _: Any, out: Tensor) -> None:
        outputs[id(out)] = (conv, out)

    def before_norm(name: str, args: tuple[Any, ...]) -> None:
        if id(args[0]) in outputs:
            pairs.append((outputs[id(args[0])][0], name))

    hooks = []
    for name, module in network.named_modules():
        if isinstance(module, nn.Conv2d):
            hooks.append(module.register_forward_hook(after_conv))
        elif isinstance(module, _NORMS) and module.running_mean is not None:
            hooks.append(module.register_forward_pre_hook(lambda _, args, name=name: before_norm(name, args)))
    network(example)
    for hook in hooks:
        hook.remove()
    once = {id(conv) for conv, _ in pairs if sum(c is conv for c, _ in pairs) == 1}
    return [(conv, name) for conv, name in pairs if id(conv) in once]


def _fold(conv: nn.Conv2d, norm: Any) -> None:
    """Changes the weights of a convolution so that it computes the batch norm as well."""
    scale = (norm.running_var + norm.eps).rsqrt()
    if norm.weight is not None:
        scale = scale * norm.weight
    shift = -norm.running_mean * scale if norm.bias is None else norm.bias - norm.running_mean * scale
    if conv.bias is not None:
        shift = shift + conv.bias * scale
    conv.weight = nn.Parameter(conv.weight * scale.view(-1, 1, 1, 1), requires_grad=False)
    conv.bias = nn.Parameter(shift, requires_grad=False)


def _activation(norm: nn.Module) -> nn.Module:
    """Returns the activation and dropout that timm's batch norms contain."""
    return nn.Sequential(*(m for m in (getattr(norm, "drop", None), getattr(norm, "act", None)) if m is not None))
