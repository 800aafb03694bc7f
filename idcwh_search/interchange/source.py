"""The items of a file of another system, read batch by batch. The other modules know the formats."""

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
    """Some items: codes uint8 (n, code bytes) and, where the file has them, ids [n], keys and labels, n texts each,
    and mtime_signatures uint32 [n]. `checksums`, uint64 [n, 2], is an attribute beside these five, which programs
    unpack."""

    checksums: np.ndarray | None = None

    @property
    def stamps(self) -> np.ndarray | None:
        """Deprecated name of `mtime_signatures`."""
        warn_renamed("stamps", "mtime_signatures")
        return self.mtime_signatures


@dataclass(frozen=True)
class Source:
    """A file of codes: iterate over it for `Items` of at most 65,536, `items()` for all, `save` for a database.

    Attributes:
        path: the file.
        bits: the code length.
        count: the number of items, or None where only reading all of them tells it.
        batches: returns an iterator over the items.
        model: the manifest of the database that was exported; empty in other files.
    """

    path: Path
    bits: int
    count: int | None
    batches: Callable[[], Iterator[Items]] = field(repr=False)
    model: dict[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Items]:
        """Yields the items in their order. Raises InvalidInputError for items that are not codes of `bits` bits."""
        seen = 0
        for batch in self.batches():
            try:
                check_codes(batch.codes, self.bits)
            except ValueError as error:
                raise _invalid_items(self.path, seen, error) from error
            seen += len(batch.codes)
            yield batch

    def items(self) -> Items:
        """Returns all items, in memory. Ids are as in the file and are not checked."""
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
        """Writes a database of all items, which appears when it is complete. Returns the number of items.

        Items without ids get their row numbers. An existing database is an error unless `replace` is set. `progress`
        is called with the number of items of each batch.
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


def _invalid_items(path: Path, first: int, error: Exception) -> InvalidInputError:
    return InvalidInputError(f"has invalid items from {first} on ({error})", path=path)


def spans(count: int) -> Iterator[tuple[int, int]]:
    """Yields rows 0 to `count` as (start, stop) of at most BATCH each."""
    return ((start, min(start + BATCH, count)) for start in range(0, count, BATCH))


def batches_of(ids: np.ndarray) -> Iterator[np.ndarray]:
    """Yields ids int64 [n] in pieces of at most BATCH."""
    return (ids[start:stop] for start, stop in spans(len(ids)))


def consecutive(ids: np.ndarray) -> bool:
    """Returns whether ids are 0, 1, 2, ...: row numbers, which need not be stored."""
    return np.array_equal(ids, np.arange(len(ids)))


def refuse_unpacked(path: Path, codes: np.ndarray) -> None:
    """Raises IdcwhError where each byte of uint8 (n, width) is 0 or 1: unpacked bits, which would be taken for codes of
    8 times the length."""
    if codes.size >= 8 and codes.shape[1] > 1 and codes.max() == 1:
        bits = 8 * codes.shape[1]
        raise InvalidInputError(
            path=path,
            found="only the bytes 0 and 1",
            expected="packed codes",
            hint=f"pack bits with pack(x.astype(bool)), or pass --bits {bits} if these are codes of {bits} bits",
        )


def fitting_bits(path: Path, bits: int | None, width: int) -> int:
    """Returns the code length of codes of `width` bytes: `bits`, or all bits of these bytes.

    Raises InvalidInputError for a width that no code has, MismatchError for another width than that of `bits`.
    """
    if not 1 <= width <= code_bytes(MAX_BITS):
        expected = f"codes of 1 to {code_bytes(MAX_BITS)} bytes"
        raise InvalidInputError(path=path, found=f"codes of {width} bytes", expected=expected)
    if bits is not None and code_bytes(bits) != width:
        raise wrong_bits(path, f"{8 * width - 7} to {min(8 * width, MAX_BITS)}", bits)
    return check_bits(8 * width if bits is None else bits)


def wrong_bits(path: Path, found: int | str, expected: int | None) -> MismatchError:
    """Returns the error about codes of another length than the requested one."""
    return MismatchError("has another code length", path=path, found=found, expected=expected)
