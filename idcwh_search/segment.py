"""A segment: the items of one record of codes.bin, read over the mapped file, and gathered for writing.

Keys are stored as the bytes of the file name, labels as numbers into a table of names; both are decoded on demand.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from . import codesbin
from .codes import check_codes, code_bytes
from .codesbin import CODES, IDS, KEY_ENDS, KEYS, LABEL_TABLE, LABELS, NO_FIRST_ID, SECTION_NAMES
from .errors import IdcwhError
from .selection import Rows, Where, eligible_rows

NO_LABEL = 0xFFFFFFFF
MAX_KEY_BYTES = (1 << 32) - 1  # of one segment: key ends are 32-bit


class Segment:
    """The items of one ITEMS record."""

    def __init__(self, record: codesbin.Record, bits: int) -> None:
        self.record = record
        self.bits = bits
        self.items = record.a
        self.first_id = (
            None if record.b == NO_FIRST_ID else record.b
        )  # ids are first_id, first_id + 1, ... unless stored
        self._check_layout()

    def _check_layout(self) -> None:
        """The lengths of the sections agree with the number of items. (Python integers: nothing can overflow.)"""
        sections, items = self.record.sections, self.items
        needed = {CODES} | ({IDS} if self.first_id is None else set())
        for group in ({KEY_ENDS, KEYS}, {LABELS, LABEL_TABLE}):
            if group & sections.keys():
                needed |= group
        for kind in needed - sections.keys():
            raise self._wrong(f"has no section of {SECTION_NAMES[kind]}")
        lengths = {CODES: items * code_bytes(self.bits), IDS: 8 * items, KEY_ENDS: 4 * items, LABELS: 4 * items}
        for kind, length in lengths.items():
            if kind in sections and sections[kind].length != length:
                raise self._wrong(
                    f"has {sections[kind].length} bytes of {SECTION_NAMES[kind]}, expected {length} for {items} items"
                )
        if self.first_id is not None and self.first_id + items > 1 << 63:
            raise self._wrong("has ids beyond 63 bits")

    def _wrong(self, what: str) -> IdcwhError:
        return self.record.error(f"{what}; restore a copy or build it again")

    @cached_property
    def codes(self) -> np.ndarray:
        """(items, code bytes) uint8, read-only, over the mapped file; verified when first asked for."""
        codes = self.record.sections[CODES].array("u1").reshape(-1, code_bytes(self.bits))
        try:
            check_codes(codes, self.bits)
        except ValueError as error:
            raise self._wrong(f"holds codes that are none ({error})") from error
        return codes

    @cached_property
    def ids(self) -> np.ndarray:
        """int64 [items]."""
        if self.first_id is not None:
            return np.arange(self.first_id, self.first_id + self.items, dtype=np.int64)
        ids = self.record.sections[IDS].array("<i8")
        if len(ids) and int(ids.min()) < 0:
            raise self._wrong(f"holds the negative id {int(ids.min())}")
        return ids

    @cached_property
    def _order(self) -> np.ndarray:
        return np.argsort(self.ids, kind="stable")

    def row_of(self, number: int) -> int | None:
        """The row of this id, or None."""
        if self.first_id is not None:
            row = number - self.first_id
            return row if 0 <= row < self.items else None
        at = int(np.searchsorted(self.ids, number, sorter=self._order))
        if at == self.items or self.ids[self._order[at]] != number:
            return None
        return int(self._order[at])

    def eligible(self, where: Where) -> Rows:
        """The rows that `where` selects."""
        return eligible_rows(where, self.items, self.first_id, lambda: self.ids)

    def key(self, row: int) -> str | None:
        """The key of a row; bytes that are no UTF-8 come back as os.fsdecode gives them: the path still opens."""
        if KEYS not in self.record.sections:
            return None
        start, stop = self._key_span(row)
        text = bytes(self.record.sections[KEYS].read(start, stop))
        return os.fsdecode(text) if text else None

    def _key_span(self, row: int) -> tuple[int, int]:
        ends, length = self.record.sections[KEY_ENDS], self.record.sections[KEYS].length
        stop = int.from_bytes(ends.read(4 * row, 4 * row + 4), "little")
        start = int.from_bytes(ends.read(4 * row - 4, 4 * row), "little") if row else 0
        if not start <= stop <= length:
            raise self._wrong(f"holds a key (row {row}) that lies outside its section")
        return start, stop

    def label(self, row: int) -> str | None:
        if LABELS not in self.record.sections:
            return None
        number = int.from_bytes(self.record.sections[LABELS].read(4 * row, 4 * row + 4), "little")
        if number == NO_LABEL:
            return None
        if number >= len(self.label_names):
            raise self._wrong(f"names label {number} of {len(self.label_names)} (row {row})")
        return self.label_names[number]

    @cached_property
    def label_names(self) -> list[str]:
        """The distinct labels: a count, the end of each text, the texts."""
        if LABEL_TABLE not in self.record.sections:
            return []
        raw = bytes(self.record.sections[LABEL_TABLE].read())
        count = int.from_bytes(raw[:4], "little")
        texts = raw[4 + 4 * count :]
        if 4 + 4 * count > len(raw):
            raise self._wrong(f"has a table of {count} labels in {len(raw)} bytes")
        ends = np.frombuffer(raw, dtype="<u4", count=count, offset=4).tolist()
        starts = [0, *ends[:-1]]
        if any(a > b for a, b in zip(starts, ends, strict=False)) or (ends and ends[-1] != len(texts)):
            raise self._wrong("has a label table whose texts overlap or are missing")
        return [_text(texts[a:b]) for a, b in zip(starts, ends, strict=False)]

    def verify(self) -> None:
        """Look at everything that searching only looks at when it is asked for."""
        _ = self.codes, self.ids
        if KEYS in self.record.sections:
            ends = self.record.sections[KEY_ENDS].array("<u4")
            if len(ends) and (np.any(ends[1:] < ends[:-1]) or int(ends[-1]) != self.record.sections[KEYS].length):
                raise self._wrong("holds keys that overlap or are missing")
        if LABELS in self.record.sections:
            numbers = self.record.sections[LABELS].array("<u4")
            beyond = np.flatnonzero((numbers != NO_LABEL) & (numbers >= len(self.label_names)))
            if len(beyond):
                self.label(int(beyond[0]))


def _text(raw: bytes) -> str:
    try:
        return raw.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return raw.decode(errors="replace")


class Pending:
    """Items that were added and not yet written."""

    def __init__(self) -> None:
        self.items = 0
        self.key_bytes = 0
        self._codes: list[np.ndarray] = []
        self._ids: list[np.ndarray] = []
        self._keys: list[bytes | None] = []
        self._labels: list[str | None] = []

    def append(
        self, codes: np.ndarray, ids: np.ndarray, keys: Sequence[bytes | None], labels: Sequence[str | None]
    ) -> None:
        self._codes.append(codes.copy())  # the caller may go on using the array
        self._ids.append(ids)
        self._keys.extend(keys)
        self._labels.extend(labels)
        self.items += len(codes)
        self.key_bytes += sum(len(key) for key in keys if key)

    def sections(self) -> tuple[dict[int, np.ndarray | bytes], int]:
        """The record's sections, and its first id (NO_FIRST_ID when the ids are not consecutive)."""
        ids = np.concatenate(self._ids)
        sections: dict[int, np.ndarray | bytes] = {CODES: np.concatenate(self._codes).reshape(-1)}
        first = int(ids[0])
        if int(ids[-1]) - first != len(ids) - 1 or np.any(np.diff(ids) != 1):
            first = NO_FIRST_ID
            sections[IDS] = ids.astype("<i8")
        if any(self._keys):
            sections[KEY_ENDS], sections[KEYS] = _ends_and_bytes([key or b"" for key in self._keys])
        if any(label is not None for label in self._labels):
            numbers: dict[str, int] = {}
            column = [NO_LABEL if label is None else numbers.setdefault(label, len(numbers)) for label in self._labels]
            ends, texts = _ends_and_bytes([name.encode(errors="surrogatepass") for name in numbers])
            sections[LABELS] = np.array(column, dtype="<u4")
            sections[LABEL_TABLE] = len(numbers).to_bytes(4, "little") + ends.tobytes() + texts
        return sections, first


def _ends_and_bytes(texts: list[bytes]) -> tuple[np.ndarray, bytes]:
    """The end of each text (uint32) in their concatenation."""
    return np.cumsum([len(text) for text in texts], dtype=np.uint64).astype("<u4"), b"".join(texts)
