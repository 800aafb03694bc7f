"""What a file of another system holds, read batch by batch; where it comes from is the other modules' matter."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._util.atomic import CODES_BIN, check_target
from ..codes import MAX_BITS, check_bits, check_codes, code_bytes
from ..database.database import Database
from ..errors import IdcwhError, InvalidInputError, MismatchError

BATCH = 65_536  # items in memory at a time
Progress = Callable[[int], object] | None


class _Columns(NamedTuple):
    codes: np.ndarray
    ids: np.ndarray | None = None
    keys: list[str | None] | None = None
    labels: list[str | None] | None = None
    stamps: np.ndarray | None = None


class Items(_Columns):
    """Some items: codes uint8 (n, code bytes) and, where the file has them, ids [n], keys and labels, n texts each, and
    stamps uint32 [n]. `checksums`, uint64 [n, 2], stand beside these five, which programs take apart."""

    checksums: np.ndarray | None = None


@dataclass(frozen=True)
class Source:
    """A file of codes: iterate over it for `Items` of at most 65,536, `items()` for all, `save` for a database.

    bits: the code length. count: how many items there are, None where only reading tells. model: the manifest of the
    database that was exported, empty in other people's files.
    """

    path: Path
    bits: int
    count: int | None
    batches: Callable[[], Iterator[Items]] = field(repr=False)
    model: dict[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Items]:
        """The items in their order, checked to be codes of `bits` bits. IdcwhError names the file and the place."""
        seen = 0
        for batch in self.batches():
            try:
                check_codes(batch.codes, self.bits)
            except ValueError as error:
                raise IdcwhError(f"{self.path}, items from {seen} on: {error}") from error
            seen += len(batch.codes)
            yield batch

    def items(self) -> Items:
        """All items, in memory. Ids are as in the file: whoever adds them to something checks them."""
        batches = [*self, Items(np.empty((0, code_bytes(self.bits)), np.uint8))]
        codes, *others = zip(*batches, strict=True)
        ids, keys, labels, stamps = ([part for part in column if part is not None] for column in others)
        items = Items(
            np.concatenate(codes),
            np.concatenate(ids) if ids else None,
            [key for part in keys for key in part] if keys else None,
            [label for part in labels for label in part] if labels else None,
            np.concatenate(stamps) if stamps else None,
        )
        if sums := [batch.checksums for batch in batches if batch.checksums is not None]:
            items.checksums = np.concatenate(sums)
        return items

    def save(self, database: str | os.PathLike[str], *, replace: bool = False, progress: Progress = None) -> int:
        """Make a database of all items; how many there were. It appears at its path when it is whole.

        Items without ids get their row numbers. An existing database is an error unless `replace` is set; `progress`
        is called with the number of items of each batch.
        """
        check_target(database, CODES_BIN, self.path)
        count = 0
        with Database.build(database, self.bits, self.model or None, replace=replace) as target:
            for batch in self:
                try:
                    target.add(*batch, checksums=batch.checksums)
                except (ValueError, TypeError) as error:
                    raise IdcwhError(f"{self.path}, items from {count} on: {error}") from error
                count += len(batch.codes)
                if progress:
                    progress(len(batch.codes))
        return count


def spans(count: int) -> Iterator[tuple[int, int]]:
    """Rows 0 to `count` as (start, stop) of at most BATCH each."""
    return ((start, min(start + BATCH, count)) for start in range(0, count, BATCH))


def batches_of(ids: np.ndarray) -> Iterator[np.ndarray]:
    """Ids int64 [n], in pieces of at most BATCH."""
    return (ids[start:stop] for start, stop in spans(len(ids)))


def consecutive(ids: np.ndarray) -> bool:
    """Whether ids are 0, 1, 2, ...: row numbers, which need not be stored."""
    return np.array_equal(ids, np.arange(len(ids)))


def refuse_unpacked(path: Path, codes: np.ndarray) -> None:
    """Raises IdcwhError where each byte of uint8 (n, width) is 0 or 1: unpacked bits, which would be taken for codes of
    8 times the length."""
    if codes.size >= 8 and codes.shape[1] > 1 and codes.max() == 1:
        width = codes.shape[1]
        raise InvalidInputError(
            f"holds bits, not packed codes (found only the bytes 0 and 1); pack them with "
            f"pack(x.astype(bool)), or give --bits {8 * width} if these are codes of {8 * width} bits",
            path=path,
        )


def fitting_bits(path: Path, bits: int | None, width: int) -> int:
    """The code length of codes of `width` bytes: `bits`, which has to fit, or all of them. IdcwhError, else."""
    if not 1 <= width <= code_bytes(MAX_BITS):
        raise InvalidInputError(f"holds codes of {width} bytes; expected 1 to {code_bytes(MAX_BITS)}", path=path)
    if bits is not None and code_bytes(bits) != width:
        most = min(8 * width, MAX_BITS)
        raise MismatchError(f"codes of {width} bytes have {8 * width - 7} to {most} bits, not {bits}", path=path)
    return check_bits(8 * width if bits is None else bits)
