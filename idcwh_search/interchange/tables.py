"""Parquet and Arrow IPC (Feather) files with a table of items. This module alone needs pyarrow.

The table's metadata `idcwh` is JSON {"bits": ..., "model": the manifest}. Tables of other programs have none, and need
only a column of codes or of hashes.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.ipc
import pyarrow.parquet

from .._util.deprecated import warn_renamed
from ..codes import check_bits, code_bytes
from ..database.database import Database
from ..database.items import mtime_signature_column
from ..errors import CorruptFileError, InvalidInputError
from ..hexadecimal import InvalidHashError, to_hex
from . import source
from .hashes import Hashes, invalid_hash
from .source import Columns, Items, Progress, Source, batches_of, fitting_bits, refuse_unpacked, spans, wrong_bits

_METADATA = b"idcwh"
_FIRST_ROWS = 64  # rows that are read to find the code length
_CHECKSUM = 16  # bytes, as in codes.bin
_VIEWS = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
_SIGNATURES = ("mtime_signature", "stamp")  # the name of the column, and its old name
_OURS = (*_SIGNATURES, "checksum")  # read in our exports only: other tables may use the names differently
_CODES = "bytes (binary) or lists of bytes (list<uint8>)"
_HASHES = "strings, int64 or uint64"


def write(database: Database, file: BinaryIO, kind: str, progress: Progress) -> None:
    """Writes a Parquet ("parquet") or Arrow IPC ("arrow") file.

    The columns key and label are strings, or binary if one of their values is not UTF-8.
    """
    texts = {"key": pa.string(), "label": pa.string()}
    while True:
        try:
            _write(database, file, kind, texts, progress)
            return
        except _NotText as found:
            texts[found.column] = pa.binary()
            file.seek(0)
            file.truncate()
            progress = None


class _NotText(Exception):
    """The signal that a column has a value that is not UTF-8."""

    def __init__(self, column: str) -> None:
        self.column = column


def _text_array(column: str, values: list[str | None], kind: pa.DataType) -> pa.Array:
    if pa.types.is_binary(kind):
        return pa.array([None if value is None else os.fsencode(value) for value in values], kind)
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        raise _NotText(column) from None


def _write(database: Database, file: BinaryIO, kind: str, texts: dict[str, pa.DataType], progress: Progress) -> None:
    width, order = code_bytes(database.bits), database.hash_order
    about = json.dumps({"bits": database.bits, "model": database.manifest})
    columns = [
        pa.field("id", pa.int64(), nullable=False),
        *(pa.field(name, text) for name, text in texts.items()),
        pa.field("code", pa.binary(width), nullable=False),
    ]
    if order is not None:
        columns.append(pa.field("hash", pa.string(), nullable=False))
    has_signatures = bool(database.mtime_signatures().any())
    if has_signatures:
        columns.append(pa.field("mtime_signature", pa.uint32(), nullable=False))
    summed = bool(database.checksums().any())
    if summed:
        columns.append(pa.field("checksum", pa.binary(_CHECKSUM), nullable=False))
    schema = pa.schema(columns, metadata={_METADATA: about})
    if kind == "parquet":
        writer = pa.parquet.ParquetWriter(file, schema, use_dictionary=["label"])
    else:
        writer = pa.ipc.new_file(file, schema)
    with writer:
        for ids in batches_of(database.ids):
            codes = np.ascontiguousarray(database.get(ids))
            arrays = [
                pa.array(ids),
                _text_array("key", database.keys(ids), texts["key"]),
                _text_array("label", database.labels(ids), texts["label"]),
                pa.Array.from_buffers(pa.binary(width), len(ids), [None, pa.py_buffer(codes)]),
            ]
            if order is not None:
                arrays.append(pa.array(to_hex(codes, database.bits, order)))
            if has_signatures:
                arrays.append(pa.array(database.mtime_signatures(ids)))
            if summed:
                sums = np.ascontiguousarray(database.checksums(ids), "<u8")
                arrays.append(pa.Array.from_buffers(pa.binary(_CHECKSUM), len(ids), [None, pa.py_buffer(sums)]))
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
            if progress:
                progress(len(ids))


def open_table(path: Path, kind: str, bits: int | None, columns: Columns, hashes: Hashes | None) -> Source:
    """Returns the `Source` of a table.

    Args:
        path: the file.
        kind: "parquet" or "arrow".
        bits: code length, for a table without metadata whose code length is not a multiple of 8.
        columns: names of the columns.
        hashes: form of the hashes; None for a column of codes.
    """
    if columns.numbered:
        raise ValueError(f"column: expected names of columns for {kind}, not numbers")
    with _reading(path, kind):
        schema, count, first = _schema_of(path, kind, columns.names["code"])
        names = columns.present(path, schema.names)
        name, column = names["code"], None if first is None else _plain(first.column(0))
        if hashes is not None:
            length = _hash_bits(path, name, column, bits, hashes)
            return Source(path, length, count, lambda: _items(path, kind, length, names, hashes), hashes.manifest)
        stored_bits, model = _about(path, schema)
        if stored_bits is not None:
            ours = Columns({ours: ours for ours in _OURS}, frozenset(), numbered=False)
            names |= ours.present(path, schema.names)
            if bits not in (None, stored_bits):
                raise wrong_bits(path, stored_bits, bits)
        if bits is None and stored_bits is None and column is not None and _is_list(column.type):
            refuse_unpacked(path, _codes(path, name, column, _code_width(path, name, column.type, None, column)))
        bits = stored_bits if bits is None else bits
        bits = fitting_bits(path, bits, _code_width(path, name, schema.field(name).type, bits, column))
    if stored_bits is not None and "stamp" in schema.names:
        warn_renamed("the column 'stamp'", "'mtime_signature'", stacklevel=4)
    return Source(path, bits, count, lambda: _items(path, kind, bits, names, None), model)


def _schema_of(path: Path, kind: str, name: str | int) -> tuple[pa.Schema, int | None, pa.RecordBatch | None]:
    """Returns the schema, the number of rows if the file stores it, and a batch of the first rows of one column."""
    if kind == "parquet":
        file = pa.parquet.ParquetFile(path)
        count = file.metadata.num_rows
        names = [name] if file.schema_arrow.names.count(name) == 1 else []
        return file.schema_arrow, count, next(file.iter_batches(_FIRST_ROWS, columns=names), None)
    reader, batches = _open_ipc(path)
    names = [name] if reader.schema.names.count(name) == 1 else []
    return reader.schema, None, next((_valid(batch).select(names) for batch in batches if batch.num_rows), None)


def _batches(path: Path, kind: str, known: list[str]) -> Iterator[pa.RecordBatch]:
    """Yields the rows in batches of at most source.BATCH, with at least the columns in `known`."""
    if kind == "parquet":
        file = pa.parquet.ParquetFile(path)
        yield from map(_valid, file.iter_batches(source.BATCH, columns=known))
        return
    for batch in map(_valid, _open_ipc(path)[1]):
        yield from (batch.slice(start, stop - start) for start, stop in spans(batch.num_rows))


def _valid(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the batch after a check of all offsets, so that a corrupt file causes no access outside a buffer."""
    batch.validate(full=True)
    return batch


def _open_ipc(path: Path) -> tuple[Any, Iterator[pa.RecordBatch]]:
    """Returns the reader of an IPC file and its batches. Some programs write the stream format instead."""
    file = pa.OSFile(str(path))
    magic = file.read(6)
    file.seek(0)
    if magic != b"ARROW1":
        stream = pa.ipc.open_stream(file)
        return stream, iter(stream)
    table = pa.ipc.open_file(file)
    return table, (table.get_batch(number) for number in range(table.num_record_batches))


def _items(path: Path, kind: str, bits: int, names: dict[str, str], hashes: Hashes | None) -> Iterator[Items]:
    rows = 0
    with _reading(path, kind):
        for batch in _batches(path, kind, list(dict.fromkeys(names.values()))):
            columns = {content: _plain(batch.column(name)) for content, name in names.items()}
            keys, labels = (_texts(columns[name]) if name in columns else None for name in ("key", "label"))
            ids = _ids(path, columns["id"]) if "id" in columns else None
            signatures = next(
                (_mtime_signatures(path, name, columns[name]) for name in _SIGNATURES if name in columns), None
            )
            if hashes is None:
                codes = _codes(path, names["code"], columns["code"], code_bytes(bits))
            else:
                codes = _hash_codes(path, names["code"], columns["code"], bits, hashes, rows)
            items = Items(codes, ids, keys, labels, signatures)
            items.checksums = _checksums(path, columns["checksum"]) if "checksum" in columns else None
            yield items
            rows += len(codes)


@contextlib.contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Converts errors of pyarrow in the block into CorruptFileError with the path."""
    try:
        yield
    except (pa.ArrowException, UnicodeError, OSError) as error:
        name = {"parquet": "Parquet", "arrow": "Arrow IPC"}[kind]
        reason = " ".join(str(error).split())
        expected = f"a table of codes in {name} format"
        raise CorruptFileError(f"is corrupt: {reason}", path=path, expected=expected) from error


def _plain(column: pa.Array) -> pa.Array:
    """Returns the column without dictionaries and views. Polars writes them, and few pyarrow functions accept them."""
    if pa.types.is_dictionary(column.type):
        return _plain(column.dictionary).take(column.indices)
    name = str(column.type)  # pyarrow tests these types only since version 16
    if name in _VIEWS:
        return pa.array(column.to_pylist(), _VIEWS[name])
    if name.startswith(("list_view<", "large_list_view<")):
        return pa.array(column.to_pylist(), pa.large_list(column.type.value_type))
    return column


def _about(path: Path, schema: pa.Schema) -> tuple[int | None, dict[str, Any]]:
    """Returns code length and manifest of an exported database; None and an empty dictionary for other tables."""
    raw = (schema.metadata or {}).get(_METADATA)
    if raw is None:
        return None, {}
    try:
        about = json.loads(raw)
        bits, model = check_bits(about["bits"]), about["model"]
        if not isinstance(model, dict):
            raise TypeError(f"model is {model!r}")
    except (ValueError, KeyError, TypeError, RecursionError) as error:  # RecursionError: deeply nested lists
        raise CorruptFileError(f"metadata 'idcwh' is corrupt: {error}", path=path) from error
    return bits, model


def _code_width(path: Path, name: str, kind: pa.DataType, bits: int | None, first: pa.Array | None) -> int:
    """Returns the bytes per code from the type of the column, otherwise from `bits`, otherwise from the first row."""
    if pa.types.is_fixed_size_binary(kind):
        return kind.byte_width
    if pa.types.is_fixed_size_list(kind):
        return kind.list_size
    if bits is not None:
        return code_bytes(bits)
    code = first[0].as_py() if first is not None and len(first) else None
    if code is None:
        raise InvalidInputError("code length is missing", path=path, hint="pass --bits")
    if not isinstance(code, bytes | list):
        raise _no_codes(path, name, kind)
    return len(code)


def _codes(path: Path, name: str, column: pa.Array, width: int) -> np.ndarray:
    """Returns a column of bytes or of lists of bytes as uint8 (n, width)."""
    kind = column.type
    if column.null_count:
        raise _wrong_column(path, name, "rows without a value", _CODES)
    if _is_bytes(kind):
        values = column.to_pylist()
        lengths = set(map(len, values))
        raw = np.frombuffer(b"".join(values), np.uint8)
    elif _is_list(kind) and pa.types.is_integer(kind.value_type):
        lengths = set(pa.compute.list_value_length(column).unique().to_pylist())
        numbers = column.flatten()
        if numbers.null_count:
            raise _wrong_column(path, name, "bytes without a value", _CODES)
        raw = numbers.cast(pa.uint8()).to_numpy()
    else:
        raise _no_codes(path, name, kind)
    if wrong := lengths - {width}:
        raise _wrong_column(path, name, f"a code of {wrong.pop()} bytes", f"codes of {width} bytes")
    return raw.reshape(-1, width)


def _hash_bits(path: Path, name: str, first: pa.Array | None, bits: int | None, hashes: Hashes) -> int:
    values = [] if first is None else _hash_values(path, name, first[:1], 0)
    if isinstance(values, np.ndarray):
        hashes = replace(hashes, integers=True)
        values = []
    try:
        return hashes.bits(path, values, bits)
    except InvalidHashError as error:
        raise invalid_hash(str(path), "row 0: ", error) from None


def _hash_codes(path: Path, name: str, column: pa.Array, bits: int, hashes: Hashes, start: int) -> np.ndarray:
    """Returns the codes of a column of hashes, whose first row is row `start` of the file."""
    try:
        return hashes.codes(_hash_values(path, name, column, start), bits)
    except InvalidHashError as error:
        raise invalid_hash(str(path), f"row {start + error.row}: ", error) from None


def _hash_values(path: Path, name: str, column: pa.Array, start: int) -> list[str] | np.ndarray:
    """Returns a column of hashes as texts, or as int64 or uint64 (n,)."""
    kind = column.type
    if not _is_text(kind) and kind not in (pa.int64(), pa.uint64()):
        raise _wrong_column(path, name, kind, _HASHES)
    if column.null_count:
        row = start + column.is_null().index(True).as_py()
        raise InvalidInputError(f"row {row}: column {name!r} is null", path=path, expected="a hash")
    return [text.strip() for text in column.to_pylist()] if _is_text(kind) else column.to_numpy()


def _wrong_column(path: Path, name: str, found: object, expected: object, hint: str | None = None) -> InvalidInputError:
    problem = f"column {name!r} is invalid"
    return InvalidInputError(problem, path=path, found=str(found), expected=str(expected), hint=hint)


def _no_codes(path: Path, name: str, kind: pa.DataType) -> InvalidInputError:
    hint = "pass --hash-order if these are hashes" if _is_text(kind) or pa.types.is_integer(kind) else None
    return _wrong_column(path, name, kind, _CODES, hint)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_bytes(kind: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return any(test(kind) for test in tests)


def _is_list(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))


def _ids(path: Path, column: pa.Array) -> np.ndarray:
    if not pa.types.is_integer(column.type) or column.null_count:
        raise _wrong_column(path, "id", f"{column.type} with {column.null_count} nulls", "integers")
    return column.to_numpy(zero_copy_only=False)


def _mtime_signatures(path: Path, name: str, column: pa.Array) -> np.ndarray:
    try:
        return mtime_signature_column(column.to_pylist())
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"column {name!r} is invalid: {error}", path=path) from error


def _checksums(path: Path, column: pa.Array) -> np.ndarray:
    if column.type != pa.binary(_CHECKSUM) or column.null_count:
        found = f"{column.type} with {column.null_count} nulls"
        raise _wrong_column(path, "checksum", found, pa.binary(_CHECKSUM))
    return np.frombuffer(b"".join(column.to_pylist()), "<u8").astype(np.uint64).reshape(-1, 2)


def _texts(column: pa.Array) -> list[str | None]:
    """Returns a column as texts. It has strings, file names as bytes, numbers or categories."""
    if _is_bytes(column.type):
        return [None if value is None else os.fsdecode(value) for value in column.to_pylist()]
    return column.cast(pa.string()).to_pylist()
