"""idcwh-export with real backbones and real images, from file to file. The graph is built once per backbone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from idcwh_export import export, verify
from idcwh_export.cli import main
from idcwh_search.encoder.encoder import Encoder
from idcwh_search.images.listing import list_images
from idcwh_search.images.preprocess import Preprocess, load_image
from idcwh_train.engine.checkpoint import load_model, save_model
from idcwh_train.models import backbones
from idcwh_train.models.hash_model import HashModel

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[2]
IMAGES = REPOSITORY / "demo" / "cifar10" / "test"
BITS = 12


def lite0() -> backbones.Backbone:
    return backbones.create("timm:tf_efficientnet_lite0", crop=64)


def googlenet() -> backbones.Backbone:
    """Returns random weights, batch norm with statistics of real images, and the pretrained input transform."""
    torch.manual_seed(0)
    backbone = backbones.create("googlenet", weights="none", crop=64)
    backbone.config["transform_input"] = backbone.network.transform_input = True  # type: ignore[assignment]
    paths = list_images(IMAGES)[::9]
    batch = torch.from_numpy(np.stack([load_image(path, Preprocess(64, 64)) for path in paths])).permute(0, 3, 1, 2)
    for module in backbone.network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None  # the plain mean over batches
    backbone.network.train()
    with torch.no_grad():
        backbone.network(batch / 127.5 - 1)
    return backbone


@pytest.mark.parametrize(("make", "bits"), [(lite0, 48), (googlenet, 100)], ids=["efficientnet-lite0", "googlenet"])
def test_export_of_a_real_backbone_equals_torch(
    content: Any, make: Any, bits: int, tmp_path: Path, capfd: Any, leftovers: Any
) -> None:
    backbone, preprocess = make(), Preprocess(64, 64)
    torch.manual_seed(1)
    network = HashModel(backbone.network, backbone.features, bits, backbone.mean, backbone.std, dropout=0.5)
    pixels = np.stack([load_image(path, preprocess) for path in list_images(IMAGES)[::20]])
    with torch.no_grad():  # half of the bits one, as after training
        network.hash.bias.sub_(network.eval()(torch.from_numpy(pixels).permute(0, 3, 1, 2)).mean(0))
    training_record = content(pixels, preprocess, backbone.config, backbone.mean, backbone.std)
    save_model(tmp_path / "model.pt", network.train(), training_record)
    assert main([str(tmp_path / "model.pt"), "--onnx", "--json"]) == 0
    output = capfd.readouterr()
    (result,) = json.loads(output.out)["files"]
    actual = result["devices"]["cpu"]
    assert actual["bits_differing"] == 0 and actual["images"] == len(pixels) and {1, 3, 8} <= set(actual["batches"])
    assert actual["logit_distance"] < 1e-4 * actual["logit_scale"] and actual["map_before"] == actual["map_after"]
    assert len(output.err.splitlines()) == 2  # only our messages, none of torch's

    (tmp_path / "elsewhere").mkdir()
    moved = shutil.move(tmp_path / "model.onnx", tmp_path / "elsewhere" / "m.onnx")
    assert leftovers(tmp_path) == {"model.pt", "elsewhere"}
    encoder = Encoder(moved)
    assert (encoder.fingerprint, encoder.bits, encoder.preprocess) == (result["sha256"], bits, preprocess)
    assert encoder.classes == ["cat", "Straße"] and encoder.info.backbone == backbone.config
    reference, _ = load_model(tmp_path / "model.pt")
    with torch.inference_mode():
        logits = reference(torch.from_numpy(pixels).permute(0, 3, 1, 2)).numpy()
    expected = np.packbits(logits >= 0, axis=1, bitorder="little")
    assert len(np.unique(expected, axis=0)) > len(pixels) // 2  # the codes depend on the images
    for size in (1, 3, 8, len(pixels)):
        assert np.array_equal(encoder.encode(pixels[:size]), expected[:size])


@pytest.mark.parametrize(("name", "side"), [("timm:test_vit", 160), ("timm:test_convnext", 64), ("squeezenet1_1", 64)])
def test_export_of_other_backbones_in_two_precisions(
    content: Any, name: str, side: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attention, layer norm and a classifier without Linear: equal in float32, close in half precision."""
    monkeypatch.setattr(verify, "MAP_LOSS", {"fp16": 0.2})  # for few images and random weights
    backbone, preprocess = backbones.create(name, weights="none", crop=side, seed=0), Preprocess(side, side)
    network = HashModel(backbone.network, backbone.features, BITS, backbone.mean, backbone.std)
    pixels = np.stack([load_image(path, preprocess) for path in list_images(IMAGES)[::20]])
    with torch.no_grad():
        network.hash.bias.sub_(network.eval()(torch.from_numpy(pixels).permute(0, 3, 1, 2)).mean(0))
    result = content(pixels, preprocess, backbone.config, backbone.mean, backbone.std)
    save_model(tmp_path / "model.pt", network, result)
    done = export.export_onnx(tmp_path / "model.pt", tmp_path / "m.onnx", precisions=["fp32", "fp16"], device="cpu")
    full, half = (file.comparisons["cpu"] for file in done.files)
    assert full.differing <= 1 and full.distance < 1e-3 * full.scale
    assert full.distance < half.distance < 0.1 * half.scale, "only rounding differs"
    model = onnx.load(tmp_path / "m.fp16.onnx")
    large = [tensor for tensor in model.graph.initializer if np.prod(tensor.dims) > 2000]
    assert {tensor.data_type for tensor in large if "hash" not in tensor.name} == {onnx.TensorProto.FLOAT16}
