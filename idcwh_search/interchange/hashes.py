"""Hashes of other programs in text and CSV files, and their conversion to codes, which tables.py uses as well.

A text file has one hash per line, a CSV file further columns. The path of an error is `file:line`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .._util.text_files import check_text, delimiter
from ..database.database import Database
from ..errors import InvalidInputError
from ..hexadecimal import (
    BYTES,
    InvalidHashError,
    Order,
    from_hex,
    from_integers,
    integer_bits,
    parse_integers,
    text_bits,
    to_hex,
)
from . import source
from .source import Columns, Items, Progress, Source, batches_of

CSV_COLUMNS = ("id", "key", "label", "hash")
_HEAD = 8192  # bytes in which a check looks for binary content
_LARGEST_ID = 2**63 - 1

_Row = tuple[int, list[str]]
"""Line number and fields."""


@dataclass(frozen=True)
class Hashes:
    """The form of the hashes of a file.

    Attributes:
        order: order of the bits, as in `from_hex`.
        integers: True if texts are decimal numbers, otherwise they are hexadecimal.
        hasher: name of the hasher, a value of HASHERS; None if it is unknown.
    """

    order: Order
    integers: bool = False
    hasher: str | None = None

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest of a database of these hashes."""
        hasher = {} if self.hasher is None else {"hasher": self.hasher}
        return {"hashes": {"order": self.order, **hasher}}

    def bits(self, path: Path, first: list[str], bits: int | None) -> int:
        """Returns the code length: `bits`, or that of the first text if it is None.

        Args:
            path: the file.
            first: the first texts of the file.
            bits: code length, or None.

        Raises:
            InvalidHashError: the first text is invalid.
            InvalidInputError: there is neither a text nor a code length.
            ValueError: `bits` is invalid for these hashes.
        """
        if self.integers:
            return integer_bits(64 if bits is None else bits, self.order)
        if bits is None and self.order != "pdq" and not first:
            raise InvalidInputError("code length is missing", path=path, hint="pass --bits")
        return text_bits(first, bits, self.order)

    def codes(self, values: list[str] | np.ndarray, bits: int) -> np.ndarray:
        """Returns the codes of texts, or of int64 or uint64 (n,). Raises InvalidHashError for an invalid one."""
        if isinstance(values, list) and not self.integers:
            return from_hex(values, bits, order=self.order)
        return from_integers(parse_integers(values) if isinstance(values, list) else values, bits, order=self.order)


def invalid_hash(path: str, place: str, error: InvalidHashError) -> InvalidInputError:
    """Returns the error for an invalid hash at a place of a file, such as "row 3: "."""
    problem = f"{place}hash {error.shown} is invalid"
    return InvalidInputError(problem, path=path, found=error.found, expected=error.expected)


def open_hashes(path: Path, kind: str, bits: int | None, hashes: Hashes, columns: Columns) -> Source:
    """Returns the `Source` of a text file (kind "text") or CSV file ("csv").

    Args:
        path: the file.
        kind: the format.
        bits: code length; None for that of the first hash.
        hashes: form of the hashes.
        columns: columns of a CSV file.
    """
    with path.open("rb") as file:
        check_text(file.read(_HEAD), path, "UTF-8 text")
    reader = _TextFile(path, hashes) if kind == "text" else _CsvFile(path, hashes, columns)
    length = reader.bits(bits)
    return Source(path, length, None, lambda: reader.items(length), hashes.manifest)


class _TextFile:
    """A file with one hash per line. Empty lines are left out."""

    def __init__(self, path: Path, hashes: Hashes) -> None:
        self._path, self._hashes = path, hashes
        self._places = {"code": 0}

    def bits(self, bits: int | None) -> int:
        """Returns the code length."""
        first = list(islice(self._rows(), 1))
        try:
            return self._hashes.bits(self._path, [row[self._places["code"]].strip() for _, row in first], bits)
        except InvalidHashError as error:
            raise invalid_hash(f"{self._path}:{first[error.row][0]}", "", error) from None

    def items(self, bits: int) -> Iterator[Items]:
        """Yields the items in batches."""
        rows = self._rows()
        while True:
            lines: list[int] = []
            columns: dict[str, list[str]] = {content: [] for content in self._places}
            fields = [(columns[content].append, place) for content, place in self._places.items()]
            for line, row in islice(rows, source.BATCH):  # rows are not kept, which would burden the garbage collector
                lines.append(line)
                for append, place in fields:
                    append(row[place])
            if not lines:
                return
            try:
                codes = self._hashes.codes([text.strip() for text in columns["code"]], bits)
            except InvalidHashError as error:
                raise invalid_hash(f"{self._path}:{lines[error.row]}", "", error) from None
            ids = self._ids(columns["id"], lines) if "id" in columns else None
            keys, labels = (
                [text or None for text in columns[name]] if name in columns else None for name in ("key", "label")
            )
            yield Items(codes, ids, keys, labels)

    def _rows(self) -> Iterator[_Row]:
        with self._open() as file:
            for line, text in enumerate(file, 1):
                if not text.isspace():
                    yield line, [text]

    def _open(self) -> io.TextIOWrapper:
        return self._path.open(encoding="utf-8-sig", errors="surrogateescape", newline="")

    def _ids(self, texts: list[str], lines: list[int]) -> np.ndarray:
        ids = []
        for line, text in zip(lines, texts, strict=True):
            try:
                ids.append(int(text))
            except ValueError:
                ids.append(-1)
            if not 0 <= ids[-1] <= _LARGEST_ID:
                raise self._error(line, f"id {text!r} is invalid", expected=f"a whole number of 0 to {_LARGEST_ID}")
        return np.array(ids, np.int64)

    def _error(self, line: int, problem: str, found: object = None, expected: object = None) -> InvalidInputError:
        return InvalidInputError(problem, path=f"{self._path}:{line}", found=found, expected=expected)


class _CsvFile(_TextFile):
    """A CSV file. Its first row names the columns, unless they are given by number."""

    def __init__(self, path: Path, hashes: Hashes, columns: Columns) -> None:
        super().__init__(path, hashes)
        self._delimiter = delimiter(path)
        line, first = next(self._fields(), (1, []))
        self._header, self._width = not columns.numbered, len(first)
        names = [name.strip() for name in first] if self._header else list(range(1, self._width + 1))
        present = columns.present(f"{path}:{line}", names)
        self._places = {content: names.index(name) for content, name in present.items()}

    def _rows(self) -> Iterator[_Row]:
        for line, row in islice(self._fields(), int(self._header), None):
            if len(row) != self._width:
                raise self._error(line, "number of fields does not match the first row", len(row), self._width)
            yield line, row

    def _fields(self) -> Iterator[_Row]:
        """Yields all rows that are not empty, with the number of their first line."""
        with self._open() as file:
            reader = csv.reader(file, strict=True, delimiter=self._delimiter)
            line = 1
            try:
                for row in reader:
                    if row:
                        yield line, row
                    line = reader.line_num + 1
            except csv.Error as error:
                raise self._error(line, f"is invalid: {error}", expected="CSV") from None


def write_text(database: Database, file: BinaryIO, progress: Progress) -> None:
    """Writes one hexadecimal text per line, in row order."""
    for ids in batches_of(database.ids):
        file.write("".join(f"{text}\n" for text in _texts(database, ids)).encode())
        if progress:
            progress(len(ids))


def write_csv(database: Database, file: BinaryIO, progress: Progress) -> None:
    """Writes CSV_COLUMNS in row order."""
    file.write(f"{','.join(CSV_COLUMNS)}\n".encode())
    for ids in batches_of(database.ids):
        lines = io.StringIO()
        rows = zip(ids.tolist(), database.keys(ids), database.labels(ids), _texts(database, ids), strict=True)
        csv.writer(lines, lineterminator="\n").writerows(rows)
        file.write(lines.getvalue().encode(errors="surrogateescape"))
        if progress:
            progress(len(ids))


def _texts(database: Database, ids: np.ndarray) -> list[str]:
    return to_hex(database.get(ids), database.bits, database.hash_order or BYTES)
