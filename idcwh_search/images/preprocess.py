"""Preprocessing of images into the pixels that a model sees, shared by training, evaluation, export checks and search.

decoding.py gives an upright 8-bit RGB image by rules 1 to 4. This module has rule 5:

5. One antialiased resampling maps a centred square to crop x crop pixels. The side of the square is crop / resize of
   the shorter side. This equals scaling the shorter side to `resize` and cutting out the centre, but does not round the
   longer side. Pixels outside the square are never computed, so a 1 x 10000 image is as fast as another. The first
   pass is along the rows and the second along the columns, each rounded to 8 bits.

csrc/src/images implements rule 5 in C++ with identical bytes.
"""

# Paths stay strings, because they become keys of the database. So this file uses os.path.
# ruff: noqa: PTH116, PTH123
from __future__ import annotations

import io
import math
import os
import reprlib
import stat
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image

from ..errors import IdcwhError
from . import tar
from .decoding import UnreadableImage, open_image, to_rgb

Pixels = npt.NDArray[np.uint8]
Encoded = str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes]
"""An image file: its path, its bytes, or a file object opened in binary mode."""

_Result = TypeVar("_Result")

_RESAMPLING = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
    "box": Image.Resampling.BOX,
}
# Limits for copying the rows in resample: height / width above which Pillow's box is too imprecise, and pixels below
# which the copy is faster (benchmarks/preprocess.py).
_TALL = 8
_SMALL = 2_000_000


@dataclass(frozen=True)
class Preprocess:
    """Settings of the preprocessing from an image of any size to uint8 [crop, crop, 3]. They are stored with a model.

    Attributes:
        resize: length to which the shorter side is scaled, in pixels.
        crop: side of the square cut from the centre, in pixels, at most `resize`.
        interpolation: "bilinear" (the default of torchvision), "bicubic", "lanczos" or "box", always antialiased.

    Raises:
        TypeError: a number is not an int.
        ValueError: a field is invalid.
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
        """Returns the fields as plain Python, for model.pt, model.onnx and codes.bin."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Preprocess:
        """Returns the settings from the result of `to_dict`.

        Raises ValueError if a field is missing or unknown, because both could change pixels.
        """
        if not isinstance(values, Mapping):
            raise TypeError(f"preprocess: expected a dictionary, not {type(values).__name__}")
        expected = {field.name for field in fields(cls)}
        if set(values) != expected:
            raise ValueError(f"preprocess: expected the fields {sorted(expected)}, not {sorted(map(str, values))}")
        return cls(**values)


def load_image(path: Encoded, preprocess: Preprocess) -> Pixels:
    """Returns an image file as pixels, uint8 [crop, crop, 3] RGB. Several threads may call it at once.

    Args:
        path: path, which may lead into a tar file (tar.py); bytes of an image file; or file object opened in binary
            mode, which is read to its end.
        preprocess: settings.

    Raises:
        UnreadableImage: the file is missing or cannot be decoded.
        InvalidInputError: Pillow is set to load truncated images in this process.
    """
    if not isinstance(preprocess, Preprocess):
        raise TypeError(f"preprocess: expected a Preprocess(resize, crop), not {type(preprocess).__name__}")
    return _opened(path, lambda image, name: to_pixels(image, preprocess, name))


def load_reduced(path: Encoded, side: int) -> Image.Image:
    """Returns an image file as upright RGB, for programs that need no more than about `side` pixels per side.

    A JPEG file is decoded at a fraction of its size, both sides of which are at least `side` if those of the file are.
    This is several times faster. Arguments and errors are those of `load_image`.
    """

    def reduced(image: Image.Image, name: str | os.PathLike[str]) -> Image.Image:
        image.draft(None, (side, side))
        return to_rgb(image, name)

    return _opened(path, reduced)


def _opened(path: Encoded, use: Callable[[Image.Image, str | os.PathLike[str]], _Result]) -> _Result:
    """Returns the result of a function of an opened image and its name. Raises UnreadableImage."""
    if not isinstance(path, str | os.PathLike):
        content, name = _content(path)
        if not content:
            raise UnreadableImage(name, "an empty file")
        return use(open_image(io.BytesIO(content), name), name)
    if not os.fspath(path):
        raise UnreadableImage("''", "an empty path")
    try:
        if (inside := _in_shard(path)) is not None:
            return use(open_image(inside, path), path)
        status = os.stat(path)  # before opening, because opening a named pipe would block
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableImage(path, "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file")
        if status.st_size == 0:
            raise UnreadableImage(path, "an empty file")
        with open(path, "rb") as file:
            return use(open_image(file, path), path)
    except OSError as error:
        raise UnreadableImage(path, error.strerror or str(error)) from error
    except ValueError as error:  # a NUL byte
        raise UnreadableImage(path, f"not a path of a file ({error})") from error


def _content(source: bytes | bytearray | memoryview | IO[bytes]) -> tuple[bytes, str]:
    """Returns the bytes of an image file that is in memory or open, and its name for errors."""
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source), "image bytes"
    name = getattr(source, "name", None)
    name = name if isinstance(name, str) else "image file object"
    try:
        content = source.read()
    except OSError as error:
        raise UnreadableImage(name, error.strerror or str(error)) from error
    except ValueError as error:  # the file is closed, or in text mode and not UTF-8
        raise ValueError(f"{name}: cannot be read ({error}); give a file that is open in binary mode") from error
    if not isinstance(content, bytes):
        raise TypeError(f"{name}: read {type(content).__name__}, expected bytes; open it in binary mode ('rb')")
    return content, name


def _in_shard(path: str | os.PathLike[str]) -> IO[bytes] | None:
    try:
        return tar.read(path)
    except IdcwhError as error:  # about the whole archive
        raise UnreadableImage(path, str(error)) from error


def to_pixels(image: Image.Image, preprocess: Preprocess, path: str | os.PathLike[str] | None = None) -> Pixels:
    """Returns an image opened by Pillow as pixels, like `load_image`. Raises UnreadableImage with `path`."""
    name = path if path is not None else getattr(image, "filename", "") or "image"
    return resample(to_rgb(image, name), preprocess)


def resample(image: Image.Image, preprocess: Preprocess) -> Pixels:
    """Returns an upright RGB image as pixels, uint8 [crop, crop, 3], by rule 5."""
    # In two calls, rows first, because the order of the passes in one call depends on Pillow's version.
    width, height = image.size
    crop, how = preprocess.crop, _RESAMPLING[preprocess.interpolation]
    side = min(width, height) * crop / preprocess.resize
    left, top = (width - side) / 2, (height - side) / 2
    first, last = 0, height
    if height > width:  # rows outside the reach of the filter are left out
        margin = 4 * math.ceil(max(side / crop, 1))  # more than the radius of the widest filter
        first, last = max(int(top) - margin, 0), min(int(top + side) + margin, height)
    rows = (first, last)
    if height > width and (height > _TALL * width or width * height < _SMALL):
        # A copy of the rows gives the same pixels as a box. In a tall image Pillow's box, in single precision, could
        # miss rows. For a small image, copying is faster than the column pass that the box causes in Pillow.
        image, rows = image.crop((0, first, width, last)), (0, last - first)
    top, height = top - first, last - first
    image = image.resize((crop, height), how, box=(left, rows[0], left + side, rows[1]))
    return np.array(image.resize((crop, crop), how, box=(0, top, crop, top + side)))
