"""Reading of arrays in .npy format, from .npy files and from members of .npz archives.

Nothing is unpickled. Memory is allocated only after the size in the header matches that of the data.
"""

from __future__ import annotations

import math
import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from ..errors import CorruptFileError, InvalidInputError

# Version 3 differs from version 2 only in the encoding of field names. Arrays with fields are refused.
_READERS: dict[tuple[int, ...], Any] = {
    (1, 0): npy.read_array_header_1_0,
    (2, 0): npy.read_array_header_2_0,
    (3, 0): npy.read_array_header_2_0,
}
_KINDS = "biufSU"
_CHUNK = 1 << 24


class Header(NamedTuple):
    """The header of an array: shape, memory order and dtype."""

    shape: tuple[int, ...]
    by_column: bool
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        """Size of the data in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: Any) -> Header:
    """Reads the header at the current position of a binary file. Raises ValueError for an invalid one."""
    start = file.read(npy.MAGIC_LEN)
    if start[: len(npy.MAGIC_PREFIX)] != npy.MAGIC_PREFIX:
        raise ValueError("is corrupt")
    version = tuple(start[len(npy.MAGIC_PREFIX) :])
    if version not in _READERS:
        raise ValueError(f".npy format {'.'.join(map(str, version))} is not supported")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns about corrupt headers
            header = Header(*_READERS[version](file))
    except Exception:  # NumPy evaluates the header as Python, which may raise many kinds
        raise ValueError("header is corrupt") from None
    if header.dtype.hasobject:
        raise ValueError("contains Python objects, which are not supported; save plain arrays")
    if header.dtype.kind not in _KINDS or header.dtype.names or min(header.shape, default=0) < 0:
        raise ValueError(f"contains {header.dtype} of shape {list(header.shape)}, expected plain numbers or text")
    return header


def read_array(file: Any, size: int) -> np.ndarray:
    """Reads the array in the next `size` bytes of a binary file. Raises ValueError for an invalid or truncated one."""
    start = file.tell()
    header = read_header(file)
    left = size - (file.tell() - start)
    if left != header.nbytes:
        raise ValueError(f"has {left:,} bytes of data, expected {header.nbytes:,} by its header")
    array = np.empty(math.prod(header.shape), header.dtype)
    if header.nbytes:
        raw, filled = array.view(np.uint8).data, 0
        while count := file.readinto(raw[filled : filled + _CHUNK]):
            filled += count
        if filled < header.nbytes:
            raise ValueError(f"ends after {filled:,} of {header.nbytes:,} bytes of data")
    return array.reshape(header.shape, order="F" if header.by_column else "C")


def load(path: Path, expected: str) -> np.ndarray:
    """Reads a .npy file.

    Args:
        path: the file.
        expected: description of the array for errors.

    Raises:
        CorruptFileError: the file is not a .npy file, or is corrupt.
        InvalidInputError: the path is a folder, a device or a pipe.
    """
    expected = f"{expected}, as numpy.save writes them"
    if path.exists() and not path.is_file():
        raise InvalidInputError(path=path, found="a folder, a device or a pipe", expected=expected)
    with path.open("rb") as file:
        try:
            return read_array(file, os.fstat(file.fileno()).st_size)
        except ValueError as error:
            raise CorruptFileError(str(error), path=path, expected=expected) from None
