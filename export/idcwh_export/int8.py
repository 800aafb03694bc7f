"""A backbone in eight-bit integers for the CPU, calibrated on real images.

Weights have a scale for each output channel and use seven bits, so that a sum of two products stays within sixteen:
processors without VNNI add them in sixteen bits, saturating, and would give other codes than the others. Activations
have eight bits and a scale for each tensor, from the calibration images. Normalisation, hash layer and
packing stay in float32, and so do the first layers, as many as it takes: an error there goes through the whole network.
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

FLIPS = 0.02  # of the calibration images' bits may differ; otherwise more of the first layers stay in float32
_HEAVY = ("Conv", "ConvTranspose", "Gemm", "MatMul")  # layers with weights
_KINDS = [*_HEAVY, "Relu", "Clip", "MaxPool", "Concat"]  # sums and pooled features are faster and exact in float32
_IN_FLOAT = (1, 6, 12, 24, 48)  # how many of the first layers stay, tried in this order up to half of the network
_BATCH = 8

Logits = npt.NDArray[np.float32]


def quantize(model: onnx.ModelProto, pixels: Pixels, threads: int) -> tuple[onnx.ModelProto, int]:
    """Returns the int8 model of a float32 one, and how many of its first layers stayed in float32.

    pixels: uint8 [m, H, W, 3], preprocessed images to calibrate on; a few dozen will do.
    """
    heavy = [node.name for node in backbone_nodes(model) if node.op_type in _HEAVY]
    expected = _logits(model, pixels, threads)
    made = model
    for count in [count for count in _IN_FLOAT if count <= len(heavy) // 2] or [0]:
        made = _quantized(model, pixels, set(heavy[:count]))
        _centre(made, expected, _logits(made, pixels, threads))
        differing = (_logits(made, pixels, threads) >= 0) != (expected >= 0)
        if differing.mean() <= FLIPS:
            break
    return made, count


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


def _centre(model: onnx.ModelProto, expected: Logits, found: Logits) -> None:
    """Subtracts the mean shift of the logits, which rounding of the features causes, from the hash layer."""
    from onnx import helper, numpy_helper

    shift = (expected - found).mean(axis=0)
    (place,) = [i for i, node in enumerate(model.graph.node) if "logits" in node.output]
    last = model.graph.node[place]
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    if last.op_type == "Gemm" and len(last.input) == 3 and last.input[2] in weights:
        bias = weights[last.input[2]]
        shifted = numpy_helper.to_array(bias) + shift
        bias.CopyFrom(numpy_helper.from_array(shifted.astype(np.float32), bias.name))
    else:  # a hash layer without bias, or another kind of layer
        last.output[list(last.output).index("logits")] = "logits_shifted"
        model.graph.node.insert(place + 1, helper.make_node("Add", ["logits_shifted", "shift"], ["logits"]))
        model.graph.initializer.append(numpy_helper.from_array(shift.astype(np.float32), "shift"))


def _logits(model: onnx.ModelProto, pixels: Pixels, threads: int) -> Logits:
    ort = load_onnxruntime()
    session = ort.InferenceSession(model.SerializeToString(), session_options(ort, threads), providers=[CPU])
    return np.concatenate([session.run(["logits"], {"image": batch})[0] for batch in _batches(pixels)])


def _batches(pixels: Pixels) -> Iterator[Pixels]:
    return (pixels[start : start + _BATCH] for start in range(0, len(pixels), _BATCH))
