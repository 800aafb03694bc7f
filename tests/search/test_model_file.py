"""The outermost layer of an ONNX file, read and written without the onnx package, which is the oracle."""

from __future__ import annotations

import hashlib
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from idcwh_search.encoder import model_file
from idcwh_search.encoder.model_file import ChecksumState
from idcwh_search.errors import NotSupportedError
from support.errors import raises

LINES = {"a": "", "": "empty key", "Straße": "x" * 127, "long": "y" * 128, "longer": "z" * 20_000, "json": '{"a": 1}'}


def model(lines: dict[str, str] | None = None) -> onnx.ModelProto:
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3])
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", 3])
    graph = helper.make_graph([helper.make_node("Relu", ["image"], ["out"])], "g", [image], [out])
    result = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8, producer_name="p")
    helper.set_model_props(result, LINES if lines is None else lines)
    return result


def properties(content: bytes) -> dict[str, str]:
    return {line.key: line.value for line in onnx.load_from_string(content).metadata_props}


def test_metadata_equals_that_of_onnx() -> None:
    content = model().SerializeToString()
    assert model_file.metadata(content) == properties(content) == LINES
    assert model_file.metadata(model({}).SerializeToString()) == {}


def test_with_metadata_changes_nothing_else() -> None:
    content = model({"first": "1"}).SerializeToString()
    longer = model_file.with_metadata(content, LINES)
    assert longer.startswith(content) and properties(longer) == {"first": "1", **LINES} == model_file.metadata(longer)
    assert onnx.load_from_string(longer).graph == model().graph


def test_examine_finds_every_changed_byte() -> None:
    content = model_file.with_checksum(model().SerializeToString())
    assert model_file.examine(content) == (ChecksumState.VALID, hashlib.sha256(content).hexdigest())
    onnx.checker.check_model(onnx.load_from_string(content))
    for at in (0, 10, len(content) // 2, len(content) - 70, len(content) - 1):
        corrupt = bytearray(content)
        corrupt[at] ^= 1
        state, digest = model_file.examine(bytes(corrupt))
        assert state is not ChecksumState.VALID and digest == hashlib.sha256(corrupt).hexdigest()


def weights(external: bool = True) -> onnx.TensorProto:
    tensor = helper.make_tensor("w", TensorProto.FLOAT, [1], b"\0\0\x80?", raw=True)
    if external:
        onnx.external_data_helper.set_external_data(tensor, "location of m.data")
    return tensor


def places(external: bool) -> dict[str, onnx.ModelProto]:
    """Returns models with a tensor at each place that ONNX allows."""
    one, inner = weights(external), helper.make_graph([], "inner", [], [], [weights(external)])
    sparse = helper.make_sparse_tensor(one, helper.make_tensor("i", TensorProto.INT64, [1], [0]), [1])
    result = {name: model() for name in ("initializer", "sparse", "node", "nodes", "graph", "graphs", "function")}
    result["initializer"].graph.initializer.append(one)
    result["sparse"].graph.sparse_initializer.append(sparse)
    for name, value in {"node": one, "nodes": [one], "graph": inner, "graphs": [inner]}.items():
        result[name].graph.node.append(helper.make_node("Op", [], ["x"], value=value))
    function = helper.make_function("d", "F", [], ["x"], [helper.make_node("Constant", [], ["x"], value=one)], [])
    result["function"].functions.append(function)
    return result


@pytest.mark.parametrize("name", places(True))
def test_check_self_contained_finds_external_weights(name: str) -> None:
    with raises(NotSupportedError, found="weights in another file, location of m.data"):
        model_file.check_self_contained(places(True)[name].SerializeToString())
    whole = places(False)[name]
    whole.graph.value_info.append(helper.make_tensor_value_info("location", TensorProto.FLOAT, [1]))
    model_file.check_self_contained(whole.SerializeToString())


def test_examine_without_a_checksum_reports_none() -> None:
    for content in (model().SerializeToString(), b"", b"hello", b"x" * 1000):
        assert model_file.examine(content) == (ChecksumState.MISSING, hashlib.sha256(content).hexdigest())


def test_examine_of_a_rewritten_model_reports_broken() -> None:
    checked = onnx.load_from_string(model_file.with_checksum(model().SerializeToString()))
    checked.graph.node[0].op_type = "Tanh"
    assert model_file.examine(checked.SerializeToString())[0] is ChecksumState.WRONG
    more = model_file.with_metadata(model_file.with_checksum(model().SerializeToString()), {"note": "mine"})
    assert model_file.examine(more)[0] is ChecksumState.WRONG


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"\x72",
        b"\x72\x05ab",
        b"\xff" * 12,
        b"\x0f",
        model().SerializeToString()[:-3],
        b"\x3a\xff\xff\x7f",
    ],
)
def test_metadata_of_other_bytes_is_none(content: Any) -> None:
    assert model_file.metadata(content) is None
