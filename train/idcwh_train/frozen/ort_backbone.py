"""A frozen backbone in ONNX Runtime on a CPU, which is faster than PyTorch with folded batch norm.

It is used if ONNX Runtime and the exporter are installed (`idcwh[export,cpu]`) and there are at least ENOUGH images.
Its result is compared with PyTorch's before it is used. benchmarks/features.py measures the speed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import torch
from torch import Tensor, nn

from idcwh_search.encoder import device

from ..models.to_onnx import to_onnx

ENOUGH = 3000
"""The number of images from which the faster inference outweighs the export, which takes seconds."""

_NEEDED = ("onnx", "onnxscript", "onnxruntime")


def installed() -> bool:
    """Returns True if the packages that `session` needs are installed."""
    return all(importlib.util.find_spec(name) for name in _NEEDED)


def session(network: nn.Module, example: Tensor) -> Callable[[Tensor], Tensor] | None:
    """Returns a function that computes `network`, in eval mode, on float32 batches of any length.

    Several threads may call it, each with one core. Returns None if the network cannot be exported, or if the results
    for `example` [2 or more, ...] differ by more than rounding.
    """
    if not installed():
        return None
    try:
        content = to_onnx(network, example, "x", ["features"]).SerializeToString()
        opened = device.open_session(content, "backbone", "cpu", threads=1).session
    except Exception:  # the exporter raises many types of errors, and PyTorch remains available
        return None

    def run(x: Tensor) -> Tensor:
        return torch.from_numpy(opened.run(None, {"x": x.numpy()})[0])

    with torch.inference_mode():
        expected = network(example)
        result = run(example)
    same = result.shape == expected.shape and torch.allclose(
        result, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max())
    )
    return run if same else None
