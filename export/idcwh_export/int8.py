"""Quantization of the backbone to 8-bit integers for CPUs, calibrated on real images.

Weights have one scale per output channel and use 7 bits. A sum of two products then fits into 16 bits, in which CPUs
without VNNI add with saturation, so all CPUs give the same codes. Activations have 8 bits and one scale per tensor,
from the calibration images. Normalisation, hash layer and packing stay in float32. Some of the first layers do as well,
since their error passes through the whole network.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from idcwh_search.encoder.ort import CPU, load_onnxruntime, session_options
from idcwh_search.images.preprocess import Pixels
from idcwh_train.models.to_onnx import quiet

from .graph import BACKBONE, backbone_nodes

if TYPE_CHECKING:
    import onnx

FLIPS = 0.02  # largest share of the calibration images' bits that may differ before more layers stay in float32
_HEAVY = ("Conv", "ConvTranspose", "Gemm", "MatMul")  # layers with weights
_KINDS = [*_HEAVY, "Relu", "Clip", "MaxPool", "Concat"]  # sums and average pooling are faster and exact in float32
_IN_FLOAT = (1, 6, 12, 24, 48)  # numbers of first layers in float32, tried in this order up to half of the network
_BATCH = 8

Logits = npt.NDArray[np.float32]


def quantize(model: onnx.ModelProto, pixels: Pixels, threads: int) -> tuple[onnx.ModelProto, int]:
    """Returns the int8 model of a float32 model, and the number of its first layers that stayed in float32.

    pixels: uint8 [m, H, W, 3], preprocessed images for the calibration; a few dozen are enough.
    """
    heavy = [node.name for node in backbone_nodes(model) if node.op_type in _HEAVY]
    expected = _logits(model, pixels, threads)
    quantized = model
    for count in [count for count in _IN_FLOAT if count <= len(heavy) // 2] or [0]:
        quantized = _quantized(model, pixels, set(heavy[:count]))
        _correct_shift(quantized, expected, _logits(quantized, pixels, threads))
        differing = (_logits(quantized, pixels, threads) >= 0) != (expected >= 0)
        if differing.mean() <= FLIPS:
            break
    return quantized, count


def _quantized(model: onnx.ModelProto, pixels: Pixels, in_float: set[str]) -> onnx.ModelProto:
    import onnx
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self._batches = _batches(pixels)

        def get_next(self) -> dict[str, Pixels] | None:
            batch = next(self._batches, None)
            return None if batch is None else {"image": batch}

    inside = {node.name for node in backbone_nodes(model) if BACKBONE[1] not in node.output}
    excluded = [node.name for node in model.graph.node if node.name not in inside or node.name in in_float]
    with tempfile.TemporaryDirectory() as folder, quiet():
        source, target = Path(folder) / "fp32.onnx", Path(folder) / "int8.onnx"
        onnx.save(model, source)
        quantization.quantize_static(
            str(source),
            str(target),
            Reader(),
            quant_format=quantization.QuantFormat.QDQ,
            op_types_to_quantize=_KINDS,
            nodes_to_exclude=excluded,
            per_channel=True,
            reduce_range=True,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
        )
        return onnx.load(target)


def _correct_shift(model: onnx.ModelProto, expected: Logits, logits: Logits) -> None:
    """Corrects the mean shift of the logits, which the rounding of the features causes, in the hash layer."""
    from onnx import helper, numpy_helper

    shift = (expected - logits).mean(axis=0)
    (place,) = [i for i, node in enumerate(model.graph.node) if "logits" in node.output]
    last = model.graph.node[place]
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    if last.op_type == "Gemm" and len(last.input) == 3 and last.input[2] in weights:
        bias = weights[last.input[2]]
        shifted = numpy_helper.to_array(bias) + shift
        bias.CopyFrom(numpy_helper.from_array(shifted.astype(np.float32), bias.name))
    else:  # a hash layer without bias, or another type of layer
        last.output[list(last.output).index("logits")] = "logits_shifted"
        model.graph.node.insert(place + 1, helper.make_node("Add", ["logits_shifted", "shift"], ["logits"]))
        model.graph.initializer.append(numpy_helper.from_array(shift.astype(np.float32), "shift"))


def _logits(model: onnx.ModelProto, pixels: Pixels, threads: int) -> Logits:
    ort = load_onnxruntime()
    session = ort.InferenceSession(model.SerializeToString(), session_options(ort, threads), providers=[CPU])
    return np.concatenate([session.run(["logits"], {"image": batch})[0] for batch in _batches(pixels)])


def _batches(pixels: Pixels) -> Iterator[Pixels]:
    return (pixels[start : start + _BATCH] for start in range(0, len(pixels), _BATCH))
