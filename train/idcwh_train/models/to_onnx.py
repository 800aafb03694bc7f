"""Conversion of torch modules to ONNX, without the messages of torch's exporter."""

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

    The first dimension of the example must be at least 2, since torch treats 1 as a constant. The exporter raises many
    types of errors, with messages of several pages.
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
    """Discards output, warnings and log messages below errors of torch and the ONNX libraries in the block."""
    before = logging.root.manager.disable
    with warnings.catch_warnings(), open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):  # noqa: PTH123
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(before)
