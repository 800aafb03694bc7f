"""A model.onnx made by hand, so that the commands are tested in a fraction of a second, and real pictures."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

REPOSITORY = Path(__file__).resolve().parents[2]
PICTURES = REPOSITORY / "demo" / "cifar10"
SIDE = 8


def projection(bits: int, seed: int) -> np.ndarray:
    """The hash layer of the model: float32 [SIDE * SIDE * 3, bits]."""
    return np.random.default_rng(seed).standard_normal((SIDE * SIDE * 3, bits)).astype(np.float32)


def write_model(path: Path, bits: int = 20, seed: int = 0) -> Path:
    """A random projection of the pixels, with the signature and the metadata of every model.onnx."""
    packing = np.zeros((bits, -(-bits // 8)), np.float32)
    packing[np.arange(bits), np.arange(bits) // 8] = 2.0 ** (np.arange(bits) % 8)
    constants = {
        "flat": np.array([0, SIDE * SIDE * 3], np.int64),
        "grey": np.array(127.5, np.float32),
        "projection": projection(bits, seed),
        "zero": np.array(0, np.float32),
        "packing": packing,
    }
    nodes = [
        helper.make_node("Cast", ["image"], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["pixels", "flat"], ["row"]),
        helper.make_node("Sub", ["row", "grey"], ["centred"]),
        helper.make_node("MatMul", ["centred", "projection"], ["logits"]),
        helper.make_node("GreaterOrEqual", ["logits", "zero"], ["bits"]),
        helper.make_node("Cast", ["bits"], ["ones"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["ones", "packing"], ["bytes"]),
        helper.make_node("Cast", ["bytes"], ["codes"], to=TensorProto.UINT8),
    ]
    graph = helper.make_graph(
        nodes,
        "projection",
        [helper.make_tensor_value_info("image", TensorProto.UINT8, ["n", SIDE, SIDE, 3])],
        [
            helper.make_tensor_value_info("codes", TensorProto.UINT8, ["n", -(-bits // 8)]),
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", bits]),
        ],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    metadata = {
        "idcwh_format": "1",
        "idcwh_bits": str(bits),
        "idcwh_bit_order": "little",
        "idcwh_threshold": ">= 0",
        "idcwh_preprocess": json.dumps({"resize": SIDE, "crop": SIDE, "interpolation": "bilinear"}),
        "idcwh_classes": json.dumps(["cat", "dog"]),
        "idcwh_method": json.dumps({"name": "idcwh"}),
        "idcwh_backbone": json.dumps({"name": "projection"}),
        "idcwh_source_sha256": "0" * 64,
    }
    helper.set_model_props(model, metadata)
    onnx.save(model, path)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model.onnx")


@pytest.fixture
def make_model() -> Callable[..., Path]:
    return write_model


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Six real photographs in two class folders, one of them with a name that needs care."""
    folder = tmp_path / "pictures"
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for source in sorted((PICTURES / "train" / name).iterdir())[:3]:
            shutil.copy(source, folder / name)
    first = min((folder / "cat").iterdir())
    first.rename(first.with_name("Käthe 日本.png"))
    return folder


@pytest.fixture
def codes_by_hand() -> Callable[[list[Path]], np.ndarray]:
    """The codes that `model` must give, by Pillow and numpy alone."""

    def codes(paths: list[Path]) -> np.ndarray:
        small = [Image.open(p).convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR) for p in paths]
        rows = np.stack([np.asarray(image) for image in small]).reshape(len(paths), -1).astype(np.float64)
        return np.packbits((rows - 127.5) @ projection(20, 0) >= 0, axis=1, bitorder="little")

    return codes
