"""Binary index files of faiss, written and read without faiss: IndexBinaryFlat, alone or inside an IndexBinaryIDMap.

All numbers are little-endian. An index begins with a name of four letters and a header of 21 bytes: d int32, code bytes
int32, count int64, is_trained bool, metric int32. IBxF continues with the number of bytes of all codes (uint64) and the
codes. IBMp and IBM2 continue with the inner index, the number of ids (uint64) and the ids (int64).
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ..codes import code_bytes
from ..database.database import Database
from ..errors import CorruptFileError
from .flat import Rows, check_size, items_of, write_codes
from .source import Progress, Source, consecutive, fitting_bits

_FLAT, _MAPS = b"IBxF", (b"IBMp", b"IBM2")
_HEADER = struct.Struct("<4siiq?i")
_LENGTH = struct.Struct("<Q")
_METRIC = 1  # METRIC_L2, which faiss writes for binary indexes and does not read


def write(database: Database, file: BinaryIO, progress: Progress) -> None:
    """Writes an IndexBinaryFlat if ids are row numbers, otherwise an IndexBinaryIDMap of one."""
    ids, width = database.ids, code_bytes(database.bits)
    header = (8 * width, width, len(ids), True, _METRIC)
    mapped = not consecutive(ids)
    if mapped:
        file.write(_HEADER.pack(_MAPS[0], *header))
    file.write(_HEADER.pack(_FLAT, *header) + _LENGTH.pack(len(ids) * width))
    write_codes(database, file, progress)
    if mapped:
        file.write(_LENGTH.pack(len(ids)))
        file.write(ids.astype("<i8").data)


def open_index(path: Path, bits: int | None) -> Source:
    """Returns the `Source` of an index. `bits` is the code length if that is not 8 times the code bytes.

    Raises CorruptFileError for an invalid file and MismatchError for other `bits`.
    """
    with path.open("rb") as file:
        head = file.read(2 * _HEADER.size + _LENGTH.size)
        mapped = head[:4] in _MAPS
        inner = _HEADER.size if mapped else 0
        name = head[inner : inner + 4]
        start = inner + _HEADER.size + _LENGTH.size
        if len(name) == 4 and name != _FLAT:
            expected = "'IBxF' (IndexBinaryFlat), alone or in an IndexBinaryIDMap"
            raise CorruptFileError(path=path, found=ascii(name.decode("latin-1")), expected=expected)
        if len(head) < start:
            raise CorruptFileError("header is corrupt", path=path, found=f"{len(head)} bytes", expected=f"{start}")
        _, d, width, count, _, _ = _HEADER.unpack_from(head, inner)
        (held,) = _LENGTH.unpack_from(head, start - _LENGTH.size)
        if d <= 0 or d % 8 or d != 8 * width or count < 0 or held != count * width:
            header = f"{count} codes of {d} bits, {width} bytes each, in {held} bytes"
            raise CorruptFileError("header is corrupt", path=path, found=header)
        codes = Rows(path, start, count, np.dtype(np.uint8), width)
        ids = Rows(path, codes.end + _LENGTH.size, count, np.dtype("<i8")) if mapped else None
        check_size(path, codes.end if ids is None else ids.end, f"{count} codes of {d} bits")
        if ids is not None:
            file.seek(codes.end)
            (named,) = _LENGTH.unpack(file.read(_LENGTH.size))
            outer, inside = (named, *_HEADER.unpack_from(head)[1:4]), (count, d, width, count)
            if outer != inside:
                what = "IndexBinaryIDMap does not match its index in ids, bits, bytes and codes"
                raise CorruptFileError(what, path=path, found=outer, expected=inside)
    return Source(path, fitting_bits(path, bits, width), count, lambda: items_of(codes, ids))
