"""User mistakes and unusual files: nothing is lost, and one line names the cause."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search.cli import evaluate, index, search
from idcwh_search.encoder.batch import encode_files
from support.commands import IMAGES, Runner, program


def test_outputs_replace_only_files_of_their_kind(
    database: Path, model: Path, images: Path, tmp_path: Path, commands: Runner
) -> None:
    image, text, page = min(images.rglob("*.png")), tmp_path / "notes.txt", tmp_path / "hits.html"
    text.write_text("important")
    before = {path: path.read_bytes() for path in (model, image, text)}
    query = ("--db", database, "--query", images)
    other, codes = model.with_name("other.onnx"), tmp_path / "codes.npy"
    shutil.copy(model, other)
    np.save(codes, np.zeros((2, 1), np.uint8))
    build = ("build", "--model", other, "--images", images, "--force", "--db")

    def refused(target: Path, *command: object) -> None:
        assert commands.fails(*command).startswith(f"error: {target}: already exists")

    for target in before:
        refused(target, search.main, *query, "--html", target)
        refused(target, index.main, *build, target)
        refused(target, index.main, *build, target, "--resume")
        refused(target, index.main, "import", codes, "--db", target, "--force")
        refused(target, evaluate.main, "--model", other, "--data", IMAGES, "--save-codes", target)
    shutil.copy(database, tmp_path / "own.bin")
    for target in (database, image):
        for more in ((target,), (tmp_path / "new.bin", "--ids", target)):
            refused(target, index.main, "export", tmp_path / "own.bin", *more, "--format", "raw", "--force")
    assert {path: path.read_bytes() for path in before} == before and len(ih.Database.open(database)) == 6
    page.write_text("<!doctype html><title>a page of another program</title>")
    refused(page, search.main, *query, "--html", page)
    page.write_bytes(b"")
    for _ in range(2):  # an empty file, and a page of an earlier search
        commands(search.main, *query, "--html", page)
    assert page.read_bytes().startswith(b"<!doctype html>")


@pytest.mark.parametrize("more", [(), ("--resume",)])
def test_build_keeps_permissions_and_follows_links(
    model: Path, images: Path, tmp_path: Path, commands: Runner, more: tuple[str, ...]
) -> None:
    build = ("build", "--model", model, "--images", images, "--force", *more, "--db")
    for name in ("codes.bin", "c" * 255):
        (tmp_path / "other").mkdir(exist_ok=True)
        real, link = tmp_path / "other" / name, tmp_path / name
        link.symlink_to(real)
        for target in (link, tmp_path / "loop"):
            target.is_symlink() or target.symlink_to(target)
            assert commands.fails(index.main, *build, target).startswith(f"error: {target}: ")
        real.touch(mode=0o600)
        for _ in range(2):
            commands(index.main, *build, link)
        assert link.is_symlink() and real.stat().st_mode & 0o777 == 0o600 and len(ih.Database.open(link)) == 6
        assert [path.name for path in real.parent.iterdir()] == [name]
        real.unlink()


def test_add_corrected_labels_change_only_labels(model: Path, images: Path, tmp_path: Path, commands: Runner) -> None:
    keys = sorted(str(path.relative_to(images)) for path in images.rglob("*.png"))
    listing, database = images / "set.csv", tmp_path / "codes.bin"

    def write(labels: str) -> None:
        listing.write_text("".join(f"{key},{label}\n" for key, label in zip(keys, labels, strict=True)))

    def stored() -> tuple[str, dict]:
        """Returns the labels in the order of `keys`, and all other contents."""
        with ih.Database.open(database) as db:
            ids = [db.find([key])[0] for key in keys]
            rest = {key: (id_, bytes(db.get(id_))) for key, id_ in zip(keys, ids, strict=True)}
            return "".join(label or "" for label in db.labels(ids)), rest | {
                "mtime_signatures": db.mtime_signatures(ids).tolist()
            }

    write("aaabbb")
    commands.build(model, listing, database)
    _, rest = stored()
    write("aabbbc")
    summary = commands.json(index.main, "add", database, "--images", listing)
    assert summary["unchanged"] == 6
    assert stored() == ("aabbbc", rest)
    # labels of a manifest take precedence over names of folders
    commands(index.main, "add", database, "--images", images)
    assert stored() == ("aabbbc", rest)


def test_build_resumed_has_the_labels_of_its_last_run(
    model: Path, images: Path, tmp_path: Path, commands: Runner
) -> None:
    target, part = tmp_path / "codes.bin", tmp_path / "codes.bin.part"
    commands.build(model, images, part)  # like a build that is killed at its end
    commands.build(model, images, target, "--resume", "--labels", "none")
    assert ih.Database.open(target).labels() == [None] * 6
    shutil.copy(target, part)
    commands.build(model, images, target, "--resume", "--force")
    assert sorted(ih.Database.open(target).labels()) == ["cat"] * 3 + ["dog"] * 3


def test_build_reports_compressed_archives(model: Path, images: Path, tmp_path: Path, commands: Runner) -> None:
    (archive := images / "more.tar.gz").touch()
    assert "more.tar.gz" in commands.build(model, images, tmp_path / "c.bin", status=3).err
    line = commands.fails(index.main, "build", "--model", model, "--images", archive, "--db", tmp_path / "d.bin")
    assert line.startswith(f"error: {archive}: ")


def test_build_names_the_line_of_a_bad_manifest(model: Path, images: Path, tmp_path: Path, commands: Runner) -> None:
    key, manifest = str(min(images.rglob("*.png")).relative_to(images)), images / "set.jsonl"
    start = json.dumps({"path": key})[:-1]
    for line in (
        start + ', "label": ' + "[" * 200_000,
        start + ', "label": "\\ud800"}',
        '{"path": "a\\u0000b", "label": "x"}',
    ):
        manifest.write_text(line)
        build = ("build", "--model", model, "--images", manifest, "--db", tmp_path / "codes.bin")
        assert commands.fails(index.main, *build).startswith(f"error: {manifest}:1: ")


def test_list_with_nul_bytes_is_refused(model: Path, images: Path, tmp_path: Path) -> None:
    names = "\0".join(map(str, images.rglob("*.png")))
    build = [*program("idcwh-index"), "build", "--model", model, "--images", "-", "--db", tmp_path / "codes.bin"]
    done = subprocess.run(build, input=names.encode(), capture_output=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith(b"error: standard input:1: ")
    skipped: list[str] = []
    run = encode_files(ih.Encoder(model), ["a\0b.png"], on_skip=lambda path, reason: skipped.append(path))
    assert list(run) == [] and skipped == ["a\0b.png"]


def test_build_does_not_wait_for_a_pipe(images: Path, tmp_path: Path, commands: Runner) -> None:
    os.mkfifo(pipe := tmp_path / "pipe.onnx")
    line = commands.fails(index.main, "build", "--model", pipe, "--images", images, "--db", tmp_path / "codes.bin")
    assert line.startswith(f"error: {pipe}: ")


def test_build_terminated_while_reading_a_list(model: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "list")
    build = [*program("idcwh-index"), "build", "--model", model, "--images", tmp_path / "list"]
    running = subprocess.Popen([*build, "--db", tmp_path / "codes.bin"], stderr=subprocess.PIPE)
    with (tmp_path / "list").open("wb"):  # the command now waits for the end of the list
        running.terminate()
        assert running.communicate(timeout=60)[1].splitlines()[-1] == b"terminated" and running.returncode == 143
    assert not list(tmp_path.glob("*codes.bin*"))


def test_names_with_control_characters_are_escaped(model: Path, tmp_path: Path, commands: Runner) -> None:
    (folder := tmp_path / "odd").mkdir()
    source = min((IMAGES / "test" / "dog").iterdir())
    shutil.copy(source, folder / "\x1b[31mred\t.png")
    (folder / "a\nerror: b.png").write_text("no image")
    err = commands.build(model, folder, tmp_path / "odd.bin", status=3).err
    assert f"skipped {folder}/a\\nerror: b.png: " in err and "\nerror" not in err
    shown = commands(search.main, "--db", tmp_path / "odd.bin", "--query", source).out
    assert "\\x1b[31mred\\t.png" in shown and "\x1b" not in shown


def test_names_beyond_the_output_encoding_are_escaped(model: Path, tmp_path: Path, commands: Runner) -> None:
    """Letters that the encoding lacks are escaped. Bytes that are not UTF-8 are written unchanged."""
    folder = os.fsencode(tmp_path / "all") + b"/caf\xe9"
    os.makedirs(folder)  # noqa: PTH103 - the name is bytes
    source = min((IMAGES / "test" / "dog").iterdir())
    for name in ("Käthe 日本.png", "plain.png"):
        shutil.copy(source, os.path.join(folder, name.encode()))  # noqa: PTH118
    commands.build(model, tmp_path / "all", tmp_path / "odd.bin")
    page = tmp_path / "odd.html"
    done = subprocess.run(
        [*program("idcwh-search"), "--db", tmp_path / "odd.bin", "--query", source, "--html", page],
        env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b"caf\xe9" + rb"/K\xe4the \u65e5\u672c.png" in done.stdout
    assert done.stdout.count(b"  caf\xe9\n") == 2, "the label"
    assert "<b>caf\ufffd</b>" in page.read_text(encoding="utf-8")
