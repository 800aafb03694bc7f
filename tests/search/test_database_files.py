"""The files of a database: keys, paths, links, permissions, folders and manifests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import idcwh_search as ih
from support.errors import raises


def random_codes(n: int, bits: int, seed: int = 0) -> np.ndarray:
    return ih.pack(np.random.default_rng(seed).integers(0, 2, (n, bits)).astype(bool))


def test_keys_of_any_characters_are_kept(tmp_path: Path) -> None:
    keys = [os.fsdecode(b"caf\xe9.jpg"), "日本語.png", "line\nbreak", "k" * 65536, ""]
    with ih.Database.create(tmp_path / "c.bin", 8) as db:
        db.add(random_codes(5, 8), keys=keys, labels=["", None, "a\nb", "\ud800", "x" * 70000])
    with ih.Database.open(tmp_path / "c.bin", "r+") as db:
        assert db.keys() == [*keys[:4], None]
        assert os.fsencode(db.keys()[0] or "") == b"caf\xe9.jpg"
        assert db.labels() == ["", None, "a\nb", "\ud800", "x" * 70000]
        assert db.remove(keys=keys[:2]) == 2
        db.compact()
        assert db.keys() == [*keys[2:4], None]


def test_path_of_other_bytes_is_kept(tmp_path: Path) -> None:
    path = os.path.join(tmp_path, os.fsdecode(b"caf\xe9.bin"))  # noqa: PTH118 - pathlib shows these bytes unchanged
    with ih.Database.create(path, 8) as db:
        db.add(random_codes(3, 8))
        db.compact()
    with ih.Database.open(path) as db:
        assert len(db) == 3
    with pytest.raises(FileNotFoundError):
        ih.Database.open(path + "x")


def test_compact_keeps_a_link(small: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    link = folder / "link.bin"
    link.symlink_to(small)
    with ih.Database.open(link, "r+") as db:
        db.remove([0])
        db.compact()
    assert link.is_symlink() and len(ih.Database.open(small)) == 299 and len(list(folder.iterdir())) == 1


def test_open_of_read_only_file_succeeds(small: Path) -> None:
    os.chmod(small, 0o440)  # noqa: PTH101
    with ih.Database.open(small) as db:
        db.verify()
    with ih.Database.open(small, "r+") as db:  # root may write every file
        db.compact()
    assert small.stat().st_mode & 0o777 == 0o440


def test_relative_path_survives_chdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = random_codes(20, 20)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    writer = ih.Database.create("c.bin", 20)
    built = ih.Database.build("b.bin", 20)
    reader = ih.Database.open("c.bin")
    monkeypatch.chdir(elsewhere)
    writer.add(codes)
    writer.compact()
    writer.add(codes[:1])
    built.add(codes)
    built.close()
    assert reader.refresh() and len(reader) == 21 and list(elsewhere.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.bin", "c.bin", "elsewhere"]


@pytest.mark.parametrize("model", ["resnet", ["a"], 7])
def test_create_with_other_than_a_dictionary_raises(tmp_path: Path, model: object) -> None:
    with pytest.raises(TypeError, match=r"^model"):
        ih.Database.create(tmp_path / "c.bin", 8, model)  # type: ignore[arg-type]
    for path in ("", "c.bin\0x"):
        with pytest.raises(ValueError, match=r"^path"):
            ih.Database.open(path)


def test_database_called_with_a_path_is_a_type_error(small: Path) -> None:
    for arguments in ((small,), (small, 20), (str(small), "r+")):
        with pytest.raises(TypeError, match=r"Database\.open, Database\.create or Database\.build"):
            ih.Database(*arguments)


@pytest.mark.parametrize("make", [ih.Database.create, ih.Database.build])
def test_create_of_an_existing_file_names_replace(small: Path, make: Callable[..., ih.Database]) -> None:
    with raises(ih.AlreadyExistsError, path=small) as caught:
        make(small, 20)
    assert "replace=True" in (caught.value.hint or "")
