"""The changes of fp16 and int8 to the graph, and their effect on the logits. Oracles: numpy, torch and onnx."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper, shape_inference
from torch import nn

from idcwh_export import fp16, graph, int8
from idcwh_export.emulation import HalfArithmetic
from idcwh_search.encoder.encoder import Encoder
from idcwh_search.errors import NotSupportedError
from support.errors import raises

BITS = 12
KINDS = {TensorProto.FLOAT: "float32", TensorProto.FLOAT16: "float16"}


def built(exported: dict[int, bytes]) -> onnx.ModelProto:
    return onnx.load_from_string(exported[BITS])


def saved(model: onnx.ModelProto, info: Any, folder: Path, name: str = "m.onnx") -> Encoder:
    (folder / name).write_bytes(graph.finished(model, info))
    return Encoder(folder / name, device="cpu")


def kinds(model: onnx.ModelProto) -> dict[str, int]:
    inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    values = [*inferred.graph.value_info, *inferred.graph.output, *inferred.graph.input]
    return {value.name: value.type.tensor_type.elem_type for value in values}


def test_backbone_nodes_are_between_its_tensors(exported: Any) -> None:
    model = built(exported)
    inside = [node.op_type for node in graph.backbone_nodes(model)]
    assert inside.count("Conv") == 1 and not {"Gemm", "Sub", "Div", "GreaterOrEqual", "Transpose"} & set(inside)
    other = helper.make_graph([helper.make_node("Relu", ["a"], ["b"])], "g", [], [])
    with raises(NotSupportedError):
        graph.backbone_nodes(helper.make_model(other))


def test_fp16_changes_the_backbone_only(exported: Any, info: Any) -> None:
    model = built(exported)
    fp16.convert(model)
    onnx.checker.check_model(model, full_check=True)
    result = kinds(model)
    for node in graph.backbone_nodes(model):
        if node.op_type == "Conv":
            assert {result[node.output[0]]} == {TensorProto.FLOAT16}
    for name in ("normalised", "features", "logits"):
        assert KINDS[result[name]] == "float32", name
    weights = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    assert {weights["network.hash.weight"], weights["packing"]} == {TensorProto.FLOAT}
    assert len(weights) == len(model.graph.initializer)
    first = [tensor for tensor in model.graph.initializer if "0.weight" in tensor.name]
    assert [tensor.data_type for tensor in first] == [TensorProto.FLOAT16]


def test_fp16_equals_torch_with_rounded_weights(
    exported: Any, info: Any, make_network: Any, images: np.ndarray, tmp_path: Path
) -> None:
    """The oracle is torch with rounded weights. It computes in float32, like the CPU here."""
    model, network = built(exported), make_network()
    fp16.convert(model)
    codes, logits = saved(model, info, tmp_path).run(images)
    with torch.inference_mode():
        exact = network(torch.from_numpy(images).permute(0, 3, 1, 2)).numpy()
    scale = np.sqrt((exact**2).mean())
    assert 1e-6 * scale < np.abs(logits - exact).max() < 5e-3 * scale
    assert np.array_equal(codes, np.packbits(logits >= 0, axis=1, bitorder="little"))
    assert np.unpackbits(codes ^ np.packbits(exact >= 0, axis=1, bitorder="little")).mean() < 0.01


def test_half_arithmetic_equals_torch_rounded_by_layer(
    exported: Any, info: Any, make_network: Any, images: np.ndarray, tmp_path: Path
) -> None:
    """The oracle is torch with values rounded after each layer. The unchanged file is much further from it."""
    model, network = built(exported), make_network()
    fp16.convert(model)
    emulated = HalfArithmetic(graph.finished(model, info), info, threads=1)
    codes, logits = emulated.run(images)
    layers = [nn.utils.fusion.fuse_conv_bn_eval(network.backbone[0], network.backbone[1]), *network.backbone[2:]]

    def rounded(values: torch.Tensor) -> torch.Tensor:
        return values.half().float()

    with torch.inference_mode():
        for values in layers[0].parameters():
            values.copy_(rounded(values))
        x = rounded(network.normalise(torch.from_numpy(images).permute(0, 3, 1, 2)))
        largest = float(x.abs().max())
        for layer in layers:
            x = rounded(layer(x))
            largest = max(largest, float(x.abs().max()))
        expected = network.head(x).numpy()
    assert np.array_equal(codes, np.packbits(logits >= 0, axis=1, bitorder="little"))
    assert emulated.largest == pytest.approx(largest, rel=1e-3)
    near = np.abs(logits - expected).max()
    assert near < 0.5 * np.abs(saved(model, info, tmp_path).run(images)[1] - expected).max()
    emulated.run(images // 2 + 64)
    assert emulated.largest == pytest.approx(largest, rel=1e-3), "the maximum over all runs"


def test_fp16_keeps_the_signs_of_tiny_logits(exported: Any, info: Any, images: Any, tmp_path: Path) -> None:
    """Logits too small for half precision keep their sign. A converter of whole graphs makes them zero."""
    model = built(exported)
    for tensor in model.graph.initializer:
        if tensor.name.startswith("network.hash."):
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(1e-12), tensor.name))
    fp16.convert(model)
    codes, logits = saved(model, info, tmp_path).run(images)
    assert np.abs(logits).max() < 1e-9 and (logits < 0).any()
    assert np.array_equal(codes, np.packbits(logits >= 0, axis=1, bitorder="little"))
    assert not np.array_equal(codes, np.packbits(logits.astype(np.float16) >= 0, axis=1, bitorder="little"))


def test_fp16_keeps_the_scales_of_a_resize(exported: Any, info: Any, images: np.ndarray, tmp_path: Path) -> None:
    """Every pixel becomes four, and the maximum of the four is that pixel again, so every image is correct."""
    model, resized = built(exported), built(exported)
    (place, conv) = next((i, node) for i, node in enumerate(resized.graph.node) if node.op_type == "Conv")
    source, conv.input[0] = conv.input[0], "again"
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    resized.graph.node.insert(place, helper.make_node("Resize", [source, "", "scales"], ["wide"], **how))
    pool = helper.make_node("MaxPool", ["wide"], ["again"], kernel_shape=[2, 2], strides=[2, 2])
    resized.graph.node.insert(place + 1, pool)
    scales = numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")
    resized.graph.initializer.append(scales)
    for one in (model, resized):
        fp16.convert(one)
    assert scales in resized.graph.initializer
    expected = saved(model, info, tmp_path).logits(images)
    assert np.array_equal(saved(resized, info, tmp_path, "resized.onnx").logits(images), expected)


def test_fp16_with_too_large_weights_is_not_supported(exported: Any) -> None:
    model = built(exported)
    (tensor,) = [tensor for tensor in model.graph.initializer if tensor.name.endswith("backbone.0.weight")]
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(1e6), tensor.name))
    with raises(NotSupportedError, expected="at most 65504", problem="backbone.0.weight"):
        fp16.convert(model)


def test_int8_changes_the_backbone_only(exported: Any, info: Any, images: Any) -> None:
    model = built(exported)
    result = int8._quantized(model, images, set())
    conv = next(node for node in result.graph.node if node.op_type == "Conv")
    sources = {name: node for node in result.graph.node for name in node.output}
    scales = sources[conv.input[1]]
    assert scales.op_type == "DequantizeLinear" and helper.get_node_attr_value(scales, "axis") == 0
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in result.graph.initializer}
    quantized = weights[scales.input[0]]
    assert quantized.dtype == np.int8 and np.abs(quantized.astype(int)).max() <= 64, "seven bits: no sum saturates"
    assert weights[scales.input[1]].shape == (8,), "one scale per channel"
    (head,) = [node for node in result.graph.node if "logits" in node.output]
    assert head.input[0] == "features" and head.op_type == "Gemm" and weights[head.input[1]].dtype == np.float32
    in_float = int8._quantized(model, images, {conv.name})
    assert not [t for t in in_float.graph.initializer if t.data_type == TensorProto.INT8 and len(t.dims) == 4]


def test_int8_is_near_torch_without_a_shift(
    exported: Any, info: Any, make_network: Any, images: np.ndarray, tmp_path: Path
) -> None:
    model = built(exported)
    result, in_float = int8.quantize(model, images[:24], threads=1)
    assert in_float == 0, "the only layer is quantized"
    codes, logits = saved(result, info, tmp_path).run(images)
    with torch.inference_mode():
        exact = make_network()(torch.from_numpy(images).permute(0, 3, 1, 2)).numpy()
    assert np.array_equal(codes, np.packbits(logits >= 0, axis=1, bitorder="little"))
    scale = np.sqrt((exact**2).mean())
    assert 1e-3 * scale < np.abs(logits - exact).max() < 0.2 * scale
    shift = (logits[:24] - exact[:24]).mean(0)
    assert np.abs(shift).max() < 1e-3, "no bit is shifted to one side on the images it was calibrated on"


def deep(sensitive: int | None, layers: int = 24, width: int = 16) -> onnx.ModelProto:
    """Returns a model of 8 x 8 images with many convolutions that permute their channels. The sensitive one outputs a
    channel with a thousand times the range of the others, for which eight bits are too few.
    """
    rng = np.random.default_rng(3)
    constants: dict[str, Any] = {"grey": np.float32(128), "flat": np.array([0, -1])}
    nodes = [
        helper.make_node("Cast", ["image"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["floats"], ["planes"], perm=[0, 3, 1, 2]),
        helper.make_node("Sub", ["planes", "grey"], ["normalised"]),
    ]
    last, channels, scale = "normalised", 3, np.ones(width)
    for i in range(layers):
        weights = np.linalg.qr(rng.standard_normal((width, width)))[0][:, :channels] / scale[:channels]
        scale = np.where(np.arange(width) == 0, 1000 if i == sensitive else 1, 1)
        constants[f"weights{i}"] = (weights * scale[:, None])[..., None, None].astype(np.float32)
        nodes.append(helper.make_node("Conv", [last, f"weights{i}"], [f"turned{i}"], f"conv{i}"))
        last, channels = f"turned{i}", width
    constants["hash"] = rng.standard_normal((width, BITS)).astype(np.float32)
    nodes += [
        helper.make_node("GlobalAveragePool", [last], ["pooled"]),
        helper.make_node("Reshape", ["pooled", "flat"], ["features"]),
        helper.make_node("MatMul", ["features", "hash"], ["logits"]),
    ]
    result = helper.make_graph(
        nodes,
        "deep",
        [helper.make_tensor_value_info("image", TensorProto.UINT8, ["n", 8, 8, 3])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", BITS])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(result, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize(("sensitive", "kept"), [(None, 1), (3, 6), (8, 12), (20, 12)])
def test_int8_keeps_sensitive_layers_in_float(sensitive: int | None, kept: int) -> None:
    """At most half of the layers stay in float, even if more are needed."""
    model, rng = deep(sensitive), np.random.default_rng(3)
    colours = rng.choice([0, 255], (40, 1, 1, 3)) - rng.integers(0, 60, (40, 8, 8, 3))
    pixels = np.abs(colours).astype(np.uint8)
    result, in_float = int8.quantize(model, pixels, threads=1)
    weights = {tensor.name for tensor in result.graph.initializer if tensor.data_type == TensorProto.FLOAT}
    convolutions = [node.input[1] in weights for node in result.graph.node if node.op_type == "Conv"]
    assert in_float == kept and convolutions == [True] * kept + [False] * (24 - kept)
    bits, expected = (int8._logits(one, pixels, threads=1) >= 0 for one in (result, model))
    assert ((bits != expected).mean() <= 0.02) == (sensitive != 20)


def test_fp16_without_a_backbone_is_not_supported(make_linear: Any) -> None:
    with raises(NotSupportedError):
        fp16.convert(make_linear(np.ones((48, 4), np.float32), 128))
