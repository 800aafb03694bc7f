"""list_images: what of folders, lists and standard input counts as an image, and in which order."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
from PIL import Image

from idcwh_search.errors import IdcwhError
from idcwh_search.images.listing import list_images
from idcwh_search.images.preprocess import Preprocess, load_image


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def test_a_folder_is_listed_below_and_in_order(tmp_path: Path) -> None:
    touch(tmp_path, "b/2.jpg", "b/10.JPG", "a.png", "b.webp", "b/c/x.tiff", "notes.txt", ".hidden.jpg", ".cache/y.jpg")
    found = [os.path.relpath(path, tmp_path) for path in list_images(tmp_path)]
    assert found == ["a.png", "b/10.JPG", "b/2.jpg", "b/c/x.tiff", "b.webp"]


def test_links_are_followed_once(tmp_path: Path) -> None:
    touch(tmp_path, "real/1.jpg")
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "up").symlink_to(tmp_path / "top")
    assert [Path(path).name for path in list_images(tmp_path / "top")] == ["1.jpg"]


def test_a_folder_that_cannot_be_read_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "a/1.jpg", "b/2.jpg")
    scan = os.scandir

    def refuse(path: str) -> object:
        if Path(path).name == "b":
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError, match="b"):
        list_images(tmp_path)


def test_a_file_is_itself(tmp_path: Path) -> None:
    touch(tmp_path, "a.jpg")
    assert list_images(tmp_path / "a.jpg") == [str(tmp_path / "a.jpg")]


def test_a_list_is_relative_to_itself(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "list.txt").write_bytes(b"b.jpg\r\n\n../a b.png\n/abs/c.jpg\n caf\xe9.jpg")
    expected = [f"{tmp_path}/sub/b.jpg", f"{tmp_path}/sub/../a b.png", "/abs/c.jpg", f"{tmp_path}/sub/ caf\udce9.jpg"]
    assert list_images(tmp_path / "sub" / "list.txt") == expected


def test_a_list_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x/1.jpg\n2.jpg\n")))
    assert list_images("-") == ["x/1.jpg", "2.jpg"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfx/1.jpg\r\n2.jpg")))
    assert list_images("-") == ["x/1.jpg", "2.jpg"], "with a byte order mark"
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(IdcwhError, match="standard input names no images"):
        list_images("-")


def test_names_in_another_encoding_can_be_opened(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/caf\xe9.png"
    Image.new("RGB", (8, 8), "red").save(os.fsdecode(name))
    (path,) = list_images(tmp_path)
    assert os.fsencode(path) == name and (load_image(path, Preprocess(8, 8)) == (255, 0, 0)).all()


def test_nothing_to_list_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "list.txt").write_text("\n \n")
    (tmp_path / "data.bin").write_bytes(b"ab\0\xff")
    for name, complaint in {
        "empty": "no images in this folder",
        "list.txt": "names no images",
        "data.bin": "neither an image",
        "gone": "not found",
    }.items():
        with pytest.raises(IdcwhError, match=complaint):
            list_images(tmp_path / name)
