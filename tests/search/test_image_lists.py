"""list_images: the images of folders, lists and standard input, and their order."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
from PIL import Image

from idcwh_search.errors import InvalidInputError, NotFoundError
from idcwh_search.images.listing import list_images
from idcwh_search.images.preprocess import Preprocess, load_image
from support.errors import raises


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def test_folder_is_listed_recursively_in_order(tmp_path: Path) -> None:
    touch(tmp_path, "b/2.jpg", "b/10.JPG", "a.png", "b.webp", "b/c/x.tiff", "notes.txt", ".hidden.jpg", ".cache/y.jpg")
    listed = [os.path.relpath(path, tmp_path) for path in list_images(tmp_path)]
    assert listed == ["a.png", "b/10.JPG", "b/2.jpg", "b/c/x.tiff", "b.webp"]


def test_links_are_followed_once(tmp_path: Path) -> None:
    touch(tmp_path, "real/1.jpg")
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "up").symlink_to(tmp_path / "top")
    assert [Path(path).name for path in list_images(tmp_path / "top")] == ["1.jpg"]


def test_image_file_lists_itself(tmp_path: Path) -> None:
    touch(tmp_path, "a.jpg")
    assert list_images(tmp_path / "a.jpg") == [str(tmp_path / "a.jpg")]


def test_list_is_relative_to_its_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "list.txt").write_bytes(b"b.jpg\r\n\n../a b.png\n/abs/c.jpg\n caf\xe9.jpg")
    expected = [f"{tmp_path}/sub/b.jpg", f"{tmp_path}/sub/../a b.png", "/abs/c.jpg", f"{tmp_path}/sub/ caf\udce9.jpg"]
    assert list_images(tmp_path / "sub" / "list.txt") == expected


def test_list_on_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x/1.jpg\n2.jpg\n")))
    assert list_images("-") == ["x/1.jpg", "2.jpg"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfx/1.jpg\r\n2.jpg")))
    assert list_images("-") == ["x/1.jpg", "2.jpg"], "with a byte order mark"
    monkeypatch.setattr(sys, "stdin", None)
    with raises(InvalidInputError, path="standard input"):
        list_images("-")


def test_name_that_is_not_utf8_is_opened(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/caf\xe9.png"
    Image.new("RGB", (8, 8), "red").save(os.fsdecode(name))
    (path,) = list_images(tmp_path)
    assert os.fsencode(path) == name and (load_image(path, Preprocess(8, 8)) == (255, 0, 0)).all()


def test_source_without_images_raises(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "list.txt").write_text("\n \n")
    (tmp_path / "data.bin").write_bytes(b"ab\0\xff")
    for name in ("empty", "list.txt", "data.bin"):
        with raises(InvalidInputError, path=tmp_path / name):
            list_images(tmp_path / name)
    with raises(NotFoundError, path=tmp_path / "gone"):
        list_images(tmp_path / "gone")
    with raises(InvalidInputError, path=None, problem="missing"):
        list_images("")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_list_in_utf16_names_the_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    content, listed = "a.jpg\nb.jpg\n".encode(encoding), "UTF-16 text" if encoding == "utf-16" else "a NUL byte"
    (tmp_path / "list.txt").write_bytes(content)
    with raises(InvalidInputError, path=tmp_path / "list.txt", found=listed):
        list_images(tmp_path / "list.txt")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    with raises(InvalidInputError, path="standard input:1", found=listed):
        list_images("-")
