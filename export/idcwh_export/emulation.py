"""Emulation of half arithmetic on a CPU, which rounds every value between two operators to half precision.

ONNX Runtime has no half arithmetic on most CPUs. It inserts a conversion before and after each operator, and removes
pairs of conversions that cancel. Values between operators then stay in float32 and never overflow the range of half
precision. Here an Identity operator follows each operator of the backbone, so that the conversions do not cancel. Sums
inside an operator are float32, as in ONNX Runtime's CUDA provider.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from idcwh_search.encoder.metadata import ModelInfo
from idcwh_search.encoder.ort import CPU, load_onnxruntime, session_options
from idcwh_search.images.preprocess import Pixels

if TYPE_CHECKING:
    import onnx

LARGEST = 65_504.0  # largest finite value in half precision


class HalfArithmetic:
    """An fp16 model in emulated half arithmetic, with the interface of an Encoder.

    largest: the largest absolute value between two operators so far; infinite or NaN after an overflow.
    """

    def __init__(self, content: bytes, info: ModelInfo, threads: int) -> None:
        self.info, self.largest = info, 0.0
        ort = load_onnxruntime()
        options = session_options(ort, threads)
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # it would remove Identity
        self._session = ort.InferenceSession(_rounding(content).SerializeToString(), options, providers=[CPU])

    def run(self, pixels: Pixels) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
        """Returns codes and logits of preprocessed images uint8 [n, H, W, 3]."""
        codes, logits, largest = self._session.run(["codes", "logits", "largest"], {"image": pixels})
        self.largest = float(np.maximum(self.largest, largest))  # NaN stays NaN
        return codes, logits


def _rounding(content: bytes) -> onnx.ModelProto:
    """Returns the model with an Identity after each operator in half precision, and the largest value as an output."""
    import onnx
    from onnx import TensorProto, helper

    model = onnx.load_from_string(content)
    known = onnx.shape_inference.infer_shapes(model).graph.value_info
    halves = {value.name for value in known if value.type.tensor_type.elem_type == TensorProto.FLOAT16}
    nodes, rounded = [], []
    for node in model.graph.node:
        nodes.append(node)
        for place, name in enumerate(node.output):
            if name in halves:
                node.output[place] = f"{name}_computed"
                nodes.append(helper.make_node("Identity", [f"{name}_computed"], [name]))
                rounded.append(name)
    for name in rounded:
        nodes.append(helper.make_node("Abs", [name], [f"{name}_size"]))
        nodes.append(helper.make_node("ReduceMax", [f"{name}_size"], [f"{name}_largest"], keepdims=0))
    nodes.append(helper.make_node("Max", [f"{name}_largest" for name in rounded], ["largest_half"]))
    nodes.append(helper.make_node("Cast", ["largest_half"], ["largest"], to=TensorProto.FLOAT))
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.node[:], result.graph.value_info[:]
    result.graph.node.extend(nodes)
    result.graph.output.append(helper.make_tensor_value_info("largest", TensorProto.FLOAT, []))
    return result
