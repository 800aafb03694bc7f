"""A network that only computes, through ONNX Runtime on a CPU: twice the images a second of PyTorch with batch norm
folded away (benchmarks/features.py).

Used where ONNX Runtime and the exporter are installed (`idcwh[export,cpu]`) and there are enough images to pay for the
export; the result is compared with the network's own before it is used.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import torch
from torch import Tensor, nn

from idcwh_search.encoder import device

from ..models.to_onnx import to_onnx

ENOUGH = 3000
"""Number of images from which an export, which takes ten seconds, saves time."""

_NEEDED = ("onnx", "onnxscript", "onnxruntime")


def installed() -> bool:
    """Returns whether the packages that `session` needs are installed."""
    return all(importlib.util.find_spec(name) for name in _NEEDED)


def session(network: nn.Module, example: Tensor) -> Callable[[Tensor], Tensor] | None:
    """Returns `network`, in eval mode, as a function on float32 batches like `example` [2 or more, ...] of any length.

    Several threads may call it, each with one core. Returns None if it cannot be exported, or differs.
    """
    if not installed():
        return None
    try:
        content = to_onnx(network, example, "x", ["features"]).SerializeToString()
        opened = device.open_session(content, "backbone", "cpu", threads=1).session
    except Exception:  # the exporter has dozens of kinds; PyTorch itself is there in any case
        return None

    def run(x: Tensor) -> Tensor:
        return torch.from_numpy(opened.run(None, {"x": x.numpy()})[0])

    with torch.inference_mode():
        expected = network(example)
        found = run(example)
    same = found.shape == expected.shape and torch.allclose(
        found, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max())
    )
    return run if same else None
