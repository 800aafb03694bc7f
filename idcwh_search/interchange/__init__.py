"""Import and export of codes: faiss, NumPy, raw bytes, Parquet, Arrow, hashes as text and CSV, and SQL's bit strings.

`export` writes a file and `read` opens one. docs/interchange.md describes the formats. flat.py has NumPy and raw bytes,
faiss_files.py faiss, tables.py Parquet and Arrow, hashes.py text and CSV, and text.py bit strings.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .._util.atomic import NPY, UNRECOGNIZABLE, begins_with, check_target, replacing
from ..database.database import Database
from ..errors import AlreadyExistsError, InvalidInputError, not_installed
from ..hexadecimal import HASHERS, ORDERS, Order, check_order, integer_bits, text_bits
from . import faiss_files, flat, hashes
from .source import Columns, Items, Progress, Source, batches_of, consecutive
from .text import from_bit_strings, to_bit_strings

__all__ = ["FORMATS", "Items", "Source", "export", "format_of", "from_bit_strings", "read", "to_bit_strings"]

FORMATS = ("faiss", "npy", "raw", "parquet", "arrow", "csv", "text")
_SUFFIXES = {
    ".faiss": "faiss",
    ".index": "faiss",
    ".npy": "npy",
    ".bin": "raw",
    ".raw": "raw",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".csv": "csv",
    ".txt": "text",
}
_TABLES = ("parquet", "arrow")
_TEXTS = ("csv", "text")
_KINDS = {
    "faiss": begins_with("binary index of faiss", rb"IB(xF|Mp|M2)"),
    "npy": NPY,
    "raw": UNRECOGNIZABLE,
    "parquet": begins_with("Parquet file", rb"PAR1"),
    "arrow": begins_with("Arrow file", rb"ARROW1"),
    "csv": begins_with("CSV file of items", ",".join(hashes.CSV_COLUMNS).encode()),
    "text": UNRECOGNIZABLE,
}
_WITHOUT_IDS = ("npy", "raw")


def read(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    bits: int | None = None,
    ids: str | os.PathLike[str] | None = None,
    hash_order: Order | None = None,
    integers: bool = False,
    column: str | int | None = None,
    key_column: str | int | None = None,
    label_column: str | int | None = None,
) -> Source:
    """Opens a file of codes. The header is checked against the file size at once, the items when they are read.

    Args:
        path: the file.
        format: one of FORMATS; None for the format of the suffix.
        bits: code length. It is required for raw files, and for code lengths that are not a multiple of 8 in files
            that store whole bytes.
        ids: a .npy file of integers [n], for formats without ids (npy, raw).
        hash_order: order of the hashes of another program, as in `from_hex`. It is required for csv and text.
        integers: True for hashes that are decimal numbers, in csv, text and columns of strings.
        column: column of codes or hashes in tables and csv (default "code", or "hash" with `hash_order`). It is a
            name, or a number from 1 for a CSV file without names, as are the next two.
        key_column, label_column: columns of keys and labels (default "key" and "label", if they exist).

    Raises:
        OSError: the file is missing or cannot be read.
        CorruptFileError: the content violates the format.
        InvalidInputError: the content is not supported as codes.
        MismatchError: the content does not match `bits` or `ids`.
        ValueError: an argument is invalid.
    """
    source = Path(path)
    kind = format_of(source, format, ids)
    form = _hashes(kind, hash_order, integers, bits)
    if form is not None and isinstance(column, str):
        form = dataclasses.replace(form, hasher=HASHERS.get(column.lower()))
    columns = Columns.of(column, key_column, label_column, "code" if form is None else "hash")
    if columns.given and kind not in (*_TABLES, "csv"):
        raise ValueError(f"column: expected none for {kind}, which has no columns")
    if kind == "raw" and bits is None:
        raise ValueError("bits: is missing for raw, which has no code length")
    for place in (source, ids):
        if place is not None and not Path(place).is_file():
            Path(place).stat()  # raises FileNotFoundError
            raise InvalidInputError(path=place, found="a folder, a device or a pipe", expected="a file")
    if kind in _TABLES:
        return _tables().open_table(source, kind, bits, columns, form)
    if form is not None:
        return hashes.open_hashes(source, kind, bits, form, columns)
    if kind == "faiss":
        return faiss_files.open_index(source, bits)
    return flat.open_codes(source, kind, bits, None if ids is None else Path(ids))


def export(
    database: Database,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    ids: str | os.PathLike[str] | None = None,
    replace: bool = False,
    progress: Progress = None,
) -> list[str]:
    """Writes all items to a file, which appears when it is complete.

    Args:
        database: the items.
        path: the file to write.
        format: one of FORMATS; None for the format of the suffix.
        ids: a .npy file to write the ids to, for formats without ids (npy, raw).
        replace: True to replace existing files.
        progress: called with the number of items of each batch.

    Returns:
        Names of the properties of this database that the format does not store.

    Raises:
        AlreadyExistsError: a file exists, and `replace` is False or the file is of another kind.
        NotWrittenError: a file cannot be written.
        ValueError: an argument is invalid.
    """
    target = Path(path)
    kind = format_of(target, format, ids)
    outputs = [(target, _KINDS[kind])] + ([] if ids is None else [(Path(ids), NPY)])
    if ids is not None and os.path.realpath(ids) == os.path.realpath(target):
        raise ValueError(f"ids: {ids} is the file of the codes as well; choose another name")
    for place, its in outputs:
        if os.path.lexists(place) and not replace:
            raise AlreadyExistsError(path=place, hint="choose another name or pass replace=True")
        check_target(place, its, database.path)
    write = _writer(kind)
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(replacing(place, its)) for place, its in outputs]
        write(database, files[0], progress)
        for file in files[1:]:
            np.lib.format.write_array(file, database.ids)
    return [] if kind in _TABLES else _left_out(database, kind, ids is not None)


def format_of(
    path: str | os.PathLike[str], format: str | None = None, ids: str | os.PathLike[str] | None = None
) -> str:
    """Returns `format`, or the format of the suffix of `path` if it is None.

    Raises ValueError for an unknown format, and for `ids` with a format that stores ids itself.
    """
    if format is None:
        format = _SUFFIXES.get(Path(path).suffix.lower())
        if format is None:
            raise ValueError(f"format: unknown suffix of {path}; expected one of {', '.join(_SUFFIXES)}")
    elif format not in FORMATS:
        raise ValueError(f"format: expected one of {', '.join(FORMATS)}, not {format!r}")
    if ids is not None and format not in _WITHOUT_IDS:
        raise ValueError(f"ids: expected none for {format}, which stores ids; {' and '.join(_WITHOUT_IDS)} do not")
    return format


def _hashes(kind: str, order: Order | None, integers: bool, bits: int | None) -> hashes.Hashes | None:
    """Returns the form of the hashes of a file, or None for a file of codes."""
    if order is None:
        if kind in _TEXTS:
            raise ValueError(f"hash_order: is missing for {kind}; expected one of {', '.join(ORDERS)}")
        if integers:
            raise ValueError("integers: expected a hash order as well")
        return None
    if kind not in (*_TABLES, *_TEXTS):
        raise ValueError(f"hash_order: expected none for {kind}, which has codes")
    check_order(order)
    if integers:
        integer_bits(64 if bits is None else bits, order)
    elif bits is not None:
        text_bits([], bits, order)
    return hashes.Hashes(order, integers)


def _writer(kind: str) -> Callable[[Database, Any, Progress], None]:
    if kind in _TABLES:
        tables = _tables()
        return lambda database, file, progress: tables.write(database, file, kind, progress)
    return {
        "faiss": faiss_files.write,
        "npy": flat.write_npy,
        "raw": flat.write_codes,
        "csv": hashes.write_csv,
        "text": hashes.write_text,
    }[kind]


def _tables() -> Any:
    try:
        from . import tables
    except ImportError as error:
        raise not_installed(error) from None
    return tables


def _left_out(database: Database, kind: str, ids_beside: bool) -> list[str]:
    """Returns the names of the properties of this database that a file of this kind does not store."""
    ids = database.ids
    texts = kind != "csv"
    lost = {
        "the code length": kind == "raw" or database.bits % 8 != 0,
        "ids": kind in (*_WITHOUT_IDS, "text") and not ids_beside and not consecutive(ids),
        "keys": texts and any(key is not None for batch in batches_of(ids) for key in database.keys(batch)),
        "labels": texts and any(label is not None for batch in batches_of(ids) for label in database.labels(batch)),
        "mtime signatures": bool(database.mtime_signatures().any()),
        "checksums": bool(database.checksums().any()),
        "the manifest": bool(database.manifest),
    }
    return [name for name, is_lost in lost.items() if is_lost]
