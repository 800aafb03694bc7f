"""idcwh-export from the file model.pt to the file model.onnx: real backbones, real pictures, and every way to fail.

Slow parts (building a graph) are done once a backbone; what is tested on top of them uses the small network.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

from idcwh_export import export, graph, int8, verify
from idcwh_export.cli import main
from idcwh_search import devices, onnx_file
from idcwh_search.encoder import Encoder
from idcwh_search.errors import IdcwhError
from idcwh_search.image_lists import list_images
from idcwh_search.images import Preprocess, load_image
from idcwh_train import backbones
from idcwh_train.checkpoint import load_model, save_model
from idcwh_train.model import HashModel

REPOSITORY = Path(__file__).resolve().parents[2]
PICTURES = REPOSITORY / "demo" / "cifar10" / "test"
SIDE, BITS = 32, 12


def content(pixels: np.ndarray, preprocess: Preprocess, backbone: Any, mean: Any, std: Any) -> dict[str, Any]:
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
def small(tmp_path: Path, make_network: Any, pictures: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes a model.pt of the small network, which has no name that load_model could build it by."""
    monkeypatch.setattr(backbones, "build", lambda config: make_network().backbone)

    def write(pixels: np.ndarray = pictures, **changes: Any) -> Path:
        network = make_network()
        mean, std = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)
        made = content(pixels, Preprocess(SIDE, SIDE), {"name": "small", "features": 32}, mean, std)
        save_model(tmp_path / "model.pt", network, {**made, **changes})
        return tmp_path / "model.pt"

    return write


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, exported: dict[int, bytes]) -> None:
    """The graph of the small network, built before."""
    monkeypatch.setattr(graph, "build", lambda *_, **__: onnx.load_from_string(exported[BITS]))
    monkeypatch.setattr(devices, "usable", lambda: ["cpu"])


def leftovers(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# ------------------------------------------------------------------------------------------------ real backbones


def lite0() -> backbones.Backbone:
    return backbones.create("timm:tf_efficientnet_lite0", crop=64)


def googlenet() -> backbones.Backbone:
    """Random weights, batch norm with the statistics of real pictures, and the pretrained network's input transform."""
    torch.manual_seed(0)
    made = backbones.create("googlenet", weights="none", crop=64)
    made.config["transform_input"] = made.network.transform_input = True  # type: ignore[assignment]
    paths = list_images(PICTURES)[::9]
    batch = torch.from_numpy(np.stack([load_image(path, Preprocess(64, 64)) for path in paths])).permute(0, 3, 1, 2)
    for module in made.network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None  # the plain mean over batches
    made.network.train()
    with torch.no_grad():
        made.network(batch / 127.5 - 1)
    return made


@pytest.mark.parametrize(("make", "bits"), [(lite0, 48), (googlenet, 100)], ids=["efficientnet-lite0", "googlenet"])
def test_a_real_backbone_from_file_to_file(make: Any, bits: int, tmp_path: Path, capfd: Any) -> None:
    backbone, preprocess = make(), Preprocess(64, 64)
    torch.manual_seed(1)
    network = HashModel(backbone.network, backbone.features, bits, backbone.mean, backbone.std, dropout=0.5)
    pixels = np.stack([load_image(path, preprocess) for path in list_images(PICTURES)[::20]])
    with torch.no_grad():  # half of the bits one, as after training
        network.hash.bias.sub_(network.eval()(torch.from_numpy(pixels).permute(0, 3, 1, 2)).mean(0))
    made = content(pixels, preprocess, backbone.config, backbone.mean, backbone.std)
    save_model(tmp_path / "model.pt", network.train(), made)
    assert main([str(tmp_path / "model.pt"), "--onnx", "--json"]) == 0
    said = capfd.readouterr()
    (result,) = json.loads(said.out)["files"]
    found = result["devices"]["cpu"]
    assert found["bits_differing"] == 0 and found["images"] == len(pixels) and {1, 3, 8} <= set(found["batches"])
    assert found["logit_distance"] < 1e-4 * found["logit_scale"] and found["map_before"] == found["map_after"]
    assert len(said.err.splitlines()) == 2  # what we say, and nothing of torch's

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
    assert len(np.unique(expected, axis=0)) > len(pixels) // 2  # the codes say something about the pictures
    for size in (1, 3, 8, len(pixels)):
        assert np.array_equal(encoder.encode(pixels[:size]), expected[:size])


@pytest.mark.parametrize(("name", "side"), [("timm:test_vit", 160), ("timm:test_convnext", 64), ("squeezenet1_1", 64)])
def test_other_kinds_of_backbones(name: str, side: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention, layer norm, a classifier without Linear: in float32, and in half precision near it."""
    monkeypatch.setattr(verify, "MAP_LOSS", {"fp16": 0.2})  # of a few pictures and random weights
    backbone, preprocess = backbones.create(name, weights="none", crop=side, seed=0), Preprocess(side, side)
    network = HashModel(backbone.network, backbone.features, BITS, backbone.mean, backbone.std)
    pixels = np.stack([load_image(path, preprocess) for path in list_images(PICTURES)[::20]])
    with torch.no_grad():
        network.hash.bias.sub_(network.eval()(torch.from_numpy(pixels).permute(0, 3, 1, 2)).mean(0))
    made = content(pixels, preprocess, backbone.config, backbone.mean, backbone.std)
    save_model(tmp_path / "model.pt", network, made)
    done = export.export_onnx(tmp_path / "model.pt", tmp_path / "m.onnx", precisions=["fp32", "fp16"], device="cpu")
    full, half = (file.comparisons["cpu"] for file in done.files)
    assert full.differing <= 1 and full.distance < 1e-3 * full.scale
    assert full.distance < half.distance < 0.1 * half.scale, "rounded, and not more than that"
    model = onnx.load(tmp_path / "m.fp16.onnx")
    large = [tensor for tensor in model.graph.initializer if np.prod(tensor.dims) > 2000]
    assert {tensor.data_type for tensor in large if "hash" not in tensor.name} == {onnx.TensorProto.FLOAT16}


# ------------------------------------------------------------------------------------------------ what it does


def test_where_it_writes(small: Any, quick: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([str(small()), "--onnx"]) == 0
    assert main([str(small()), "--onnx", str(tmp_path / "other.name")]) == 0
    assert (tmp_path / "model.onnx").read_bytes() == (tmp_path / "other.name").read_bytes()
    assert leftovers(tmp_path) == {"model.pt", "model.onnx", "other.name"}
    said = capfd.readouterr().out
    assert "40 images in batches of 1, 3, 8, 32: 0 of 1,632 bits differ" in said and "model.onnx: 12 bits" in said


def test_an_old_file_is_replaced_only_by_a_good_one(
    small: Any, quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = onnx.helper.make_model(onnx.helper.make_graph([], "old", [], [])).SerializeToString()
    (tmp_path / "model.onnx").write_bytes(old)
    with monkeypatch.context() as broken:
        broken.setattr(graph, "build", sabotaged("mean", lambda value: value + 1))
        assert main([str(small()), "--onnx"]) == 1
    assert (tmp_path / "model.onnx").read_bytes() == old
    assert main([str(small()), "--onnx"]) == 0
    assert Encoder(tmp_path / "model.onnx").bits == BITS


def test_pictures_of_ones_own(small: Any, quick: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([str(small()), "--onnx", "--json", "--verify", str(PICTURES / "cat")]) == 0
    result = json.loads(capfd.readouterr().out)
    assert result["files"][0]["devices"]["cpu"]["images"] == len(list_images(PICTURES / "cat"))
    assert result["skipped"] == [] and result["relevant"] == "the nearest by the model's logits"


def test_unreadable_pictures_are_skipped_and_named(
    small: Any, quick: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(PICTURES / "cat", tmp_path / "cats")
    (tmp_path / "cats" / "bad.jpg").write_text("no picture")
    assert main([str(small()), "--onnx", "--json", "--verify", str(tmp_path / "cats")]) == 3
    said = capfd.readouterr()
    assert [Path(entry["path"]).name for entry in json.loads(said.out)["skipped"]] == ["bad.jpg"]
    assert "skipped" in said.err and (tmp_path / "model.onnx").exists()


def test_what_was_compared_is_the_beginning_of_the_file(
    small: Any, quick: None, tmp_path: Path, pictures: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte for byte; behind it what was found, and the seal."""
    seen: list[bytes] = []
    monkeypatch.setattr(
        export, "Encoder", lambda path, **options: (seen.append(Path(path).read_bytes()), Encoder(path, **options))[1]
    )
    sample = {"images": torch.from_numpy(pictures), "keys": [], "labels": torch.arange(40) % 4}
    path = small(sample=sample)
    done = export.export_onnx(path, tmp_path / "m.onnx")
    content = (tmp_path / "m.onnx").read_bytes()
    (compared,) = seen
    assert onnx_file.examine(compared)[0] is onnx_file.examine(content)[0] is onnx_file.Seal.WHOLE
    body = compared[: compared.rindex(onnx_file._EXAMPLE[:-64])]
    assert content.startswith(body) and len(body) > len(content) - 1000
    verified = Encoder(tmp_path / "m.onnx").info.verified
    assert verified == done.files[0].info.verified and verified is not None
    found = verified["devices"]["cpu"]
    assert (found["bits_compared"], found["bits_differing"], found["images"]) == (1632, 0, 40)
    assert verified["relevant"] == "the same label" and found["map_before"] == found["map_after"] > 0.2
    assert torch.__version__.startswith(verified["versions"]["torch"])
    assert onnx.load(tmp_path / "m.onnx").graph == onnx.load_from_string(compared).graph


def test_every_precision_in_one_go(
    small: Any, quick: None, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "MAP_LOSS", {"fp16": 0.1, "int8": 0.2})  # of 40 pictures and 12 bits
    asked = ["--precision", "int8", "fp32", "fp16"]
    assert main([str(small()), "--onnx", str(tmp_path / "m.onnx"), *asked, "--json"]) == 0
    assert leftovers(tmp_path) == {"model.pt", "m.onnx", "m.fp16.onnx", "m.int8.onnx"}
    result = json.loads(capfd.readouterr().out)
    assert [entry["precision"] for entry in result["files"]] == ["fp32", "fp16", "int8"]
    distances = []
    for entry in result["files"]:
        encoder = Encoder(entry["path"])
        assert encoder.info.precision == entry["precision"] and encoder.fingerprint == entry["sha256"]
        found = entry["devices"]["cpu"]
        assert found["bits_compared"] == 1632 and found["images_per_second"] > 0
        assert encoder.info.verified is not None
        assert encoder.info.verified["devices"]["cpu"]["logit_distance"] == found["logit_distance"]
        distances.append(found["logit_distance"])
    assert distances == sorted(distances) and distances[0] < distances[1] < distances[2]
    assert [entry["float_layers"] for entry in result["files"]] == [None, None, 0]
    weights = [onnx.load(entry["path"]).graph.initializer for entry in result["files"]]
    sizes = [sum(len(tensor.raw_data) for tensor in of) for of in weights]  # its metadata outweighs them
    assert sizes[1] < sizes[0]
    half = result["files"][1]["half_arithmetic"]
    assert distances[0] < half["logit_distance"] and 0 < half["largest_activation"] < 100
    verified = Encoder(tmp_path / "m.fp16.onnx").info.verified
    assert verified is not None and verified["half_arithmetic"] == half and set(verified["devices"]) == {"cpu"}
    assert [entry.get("half_arithmetic") for entry in result["files"][::2]] == [None, None]


def test_int8_says_what_it_was_calibrated_on(
    small: Any, quick: None, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above all where that is what it was compared on, which proves less."""
    monkeypatch.setattr(verify, "MAP_LOSS", {"int8": 0.5})
    cats, some = ["--verify", str(PICTURES / "cat")], str(PICTURES / "dog")
    for model, options, calibration in (
        (small, [], export.SEEN),
        (small, cats, "training images kept in model.pt"),
        (small, [*cats, "--calibrate", some], "images given with --calibrate"),
        (lambda: small(sample={}), cats, export.SEEN),
    ):
        assert main([str(model()), "--onnx", str(tmp_path / "m.onnx"), "--precision", "int8", *options]) == 0
        said = capfd.readouterr()
        verified = Encoder(tmp_path / "m.onnx").info.verified
        assert verified is not None and verified["calibration"] == calibration
        assert f"calibrated on {calibration}\n" in said.out
        assert ("calibrated on the pictures it is compared on" in said.err) == (calibration == export.SEEN)
        assert main(["--info", str(tmp_path / "m.onnx")]) == 0
        assert re.search(rf"^  calibrated +on {calibration}$", capfd.readouterr().out, re.M)


def test_fp16_beyond_the_range_of_half_precision_is_refused(
    tmp_path: Path, pictures: np.ndarray, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large numbers between two convolutions. ONNX Runtime on a CPU keeps them in float32, and sees nothing."""
    monkeypatch.setattr(devices, "usable", lambda: ["cpu"])
    monkeypatch.setattr(verify, "MAP_LOSS", {"fp16": 0.05})  # of 40 pictures and 12 bits
    monkeypatch.setattr(backbones, "build", lambda config: large_between())
    mean, std = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)
    network = HashModel(large_between(), 32, BITS, mean, std).eval()
    made = content(pictures, Preprocess(SIDE, SIDE), {"name": "large", "features": 32}, mean, std)
    save_model(tmp_path / "model.pt", network, made)
    fp16 = (tmp_path / "model.pt", "--onnx", tmp_path / "m.onnx", "--precision", "fp16")
    said = fails(capfd, *fp16)
    assert "(fp16 in half arithmetic): an activation reaches more than 65,504, where half precision ends at" in said
    assert leftovers(tmp_path) == {"model.pt"}

    def as_it_comes(content: bytes, *_: Any) -> Encoder:
        (tmp_path / "again.onnx").write_bytes(onnx_file.sealed(content))
        return Encoder(tmp_path / "again.onnx", device="cpu")

    monkeypatch.setattr(export, "HalfArithmetic", as_it_comes)
    assert main([str(argument) for argument in fp16]) == 0


def large_between() -> torch.nn.Module:
    """The first convolution gives numbers around 100,000, the second some hundreds."""
    torch.manual_seed(0)
    first, second = torch.nn.Conv2d(3, 8, 3, stride=2), torch.nn.Conv2d(8, 8, 3)
    with torch.no_grad():
        for values in (first.weight, first.bias):
            assert values is not None
            values.mul_(1e5)
        second.weight.mul_(1 / 300)
    return torch.nn.Sequential(first, torch.nn.ReLU(), second, torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten())


def test_a_precision_that_finds_worse_leaves_nothing(
    small: Any, quick: None, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "MAP_LOSS", {"fp16": 1.0, "int8": -1.0})
    path = small()
    said = fails(capfd, path, "--onnx", "--precision", "fp32", "fp16", "int8")
    assert "model.int8.onnx: the exported network is not the model (int8 on cpu): MAP falls from" in said
    assert leftovers(tmp_path) == {"model.pt"}


def test_what_int8_is_calibrated_on(small: Any, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pictures that were asked for, else those in model.pt, else those that are compared on."""
    seen: list[int] = []

    def stop(model: Any, pixels: np.ndarray, threads: int) -> Any:
        seen.append(len(pixels))
        raise IdcwhError("enough")

    monkeypatch.setattr(int8, "quantize", stop)
    monkeypatch.setattr(export, "CALIBRATION", 50)
    cats = ["--verify", str(PICTURES / "cat"), "--precision", "int8"]
    path = small()
    for arguments in (cats, [*cats, "--calibrate", str(PICTURES)], [*cats, "--calibrate", str(PICTURES / "dog")]):
        assert main([str(path), "--onnx", *arguments]) == 1
    path = small(sample={})
    assert main([str(path), "--onnx", *cats]) == 1
    assert seen == [40, 50, len(list_images(PICTURES / "dog")), len(list_images(PICTURES / "cat"))]


def test_one_precision_takes_the_name_as_it_is() -> None:
    assert export.names(Path("a/m.onnx"), ["int8"]) == {"int8": Path("a/m.onnx")}
    assert list(export.names(Path("m.b.onnx"), ["int8", "fp32"]).values()) == [Path("m.b.onnx"), Path("m.b.int8.onnx")]
    with pytest.raises(ValueError, match="precision must be one of fp32, fp16, int8, not 'int4'"):
        export.names(Path("m.onnx"), ["int4"])


def test_labelled_images_of_ones_own(small: Any, quick: None, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([str(small()), "--onnx", "--json", "--verify", str(PICTURES), "--limit", "30"]) == 0
    result = json.loads(capfd.readouterr().out)
    assert result["relevant"] == "labels" and result["files"][0]["devices"]["cpu"]["images"] == 30


# ------------------------------------------------------------------------------------------------ how it fails


def sabotaged(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[..., onnx.ModelProto]:
    """An exporter that gets one constant wrong."""
    honest = graph.build

    def build(*arguments: Any, **options: Any) -> onnx.ModelProto:
        model = honest(*arguments, **options)
        (tensor,) = [tensor for tensor in model.graph.initializer if tensor.name.endswith(name)]
        value = np.asarray(change(numpy_helper.to_array(tensor).copy()), np.float32)
        tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
        return model

    return build


@pytest.mark.parametrize(
    ("name", "change"),
    [("mean", lambda v: v + 0.255), ("hash.weight", lambda v: -v), ("packing", lambda v: v[::-1])],
    ids=["mean", "sign", "packing"],
)
def test_a_wrong_export_fails_and_leaves_nothing(
    name: str, change: Any, small: Any, quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = small()
    monkeypatch.setattr(graph, "build", sabotaged(name, change))
    assert main([str(path), "--onnx"]) == 1
    assert leftovers(tmp_path) == {"model.pt"}
    said = capfd.readouterr()
    assert said.out == "" and "error: " in said.err and "is not the model (fp32 on cpu): " in said.err
    assert said.err.rstrip().endswith("nothing was written") and "Traceback" not in said.err


def test_an_exporter_that_changes_the_network_itself_is_found_out(
    small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison is with the file, read anew, and not with what the exporter has had its hands on."""
    honest = graph.build

    def build(network: Any, *arguments: Any, **options: Any) -> onnx.ModelProto:
        with torch.no_grad():
            network.hash.weight.mul_(-1)
        return honest(network, *arguments, **options)

    monkeypatch.setattr(graph, "build", build)
    assert main([str(small()), "--onnx"]) == 1 and leftovers(tmp_path) == {"model.pt"}


def fails(capfd: pytest.CaptureFixture[str], *arguments: Any) -> str:
    """Run the command; it must fail with one line, which is returned."""
    assert main([str(argument) for argument in arguments]) == 1
    said = capfd.readouterr()
    lines = [line for line in said.err.splitlines() if not line.startswith("exporting ")]
    assert said.out == "" and len(lines) == 1 and lines[0].startswith("error: ")
    return lines[0]


def test_what_is_no_model(small: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.pt").write_text("hello")
    torch.save({"format": "something else"}, tmp_path / "other.pt")
    torch.save(torch.nn.Linear(2, 2), tmp_path / "pickled.pt")
    (tmp_path / "cut.pt").write_bytes(small().read_bytes()[:-3000])
    before = leftovers(tmp_path)
    assert "no such file" in fails(capfd, tmp_path / "gone.pt", "--onnx")
    for name in ("text.pt", "other.pt", "pickled.pt", "cut.pt"):
        assert name in fails(capfd, tmp_path / name, "--onnx")
    assert "no such file" in fails(capfd, tmp_path, "--onnx")
    assert leftovers(tmp_path) == before


def test_where_it_cannot_write(small: Any, quick: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = small()
    (tmp_path / "folder").mkdir()
    assert "cannot be written" in fails(capfd, path, "--onnx", tmp_path / "gone" / "m.onnx")
    assert "directory" in fails(capfd, path, "--onnx", tmp_path / "folder")
    assert leftovers(tmp_path) == {"model.pt", "folder"}


def test_what_it_never_replaces(
    small: Any, quick: None, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model under whatever name, what it is verified and calibrated on, and anything that is no ONNX file."""
    path, picture = small(), shutil.copy(list_images(PICTURES / "cat")[0], tmp_path / "cat.png")
    other = shutil.copy(path, tmp_path / "other.pt")
    (tmp_path / "link.pt").symlink_to(path)
    (tmp_path / "list.txt").write_text("cat.png\n")
    shutil.copy(path, tmp_path / "m.int8.onnx")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    monkeypatch.chdir(tmp_path)
    for model, target in (("model.pt", path), (path, "model.pt"), ("link.pt", path), (path, "link.pt")):
        assert "is also an input of this command" in fails(capfd, model, "--onnx", target)
    for option in ("--verify", "--calibrate"):
        assert "list.txt: is also an input" in fails(capfd, path, "--onnx", "list.txt", option, tmp_path / "list.txt")
    for target in (other, picture, "list.txt"):
        said = fails(capfd, path, "--onnx", target)
        assert f"{target}: is there already and no ONNX file, so it is not replaced" in said
    assert "m.int8.onnx: is there already" in fails(capfd, path, "--onnx", "m.onnx", "--precision", "int8", "fp32")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    (tmp_path / "empty.onnx").touch()
    assert main(["model.pt", "--onnx", "empty.onnx"]) == 0
    assert Encoder("empty.onnx").bits == BITS


def test_nothing_to_compare_on(small: Any, quick: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = small(sample={})
    assert "carries no sample images" in fails(capfd, path, "--onnx")
    path = small(pixels=np.zeros((0, 32, 32, 3), np.uint8))
    assert "--verify IMAGES" in fails(capfd, path, "--onnx")
    path = small(pixels=np.zeros((2, 16, 16, 3), np.uint8))
    assert "16 x 16 x 3; its preprocessing says 32 x 32" in fails(capfd, path, "--onnx")
    (tmp_path / "empty").mkdir()
    assert "no images" in fails(capfd, path, "--onnx", "--verify", tmp_path / "empty")
    (tmp_path / "empty" / "bad.jpg").write_text("no picture")
    for option in ("--verify", "--calibrate"):
        assert main([str(small()), "--onnx", "--precision", "int8", option, str(tmp_path / "empty")]) == 1
        said = capfd.readouterr().err
        assert f"error: {tmp_path / 'empty'}: none of its images (1 tried) can be read; the first, " in said
        assert "bad.jpg" in said and "is not the model" not in said
    assert leftovers(tmp_path) == {"model.pt", "empty"}


def test_other_mistakes(small: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    path = small()
    assert "opset must be one of 18 to 23, not 7" in fails(capfd, path, "--onnx", "--opset", "7")
    monkeypatch.setattr(graph, "build", lambda *_, **__: pytest.fail("built before the device was looked at"))
    monkeypatch.setattr("idcwh_search.gpu.obstacle", lambda ort, device: "no GPU found")
    assert "device cuda cannot be used" in fails(capfd, path, "--onnx", "--device", "cuda")
    assert leftovers(tmp_path) == {"model.pt"}


def test_batch_norm_without_statistics(small: Any, monkeypatch: Any, capfd: Any, tmp_path: Path) -> None:
    path = small()

    def load(source: Any) -> Any:
        network, rest = load_model(source)
        network.backbone[1] = torch.nn.BatchNorm2d(8, track_running_stats=False)  # type: ignore[index, operator]
        return network, rest

    monkeypatch.setattr(export, "load_model", load)
    assert "batch norm without running statistics" in fails(capfd, path, "--onnx")
    assert leftovers(tmp_path) == {"model.pt"}


def test_a_missing_package_is_named(small: Any, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = small()
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    assert "pip install 'idcwh[export]'" in fails(capfd, path, "--onnx")


@pytest.mark.parametrize("arguments", [[], ["model.pt"], ["model.pt", "--onnx", "--opset", "x"], ["a", "b", "--onnx"]])
def test_wrong_usage(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2 and "idcwh-export --help" in capfd.readouterr().err


def test_a_model_taken_for_the_file_to_write(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--onnx", "model.pt"])
    said = capfd.readouterr().err
    assert "--onnx took model.pt as OUT, the file to write; name it first: idcwh-export model.pt --onnx" in said


def test_help_does_not_wait_for_torch() -> None:
    code = (
        "import sys; from idcwh_export.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--verify" in done.stdout and done.stderr == ""
