"""Conversion of the backbone to half precision, which halves the file and is faster on GPUs.

Pixels, normalisation, hash layer and packing do not change, so codes are still the signs of float32 logits. Converters
of whole graphs (ONNX Runtime's, onnxconverter-common) also round the logits to half precision. Small negative logits
then become zeros, and their bits become 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from idcwh_search.errors import NotSupportedError

from .graph import BACKBONE, backbone_nodes

if TYPE_CHECKING:
    import onnx

_FLOAT_INPUTS = {"Resize": (1, 2), "Upsample": (1,)}  # inputs that are always float32 in the standard


def convert(model: onnx.ModelProto) -> None:
    """Converts the backbone of `model` to float16, in place. Raises NotSupportedError if that is not possible."""
    from onnx import TensorProto, helper, numpy_helper

    nodes = backbone_nodes(model)
    start, stop = BACKBONE
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    halves: dict[str, TensorProto] = {}

    def halved(tensor: TensorProto, name: str) -> TensorProto:
        values = numpy_helper.to_array(tensor)
        with np.errstate(over="ignore"):  # a lower bound of -3e38 becomes minus infinity, which is equivalent
            half = values.astype(np.float16)
        if (np.isinf(half) & (np.abs(values) < 1e30)).any():
            raise NotSupportedError(
                f"half precision is not supported for weights {tensor.name}", found=f"{np.abs(values).max():.3g}",
                expected=f"at most {np.finfo(np.float16).max:g}", hint="use fp32",
            )  # fmt: skip
        return numpy_helper.from_array(half, name)

    for node in nodes:
        for attribute in node.attribute:
            if attribute.g.node or attribute.graphs:
                problem = f"half precision is not supported for operator {node.op_type} {node.name}, which has a graph"
                raise NotSupportedError(problem, hint="use fp32")
            if attribute.name == "to" and node.op_type == "Cast" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.FLOAT16
            if attribute.t.data_type == TensorProto.FLOAT:
                attribute.t.CopyFrom(halved(attribute.t, attribute.t.name))
            if node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
                values = np.asarray(helper.get_attribute_value(attribute), np.float16)
                attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(values)))
        for place, name in enumerate(node.input):
            if place in _FLOAT_INPUTS.get(node.op_type, ()):
                continue
            if name == start:
                node.input[place] = f"{start}_fp16"
            elif name in weights and weights[name].data_type == TensorProto.FLOAT:
                node.input[place] = f"{name}_fp16"
                if name not in halves:
                    halves[name] = halved(weights[name], f"{name}_fp16")
        for place, name in enumerate(node.output):
            if name == stop:
                node.output[place] = f"{stop}_fp16"

    first = next(i for i, node in enumerate(model.graph.node) if start in node.output)
    model.graph.node.insert(first + 1, helper.make_node("Cast", [start], [f"{start}_fp16"], to=TensorProto.FLOAT16))
    last = next(i for i, node in enumerate(model.graph.node) if f"{stop}_fp16" in node.output)
    model.graph.node.insert(last + 1, helper.make_node("Cast", [f"{stop}_fp16"], [stop], to=TensorProto.FLOAT))
    used = {name for node in model.graph.node for name in node.input}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend([*kept, *halves.values()])
