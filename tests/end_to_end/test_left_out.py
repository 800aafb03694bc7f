"""Every command reports files that it left out, and exits with 3 when images were among them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from idcwh_search.cli import evaluate, index, search
from idcwh_search.images import listing


@pytest.fixture(autouse=True)
def without_heif(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where pillow-heif is not installed."""
    monkeypatch.setattr(listing, "heif_installed", lambda: False)


def run(capsys: pytest.CaptureFixture[str], main: Callable[..., int], *argv: Any) -> tuple[int, dict[str, Any], str]:
    """Exit code, standard output as JSON, and standard error."""
    code = main([*map(str, argv), "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out) if code in (0, 3) else {}, err


def command(name: str, model: Path, pictures: Path, database: Path) -> tuple[Callable[..., int], list[Any]]:
    new = database.with_name("new.bin")
    return {
        "build": (index.main, ["build", "--model", model, "--images", pictures, "--db", new]),
        "resumable": (index.main, ["build", "--model", model, "--images", pictures, "--db", new, "--resume"]),
        "add": (index.main, ["add", database, "--images", pictures]),
        "search": (search.main, ["--db", database, "--query", pictures]),
        "eval": (evaluate.main, ["--model", model, "--data", pictures, "--query-per-class", 1]),
    }[name]


@pytest.mark.parametrize("name", ["build", "resumable", "add", "search", "eval"])
def test_command_reports_skipped_types_and_exits_3(
    name: str, model: Path, pictures: Path, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main, argv = command(name, model, pictures, database)
    (pictures / "cat" / "notes.txt").write_text("no image")
    code, content, err = run(capsys, main, *argv)
    assert code == 0 and content["left_out"] == {"skipped": {}, "links": 0, "others": {".txt": 1}}
    assert "ignored other files: 1 .txt" in err
    for i in range(20):
        (pictures / "dog" / f"{i}.heic").touch()
    database.with_name("new.bin").unlink(missing_ok=True)
    code, content, err = run(capsys, main, *argv)
    assert code == 3 and content["left_out"]["skipped"] == {".heic": 20}
    assert "skipped 20 files of types that are not read: 20 .heic (the first: dog/0.heic)" in err


@pytest.mark.parametrize("name", ["build", "search", "eval"])
def test_command_with_unreadable_folder_fails(
    name: str,
    model: Path,
    pictures: Path,
    database: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scan = os.scandir

    def refuse(path: str = ".") -> object:
        if Path(path).name == "dog":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    main, argv = command(name, model, pictures, database)
    code, _, err = run(capsys, main, *argv)
    assert code == 1 and f"error: {pictures / 'dog'}: Permission denied" in err


def test_index_labels_skip_split_folders_in_any_case(
    model: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "all").mkdir()
    shutil.move(pictures, tmp_path / "all" / "Train")
    code, _, _ = run(
        capsys, index.main, "build", "--model", model, "--images", tmp_path / "all", "--db", tmp_path / "n.bin"
    )
    assert code == 0
    index.main(["info", str(tmp_path / "n.bin")])
    assert "2 (cat, dog)" in capsys.readouterr().out


def test_eval_plots_inside_the_dataset_fails(model: Path, pictures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--model", model, "--data", pictures, "--query-per-class", 1, "--plots", pictures / "plots"]
    code, _, err = run(capsys, evaluate.main, *argv)
    assert code == 1 and "is inside the dataset" in err and not (pictures / "plots").exists()


def test_eval_json_with_names_that_are_not_utf8(
    model: Path, pictures: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    name = os.fsdecode(b"caf\xe9.png")
    (pictures / "cat" / name).write_text("no image")
    assert evaluate.main(["--model", str(model), "--data", str(pictures), "--query-per-class", "1", "--json"]) == 3
    content = json.loads(capfdbinary.readouterr().out.decode())
    assert [item["key"] for item in content["skipped"]] == [f"cat/{name}"]
