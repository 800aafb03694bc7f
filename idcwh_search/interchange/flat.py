"""Codes one after the other: .npy files and raw bytes; and rows at a place of a file, which faiss files have as well.

Nothing is allocated for what a header claims: the claim is compared with the size of the file first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from .._util import npy
from ..codes import code_bytes, pack
from ..database.database import Database
from ..errors import CorruptFileError, InvalidInputError, MismatchError
from .source import Items, Progress, Source, batches_of, fitting_bits, refuse_unpacked, spans

_DATABASE_MAGIC = b"\x89IDCWH\r\n"  # docs/codes-bin.md


@dataclass(frozen=True)
class Rows:
    """`count` rows from byte `offset` on: numbers, or with `width` arrays of that many."""

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
        """Rows start to stop: (stop - start) or (stop - start, width)."""
        wanted = (stop - start) * self.row_bytes
        with self.path.open("rb") as file:
            file.seek(self.offset + start * self.row_bytes)
            raw = file.read(wanted)
        if len(raw) != wanted:
            raise CorruptFileError("became shorter while it was read; try again", path=self.path)
        values = np.frombuffer(raw, self.dtype)
        return values if self.width is None else values.reshape(-1, self.width)


def items_of(codes: Rows, ids: Rows | None) -> Iterator[Items]:
    """Batches of rows of codes, uint8 or bool, with their ids where there are some."""
    for start, stop in spans(codes.count):
        block = codes.read(start, stop)
        yield Items(pack(block) if block.dtype == bool else block, None if ids is None else ids.read(start, stop))


def check_size(path: Path, expected: int, what: str) -> None:
    """IdcwhError unless the file has the size that its header speaks of."""
    size = path.stat().st_size
    if size != expected:
        raise CorruptFileError(
            f"has {size} bytes, expected {expected} for {what}; it is damaged or no such file", path=path
        )


def open_codes(path: Path, kind: str, bits: int | None, ids: Path | None) -> Source:
    """A `Source` of a .npy (kind "npy") or of raw bytes ("raw"), with ids from a .npy of their own."""
    codes, bits = _npy_codes(path, bits) if kind == "npy" else _raw_codes(path, bits)
    numbers = None if ids is None else _npy_ids(ids, codes)
    return Source(path, bits, codes.count, lambda: items_of(codes, numbers))


def _raw_codes(path: Path, bits: int | None) -> tuple[Rows, int]:
    if bits is None:
        raise ValueError(f"{path}: raw codes say nothing of their length; give it (--bits)")
    with path.open("rb") as file:
        if file.read(len(_DATABASE_MAGIC)) == _DATABASE_MAGIC:
            raise InvalidInputError("is a codes.bin database already, no raw codes", path=path)
    width, size = code_bytes(bits), path.stat().st_size
    if size % width:
        raise CorruptFileError(f"has {size} bytes, expected a multiple of {width}, one code of {bits} bits", path=path)
    return Rows(path, 0, size // width, np.dtype(np.uint8), width), bits


def _npy_codes(path: Path, bits: int | None) -> tuple[Rows, int]:
    rows = _npy(path, "uint8 (n, code bytes) or bool (n, bits)", dimensions=2, kinds="ub")
    if rows.dtype not in (np.dtype(np.uint8), np.dtype(bool)):
        raise InvalidInputError(f"holds {rows.dtype}, expected uint8 (n, code bytes) or bool (n, bits)", path=path)
    width = rows.width or 0
    if rows.dtype == np.uint8:
        if width and bits in (None, width):
            refuse_unpacked(path, rows.read(*next(spans(rows.count), (0, 0))))
        return rows, fitting_bits(path, bits, width)
    if bits not in (None, width):
        raise MismatchError(f"holds {width} bits a code, not {bits}", path=path)
    return rows, fitting_bits(path, width or None, (width + 7) // 8)


def _npy_ids(path: Path, codes: Rows) -> Rows:
    rows = _npy(path, f"integers of shape ({codes.count},)", dimensions=1, kinds="iu")
    if rows.count != codes.count:
        raise MismatchError(
            f"holds {rows.count} ids, expected {codes.count}, one for each code in {codes.path}", path=path
        )
    return rows


def _npy(path: Path, expected: str, *, dimensions: int, kinds: str) -> Rows:
    """Where the rows of a .npy lie. Objects, which would have to be unpickled, are refused like any other type."""
    with path.open("rb") as file:
        try:
            shape, by_column, dtype = npy.read_header(file)
        except ValueError as error:
            raise CorruptFileError(str(error), path=path, expected=expected) from None
        offset = file.tell()
    if dtype.kind not in kinds or len(shape) != dimensions:
        raise InvalidInputError(f"holds {dtype} of shape {shape}, expected {expected}", path=path)
    if by_column and dimensions > 1 and min(shape) > 1:
        raise InvalidInputError("is stored column by column; save numpy.ascontiguousarray of it", path=path)
    rows = Rows(path, offset, shape[0], dtype, *shape[1:])
    check_size(path, rows.end, f"{dtype} of shape {shape}")
    return rows


def write_codes(database: Database, file: BinaryIO, progress: Progress) -> None:
    """All codes in row order."""
    for ids in batches_of(database.ids):
        file.write(np.ascontiguousarray(database.get(ids)).data)
        if progress:
            progress(len(ids))


def write_raw(database: Database, file: BinaryIO, progress: Progress) -> None:
    """Nothing but the codes."""
    write_codes(database, file, progress)


def write_npy(database: Database, file: BinaryIO, progress: Progress) -> None:
    """A .npy: uint8 (n, code bytes)."""
    shape = (len(database), code_bytes(database.bits))
    np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
    write_codes(database, file, progress)
