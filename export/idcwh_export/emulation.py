"""An fp16 file as a GPU computes it, on a CPU: every number between two operators is rounded to half precision.

ONNX Runtime has no half arithmetic on most CPUs. It puts a conversion before and behind each operator and removes those
that cancel. So numbers stay in float32 from one operator to the next, never rounded, and never beyond the range that
ends at 65,504. Here a copy stands behind each operator of the backbone. A copy takes half precision as it is, so the
two conversions around it do not cancel. Inside an operator sums are float32, as in ONNX Runtime's CUDA provider.
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

LARGEST = 65_504.0  # number of half precision


class HalfArithmetic:
    """Runs an fp16 model as an Encoder does; `largest` is the largest |number| between two operators so far, infinite
    or not a number where one was beyond half precision.
    """

    def __init__(self, content: bytes, info: ModelInfo, threads: int) -> None:
        self.info, self.largest = info, 0.0
        ort = load_onnxruntime()
        options = session_options(ort, threads)
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # copies, too, are optimised away
        self._session = ort.InferenceSession(_rounding(content).SerializeToString(), options, providers=[CPU])

    def run(self, pixels: Pixels) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
        """Returns codes and logits of preprocessed images uint8 [n, H, W, 3]."""
        codes, logits, largest = self._session.run(["codes", "logits", "largest"], {"image": pixels})
        self.largest = float(np.maximum(self.largest, largest))  # not a number, once it was
        return codes, logits


def _rounding(content: bytes) -> onnx.ModelProto:
    """Returns the model with a copy behind each operator in half precision, and their largest number as an output."""
    import onnx
    from onnx import TensorProto, helper

    model = onnx.load_from_string(content)
    known = onnx.shape_inference.infer_shapes(model).graph.value_info
    halves = {value.name for value in known if value.type.tensor_type.elem_type == TensorProto.FLOAT16}
    nodes, found = [], []
    for node in model.graph.node:
        nodes.append(node)
        for place, name in enumerate(node.output):
            if name in halves:
                node.output[place] = f"{name}_computed"
                nodes.append(helper.make_node("Identity", [f"{name}_computed"], [name]))
                found.append(name)
    for name in found:
        nodes.append(helper.make_node("Abs", [name], [f"{name}_size"]))
        nodes.append(helper.make_node("ReduceMax", [f"{name}_size"], [f"{name}_largest"], keepdims=0))
    nodes.append(helper.make_node("Max", [f"{name}_largest" for name in found], ["largest_half"]))
    nodes.append(helper.make_node("Cast", ["largest_half"], ["largest"], to=TensorProto.FLOAT))
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.graph.node[:], made.graph.value_info[:]
    made.graph.node.extend(nodes)
    made.graph.output.append(helper.make_tensor_value_info("largest", TensorProto.FLOAT, []))
    return made
