"""idcwh-export without output: wrong files and arguments, and exports that differ from the model."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

from idcwh_export import export, graph, verify
from idcwh_export.cli import main
from idcwh_search.encoder import device as devices
from idcwh_search.encoder import model_file
from idcwh_search.encoder.encoder import Encoder
from idcwh_search.images.listing import list_images
from idcwh_search.images.preprocess import Preprocess
from idcwh_train.engine.checkpoint import load_model, save_model
from idcwh_train.models import backbones
from idcwh_train.models.hash_model import HashModel

REPOSITORY = Path(__file__).resolve().parents[2]
IMAGES = REPOSITORY / "demo" / "cifar10" / "test"
SIDE, BITS = 32, 12


def fails(capfd: pytest.CaptureFixture[str], *arguments: Any) -> str:
    """Returns the one line of the command, which must fail."""
    assert main([str(argument) for argument in arguments]) == 1
    output = capfd.readouterr()
    lines = [line for line in output.err.splitlines() if not line.startswith("exporting ")]
    assert output.out == "" and len(lines) == 1 and lines[0].startswith("error: ")
    return lines[0]


def test_export_of_another_file_names_it(
    small: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str], leftovers: Any
) -> None:
    (tmp_path / "text.pt").write_text("hello")
    torch.save({"format": "something else"}, tmp_path / "other.pt")
    torch.save(torch.nn.Linear(2, 2), tmp_path / "pickled.pt")
    (tmp_path / "cut.pt").write_bytes(small().read_bytes()[:-3000])
    before = leftovers(tmp_path)
    for name in ("gone.pt", "text.pt", "other.pt", "pickled.pt", "cut.pt", "."):
        assert f"{tmp_path / name}: " in fails(capfd, tmp_path / name, "--onnx")
    os.mkfifo(tmp_path / "pipe.onnx")
    for arguments in ((tmp_path / "pipe.onnx", "--onnx", "m.onnx"), ("--info", tmp_path / "pipe.onnx")):
        assert f"{tmp_path / 'pipe.onnx'}: " in fails(capfd, *arguments)
    assert main(["--list", str(tmp_path / "pipe.onnx")]) == 0
    assert "pipe.onnx" in capfd.readouterr().out
    (tmp_path / "pipe.onnx").unlink()
    shutil.copy(small(), tmp_path / "m.onnx")
    assert f"{tmp_path / 'm.onnx'}: " in fails(capfd, tmp_path / "m.onnx", "--onnx", "n.onnx")
    before |= {"m.onnx", "model.pt"}
    assert leftovers(tmp_path) == before


def test_export_to_an_unwritable_place_names_it(
    small: Any, quick: None, tmp_path: Path, capfd: pytest.CaptureFixture[str], leftovers: Any
) -> None:
    path = small()
    (tmp_path / "folder").mkdir()
    for target in (tmp_path / "gone" / "m.onnx", tmp_path / "folder"):
        assert f"{target}: " in fails(capfd, path, "--onnx", target)
    assert leftovers(tmp_path) == {"model.pt", "folder"}


def test_export_never_replaces_inputs_and_other_files(
    small: Any, quick: None, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Covers the model under any name, the images of verification and calibration, and files that are not ONNX."""
    path, image = small(), shutil.copy(list_images(IMAGES / "cat")[0], tmp_path / "cat.png")
    other = shutil.copy(path, tmp_path / "other.pt")
    (tmp_path / "link.pt").symlink_to(path)
    (tmp_path / "list.txt").write_text("cat.png\n")
    shutil.copy(path, tmp_path / "m.int8.onnx")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    monkeypatch.chdir(tmp_path)
    for model, target in (("model.pt", path), (path, "model.pt"), ("link.pt", path), (path, "link.pt")):
        assert f"{target}: " in fails(capfd, model, "--onnx", target)
    for option in ("--verify", "--calibrate"):
        given = ("--onnx", "list.txt", "--precision", "int8", option, tmp_path / "list.txt")
        assert "list.txt: " in fails(capfd, path, *given)
    for target in (other, image, "list.txt"):
        output = fails(capfd, path, "--onnx", target)
        assert f"{target}: " in output and "ONNX model" in output
    assert "m.int8.onnx: " in fails(capfd, path, "--onnx", "m.onnx", "--precision", "int8", "fp32")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    (tmp_path / "empty.onnx").touch()
    assert main(["model.pt", "--onnx", "empty.onnx"]) == 0
    assert Encoder("empty.onnx").bits == BITS


def test_export_without_images_fails(
    small: Any, quick: None, tmp_path: Path, capfd: pytest.CaptureFixture[str], leftovers: Any
) -> None:
    path = small(sample={})
    assert "--verify IMAGES" in fails(capfd, path, "--onnx")
    path = small(pixels=np.zeros((0, 32, 32, 3), np.uint8))
    assert "--verify IMAGES" in fails(capfd, path, "--onnx")
    path = small(pixels=np.zeros((2, 16, 16, 3), np.uint8))
    output = fails(capfd, path, "--onnx")
    assert "16 x 16 x 3" in output and "32 x 32 x 3" in output
    (tmp_path / "empty").mkdir()
    assert f"{tmp_path / 'empty'}: " in fails(capfd, path, "--onnx", "--verify", tmp_path / "empty")
    (tmp_path / "empty" / "bad.jpg").write_text("no image")
    for option in ("--verify", "--calibrate"):
        assert main([str(small()), "--onnx", "--precision", "int8", option, str(tmp_path / "empty")]) == 1
        output = capfd.readouterr().err
        assert f"error: {tmp_path / 'empty'}: " in output and "bad.jpg" in output and "model.onnx" not in output
    assert leftovers(tmp_path) == {"model.pt", "empty"}


def test_export_checks_the_device_first(
    small: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: Any, leftovers: Any
) -> None:
    path = small()
    monkeypatch.setattr(graph, "build", lambda *_, **__: pytest.fail("built before the device was checked"))
    monkeypatch.setattr("idcwh_search.encoder.cuda.obstacle", lambda ort: "no GPU found")
    assert "device cuda: " in fails(capfd, path, "--onnx", "--device", "cuda")
    assert leftovers(tmp_path) == {"model.pt"}


def test_export_of_batch_norm_without_statistics_fails(
    small: Any, monkeypatch: Any, capfd: Any, tmp_path: Path, leftovers: Any
) -> None:
    path = small()

    def load(source: Any) -> Any:
        network, rest = load_model(source)
        network.backbone[1] = torch.nn.BatchNorm2d(8, track_running_stats=False)  # type: ignore[index, operator]
        return network, rest

    monkeypatch.setattr(export, "load_model", load)
    assert "track_running_stats=True" in fails(capfd, path, "--onnx")
    assert leftovers(tmp_path) == {"model.pt"}


def test_export_names_a_missing_package(small: Any, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = small()
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    assert "pip install 'idcwh[export]'" in fails(capfd, path, "--onnx")


@pytest.mark.parametrize("arguments", [[], ["model.pt"], ["model.pt", "--onnx", "--opset", "x"], ["a", "b", "--onnx"]])
def test_export_with_wrong_usage_exits_with_2(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2 and "idcwh-export --help" in capfd.readouterr().err


def test_export_with_the_model_as_output_names_the_order(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--onnx", "model.pt"])
    assert "idcwh-export model.pt --onnx" in capfd.readouterr().err


# ------------------------------------------------------------------------------------------------ wrong exports


@pytest.mark.slow
def test_export_of_fp16_beyond_its_range_fails(
    content: Any, tmp_path: Path, images: np.ndarray, capfd: Any, monkeypatch: Any, leftovers: Any
) -> None:
    """Large numbers between two convolutions. ONNX Runtime on a CPU keeps them in float32 and does not detect this."""
    monkeypatch.setattr(devices, "usable", lambda: ["cpu"])
    monkeypatch.setattr(verify, "MAP_LOSS", {"fp16": 0.05})  # for 40 images and 12 bits
    monkeypatch.setattr(backbones, "build", lambda config: large_between())
    mean, std = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)
    network = HashModel(large_between(), 32, BITS, mean, std).eval()
    built = graph.build(network, BITS, SIDE, {})
    monkeypatch.setattr(graph, "build", lambda *_: built)
    result = content(images, Preprocess(SIDE, SIDE), {"name": "large", "features": 32}, mean, std)
    save_model(tmp_path / "model.pt", network, result)
    fp16 = (tmp_path / "model.pt", "--onnx", tmp_path / "m.onnx", "--precision", "fp16")
    output = fails(capfd, *fp16)
    assert f"{tmp_path / 'm.onnx'}: " in output and "65,504" in output
    assert leftovers(tmp_path) == {"model.pt"}

    def as_it_comes(content: bytes, *_: Any) -> Encoder:
        (tmp_path / "again.onnx").write_bytes(model_file.with_checksum(content))
        return Encoder(tmp_path / "again.onnx", device="cpu")

    monkeypatch.setattr(export, "HalfArithmetic", as_it_comes)
    assert main([str(argument) for argument in fp16]) == 0


def large_between() -> torch.nn.Module:
    """Returns two convolutions. The first outputs numbers around 100,000, the second around 500."""
    torch.manual_seed(0)
    first, second = torch.nn.Conv2d(3, 8, 3, stride=2), torch.nn.Conv2d(8, 8, 3)
    with torch.no_grad():
        for values in (first.weight, first.bias):
            assert values is not None
            values.mul_(1e5)
        second.weight.mul_(1 / 300)
    return torch.nn.Sequential(first, torch.nn.ReLU(), second, torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten())


def test_export_with_lower_map_leaves_no_file(
    small: Any, quick: None, tmp_path: Path, capfd: Any, monkeypatch: Any, leftovers: Any
) -> None:
    monkeypatch.setattr(verify, "MAP_LOSS", {"fp16": 1.0, "int8": -1.0})
    path = small()
    output = fails(capfd, path, "--onnx", "--precision", "fp32", "fp16", "int8")
    assert f"{tmp_path / 'model.int8.onnx'}: " in output and "MAP" in output
    assert leftovers(tmp_path) == {"model.pt"}


def sabotaged(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[..., onnx.ModelProto]:
    """Returns an exporter that gets one constant wrong."""
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
def test_export_with_a_fault_leaves_no_file(
    name: str, change: Any, small: Any, quick: None, tmp_path: Path, monkeypatch: Any, capfd: Any, leftovers: Any
) -> None:
    path = small()
    monkeypatch.setattr(graph, "build", sabotaged(name, change))
    assert main([str(path), "--onnx"]) == 1
    assert leftovers(tmp_path) == {"model.pt"}
    output = capfd.readouterr()
    assert output.out == "" and output.err.splitlines()[-1].startswith(f"error: {tmp_path / 'model.onnx'}: ")


def test_export_with_a_fault_keeps_the_old_file(
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


def test_export_that_changes_the_network_fails(
    small: Any, quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leftovers: Any
) -> None:
    """The comparison reads the file again and does not use the exporter's network."""
    flipped = sabotaged("hash.weight", lambda value: -value)

    def build(network: Any, *arguments: Any, **options: Any) -> onnx.ModelProto:
        with torch.no_grad():
            network.hash.weight.mul_(-1)
        return flipped(network, *arguments, **options)

    monkeypatch.setattr(graph, "build", build)
    assert main([str(small()), "--onnx"]) == 1 and leftovers(tmp_path) == {"model.pt"}
