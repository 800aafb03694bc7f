"""Files of consecutive codes, .npy and raw, and `Rows`, the codes or ids at an offset of any file.

The size in a header is compared with the size of the file before memory is allocated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from .._util import npy
from .._util.atomic import CODES_BIN
from ..codes import code_bytes, pack
from ..database.database import Database
from ..errors import CorruptFileError, InvalidInputError, MismatchError
from .source import Items, Progress, Source, batches_of, fitting_bits, refuse_unpacked, spans, wrong_bits

_CODES = "uint8 (n, code bytes) or bool (n, bits)"


@dataclass(frozen=True)
class Rows:
    """`count` rows of a file from byte `offset`. Each row is a number, or an array of `width` numbers."""

    path: Path
    offset: int
    count: int
    dtype: np.dtype
    width: int | None = None

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * (1 if self.width is None else self.width)

    @property
    def end(self) -> int:
        return self.offset + self.count * self.row_bytes

    def read(self, start: int, stop: int) -> np.ndarray:
        """Returns rows start to stop, of shape (stop - start,) or (stop - start, width)."""
        wanted = (stop - start) * self.row_bytes
        with self.path.open("rb") as file:
            file.seek(self.offset + start * self.row_bytes)
            raw = file.read(wanted)
        if len(raw) != wanted:
            raise CorruptFileError("became shorter while it was read", path=self.path, hint="try again")
        values = np.frombuffer(raw, self.dtype)
        return values if self.width is None else values.reshape(-1, self.width)


def items_of(codes: Rows, ids: Rows | None) -> Iterator[Items]:
    """Yields batches of codes, packed if they are bool, with their ids if there are any."""
    for start, stop in spans(codes.count):
        block = codes.read(start, stop)
        yield Items(pack(block) if block.dtype == bool else block, None if ids is None else ids.read(start, stop))


def check_size(path: Path, expected: int, what: str) -> None:
    """Raises CorruptFileError unless the file has the expected size in bytes for its content `what`."""
    size = path.stat().st_size
    if size != expected:
        raise CorruptFileError(f"size in bytes does not match {what}", path=path, found=size, expected=expected)


def open_codes(path: Path, kind: str, bits: int | None, ids: Path | None) -> Source:
    """Returns the `Source` of a .npy file (kind "npy") or of raw bytes ("raw"), with ids from a second .npy file."""
    codes, bits = _raw_codes(path, bits) if kind == "raw" and bits is not None else _npy_codes(path, bits)
    numbers = None if ids is None else _npy_ids(ids, codes)
    return Source(path, bits, codes.count, lambda: items_of(codes, numbers))


def _raw_codes(path: Path, bits: int) -> tuple[Rows, int]:
    with path.open("rb") as file:
        if CODES_BIN.fits(file):
            raise InvalidInputError(path=path, found="a codes.bin database", expected="raw codes")
    width, size = code_bytes(bits), path.stat().st_size
    if size % width:
        expected = f"a multiple of {width}, the bytes of a code of {bits} bits"
        raise CorruptFileError("size in bytes is invalid", path=path, found=size, expected=expected)
    return Rows(path, 0, size // width, np.dtype(np.uint8), width), bits


def _npy_codes(path: Path, bits: int | None) -> tuple[Rows, int]:
    rows = _npy(path, _CODES, dimensions=2, kinds="ub")
    if rows.dtype not in (np.dtype(np.uint8), np.dtype(bool)):
        raise InvalidInputError(path=path, found=str(rows.dtype), expected=_CODES)
    width = rows.width or 0
    if rows.dtype == np.uint8:
        if width and bits in (None, width):
            refuse_unpacked(path, rows.read(*next(spans(rows.count), (0, 0))))
        return rows, fitting_bits(path, bits, width)
    if bits not in (None, width):
        raise wrong_bits(path, width, bits)
    return rows, fitting_bits(path, width or None, (width + 7) // 8)


def _npy_ids(path: Path, codes: Rows) -> Rows:
    rows = _npy(path, f"integers of shape ({codes.count},)", dimensions=1, kinds="iu")
    if rows.count != codes.count:
        what = f"number of ids does not match {codes.path}"
        raise MismatchError(what, path=path, found=rows.count, expected=codes.count)
    return rows


def _npy(path: Path, expected: str, *, dimensions: int, kinds: str) -> Rows:
    """Returns the rows of a .npy file. Objects, which would have to be unpickled, are refused."""
    with path.open("rb") as file:
        try:
            shape, by_column, dtype = npy.read_header(file)
        except ValueError as error:
            raise CorruptFileError(str(error), path=path, expected=expected) from None
        offset = file.tell()
    if dtype.kind not in kinds or len(shape) != dimensions:
        raise InvalidInputError(path=path, found=f"{dtype} of shape {shape}", expected=expected)
    if by_column and dimensions > 1 and min(shape) > 1:
        hint = "save numpy.ascontiguousarray of it"
        raise InvalidInputError("Fortran order is not supported", path=path, hint=hint)
    rows = Rows(path, offset, shape[0], dtype, *shape[1:])
    check_size(path, rows.end, f"{dtype} of shape {shape}")
    return rows


def write_codes(database: Database, file: BinaryIO, progress: Progress) -> None:
    """Writes all codes in row order."""
    for ids in batches_of(database.ids):
        file.write(np.ascontiguousarray(database.get(ids)).data)
        if progress:
            progress(len(ids))


def write_npy(database: Database, file: BinaryIO, progress: Progress) -> None:
    """Writes all codes in row order as .npy, uint8 (n, code bytes)."""
    shape = (len(database), code_bytes(database.bits))
    np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
    write_codes(database, file, progress)
