"""The ONNX graph: packing, signature, operators, batches and errors. Oracles: numpy, torch and onnx's reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from torch import nn

from idcwh_export import graph
from idcwh_search.encoder.encoder import Encoder
from idcwh_search.encoder.metadata import ModelInfo
from idcwh_search.errors import InvalidInputError, NotSupportedError
from support.errors import raises

SIDE, BITS = 32, 12
# Operators of opset 18 that ONNX Runtime's CUDA provider supports, limited to those of networks like ours (its
# docs/OperatorKernels.md). Shapes and indices on the host are computed on the CPU by design.
CUDA = {
    *("Add", "AveragePool", "Cast", "Clip", "Concat", "Conv", "Div", "Flatten", "Gather", "Gemm", "GlobalAveragePool"),
    *("GreaterOrEqual", "Identity", "MatMul", "MaxPool", "Mul", "Range", "ReduceMean", "Relu", "Reshape", "Shape"),
    *("Slice", "Squeeze", "Sub", "Transpose", "Unsqueeze"),
}


def torch_logits(network: nn.Module, pixels: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        return network.eval()(torch.from_numpy(pixels).permute(0, 3, 1, 2)).numpy()


@pytest.mark.parametrize("bits", [1, 2, 7, 8, 9, 12, 31, 48, 64, 100, 1024])
def test_packing_equals_numpy(bits: int) -> None:
    rng = np.random.default_rng(bits)
    logits = rng.standard_normal((50, bits)).astype(np.float32)
    logits[rng.random(logits.shape) < 0.1] = 0.0
    logits[rng.random(logits.shape) < 0.1] = -0.0
    logits[0], logits[1] = 1e-45, -1e-45  # the smallest float32 numbers
    codes = graph.pack(torch.from_numpy(logits), graph.packing_matrix(bits))
    assert codes.dtype == torch.uint8
    assert np.array_equal(codes.numpy(), np.packbits(logits >= 0, axis=1, bitorder="little"))


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_packing_is_exact_in_half_precision(kind: torch.dtype) -> None:
    """A provider that computes products in TF32 or half precision gives the same bytes."""
    bits = torch.tensor([[i >> j & 1 for j in range(8)] for i in range(256)], dtype=kind)
    assert (bits @ graph.packing_matrix(8).to(kind)).to(torch.uint8).flatten().tolist() == list(range(256))


@pytest.mark.parametrize("bits", [1, BITS, 100])
def test_graph_of_every_batch_size_equals_torch(
    bits: int, exported: Any, make_network: Any, images: np.ndarray, tmp_path: Path
) -> None:
    (tmp_path / "m.onnx").write_bytes(exported[bits])
    encoder = Encoder(tmp_path / "m.onnx", batch_size=40)
    expected = torch_logits(make_network(bits), images)
    assert np.abs(expected).min() > 1e-6  # no logit is so close to zero that rounding decides its sign
    for size in (1, 3, 8, 40):
        codes, logits = encoder.run(images[:size])
        assert np.allclose(logits, expected[:size], rtol=0, atol=1e-5 * np.abs(expected).max())
        assert np.array_equal(codes, np.packbits(expected[:size] >= 0, axis=1, bitorder="little"))


def test_graph_equals_the_reference_evaluator(exported: Any, make_network: Any, images: np.ndarray) -> None:
    """onnx's reference evaluator, written in numpy, gives the same codes."""
    model = onnx.load_from_string(exported[100])
    codes, logits = ReferenceEvaluator(model).run(["codes", "logits"], {"image": images[:5]})
    expected = torch_logits(make_network(100), images[:5])
    assert codes.dtype == np.uint8 and np.allclose(logits, expected, atol=1e-4)
    assert np.array_equal(codes, np.packbits(expected >= 0, axis=1, bitorder="little"))


def test_graph_has_the_documented_signature(exported: Any, info: ModelInfo) -> None:
    model = onnx.load_from_string(exported[BITS])
    (image,) = model.graph.input
    shape = [dim.dim_param or dim.dim_value for dim in image.type.tensor_type.shape.dim]
    assert (image.name, shape) == ("image", ["n", SIDE, SIDE, 3])
    assert image.type.tensor_type.elem_type == onnx.TensorProto.UINT8
    assert [output.name for output in model.graph.output] == ["codes", "logits"]
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 18)]
    assert model.ir_version == 8  # ONNX Runtime 1.14 reads this version
    assert {node.op_type for node in model.graph.node} <= CUDA
    assert ModelInfo.from_metadata({entry.key: entry.value for entry in model.metadata_props}) == info
    assert not any(tensor.data_location for tensor in model.graph.initializer)  # one file: no external weights


@pytest.mark.slow
def test_graph_of_the_same_network_has_the_same_bytes(exported: Any, make_network: Any, info: Any) -> None:
    """The fingerprint identifies the model. A network in train() mode is evaluated nevertheless."""
    again = graph.build(make_network().train(), BITS, SIDE, info.to_metadata())
    assert again.SerializeToString(deterministic=True) == exported[BITS]


def test_graph_holds_no_paths(exported: Any) -> None:
    for trace in (b"site-packages", b".py", str(Path.home()).encode() + b"/", b"stack_trace"):
        assert trace not in exported[BITS]


def test_check_network_in_training_mode_is_invalid() -> None:
    class Stubborn(nn.Dropout):
        def train(self, mode: bool = True) -> Stubborn:
            self.training = True
            return self

    with raises(InvalidInputError, problem="layer 1 "):
        graph.check_network(nn.Sequential(nn.Flatten(), Stubborn()))


@pytest.mark.parametrize("norm", [nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm])
def test_check_network_without_statistics_is_invalid(norm: Any) -> None:
    network = nn.Sequential(nn.Identity(), norm(3, track_running_stats=False))
    with raises(InvalidInputError, problem="layer 1 ") as caught:
        graph.check_network(network)
    assert "track_running_stats=True" in caught.value.hint


@pytest.mark.slow
def test_build_of_branches_fails_in_one_line() -> None:
    class Branching(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.float().flatten(1)[:, :4] * (2.0 if x.float().sum() > 0 else 1.0)

    with raises(NotSupportedError) as caught:
        graph.build(Branching(), 4, 8, {})
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


@pytest.mark.parametrize("opset", [0, 17, 24])
def test_build_with_another_opset_is_an_error(opset: int, network: nn.Module) -> None:
    with pytest.raises(ValueError, match=r"^opset: "):
        graph.build(network, BITS, SIDE, {}, opset)


@pytest.mark.slow
def test_build_with_opset_20_gives_the_same_codes(
    make_network: Any, info: Any, images: np.ndarray, tmp_path: Path
) -> None:
    model = graph.build(make_network(), BITS, SIDE, info.to_metadata(), opset=20)
    assert model.opset_import[0].version == 20
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    expected = np.packbits(torch_logits(make_network(), images) >= 0, axis=1, bitorder="little")
    assert np.array_equal(Encoder(tmp_path / "m.onnx").encode(images), expected)


def test_simplified_gives_the_same_codes(
    exported: Any, make_network: Any, info: Any, images: Any, tmp_path: Path
) -> None:
    model = onnx.load_from_string(exported[BITS])
    # a node without effect, to be removed
    first = model.graph.node[-1]
    model.graph.node.insert(
        len(model.graph.node) - 1, onnx.helper.make_node("Identity", [first.input[0]], ["twice"], name="idle")
    )
    first.input[0] = "twice"
    nodes = len(model.graph.node)
    simple = graph.simplified(model)
    assert len(simple.graph.node) < nodes and {entry.domain for entry in simple.opset_import} <= {"", "ai.onnx"}
    assert [output.name for output in simple.graph.output] == ["codes", "logits"]
    assert graph.backbone_nodes(simple)
    (tmp_path / "m.onnx").write_bytes(graph.finished(simple, info))
    expected = np.packbits(torch_logits(make_network(), images) >= 0, axis=1, bitorder="little")
    assert np.array_equal(Encoder(tmp_path / "m.onnx").encode(images), expected)
    assert graph.simplified(onnx.load_from_string(exported[BITS])).SerializeToString(deterministic=True) == (
        graph.simplified(onnx.load_from_string(exported[BITS])).SerializeToString(deterministic=True)
    )
