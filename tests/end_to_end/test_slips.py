"""Slips of the hand and odd names: what they must not cost, and what is said of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search.cli import evaluate, index, search
from idcwh_search.encoder.batch import encode_files

PICTURES = Path(__file__).resolve().parents[2] / "demo" / "cifar10"


def build(model: Path, images: Path | str, db: Path, *more: str) -> int:
    return index.main(["build", "--model", str(model), "--images", str(images), "--db", str(db), *more])


def said(capsys: pytest.CaptureFixture[str], status: int) -> str:
    assert status == 1
    return capsys.readouterr().err.splitlines()[-1]


def test_outputs_replace_only_their_kind(
    database: Path, model: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture, text, page = min(pictures.rglob("*.png")), tmp_path / "notes.txt", tmp_path / "hits.html"
    text.write_text("important")
    before = {path: path.read_bytes() for path in (model, picture, text)}
    query = ["--db", str(database), "--query", str(pictures)]
    codes = tmp_path / "set.npz"
    np.savez(codes, bits=8, query_codes=np.zeros((2, 1), np.uint8), query_labels=np.array([0, 1]),
             database_codes=np.zeros((2, 1), np.uint8), database_labels=np.array([0, 1]))  # fmt: skip
    other = model.with_name("other.onnx")
    shutil.copy(model, other)
    for target in before:
        refused = f"{target}: already exists and is no "
        assert refused in said(capsys, search.main([*query, "--html", str(target)]))
        assert refused in said(capsys, build(other, pictures, target, "--force"))
        assert refused in said(capsys, build(other, pictures, target, "--force", "--resume"))
        assert refused in said(
            capsys, index.main(["import", str(codes), "--format", "npy", "--db", str(target), "--force"])
        )
        save = ["--model", str(other), "--data", str(PICTURES), "--save-codes", str(target)]
        assert refused in said(capsys, evaluate.main(save))
    assert {path: path.read_bytes() for path in before} == before
    for target in (database, picture):
        for name, *more in ((str(target),), (str(tmp_path / "new.bin"), "--ids", str(target))):
            assert index.main(["export", str(database), name, "--format", "raw", "--force", *more]) == 1
            shutil.copy(database, tmp_path / "own.bin")
            assert index.main(["export", str(tmp_path / "own.bin"), name, "--format", "raw", "--force", *more]) == 1
            assert f"{target}: already exists and is no " in capsys.readouterr().err.splitlines()[-1]
    assert {path: path.read_bytes() for path in before} == before and len(ih.Database.open(database)) > 0
    page.write_text("<!doctype html><title>somebody else's</title>")
    assert f"{page}: already exists and is no " in said(capsys, search.main([*query, "--html", str(page)]))
    page.write_bytes(b"")
    for _ in range(2):  # an empty file, and a page that is there already
        assert search.main([*query, "--html", str(page)]) == 0
    assert page.read_bytes().startswith(b"<!doctype html>") and build(model, pictures, database, "--force") == 0


@pytest.mark.parametrize("more", [(), ("--resume",)])
def test_build_keeps_permissions_and_follows_links(
    model: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    for name in ("codes.bin", "c" * 255):
        (tmp_path / "other").mkdir(exist_ok=True)
        real, link = tmp_path / "other" / name, tmp_path / name
        link.symlink_to(real)
        for target in (link, tmp_path / "loop"):
            target.is_symlink() or target.symlink_to(target)
            assert "is a link that leads nowhere" in said(capsys, build(model, pictures, target, "--force", *more))
        real.touch(mode=0o600)
        for _ in range(2):
            assert build(model, pictures, link, "--force", *more) == 0
        assert link.is_symlink() and real.stat().st_mode & 0o777 == 0o600 and len(ih.Database.open(link)) == 6
        assert [path.name for path in real.parent.iterdir()] == [name]
        real.unlink()


def test_a_label_that_was_mended_reaches_the_database(
    model: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = sorted(str(path.relative_to(pictures)) for path in pictures.rglob("*.png"))
    listing, database = pictures / "set.csv", tmp_path / "codes.bin"

    def write(labels: list[str]) -> None:
        listing.write_text("".join(f"{key},{label}\n" for key, label in zip(keys, labels, strict=True)))

    def add(images: Path) -> None:
        assert index.main(["add", str(database), "--images", str(images)]) == 0

    def labels() -> dict[str, str]:
        with ih.Database.open(database) as db:
            return dict(zip(db.keys(), db.labels(), strict=True))

    write(list("aaabbb"))
    assert build(model, listing, database) == 0
    with ih.Database.open(database) as db:
        whole = dict(
            zip(db.keys(), zip(db.ids.tolist(), map(bytes, db.codes), db.stamps().tolist(), strict=True), strict=True)
        )
    write(list("aabbbc"))
    capsys.readouterr()
    add(listing)
    assert "0 new, 0 changed, 0 moved, 6 unchanged (2 of them with another label)" in capsys.readouterr().err
    assert list(labels().items()) != [] and [labels()[key] for key in keys] == list("aabbbc")
    with ih.Database.open(database) as db:
        assert whole == dict(
            zip(db.keys(), zip(db.ids.tolist(), map(bytes, db.codes), db.stamps().tolist(), strict=True), strict=True)
        )
    add(pictures)  # the names of folders say less than what was written by hand
    assert [labels()[key] for key in keys] == list("aabbbc")


def test_a_build_that_goes_on_has_the_labels_of_its_last_run(model: Path, pictures: Path, tmp_path: Path) -> None:
    assert build(model, pictures, tmp_path / "codes.bin.part") == 0  # as a build leaves it that is killed at its end
    assert build(model, pictures, tmp_path / "codes.bin", "--resume", "--labels", "none") == 0
    assert ih.Database.open(tmp_path / "codes.bin").labels() == [None] * 6
    shutil.copy(tmp_path / "codes.bin", tmp_path / "codes.bin.part")
    assert build(model, pictures, tmp_path / "codes.bin", "--resume", "--force") == 0
    assert sorted(ih.Database.open(tmp_path / "codes.bin").labels()) == ["cat"] * 3 + ["dog"] * 3


def test_compressed_archives_in_a_folder_are_not_passed_over(
    model: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (pictures / "more.tar.gz").touch()
    assert build(model, pictures, tmp_path / "c.bin") == 3
    assert "1 .tar.gz (the first: more.tar.gz); decompress archives to .tar" in capsys.readouterr().err
    assert "more.tar.gz: a compressed archive" in said(
        capsys, build(model, pictures / "more.tar.gz", tmp_path / "d.bin")
    )


def test_manifests_that_cannot_be_read(
    model: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, manifest = str(min(pictures.rglob("*.png")).relative_to(pictures)), pictures / "set.jsonl"

    def refusal(line: str) -> str:
        manifest.write_text(line)
        return said(capsys, build(model, manifest, tmp_path / "codes.bin"))

    start = json.dumps({"path": key})[:-1]
    assert f"{manifest}:1: not JSON: " in refusal(start + ', "label": ' + "[" * 200_000)
    assert f"{manifest}:1: '\\ud800': no path or label that can be written" in refusal(start + ', "label": "\\ud800"}')
    assert f"{manifest}:1: 'a\\x00b': no path or label" in refusal('{"path": "a\\u0000b", "label": "x"}')


def test_lists_with_nul_bytes(
    model: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = "\0".join(map(str, pictures.rglob("*.png")))
    found = subprocess.run(
        [sys.executable, "-c", "from idcwh_search.cli.index import main; raise SystemExit(main())", "build",
         "--model", model, "--images", "-", "--db", tmp_path / "codes.bin"],
        input=names.encode(), capture_output=True, check=False,
    )  # fmt: skip
    assert found.returncode == 1 and b"error: line 1: a NUL byte; expected UTF-8 text, one path a line" in found.stderr
    skipped: list[tuple[str, str]] = []
    run = encode_files(ih.Encoder(model), ["a\0b.png"], on_skip=lambda *told: skipped.append(told))
    assert list(run) == [] and skipped == [("a\0b.png", "no path of a file (embedded null byte)")]


def test_a_pipe_is_not_waited_for(
    model: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe.onnx")
    refused = said(capsys, build(tmp_path / "pipe.onnx", pictures, tmp_path / "codes.bin"))
    assert refused == f"error: {tmp_path}/pipe.onnx: a device or a pipe; expected a model.onnx written by idcwh-export"


def test_who_is_terminated_says_so(model: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "list")
    running = subprocess.Popen(
        [sys.executable, "-c", "from idcwh_search.cli.index import main; raise SystemExit(main())", "build",
         "--model", model, "--images", tmp_path / "list", "--db", tmp_path / "codes.bin"],
        stderr=subprocess.PIPE,
    )  # fmt: skip
    with (tmp_path / "list").open("wb"):  # it has come to read the list, which does not end
        running.terminate()
        assert running.communicate(timeout=60)[1].splitlines()[-1] == b"terminated" and running.returncode == 143
    assert not list(tmp_path.glob("*codes.bin*"))


def test_names_do_not_move_the_cursor(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder := tmp_path / "odd").mkdir()
    source = min((PICTURES / "test" / "dog").iterdir())
    shutil.copy(source, folder / "\x1b[31mred\t.png")
    (folder / "a\nerror: b.png").write_text("no picture")
    assert build(model, folder, tmp_path / "odd.bin") == 3
    told = capsys.readouterr().err
    assert f"skipped {folder}/a\\nerror: b.png: not an image" in told and "\nerror" not in told
    assert search.main(["--db", str(tmp_path / "odd.bin"), "--query", str(source)]) == 0
    shown = capsys.readouterr().out
    assert "\\x1b[31mred\\t.png" in shown and "\x1b" not in shown


def test_names_beyond_what_the_terminal_can_show(model: Path, tmp_path: Path) -> None:
    """Letters that the output's encoding lacks are escaped; bytes that are no text stay as they were."""
    folder = os.fsencode(tmp_path / "all") + b"/caf\xe9"
    os.makedirs(folder)  # noqa: PTH103 - the name is bytes
    for name in ("Käthe 日本.png", "plain.png"):
        shutil.copy(min((PICTURES / "test" / "dog").iterdir()), os.path.join(folder, name.encode()))  # noqa: PTH118
    assert build(model, tmp_path / "all", tmp_path / "odd.bin") == 0
    page = tmp_path / "odd.html"
    found = subprocess.run(
        [sys.executable, "-c", "from idcwh_search.cli.search import main; raise SystemExit(main())", "--db",
         tmp_path / "odd.bin", "--query", min((PICTURES / "test" / "dog").iterdir()), "--html", page],
        env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert rb"caf\xe9/K\xe4the \u65e5\u672c.png".replace(rb"caf\xe9", b"caf\xe9") in found.stdout
    assert found.stdout.count(b"  caf\xe9\n") == 2, "the label"
    assert "<b>caf\ufffd</b>" in page.read_text(encoding="utf-8")
