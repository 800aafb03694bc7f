"""Handmade model.onnx files, with which tests run in a fraction of a second, and their codes by Pillow and NumPy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    import onnx

SIDE = 8


def projection(bits: int, seed: int) -> np.ndarray:
    """Returns the hash layer of the model: float32 [SIDE * SIDE * 3, bits]."""
    return np.random.default_rng(seed).standard_normal((SIDE * SIDE * 3, bits)).astype(np.float32)


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


def write_model(path: Path, bits: int = 20, seed: int = 0) -> Path:
    """Writes a random projection of the pixels, with the metadata of every model.onnx."""
    from onnx import helper, save

    model = linear_onnx(projection(bits, seed), 127.5)
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
    save(model, path)
    return path


def codes_by_hand(paths: list[Path]) -> np.ndarray:
    """Returns the codes of `write_model`, computed by Pillow and NumPy alone."""
    small = [Image.open(p).convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR) for p in paths]
    rows = np.stack([np.asarray(image) for image in small]).reshape(len(paths), -1).astype(np.float64)
    return np.packbits((rows - 127.5) @ projection(20, 0) >= 0, axis=1, bitorder="little")
