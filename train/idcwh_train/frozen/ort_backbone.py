"""A network that only computes, through ONNX Runtime on a CPU: twice the images a second of PyTorch with batch norm
folded away (benchmarks/features.py).

Used where ONNX Runtime and the exporter are installed (`idcwh[export,cpu]`) and there are enough images to pay for the
export; the result is compared with the network's own before it is used.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import os
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from idcwh_search.encoder import device

ENOUGH = 3000
"""Images below which the ten seconds of an export are not won back."""

_NEEDED = ("onnx", "onnxscript", "onnxruntime")


def installed() -> bool:
    """Whether all is there that `session` needs."""
    return all(importlib.util.find_spec(name) for name in _NEEDED)


def session(network: nn.Module, example: Tensor) -> Callable[[Tensor], Tensor] | None:
    """`network`, in eval mode, as a function on float32 batches like `example` [2 or more, ...] of any length, which
    several threads may call, each with one core. None where it cannot be had, or would not be the same.
    """
    if not installed():
        return None
    try:
        content = _exported(network, example)
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


def _exported(network: nn.Module, example: Tensor) -> bytes:
    file = io.BytesIO()
    levels = {name: logging.getLogger(name).level for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")}
    with warnings.catch_warnings(), open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):  # noqa: PTH123
        warnings.simplefilter("ignore")
        for name in levels:
            logging.getLogger(name).setLevel(logging.ERROR)
        try:
            program = torch.onnx.export(
                network, (example,), dynamo=True, input_names=["x"], output_names=["features"],
                dynamic_shapes=({0: torch.export.Dim("n", min=1)},), external_data=False, verbose=False,
            )  # fmt: skip
        finally:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)
    assert program is not None
    file.write(program.model_proto.SerializeToString())
    return file.getvalue()
