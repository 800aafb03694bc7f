"""A small hash model on real images, with which most tests of the exporter take seconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from idcwh_export import graph
from idcwh_search.encoder import device
from idcwh_search.encoder.metadata import ModelInfo
from idcwh_search.images.listing import list_images
from idcwh_search.images.preprocess import Preprocess, load_image
from idcwh_train.engine.checkpoint import save_model
from idcwh_train.models import backbones
from idcwh_train.models.hash_model import HashModel

REPOSITORY = Path(__file__).resolve().parents[2]
IMAGES = REPOSITORY / "demo" / "cifar10" / "test"
SIDE, BITS = 32, 12


def small_network(bits: int = BITS, seed: int = 0) -> HashModel:
    """Returns a convolution, batch norm with statistics of its own and a hash layer, in eval mode."""
    torch.manual_seed(seed)
    body = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU6(), nn.AdaptiveAvgPool2d(2), nn.Flatten()
    )
    norm = body[1]
    assert isinstance(norm, nn.BatchNorm2d) and norm.running_mean is not None and norm.running_var is not None
    norm.running_mean.uniform_(-0.5, 0.5)
    norm.running_var.uniform_(0.5, 2)
    return HashModel(body, 32, bits, (0.49, 0.48, 0.45), (0.25, 0.24, 0.26), dropout=0.5).eval()


def small_info(bits: int = BITS) -> ModelInfo:
    """Returns the metadata of the small network's file."""
    classes = ["cat", "Straße"]
    return ModelInfo(bits, Preprocess(SIDE, SIDE), classes, {"name": "idcwh"}, {"name": "small"}, "ab" * 32)


@pytest.fixture(scope="session")
def images() -> np.ndarray:
    """Real photographs, uint8 [40, 32, 32, 3]."""
    paths = list_images(IMAGES)[::5][:40]
    return np.stack([load_image(path, Preprocess(SIDE, SIDE)) for path in paths])


class Exports(dict[int, bytes]):
    """The small network as ONNX by its number of bits. Each is built once, when a test first needs it."""

    def __missing__(self, bits: int) -> bytes:
        model = graph.build(small_network(bits), bits, SIDE, small_info(bits).to_metadata())
        self[bits] = model.SerializeToString(deterministic=True)
        return self[bits]


@pytest.fixture(scope="session")
def exported() -> Exports:
    """The small network as ONNX."""
    return Exports()


@pytest.fixture
def network() -> HashModel:
    """The small network of BITS bits, the same every time."""
    return small_network()


@pytest.fixture
def make_network():  # type: ignore[no-untyped-def]
    """`small_network`, for other bits or seeds."""
    return small_network


@pytest.fixture
def info() -> ModelInfo:
    """The metadata of the small network's file."""
    return small_info()


def model_content(pixels: np.ndarray, preprocess: Preprocess, backbone: Any, mean: Any, std: Any) -> dict[str, Any]:
    """Returns the contents of a model.pt without its weights."""
    return {
        "classes": ["cat", "Straße"],
        "backbone": backbone,
        "method": {"name": "idcwh", "sigma2": 4.0},
        "preprocess": preprocess.to_dict(),
        "normalize": {"mean": list(mean), "std": list(std)},
        "centers": None,
        "sample": {"images": torch.from_numpy(pixels), "keys": [str(i) for i in range(len(pixels))]},
        "training": {"seed": 0},
    }


@pytest.fixture
def content() -> Callable[..., dict[str, Any]]:
    """`model_content`, for a model.pt of another network."""
    return model_content


@pytest.fixture
def small(tmp_path: Path, images: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Returns the function that writes a model.pt of the small network. load_model could not build this network by
    name.
    """
    monkeypatch.setattr(backbones, "build", lambda config: small_network().backbone)

    def write(pixels: np.ndarray = images, **changes: Any) -> Path:
        mean, std = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)
        result = model_content(pixels, Preprocess(SIDE, SIDE), {"name": "small", "features": 32}, mean, std)
        save_model(tmp_path / "model.pt", small_network(), {**result, **changes})
        return tmp_path / "model.pt"

    return write


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, exported: dict[int, bytes]) -> None:
    """Exports the graph of the small network, which is built once per session."""
    content = exported[BITS]
    monkeypatch.setattr(graph, "build", lambda *_, **__: onnx.load_from_string(content))
    monkeypatch.setattr(device, "usable", lambda: ["cpu"])


@pytest.fixture
def leftovers() -> Callable[[Path], set[str]]:
    """Returns the function that lists the names in a folder."""
    return lambda folder: {path.name for path in folder.iterdir()}
