"""Images that are corrupt, truncated, too large or not images: one clear error each, and never a part of an image."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFile

import idcwh_search as ih
from idcwh_search.errors import InvalidInputError
from idcwh_search.images.decoding import UnreadableImage
from idcwh_search.images.preprocess import Preprocess, load_image, to_pixels
from support.errors import raises

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow warns of unusual files
SMALL = Preprocess(resize=24, crop=20)


def encoded(kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)).save(buffer, kind, **options)
    return buffer.getvalue()


KINDS: dict[str, tuple[str, dict[str, object]]] = {
    "jpeg": ("JPEG", {}),
    "progressive": ("JPEG", {"progressive": True}),
    "png": ("PNG", {}),
    "webp": ("WEBP", {}),
    "lossless": ("WEBP", {"lossless": True}),
    "gif": ("GIF", {}),
    "bmp": ("BMP", {}),
    "tiff": ("TIFF", {}),
    "lzw": ("TIFF", {"compression": "tiff_lzw"}),
    "jp2": ("JPEG2000", {}),
    "ppm": ("PPM", {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_image_cut_off_anywhere_is_unreadable(kind: str, tmp_path: Path) -> None:
    form, options = KINDS[kind]
    whole = encoded(form, **options)
    path = tmp_path / "cut.jpg"
    path.write_bytes(whole)
    assert load_image(path, SMALL).shape == (20, 20, 3)  # with any file name
    for tenth in range(10):
        path.write_bytes(whole[: len(whole) * tenth // 10])
        with pytest.raises(UnreadableImage) as error:
            load_image(path, SMALL)
        assert str(error.value).startswith(f"{path}: ") and "\n" not in str(error.value) and error.value.reason


@pytest.mark.parametrize("kind", KINDS)
def test_image_with_flipped_bytes_raises_nothing_else(kind: str, tmp_path: Path) -> None:
    form, options = KINDS[kind]
    whole = encoded(form, **options)
    rng = np.random.default_rng(3)
    path = tmp_path / "flipped"
    for _ in range(40):
        broken = bytearray(whole)
        for place in rng.integers(0, min(len(broken), 2000), 4):
            broken[place] = rng.integers(256)
        path.write_bytes(broken)
        try:
            assert load_image(path, SMALL).shape == (20, 20, 3)
        except UnreadableImage as error:
            assert error.reason


def test_truncated_images_switch_of_pillow_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = encoded("JPEG")
    (tmp_path / "half.jpg").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "whole.jpg").write_bytes(whole)
    opened = Image.open(tmp_path / "half.jpg")
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    for name in ("half.jpg", "whole.jpg"):
        with raises(InvalidInputError, path="PIL.ImageFile.LOAD_TRUNCATED_IMAGES", expected=False):
            load_image(tmp_path / name, SMALL)
    with raises(InvalidInputError, path="PIL.ImageFile.LOAD_TRUNCATED_IMAGES", expected=False):
        to_pixels(opened, SMALL)
    assert to_pixels(Image.new("RGB", (30, 30)), SMALL).shape == (20, 20, 3), "nothing to decode"
    assert ImageFile.LOAD_TRUNCATED_IMAGES is True


@pytest.mark.filterwarnings("error")
def test_warning_made_an_error_is_named_as_one(tmp_path: Path) -> None:
    Image.new("1", (10_000, 9_500)).save(tmp_path / "big.png")
    with raises(UnreadableImage, path=tmp_path / "big.png", problem="Pillow warning"):
        load_image(tmp_path / "big.png", SMALL)


def test_path_without_an_image_names_the_cause(tmp_path: Path) -> None:
    (tmp_path / "text.jpg").write_text("not an image\n" * 100)
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "folder.jpg").mkdir()
    (tmp_path / "loop.jpg").symlink_to("loop.jpg")
    os.mkfifo(tmp_path / "pipe.jpg")
    expected = {
        "text.jpg": "not an image",
        "empty.jpg": "empty",
        "folder.jpg": "directory",
        "gone.jpg": "No such file",
        "loop.jpg": "symbolic link",
        "pipe.jpg": "not a regular file",
    }
    for name, cause in expected.items():
        with raises(UnreadableImage, path=tmp_path / name, problem=cause):
            load_image(tmp_path / name, SMALL)


def test_unreadable_image_is_public_and_keeps_its_reason(tmp_path: Path) -> None:
    with pytest.raises(ih.UnreadableImage) as caught:
        ih.load_image(tmp_path / "gone.jpg", SMALL)
    again = caught.value.about("x", hint="restore it")
    assert type(again) is ih.UnreadableImage and again.hint == "restore it"
    assert (
        (again.path, again.reason)
        == (caught.value.path, caught.value.reason)
        == (str(tmp_path / "gone.jpg"), again.problem)
    )


def test_postscript_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\nshowpage\n")
    with raises(UnreadableImage, path=tmp_path / "a.jpg"):
        load_image(tmp_path / "a.jpg", SMALL)


@pytest.mark.parametrize(
    ("limit", "accepted"), [(Image.MAX_IMAGE_PIXELS, "178,956,970"), (None, "178,956,970"), (1000, "2,000")]
)
def test_image_with_too_many_pixels_is_not_decoded(
    limit: int | None, accepted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytearray(encoded("PNG"))
    content[16:24] = struct.pack(">2I", 30_000, 30_000)  # in the header, whose checksum follows it
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    (tmp_path / "bomb.png").write_bytes(content)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)  # other libraries disable Pillow's own limit
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("decoded"))
    with raises(UnreadableImage, path=tmp_path / "bomb.png", problem=accepted):
        load_image(tmp_path / "bomb.png", SMALL)


@pytest.mark.slow
def test_pillow_warnings_are_silent_only_in_commands(tmp_path: Path) -> None:
    image = Image.new("P", (8, 8))
    image.save(tmp_path / "p.png", transparency=bytes([0, 128]))  # Pillow warns of this kind
    Image.new("1", (10_000, 9_500)).save(tmp_path / "big.png")  # and of this size
    code = (
        "import sys, warnings\n"
        "from idcwh_search.cli.common import command\n"
        "from idcwh_search.images.preprocess import Preprocess, load_image\n"
        "before = list(warnings.filters)\n"
        "load = lambda paths: [load_image(path, Preprocess(8, 8)) for path in paths] and 0\n"
        "command(load)(sys.argv[1:])\n"
        "assert warnings.filters == before\n"
        "print('now the library', file=sys.stderr)\n"
        "load(sys.argv[1:])\n"
        "assert warnings.filters == before\n"
    )
    files = [str(tmp_path / "p.png"), str(tmp_path / "big.png")]
    done = subprocess.run([sys.executable, "-c", code, *files], capture_output=True, text=True, check=True)
    quiet, _, loud = done.stderr.partition("now the library")
    assert quiet == "" and "DecompressionBombWarning" in loud
