"""idcwh-index export and import: the files, the line about lost columns, and the exit codes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search.cli.index import main


@pytest.fixture
def database(tmp_path, rng, code_maker) -> Path:
    path = tmp_path / "codes.bin"
    with ih.Database.create(path, 20, {"model": {"sha256": "ab"}}) as db:
        db.add(code_maker.random(rng, 300, 20), ids=np.arange(300) + 5, keys=[f"{i}.png" for i in range(300)])
    return path


@pytest.mark.parametrize(
    ("name", "options", "lost"),
    [
        ("a.faiss", [], "the code length, keys, the manifest"),
        ("a.npy", [], "the code length, ids, keys, the manifest"),
        ("a.raw", ["--ids", "ids.npy"], "the code length, keys, the manifest"),
        ("a.dat", ["--format", "raw"], "the code length, ids, keys, the manifest"),
        ("a.parquet", [], None),
        ("a.feather", [], None),
    ],
)
def test_export_and_import_give_the_same_items(name, options, lost, database, tmp_path, capsys, monkeypatch):
    if lost is None:
        pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    assert main(["export", "codes.bin", name, *options]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    notes = printed.err.splitlines()[1:]
    assert notes == [] if lost is None else len(notes) == 1 and notes[0].endswith(f": {lost}")
    assert main(["import", name, "--db", "again.bin", "--bits", "20", *options]) == 0
    with ih.Database.open(database) as before, ih.Database.open("again.bin") as after:
        np.testing.assert_array_equal(after.codes, before.codes)
        ids = np.arange(300) if lost and ", ids" in lost else before.ids
        np.testing.assert_array_equal(after.ids, ids)
        assert after.keys() == (before.keys() if lost is None else [None] * 300)
        assert after.manifest == (before.manifest if lost is None else {})


def fails(arguments: list[str], capsys, path: str) -> str:
    """Runs a command that fails. Returns its only line on stderr, which is about `path`."""
    assert main(arguments) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"error: {path}: ") and err.count("\n") == 1
    return err


def test_import_and_export_replace_only_with_force(database, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("old.npy", np.arange(3))
    assert "--force" in fails(["export", "codes.bin", "old.npy"], capsys, "old.npy")
    assert "--force" in fails(["export", "codes.bin", "new.npy", "--ids", "old.npy"], capsys, "old.npy")
    assert np.load("old.npy").tolist() == [0, 1, 2] and not Path("new.npy").exists()
    assert main(["export", "codes.bin", "old.npy", "--ids", "ids.npy", "--force"]) == 0
    before = database.read_bytes()
    capsys.readouterr()
    assert "--force" in fails(["import", "old.npy", "--db", "codes.bin", "--bits", "20"], capsys, "codes.bin")
    assert database.read_bytes() == before
    assert main(["import", "old.npy", "--db", "codes.bin", "--bits", "19", "--force"]) == 1  # keeps the existing file
    assert database.read_bytes() == before
    assert main(["import", "old.npy", "--db", "codes.bin", "--bits", "21", "--force"]) == 0
    with ih.Database.open("codes.bin") as db:
        assert (db.bits, len(db), db.manifest) == (21, 300, {})


def test_import_and_export_keep_their_input(database, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = database.read_bytes()
    for option in ([], ["--force"]):
        for name in ("codes.bin", "./codes.bin"):
            assert main(["export", "codes.bin", name, *option]) == 1
            assert main(["import", name, "--db", "codes.bin", "--bits", "8", *option]) == 1
            assert main(["import", "a.npy", "--ids", name, "--db", "codes.bin", *option]) == 1
    assert database.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["codes.bin"]


def test_import_and_export_errors_name_the_file(database, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("text.faiss").write_text("no index at all, but a text")
    Path("folder.npy").mkdir()
    np.save("codes.npy", np.zeros((3, 3), np.uint8))
    for source, *more, path in (
        ("text.faiss", "text.faiss"),
        ("folder.npy", "folder.npy"),
        ("none.npy", "none.npy"),
        ("codes.npy", "--ids", "none.npy", "none.npy"),
        ("codes.npy", "--bits", "16", "codes.npy"),
        ("codes.npy", "--db", "no/a.bin", "no/a.bin"),
    ):
        fails(["import", source, "--db", "a.bin", *more], capsys, path)
    for source, target, path in (
        ("codes.bin", "folder.npy", "folder.npy"),
        ("none.bin", "a.npy", "none.bin"),
        ("codes.npy", "a.npy", "codes.npy"),
    ):
        fails(["export", source, target, "--force"], capsys, path)
    assert not list(tmp_path.glob("a.*"))
