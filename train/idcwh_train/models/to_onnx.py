"""torch to ONNX, without the messages of torch's exporter."""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    import onnx


def to_onnx(
    network: nn.Module, example: Tensor, name: str, outputs: Sequence[str], opset: int | None = None
) -> onnx.ModelProto:
    """Returns the ONNX model of a network with one input, `name`, whose first dimension may have any length.

    The example has a first dimension of 2 or more, since torch would take 1 for a constant. Raises dozens of kinds of
    errors, each with pages of text.
    """
    with quiet():
        program = torch.onnx.export(
            network,
            (example,),
            dynamo=True,
            input_names=[name],
            output_names=list(outputs),
            dynamic_shapes=({0: torch.export.Dim("n", min=1)},),
            opset_version=opset,
            external_data=False,
            verbose=False,
        )
    assert program is not None
    return program.model_proto


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Discards what torch and the libraries of ONNX print, warn and log in the block, up to errors."""
    before = logging.root.manager.disable
    with warnings.catch_warnings(), open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):  # noqa: PTH123
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(before)
