"""Fixtures of several packages: a small handmade model.onnx, the C++ library, and images without pillow-heif."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import idcwh_search as ih
from support.c_abi import Cpp
from support.commands import Runner

if TYPE_CHECKING:
    import onnx


def linear_onnx(
    weights: np.ndarray, grey: float, batch: int | str = "n", image_type: int | None = None
) -> onnx.ModelProto:
    """Returns a model.onnx without metadata whose logits are (pixels - grey) @ weights, float32 [side * side * 3,
    bits]. Pixels are uint8 unless image_type is another type.
    """
    from onnx import TensorProto, helper, numpy_helper

    bits = weights.shape[1]
    side = round((len(weights) / 3) ** 0.5)
    packing = np.zeros((bits, -(-bits // 8)), np.float32)
    packing[np.arange(bits), np.arange(bits) // 8] = 2.0 ** (np.arange(bits) % 8)
    constants = {"weights": weights, "packing": packing, "shape": np.array([0, -1])}
    constants |= {"zero": np.float32(0), "grey": np.float32(grey)}
    nodes = [
        helper.make_node("Cast", ["image"], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["pixels", "grey"], ["centred"]),
        helper.make_node("Reshape", ["centred", "shape"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["logits"]),
        helper.make_node("GreaterOrEqual", ["logits", "zero"], ["positive"]),
        helper.make_node("Cast", ["positive"], ["bits"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["bits", "packing"], ["bytes"]),
        helper.make_node("Cast", ["bytes"], ["codes"], to=TensorProto.UINT8),
    ]
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info("image", image_type or TensorProto.UINT8, [batch, side, side, 3])],
        [
            helper.make_tensor_value_info("codes", TensorProto.UINT8, [batch, -(-bits // 8)]),
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, [batch, bits]),
        ],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.fixture(scope="session")
def make_linear() -> Callable[..., onnx.ModelProto]:
    """`linear_onnx`."""
    return linear_onnx


@pytest.fixture(scope="session")
def cpp() -> Cpp:
    """The installed C++ library."""
    if sys.platform != "linux":
        pytest.skip("the shared library is part of Linux packages only")
    return Cpp(Path(ih.get_library_dir()))


@pytest.fixture(scope="session")
def cpp_with_encoder(cpp: Cpp) -> Cpp:
    """The same library, with ONNX Runtime's shared library to run models."""
    onnxruntime = pytest.importorskip("onnxruntime")
    libraries = list((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*"))
    if not libraries and "IDCWH_ONNXRUNTIME" not in os.environ:
        pytest.skip(f"the wheel of onnxruntime {onnxruntime.__version__} has no libonnxruntime.so")
    for library in libraries:
        os.environ.setdefault("IDCWH_ONNXRUNTIME", str(library))
    return cpp


@pytest.fixture
def heif_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists and decodes images as without pillow-heif."""
    from idcwh_search.images import decoding, listing

    formats = tuple(name for name in decoding._formats() if name != "HEIF")
    monkeypatch.setattr(decoding, "_formats", lambda: formats)
    for module in (listing, decoding):
        monkeypatch.setattr(module, "heif_installed", lambda: False)


@pytest.fixture
def commands(capsys: pytest.CaptureFixture[str]) -> Runner:
    """Runs commands in this process."""
    return Runner(capsys)
