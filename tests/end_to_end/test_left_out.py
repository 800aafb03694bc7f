"""Reports of files that a command left out, and exit code 3 if images were among them."""

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
from support.commands import Runner


@pytest.fixture(autouse=True)
def without_heif(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists images as without pillow-heif."""
    monkeypatch.setattr(listing, "heif_installed", lambda: False)


def command(name: str, model: Path, images: Path, database: Path) -> tuple[Callable[..., int], list[Any]]:
    new = database.with_name("new.bin")
    return {
        "build": (index.main, ["build", "--model", model, "--images", images, "--db", new]),
        "resumable": (index.main, ["build", "--model", model, "--images", images, "--db", new, "--resume"]),
        "add": (index.main, ["add", database, "--images", images]),
        "search": (search.main, ["--db", database, "--query", images]),
        "eval": (evaluate.main, ["--model", model, "--data", images, "--query-per-class", 1]),
    }[name]


@pytest.mark.parametrize("name", ["build", "resumable", "add", "search", "eval"])
def test_command_reports_skipped_types_and_exits_3(
    name: str, model: Path, images: Path, database: Path, commands: Runner
) -> None:
    main, argv = command(name, model, images, database)
    (images / "cat" / "notes.txt").write_text("no image")
    out, err = commands(main, *argv, "--json")
    assert json.loads(out)["left_out"] == {"skipped": {}, "links": 0, "others": {".txt": 1}} and "1 .txt" in err
    for i in range(20):
        (images / "dog" / f"{i}.heic").touch()
    database.with_name("new.bin").unlink(missing_ok=True)
    out, err = commands(main, *argv, "--json", status=3)
    assert json.loads(out)["left_out"]["skipped"] == {".heic": 20} and "20 .heic" in err and "dog/0.heic" in err


@pytest.mark.parametrize("name", ["build", "search", "eval"])
def test_command_with_unreadable_folder_fails(
    name: str,
    model: Path,
    images: Path,
    database: Path,
    commands: Runner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scan = os.scandir

    def refuse(path: str = ".") -> object:
        if Path(path).name == "dog":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    main, argv = command(name, model, images, database)
    assert commands.fails(main, *argv).startswith(f"error: {images / 'dog'}: ")


def test_index_labels_skip_split_folders_in_any_case(
    model: Path, images: Path, tmp_path: Path, commands: Runner
) -> None:
    (tmp_path / "all").mkdir()
    shutil.move(images, tmp_path / "all" / "Train")
    commands.build(model, tmp_path / "all", tmp_path / "n.bin")
    assert commands.json(index.main, "info", tmp_path / "n.bin")["labels"] == ["cat", "dog"]


def test_eval_plots_inside_the_dataset_fails(model: Path, images: Path, commands: Runner) -> None:
    argv = ["--model", model, "--data", images, "--query-per-class", 1, "--plots", images / "plots"]
    assert "--plots" in commands.fails(evaluate.main, *argv) and not (images / "plots").exists()


def test_eval_json_with_names_that_are_not_utf8(
    model: Path, images: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    name = os.fsdecode(b"caf\xe9.png")
    (images / "cat" / name).write_text("no image")
    assert evaluate.main(["--model", str(model), "--data", str(images), "--query-per-class", "1", "--json"]) == 3
    content = json.loads(capfdbinary.readouterr().out.decode())
    assert [item["key"] for item in content["skipped"]] == [f"cat/{name}"]
