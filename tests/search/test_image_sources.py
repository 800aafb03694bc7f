"""Images as bytes, open files and pipes, and the types of image files. The oracle is Pillow."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, features

import idcwh_search as ih
from idcwh_search.images.decoding import HEAD, UnreadableImage, kind_of
from idcwh_search.images.preprocess import Preprocess, load_image
from support.errors import raises

SVG = b'<?xml version="1.0"?>\n<!-- drawn by hand -->\n<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4"/>'
HEIC = b"\0\0\0\x1cftypheic\0\0\0\0mif1heicmiaf" + bytes(64)


def encoded(kind: str, **options: Any) -> bytes:
    """Returns a photo-like image of this Pillow format."""
    buffer = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_encoder_takes_every_form_of_an_image(linear: Any, tmp_path: Path, suffix: str) -> None:
    content = encoded({"png": "PNG", "jpg": "JPEG"}[suffix])
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(content)
    encoder = ih.Encoder(linear.write(12), threads=2)
    expected = encoder(path)
    with path.open("rb") as file, Image.open(path) as image:
        array = np.asarray(image)
        forms: list[Any] = [content, bytearray(content), memoryview(content), io.BytesIO(content), file, path, image]
        codes = encoder([*forms, array, str(path)])
    np.testing.assert_array_equal(codes, np.repeat(expected, 9, axis=0))
    for single in (content, io.BytesIO(content), memoryview(content)):
        np.testing.assert_array_equal(encoder(single), expected)


def test_load_image_of_a_pipe_equals_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encoded("PNG"))
    read, write = os.pipe()

    def send() -> None:
        with os.fdopen(write, "wb") as sink:
            sink.write((tmp_path / "a.png").read_bytes())

    sender = threading.Thread(target=send)
    sender.start()
    with os.fdopen(read, "rb") as source:
        result = ih.load_image(source, ih.Preprocess(10, 8))
    sender.join()
    np.testing.assert_array_equal(result, ih.load_image(tmp_path / "a.png", ih.Preprocess(10, 8)))


def test_bytes_without_an_image_are_unreadable() -> None:
    whole = encoded("PNG")
    for content, reason in ((b"", "an empty file"), (b"a.png", "not an image"), (whole[: len(whole) // 2], "corrupt")):
        for source in (content, io.BytesIO(content)):
            with raises(UnreadableImage, problem=reason):
                ih.load_image(source, ih.Preprocess())


def test_file_opened_as_text_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("abc")
    with (tmp_path / "a.txt").open() as file, pytest.raises(TypeError, match=r"a\.txt: "):
        ih.load_image(file, ih.Preprocess())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"a\.txt: "):
        ih.load_image(file, ih.Preprocess())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("format", "kind"),
    [
        ("JPEG", "JPEG"), ("PNG", "PNG"), ("GIF", "GIF"), ("WEBP", "WebP"), ("TIFF", "TIFF"), ("BMP", "BMP"),
        ("PPM", "PNM"), ("ICO", "ICO"), ("JPEG2000", "JPEG 2000"), ("AVIF", "AVIF"), ("PDF", "PDF"),
    ],
)  # fmt: skip
def test_kind_of_files_of_pillow_is_found(format: str, kind: str) -> None:
    if format == "AVIF" and not features.check("avif"):
        pytest.skip("this Pillow has no AVIF")
    assert kind_of(encoded(format)[:HEAD]) == kind


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"a.jpg\nb.jpg\n",
        b"P1010001.JPG\n",
        b"P1 2024.jpg\nP1 2025.jpg\n",
        b"BMW/1.jpg\n",
        b"<html>",
        b"\xef\xbb\xbfa.jpg",
        b"II.jpg",
    ],
)
def test_kind_of_a_list_of_paths_is_none(text: bytes) -> None:
    assert kind_of(text) is None


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (SVG, "SVG"),
        (b"\xef\xbb\xbf <svg/>", "SVG"),
        (b"<!DOCTYPE svg PUBLIC 'x'>\n<svg>", "SVG"),
        (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
        (b"8BPS\0\1", "Photoshop (PSD)"),
        (b"%PDF-1.7\n", "PDF"),
        (b"FUJIFILMCCD-RAW 0201", "camera raw"),
    ],
)
def test_image_of_an_unsupported_type_names_the_type(content: bytes, kind: str, tmp_path: Path) -> None:
    (tmp_path / "query.jpg").write_bytes(content)
    with raises(UnreadableImage, path=tmp_path / "query.jpg", problem=kind):
        ih.load_image(tmp_path / "query.jpg", ih.Preprocess())


def test_heic_without_pillow_heif_names_the_package(heif_missing: None) -> None:
    with raises(UnreadableImage, problem="pillow-heif"):
        ih.load_image(HEIC, ih.Preprocess())


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "avif", "jp2"])
def test_image_cut_off_in_its_header_is_corrupt(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    Image.new("RGB", (40, 40)).save(path)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(UnreadableImage) as caught:
        load_image(path, Preprocess(8, 8))
    assert caught.value.reason.startswith("corrupt: "), caught.value.reason
