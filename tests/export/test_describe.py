"""The output of --info and --list, compared with the files as onnx reads them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch

from idcwh_export import describe
from idcwh_export.cli import main
from idcwh_search.encoder import model_file

BITS = 12
VERIFIED = {
    "versions": {"idcwh": "0.1.0", "torch": "2.14"},
    "images": "training images kept in model.pt",
    "relevant": "the same label",
    "devices": {
        "cpu": {
            "images": 64, "batches": [1, 3, 8, 32], "bits_compared": 1632, "bits_differing": 2,
            "largest_logit_differing": 1e-5, "logit_distance": 2e-5, "logit_scale": 0.5,
            "map_before": 0.75, "map_after": 0.7498,
        }
    },
}  # fmt: skip


@pytest.fixture
def model(exported: Any, tmp_path: Path) -> Path:
    content = model_file.with_metadata(exported[BITS], {"idcwh_verified": json.dumps(VERIFIED)})
    (tmp_path / "model.onnx").write_bytes(model_file.with_checksum(content))
    return tmp_path / "model.onnx"


def test_info_as_json_equals_the_file(model: Path, info: Any, capfd: Any) -> None:
    assert main(["--info", str(model), "--json"]) == 0
    result, loaded = json.loads(capfd.readouterr().out), onnx.load(model)
    assert result["sha256"] == hashlib.sha256(model.read_bytes()).hexdigest()
    assert (result["bytes"], result["opset"], result["ir_version"]) == (model.stat().st_size, 18, loaded.ir_version)
    assert sum(result["operators"].values()) == len(loaded.graph.node) and result["operators"]["Conv"] == 1
    assert result["inputs"] == {"image": "uint8 [n, 32, 32, 3]"}
    assert result["outputs"] == {"codes": "uint8 [n, 2]", "logits": "float32 [n, 12]"}
    assert result["preprocess"] == info.preprocess.to_dict() and result["classes"] == info.classes
    assert (result["bits"], result["precision"], result["verified"]) == (12, "fp32", VERIFIED)
    assert result["checksum"] == "unchanged since it was written" and "problem" not in result


def test_info_as_text_names_the_main_values(model: Path, capfd: Any) -> None:
    assert main(["--info", str(model)]) == 0
    output = capfd.readouterr().out
    for words in (
        "12 bits in 2 bytes", "unchanged since it was written", "uint8 [n, 32, 32, 3]", "2: cat, Straße",
        "shorter side scaled to 32 pixels (bilinear, antialiased)", "small, in fp32", "2 of 1,632 bits differ",
        "64 images in batches of 1, 3, 8, 32", "MAP 0.7500 -> 0.7498, relevant: the same label", "torch 2.14",
    ):  # fmt: skip
        assert words in output, words


@pytest.mark.slow
def test_info_imports_no_torch(model: Path) -> None:
    code = "import sys; from idcwh_export.cli import main; main(sys.argv[1:]); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, "--info", str(model)], capture_output=True, text=True)
    assert done.returncode == 0 and "12 bits" in done.stdout, done.stderr


def test_info_of_other_files_reports_the_problem(model: Path, exported: Any, tmp_path: Path, capfd: Any) -> None:
    changed = onnx.load(model)
    changed.graph.node[0].name = "renamed"
    onnx.save(changed, tmp_path / "changed.onnx")
    assert main(["--info", str(tmp_path / "changed.onnx")]) == 1
    output = capfd.readouterr().out
    assert re.search(r"^checked .*changed", output, re.M) and "differ" not in output
    assert main(["--info", str(tmp_path / "changed.onnx"), "--json"]) == 1
    result = json.loads(capfd.readouterr().out)
    assert result["verified"] is None and result["checksum"] == "changed after it was written"
    assert main(["--list", str(tmp_path / "changed.onnx")]) == 0
    assert "CHANGED" in capfd.readouterr().out
    bare = onnx.load_from_string(exported[BITS])
    del bare.metadata_props[:]
    onnx.save(bare, tmp_path / "bare.onnx")
    assert main(["--info", str(tmp_path / "bare.onnx")]) == 0
    output = capfd.readouterr().out
    assert "no idcwh metadata" in output and "uint8 [n, 32, 32, 3]" in output and "without a checksum" in output
    (tmp_path / "text.onnx").write_text("hello")
    for name in ("text.onnx", "gone.onnx", "."):
        assert main(["--info", str(tmp_path / name)]) == 1
        output = capfd.readouterr()
        assert output.out == "" and output.err.startswith(f"error: {tmp_path / name}: ")


def test_list_of_a_folder_has_one_line_per_model(model: Path, tmp_path: Path, capfd: Any) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "broken.onnx").write_text("hello")
    (tmp_path / "sub" / "broken.pt").write_text("hello")
    (tmp_path / "checkpoint.pt").write_text("not read")
    assert main(["--list", str(tmp_path), "--json"]) == 0
    result = json.loads(capfd.readouterr().out)
    assert [Path(entry["path"]).name for entry in result] == ["model.onnx", "broken.onnx", "broken.pt"]
    assert result[0] == describe.describe(model)
    assert str(tmp_path) not in result[1]["problem"] and "problem" in result[2]
    assert main(["--list", str(model)]) == 0
    head, row = capfd.readouterr().out.splitlines()
    assert head.split()[:3] == ["model", "bits", "backbone"]
    assert "cpu: 2 of 1,632 bits differ, MAP 0.7500 -> 0.7498" in row
    (tmp_path / "empty").mkdir()
    assert main(["--list", str(tmp_path / "empty")]) == 1 and main(["--list", str(tmp_path / "gone")]) == 1


@pytest.mark.parametrize(
    "verified", ['{"images": "x"}', '{"devices": [], "versions": {}}', '{"devices": {"cpu": 1}, "versions": {}}']
)
def test_info_of_a_foreign_record_is_not_an_error(verified: str, exported: Any, tmp_path: Path, capfd: Any) -> None:
    """The listing continues without a traceback."""
    for name, lines in (("a.onnx", {"idcwh_verified": verified}), ("b.onnx", {"idcwh_verified": json.dumps(VERIFIED)})):
        (tmp_path / name).write_bytes(model_file.with_metadata(exported[BITS], lines))
    assert main(["--info", str(tmp_path / "a.onnx")]) == 0
    assert re.search(r"^checked +not a record of idcwh-export$", capfd.readouterr().out, re.M)
    assert main(["--list", str(tmp_path)]) == 0
    _, first, second = capfd.readouterr().out.splitlines()
    assert first.endswith("not a record of idcwh-export") and "MAP 0.7500" in second


def test_info_reports_half_arithmetic_and_calibration(exported: Any, tmp_path: Path, capfd: Any) -> None:
    half = {**VERIFIED["devices"]["cpu"], "bits_differing": 5, "largest_activation": 123.4}  # type: ignore[index]
    more = json.dumps({**VERIFIED, "half_arithmetic": half, "calibration": "some"})
    (tmp_path / "m.onnx").write_bytes(model_file.with_metadata(exported[BITS], {"idcwh_verified": more}))
    assert main(["--info", str(tmp_path / "m.onnx")]) == 0
    output = capfd.readouterr().out
    assert re.search(r"^  on half arithmetic +64 images .* 5 of 1,632 bits .* largest activation 123.4$", output, re.M)
    assert re.search(r"^  calibrated +on some$", output, re.M)
    assert main(["--list", str(tmp_path)]) == 0
    assert "; half arithmetic: 5 of 1,632 bits differ, MAP 0.7500" in capfd.readouterr().out


def test_list_after_an_invalid_model_continues(tmp_path: Path, capfd: Any) -> None:
    bare = {"format": "idcwh-model", "version": 1}
    kinds: dict[str, Any] = {"bits": 2, "classes": ["a"], "training": {}, "sample": {}}
    kinds |= {key: {} for key in ("backbone", "method", "preprocess", "normalize")}
    whole = {**bare, **kinds, "state": {"hash.weight": torch.zeros(2, 3)}}
    result = {
        "bare": bare,
        "list": {**whole, "sample": []},
        "number": {**whole, "sample": {"images": 5}},
        "weight": {**whole, "state": {"hash.weight": 5}},
        "centers": {**whole, "centers": [1]},
        "whole": whole,
    }
    for name, content in result.items():
        torch.save(content, tmp_path / f"{name}.pt")
    assert main(["--list", *(str(tmp_path / f"{name}.pt") for name in result), "--json"]) == 0
    problems = [entry.get("problem") for entry in json.loads(capfd.readouterr().out)]
    assert problems == [
        "is corrupt: bits: expected int, found NoneType",
        "is corrupt: sample: expected dict, found list",
        "is corrupt: sample: expected a tensor of images, found int",
        "is corrupt: hash layer: expected 2 bits, found none",
        "is corrupt: centers: expected a tensor, found list",
        None,
    ]
    assert main(["--list", str(tmp_path)]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 7


def test_info_without_a_record_reports_that(exported: Any, tmp_path: Path, capfd: Any) -> None:
    (tmp_path / "old.onnx").write_bytes(exported[BITS])
    assert main(["--info", str(tmp_path / "old.onnx")]) == 0
    assert re.search(r"^checked +not recorded$", capfd.readouterr().out, re.M)


@pytest.mark.parametrize("arguments", [["--info"], ["m.pt", "--info", "m.onnx"], ["--list"], ["--info", "a", "--onnx"]])
def test_info_and_list_with_wrong_usage_exit_with_2(arguments: list[str], capfd: Any) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2


def test_list_with_unreadable_folder_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "model.onnx").touch()
    scan = os.scandir

    def refuse(path: str) -> object:
        if Path(path).name == "b":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError, match="b"):
        describe.listed([str(tmp_path)])
