"""idcwh-export from model.pt to model.onnx: the files it writes, the comparison and the messages."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from idcwh_export import export, int8, verify
from idcwh_export.cli import main
from idcwh_search.encoder import device as devices
from idcwh_search.encoder import model_file
from idcwh_search.encoder.encoder import Encoder
from idcwh_search.errors import IdcwhError, NotSupportedError
from idcwh_search.images.listing import list_images

REPOSITORY = Path(__file__).resolve().parents[2]
IMAGES = REPOSITORY / "demo" / "cifar10" / "test"


def test_export_writes_beside_the_model_or_to_a_name(
    small: Any, quick: None, tmp_path: Path, capfd: pytest.CaptureFixture[str], leftovers: Any
) -> None:
    assert main([str(small()), "--onnx"]) == 0
    assert main([str(small()), "--onnx", str(tmp_path / "other.name")]) == 0
    assert (tmp_path / "model.onnx").read_bytes() == (tmp_path / "other.name").read_bytes()
    assert leftovers(tmp_path) == {"model.pt", "model.onnx", "other.name"}
    output = capfd.readouterr().out
    assert "40 images in batches of 1, 3, 8, 32: 0 of 1,632 bits differ" in output and "model.onnx: 12 bits" in output


def test_export_verifies_on_a_folder(
    small: Any, quick: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([str(small()), "--onnx", "--json", "--verify", str(IMAGES / "cat")]) == 0
    result = json.loads(capfd.readouterr().out)
    assert result["files"][0]["devices"]["cpu"]["images"] == len(list_images(IMAGES / "cat"))
    assert result["skipped"] == [] and result["relevant"] == "the nearest by the model's logits"


def test_export_skips_and_names_unreadable_images(
    small: Any, quick: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(IMAGES / "cat", tmp_path / "cats")
    (tmp_path / "cats" / "bad.jpg").write_text("no image")
    assert main([str(small()), "--onnx", "--json", "--verify", str(tmp_path / "cats")]) == 3
    output = capfd.readouterr()
    assert [Path(entry["path"]).name for entry in json.loads(output.out)["skipped"]] == ["bad.jpg"]
    assert "skipped" in output.err and (tmp_path / "model.onnx").exists()


@pytest.mark.parametrize("option", ["--verify", "--calibrate"])
def test_export_reports_files_that_are_left_out(
    small: Any, quick: None, tmp_path: Path, capfd: pytest.CaptureFixture[str], option: str
) -> None:
    for name in ("cat", "dog"):
        shutil.copytree(IMAGES / name, tmp_path / "photos" / name)
    (tmp_path / "photos" / "cat" / "1.jxl").touch()
    (tmp_path / "photos" / "dog" / "bad.jpg").write_text("no image")
    argv = [str(small()), "--onnx", "--json", "--precision", "int8", option, str(tmp_path / "photos")]
    assert main(argv) == 3
    output = capfd.readouterr()
    result = json.loads(output.out)
    assert [Path(entry["path"]).name for entry in result["skipped"]] == ["bad.jpg"]
    assert result["left_out"]["skipped"] == {".jxl": 1} and "(first: cat/1.jxl)" in output.err
    (tmp_path / "photos" / "dog" / "bad.jpg").unlink()
    assert main(argv) == 3, "the exit code reports files that are left out"


def test_export_begins_with_the_compared_bytes(
    small: Any, quick: None, tmp_path: Path, images: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file starts with the compared bytes, followed by the results and the checksum."""
    seen: list[bytes] = []
    monkeypatch.setattr(
        export, "Encoder", lambda path, **options: (seen.append(Path(path).read_bytes()), Encoder(path, **options))[1]
    )
    sample = {"images": torch.from_numpy(images), "keys": [], "labels": torch.arange(40) % 4}
    path = small(sample=sample)
    done = export.export_onnx(path, tmp_path / "m.onnx")
    content = (tmp_path / "m.onnx").read_bytes()
    (compared,) = seen
    assert model_file.examine(compared)[0] is model_file.examine(content)[0] is model_file.ChecksumState.VALID
    body = compared[: compared.rindex(model_file._EXAMPLE[:-64])]
    assert content.startswith(body) and len(body) > len(content) - 1000
    verified = Encoder(tmp_path / "m.onnx").info.verified
    assert verified == done.files[0].info.verified and verified is not None
    result = verified["devices"]["cpu"]
    assert (result["bits_compared"], result["bits_differing"], result["images"]) == (1632, 0, 40)
    assert verified["relevant"] == "the same label" and result["map_before"] == result["map_after"] > 0.2
    assert torch.__version__.startswith(verified["versions"]["torch"])
    assert onnx.load(tmp_path / "m.onnx").graph == onnx.load_from_string(compared).graph


def test_export_records_the_checksum_of_its_model(small: Any, quick: None, tmp_path: Path) -> None:
    path = small()
    export.export_onnx(path, tmp_path / "m.onnx")
    assert Encoder(tmp_path / "m.onnx").info.source_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("works", [True, False])
def test_export_compares_on_every_usable_device(
    works: bool, small: Any, quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CPU session replaces that of a GPU."""

    def opened(path: str, device: str, **options: Any) -> Encoder:
        if device == "cuda" and not works:
            raise NotSupportedError(path="device cuda")
        return Encoder(path, device="cpu", **options)

    monkeypatch.setattr(devices, "usable", lambda: ["cpu", "cuda"])
    monkeypatch.setattr(devices, "obstacles", dict)
    monkeypatch.setattr(export, "Encoder", opened)
    done = export.export_onnx(small(), tmp_path / "m.onnx")
    verified = Encoder(tmp_path / "m.onnx").info.verified
    assert verified is not None and list(verified["devices"]) == list(done.files[0].comparisons)
    assert list(verified["devices"]) == (["cpu", "cuda"] if works else ["cpu"])
    assert list(done.passed_over) == ([] if works else ["fp32 on cuda"])


def test_export_writes_several_precisions(
    small: Any, quick: None, tmp_path: Path, capfd: Any, monkeypatch: Any, leftovers: Any
) -> None:
    monkeypatch.setattr(verify, "MAP_LOSS", {"fp16": 0.1, "int8": 0.2})  # for 40 images and 12 bits
    asked = ["--precision", "int8", "fp32", "fp16"]
    assert main([str(small()), "--onnx", str(tmp_path / "m.onnx"), *asked, "--json"]) == 0
    assert leftovers(tmp_path) == {"model.pt", "m.onnx", "m.fp16.onnx", "m.int8.onnx"}
    result = json.loads(capfd.readouterr().out)
    assert [entry["precision"] for entry in result["files"]] == ["fp32", "fp16", "int8"]
    distances = []
    for entry in result["files"]:
        encoder = Encoder(entry["path"])
        assert encoder.info.precision == entry["precision"] and encoder.fingerprint == entry["sha256"]
        actual = entry["devices"]["cpu"]
        assert actual["bits_compared"] == 1632 and actual["images_per_second"] > 0
        assert encoder.info.verified is not None
        assert encoder.info.verified["devices"]["cpu"]["logit_distance"] == actual["logit_distance"]
        distances.append(actual["logit_distance"])
    assert distances == sorted(distances) and distances[0] < distances[1] < distances[2]
    assert [entry["float_layers"] for entry in result["files"]] == [None, None, 0]
    weights = [onnx.load(entry["path"]).graph.initializer for entry in result["files"]]
    sizes = [sum(len(tensor.raw_data) for tensor in of) for of in weights]  # the metadata is larger than the weights
    assert sizes[1] < sizes[0]
    half = result["files"][1]["half_arithmetic"]
    assert distances[0] < half["logit_distance"] and 0 < half["largest_activation"] < 100
    verified = Encoder(tmp_path / "m.fp16.onnx").info.verified
    assert verified is not None and verified["half_arithmetic"] == half and set(verified["devices"]) == {"cpu"}
    assert [entry.get("half_arithmetic") for entry in result["files"][::2]] == [None, None]


def test_export_records_the_calibration_images(
    small: Any, quick: None, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above all if the model was compared on the same images, which proves less."""
    monkeypatch.setattr(verify, "MAP_LOSS", {"int8": 0.5})
    cats, some = ["--verify", str(IMAGES / "cat")], str(IMAGES / "dog")
    for model, options, calibration in (
        (small, [], export.SEEN),
        (small, cats, "training images kept in model.pt"),
        (small, [*cats, "--calibrate", some], "images given with --calibrate"),
        (lambda: small(sample={}), cats, export.SEEN),
    ):
        assert main([str(model()), "--onnx", str(tmp_path / "m.onnx"), "--precision", "int8", *options]) == 0
        output = capfd.readouterr()
        verified = Encoder(tmp_path / "m.onnx").info.verified
        assert verified is not None and verified["calibration"] == calibration
        assert f"calibrated on {calibration}\n" in output.out
        assert ("int8 was calibrated" in output.err) == (calibration == export.SEEN)
        assert main(["--info", str(tmp_path / "m.onnx")]) == 0
        assert re.search(rf"^  calibrated +on {calibration}$", capfd.readouterr().out, re.M)


def test_export_calibrates_on_the_right_images(small: Any, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The requested images come first, then those in model.pt, then those of the comparison."""
    seen: list[int] = []

    def stop(model: Any, pixels: np.ndarray, threads: int) -> Any:
        seen.append(len(pixels))
        raise IdcwhError("enough")

    monkeypatch.setattr(int8, "quantize", stop)
    monkeypatch.setattr(export, "CALIBRATION", 50)
    cats = ["--verify", str(IMAGES / "cat"), "--precision", "int8"]
    path = small()
    for arguments in (cats, [*cats, "--calibrate", str(IMAGES)], [*cats, "--calibrate", str(IMAGES / "dog")]):
        assert main([str(path), "--onnx", *arguments]) == 1
    path = small(sample={})
    assert main([str(path), "--onnx", *cats]) == 1
    assert seen == [40, 50, len(list_images(IMAGES / "dog")), len(list_images(IMAGES / "cat"))]


def test_names_of_one_precision_are_unchanged() -> None:
    assert export.names(Path("a/m.onnx"), ["int8"]) == {"int8": Path("a/m.onnx")}
    assert list(export.names(Path("m.b.onnx"), ["int8", "fp32"]).values()) == [Path("m.b.onnx"), Path("m.b.int8.onnx")]
    with pytest.raises(ValueError, match=r"^precisions: .*'int4'"):
        export.names(Path("m.onnx"), ["int4"])


def test_export_verifies_on_labelled_images(small: Any, quick: None, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([str(small()), "--onnx", "--json", "--verify", str(IMAGES), "--limit", "30"]) == 0
    result = json.loads(capfd.readouterr().out)
    assert result["relevant"] == "labels" and result["files"][0]["devices"]["cpu"]["images"] == 30


@pytest.mark.slow
def test_help_imports_no_torch() -> None:
    code = (
        "import sys; from idcwh_export.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--verify" in done.stdout and done.stderr == ""
