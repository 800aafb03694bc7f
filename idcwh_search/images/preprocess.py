"""Preprocessing: the only way from an image to pixels, for training, evaluation, export checks and search alike.

decoding.py gives an upright 8-bit RGB image by the rules 1 to 4. Here is the fifth:

5. One antialiased resampling takes the centred square whose side is crop / resize of the shorter side to crop x crop:
   scaling the shorter side to `resize` and cutting the centre out, in one step, with no rounding of the longer side,
   and without ever making the pixels that are cut away (a 1 x 10000 image costs no more than another). Its two
   passes, each rounded to 8 bits, go along the rows first and then along the columns.

csrc/src/images does step 5 in C++, byte for byte the same.
"""

# A path stays the string it was given as (it becomes a key of the database), so this file uses os.path.
# ruff: noqa: PTH116, PTH123
from __future__ import annotations

import io
import math
import os
import reprlib
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from ..errors import IdcwhError
from . import tar
from .decoding import UnreadableImage, open_image, to_rgb

Pixels = npt.NDArray[np.uint8]
Encoded = str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes]
"""An image file: its path, its bytes, or the file itself, opened in binary mode."""

_RESAMPLING = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
    "box": Image.Resampling.BOX,
}
_TALL = 8  # heights to a width
_SMALL = 2_000_000  # pixels


@dataclass(frozen=True)
class Preprocess:
    """The way from an image of any size to `uint8 [crop, crop, 3]`; it belongs to a model and is stored with it.

    `resize` is the length the shorter side is scaled to and `crop` the side of the square cut from its centre, in
    pixels, `crop <= resize`. `interpolation` is "bilinear" (torchvision's default, and ours), "bicubic", "lanczos" or
    "box", always antialiased. A ValueError or TypeError names a wrong field.
    """

    resize: int = 240
    crop: int = 224
    interpolation: str = "bilinear"

    def __post_init__(self) -> None:
        for name in ("resize", "crop"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"preprocess: {name} must be an int, not {reprlib.repr(value)}")
        if not 1 <= self.crop <= self.resize <= 8192:
            raise ValueError(f"preprocess: expected 1 <= crop <= resize <= 8192, not {self.crop} and {self.resize}")
        if not isinstance(self.interpolation, str) or self.interpolation not in _RESAMPLING:
            known, found = ", ".join(_RESAMPLING), reprlib.repr(self.interpolation)
            raise ValueError(f"preprocess: interpolation must be one of {known}, not {found}")

    def __str__(self) -> str:
        return f"resize {self.resize}, crop {self.crop}, {self.interpolation}"

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields in plain Python, for model.pt, model.onnx and codes.bin."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Preprocess:
        """Returns the inverse of `to_dict`. It takes every field, and no other, which might change pixels."""
        if not isinstance(values, Mapping):
            raise TypeError(f"preprocess: expected a dictionary, not {type(values).__name__}")
        expected = {field.name for field in fields(cls)}
        if set(values) != expected:
            raise ValueError(f"preprocess: expected the fields {sorted(expected)}, not {sorted(map(str, values))}")
        return cls(**values)


def load_image(path: Encoded, preprocess: Preprocess) -> Pixels:
    """Returns an image file as pixels, `uint8 [crop, crop, 3]` RGB. Safe to call from several threads.

    path: a path, which may lead into a tar file (tar.py); the bytes of an image file; or a file object opened in
    binary mode, which is read to its end. Raises UnreadableImage, and InvalidInputError if the process lets Pillow
    load truncated images.
    """
    if not isinstance(preprocess, Preprocess):
        raise TypeError(f"preprocess: expected a Preprocess(resize, crop), not {type(preprocess).__name__}")
    if not isinstance(path, str | os.PathLike):
        content, name = _content(path)
        if not content:
            raise UnreadableImage(name, "an empty file")
        return to_pixels(open_image(io.BytesIO(content), name), preprocess, name)
    if not os.fspath(path):
        raise UnreadableImage("''", "an empty path")
    try:
        if (inside := _in_shard(path)) is not None:
            return to_pixels(open_image(inside, path), preprocess, path)
        status = os.stat(path)  # before opening: opening a named pipe would wait for ever
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableImage(path, "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file")
        if status.st_size == 0:
            raise UnreadableImage(path, "an empty file")
        with open(path, "rb") as file:
            return to_pixels(open_image(file, path), preprocess, path)
    except OSError as error:
        raise UnreadableImage(path, error.strerror or str(error)) from error
    except ValueError as error:  # a NUL byte
        raise UnreadableImage(path, f"no path of a file ({error})") from error


def _content(source: bytes | bytearray | memoryview | IO[bytes]) -> tuple[bytes, str]:
    """Returns the bytes of an image file that is in memory or open, and its name in errors."""
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source), "image bytes"
    name = getattr(source, "name", None)
    name = name if isinstance(name, str) else "image file object"
    try:
        content = source.read()
    except OSError as error:
        raise UnreadableImage(name, error.strerror or str(error)) from error
    except ValueError as error:  # it is closed, or text that is not UTF-8
        raise ValueError(f"{name}: cannot be read ({error}); give a file that is open in binary mode") from error
    if not isinstance(content, bytes):
        raise TypeError(f"{name}: gives {type(content).__name__}, expected bytes; open it in binary mode ('rb')")
    return content, name


def _in_shard(path: str | os.PathLike[str]) -> IO[bytes] | None:
    try:
        return tar.read(path)
    except IdcwhError as error:  # about the whole archive
        raise UnreadableImage(path, str(error)) from error


def to_pixels(image: Image.Image, preprocess: Preprocess, path: str | os.PathLike[str] | None = None) -> Pixels:
    """Returns an image that Pillow has opened as pixels, like `load_image`; `path` is its name in an error."""
    name = path if path is not None else getattr(image, "filename", "") or "image"
    return _resample(to_rgb(image, name), preprocess)


def _resample(image: Image.Image, preprocess: Preprocess) -> Pixels:
    """Applies rule 5, across and then down: in one call Pillow orders the passes by its version."""
    width, height = image.size
    crop, how = preprocess.crop, _RESAMPLING[preprocess.interpolation]
    side = min(width, height) * crop / preprocess.resize
    left, top = (width - side) / 2, (height - side) / 2
    first, last = 0, height
    if height > width:  # from here on the rows that cannot matter were never there
        margin = 4 * math.ceil(max(side / crop, 1))  # more than the widest filter reaches
        first, last = max(int(top) - margin, 0), min(int(top + side) + margin, height)
    rows = (first, last)
    if height > width and (height > _TALL * width or width * height < _SMALL):
        # Copied, which gives the same pixels: few rows are left, and Pillow's box, in single precision, might not name
        # them; or copying a small image costs less than a pass down its columns, which the box makes Pillow take.
        image, rows = image.crop((0, first, width, last)), (0, last - first)
    top, height = top - first, last - first
    image = image.resize((crop, height), how, box=(left, rows[0], left + side, rows[1]))
    return np.array(image.resize((crop, crop), how, box=(0, top, crop, top + side)))
