"""The items of an imported file, read in batches. The other modules implement the formats."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._util.atomic import CODES_BIN, check_target
from .._util.deprecated import warn_renamed
from ..codes import MAX_BITS, check_bits, check_codes, code_bytes
from ..database.database import Database
from ..errors import InvalidInputError, MismatchError

BATCH = 65_536  # items in memory at a time
Progress = Callable[[int], object] | None


class _Columns(NamedTuple):
    codes: np.ndarray
    ids: np.ndarray | None = None
    keys: list[str | None] | None = None
    labels: list[str | None] | None = None
    mtime_signatures: np.ndarray | None = None


class Items(_Columns):
    """A batch of n items. Columns that the file lacks are None.

    Attributes:
        codes: uint8 (n, code bytes).
        ids: integers [n].
        keys, labels: n texts each.
        mtime_signatures: uint32 [n].
        checksums: uint64 [n, 2]. It is not an element of the tuple, because callers unpack the five others.
    """

    checksums: np.ndarray | None = None

    @property
    def stamps(self) -> np.ndarray | None:
        """Deprecated name of `mtime_signatures`."""
        warn_renamed("stamps", "mtime_signatures")
        return self.mtime_signatures


@dataclass(frozen=True)
class Source:
    """An open file of codes. Iteration yields `Items` of at most 65,536 items.

    Attributes:
        path: the file.
        bits: code length.
        count: number of items, or None if the format does not store it.
        batches: function that returns an iterator over unchecked `Items`.
        model: manifest of the exported database; empty for files of other programs.
    """

    path: Path
    bits: int
    count: int | None
    batches: Callable[[], Iterator[Items]] = field(repr=False)
    model: dict[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Items]:
        """Yields the items in the file's order. Raises InvalidInputError for items that are not `bits`-bit codes."""
        seen = 0
        for batch in self.batches():
            try:
                check_codes(batch.codes, self.bits)
            except ValueError as error:
                raise _invalid_items(self.path, seen, error) from error
            seen += len(batch.codes)
            yield batch

    def items(self) -> Items:
        """Returns all items. Ids are not checked."""
        batches = [*self, Items(np.empty((0, code_bytes(self.bits)), np.uint8))]
        codes, *others = zip(*batches, strict=True)
        ids, keys, labels, mtime_signatures = ([part for part in column if part is not None] for column in others)
        items = Items(
            np.concatenate(codes),
            np.concatenate(ids) if ids else None,
            [key for part in keys for key in part] if keys else None,
            [label for part in labels for label in part] if labels else None,
            np.concatenate(mtime_signatures) if mtime_signatures else None,
        )
        if sums := [batch.checksums for batch in batches if batch.checksums is not None]:
            items.checksums = np.concatenate(sums)
        return items

    def save(self, database: str | os.PathLike[str], *, replace: bool = False, progress: Progress = None) -> int:
        """Writes a database of all items, which appears when it is complete, and returns the number of items.

        Args:
            database: path of the database. Items without ids get their row numbers.
            replace: True to replace an existing database.
            progress: called with the number of items of each batch.

        Raises:
            InvalidInputError: an item is invalid.
            AlreadyExistsError: the file exists, and `replace` is False or the file is of another kind.
        """
        check_target(database, CODES_BIN, self.path)
        count = 0
        with Database.build(database, self.bits, self.model or None, replace=replace) as target:
            for batch in self:
                try:
                    target.add(*batch, checksums=batch.checksums)
                except (ValueError, TypeError) as error:
                    raise _invalid_items(self.path, count, error) from error
                count += len(batch.codes)
                if progress:
                    progress(len(batch.codes))
        return count


@dataclass(frozen=True)
class Columns:
    """The columns of a table or CSV file.

    Attributes:
        names: the name per content "code", "key", "label" and "id", or its number from 1 in a file without names.
        given: the contents whose column the caller named. They must exist, as must the codes.
        numbered: True for numbers.
    """

    names: dict[str, str | int]
    given: frozenset[str]
    numbered: bool

    @classmethod
    def of(
        cls, column: str | int | None, key_column: str | int | None, label_column: str | int | None, default: str
    ) -> Columns:
        """Returns the columns with default names for those that are None. `default` is the name of the codes'.

        A column with a default name has one content only, so it is left out if the caller named it for another one.

        Raises ValueError for numbers that are mixed with names.
        """
        chosen = {"code": column, "key": key_column, "label": label_column}
        given = {content: name for content, name in chosen.items() if name is not None}
        numbers = [name for name in given.values() if isinstance(name, int)]
        if numbers:
            if len(numbers) < len(given) or column is None or min(numbers) < 1:
                raise ValueError("column: expected numbers from 1 for all columns, or names for all")
            return cls(given, frozenset(given), numbered=True)
        defaults = {"code": default, "key": "key", "label": "label", "id": "id"}
        taken = set(given.values())
        free = {content: name for content, name in defaults.items() if content == "code" or name not in taken}
        return cls({**free, **given}, frozenset(given), numbered=False)

    def present(self, path: str | os.PathLike[str], found: list[Any]) -> dict[str, Any]:
        """Returns the columns that a file with the columns `found` has.

        Raises InvalidInputError if a column is repeated, or if one that must exist is missing.
        """
        for content, name in self.names.items():
            times = found.count(name)
            if times > 1 or (times == 0 and (content == "code" or content in self.given)):
                problem = f"column {name!r} is {'repeated' if times else 'missing'}"
                hint = "choose one with --column" if content == "code" and content not in self.given else None
                raise InvalidInputError(problem, path=path, found=", ".join(map(str, found)) or "no columns", hint=hint)
        return {content: name for content, name in self.names.items() if name in found}


def _invalid_items(path: Path, first: int, error: Exception) -> InvalidInputError:
    return InvalidInputError(f"is invalid from item {first}: {error}", path=path)


def spans(count: int) -> Iterator[tuple[int, int]]:
    """Yields row ranges (start, stop) of at most BATCH rows each, from 0 to `count`."""
    return ((start, min(start + BATCH, count)) for start in range(0, count, BATCH))


def batches_of(ids: np.ndarray) -> Iterator[np.ndarray]:
    """Yields ids int64 [n] in pieces of at most BATCH."""
    return (ids[start:stop] for start, stop in spans(len(ids)))


def consecutive(ids: np.ndarray) -> bool:
    """Returns True if ids are the row numbers 0, 1, 2, ..., which need not be stored."""
    return np.array_equal(ids, np.arange(len(ids)))


def refuse_unpacked(path: Path, codes: np.ndarray) -> None:
    """Raises InvalidInputError if all bytes of uint8 (n, width) are 0 or 1.

    Such bytes are unpacked bits, which would be imported as codes of 8 times the length.
    """
    if codes.size >= 8 and codes.shape[1] > 1 and codes.max() == 1:
        bits = 8 * codes.shape[1]
        raise InvalidInputError(
            path=path,
            found="only the bytes 0 and 1",
            expected="packed codes",
            hint=f"pack bits with pack(x.astype(bool)), or pass --bits {bits} if these are codes of {bits} bits",
        )


def fitting_bits(path: Path, bits: int | None, width: int) -> int:
    """Returns the code length of codes of `width` bytes: `bits`, or 8 * width if it is None.

    Raises InvalidInputError for an invalid width, and MismatchError for a width that `bits` does not have.
    """
    if not 1 <= width <= code_bytes(MAX_BITS):
        expected = f"codes of 1 to {code_bytes(MAX_BITS)} bytes"
        raise InvalidInputError(path=path, found=f"codes of {width} bytes", expected=expected)
    if bits is not None and code_bytes(bits) != width:
        raise wrong_bits(path, f"{8 * width - 7} to {min(8 * width, MAX_BITS)}", bits)
    return check_bits(8 * width if bits is None else bits)


def wrong_bits(path: Path, found: int | str, expected: int | None) -> MismatchError:
    """Returns the error for codes of another length than the requested one."""
    return MismatchError("code length does not match", path=path, found=found, expected=expected)
