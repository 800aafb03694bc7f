"""A handmade model.onnx, with which commands run in a fraction of a second, and real images."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from support.commands import IMAGES, Runner

SIDE = 8


def projection(bits: int, seed: int) -> np.ndarray:
    """Returns the hash layer of the model: float32 [SIDE * SIDE * 3, bits]."""
    return np.random.default_rng(seed).standard_normal((SIDE * SIDE * 3, bits)).astype(np.float32)


@pytest.fixture
def make_model(make_linear: Callable[..., onnx.ModelProto]) -> Callable[..., Path]:
    """Writes a random projection of the pixels, with the metadata of every model.onnx."""

    def write(path: Path, bits: int = 20, seed: int = 0) -> Path:
        model = make_linear(projection(bits, seed), 127.5)
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
        onnx.helper.set_model_props(model, metadata)
        onnx.save(model, path)
        return path

    return write


@pytest.fixture
def model(tmp_path: Path, make_model: Callable[..., Path]) -> Path:
    return make_model(tmp_path / "model.onnx")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Six photographs in two class folders. One name has spaces and non-ASCII letters."""
    folder = tmp_path / "images"
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for source in sorted((IMAGES / "train" / name).iterdir())[:3]:
            shutil.copy(source, folder / name)
    first = min((folder / "cat").iterdir())
    first.rename(first.with_name("Käthe 日本.png"))
    return folder


@pytest.fixture
def database(model: Path, images: Path, tmp_path: Path, commands: Runner) -> Path:
    """The codes of these images."""
    path = tmp_path / "codes.bin"
    commands.build(model, images, path)
    return path


@pytest.fixture
def codes_by_hand() -> Callable[[list[Path]], np.ndarray]:
    """Returns the codes of `model`, computed by Pillow and NumPy alone."""

    def codes(paths: list[Path]) -> np.ndarray:
        small = [Image.open(p).convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR) for p in paths]
        rows = np.stack([np.asarray(image) for image in small]).reshape(len(paths), -1).astype(np.float64)
        return np.packbits((rows - 127.5) @ projection(20, 0) >= 0, axis=1, bitorder="little")

    return codes
