"""idcwh-index export and import: the files, the one line that says what is lost, the exit codes."""

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
def test_there_and_back(name, options, lost, database, tmp_path, capsys, monkeypatch):
    if lost is None:
        pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    assert main(["export", "codes.bin", name, *options]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    expected = [] if lost is None else [f"left out, as this format does not hold them: {lost}"]
    assert printed.err.splitlines()[1:] == expected
    assert main(["import", name, "--db", "again.bin", "--bits", "20", *options]) == 0
    with ih.Database.open(database) as before, ih.Database.open("again.bin") as after:
        np.testing.assert_array_equal(after.codes, before.codes)
        ids = np.arange(300) if lost and ", ids" in lost else before.ids
        np.testing.assert_array_equal(after.ids, ids)
        assert after.keys() == (before.keys() if lost is None else [None] * 300)
        assert after.manifest == (before.manifest if lost is None else {})


def fails(arguments: list[str], capsys, *words: str) -> None:
    assert main(arguments) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    line = printed.err
    assert line.startswith("error: ") and line.count("\n") == 1
    for word in words:
        assert word in line


def test_nothing_is_replaced_without_force(database, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("old.npy", np.arange(3))
    fails(["export", "codes.bin", "old.npy"], capsys, "old.npy: already exists", "--force")
    fails(["export", "codes.bin", "new.npy", "--ids", "old.npy"], capsys, "old.npy: already exists", "--force")
    assert np.load("old.npy").tolist() == [0, 1, 2] and not Path("new.npy").exists()
    assert main(["export", "codes.bin", "old.npy", "--ids", "ids.npy", "--force"]) == 0
    before = database.read_bytes()
    capsys.readouterr()
    fails(["import", "old.npy", "--db", "codes.bin", "--bits", "20"], capsys, "codes.bin: already exists", "--force")
    assert database.read_bytes() == before
    assert main(["import", "old.npy", "--db", "codes.bin", "--bits", "19", "--force"]) == 1  # and keeps the old one
    assert database.read_bytes() == before
    assert main(["import", "old.npy", "--db", "codes.bin", "--bits", "21", "--force"]) == 0
    with ih.Database.open("codes.bin") as db:
        assert (db.bits, len(db), db.manifest) == (21, 300, {})


def test_an_input_is_never_the_output(database, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = database.read_bytes()
    for option in ([], ["--force"]):
        for name in ("codes.bin", "./codes.bin"):
            assert main(["export", "codes.bin", name, *option]) == 1
            assert main(["import", name, "--db", "codes.bin", "--bits", "8", *option]) == 1
            assert main(["import", "a.npy", "--ids", name, "--db", "codes.bin", *option]) == 1
    assert database.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["codes.bin"]


def test_mistakes_are_one_line(database, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("text.faiss").write_text("no index at all, but a text")
    Path("folder.npy").mkdir()
    Path("empty.faiss").touch()
    np.save("codes.npy", np.zeros((3, 3), np.uint8))
    fails(["import", "text.faiss", "--db", "a.bin"], capsys, "text.faiss: is no faiss", "no i")
    fails(["import", "empty.faiss", "--db", "a.bin"], capsys, "ends inside its header")
    fails(["import", "folder.npy", "--db", "a.bin"], capsys, "folder.npy: is not a file")
    fails(["import", "none.npy", "--db", "a.bin"], capsys, "none.npy: No such file")
    fails(["import", "codes.npy", "--db", "a.bin", "--ids", "none.npy"], capsys, "none.npy: No such file")
    fails(["import", "codes.npy", "--db", "a.bin", "--bits", "16"], capsys, "17 to 24 bits, not 16")
    fails(["import", "codes.npy", "--db", "no/a.bin"], capsys, "no/a.bin: cannot be written")
    fails(["export", "codes.bin", "folder.npy", "--force"], capsys, "is a directory")
    fails(["export", "none.bin", "a.npy"], capsys, "none.bin: No such file")
    fails(["export", "codes.npy", "a.npy"], capsys, "codes.npy")
    with pytest.raises(SystemExit, match="2"):
        main(["import", "codes.npy", "--db", "a.bin", "--bits", "0"])
    assert not list(tmp_path.glob("a.*"))
