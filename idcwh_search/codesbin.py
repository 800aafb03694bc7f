"""The bytes of codes.bin, format version 1: records, sections, checksums. What they mean is in database.py.

docs/codes-bin.md is the specification; this file follows it number for number. No number that was read is trusted:
offsets and lengths are checked against the file before they are used, so a damaged file costs an error, never memory.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ._core import crc32c
from .codes import MAX_BITS
from .errors import IdcwhError

MAGIC = b"\x89IDCWH\r\n"  # like PNG's: a transfer that changes line ends or the eighth bit destroys it visibly
VERSION = 1
ALIGN = 64  # every record and section begins on a cache line
BLOCK = 1 << 16  # bytes that one checksum covers

HEADER = struct.Struct("<8sII16s28x")  # magic, version, bits, file id; then CRC-32C of these 60 bytes
RECORD = struct.Struct("<4sIQQQIIQQQ")  # see Record; then the sections; then CRC-32C of the head
RECORD_MAGIC = b"RECD"
SECTION = struct.Struct("<IIQQQ")  # kind, CRC-32C of the checksum table, offset, length, offset of the checksum table
CRC = struct.Struct("<I")

MANIFEST, ITEMS, COMMIT = 1, 2, 4  # record types; 3 (removals) and 5 (search structure) are reserved
CODES, IDS, KEY_ENDS, KEYS, LABELS, LABEL_TABLE, JSON = 1, 2, 3, 4, 5, 6, 7  # section kinds
SECTION_NAMES = {
    CODES: "codes",
    IDS: "ids",
    KEY_ENDS: "key ends",
    KEYS: "keys",
    LABELS: "labels",
    LABEL_TABLE: "label table",
    JSON: "manifest",
}
NO_FIRST_ID = (1 << 64) - 1  # the record's ids are in a section, not consecutive


def aligned(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


def block_checksums(data: memoryview) -> np.ndarray:
    """CRC-32C of every 64 KiB block of `data`, as uint32."""
    return np.array([crc32c(data[i : i + BLOCK]) for i in range(0, len(data), BLOCK)], dtype="<u4")


@dataclass
class Section:
    """One array of a record. Its blocks are checked when they are first read, and only then."""

    kind: int
    offset: int  # in the file
    length: int
    table_offset: int  # in the file
    table_crc: int
    where: str  # for messages: which section of which record
    _file: Mapped = field(repr=False)
    _table: np.ndarray | None = field(default=None, repr=False)
    _good: np.ndarray | None = field(default=None, repr=False)

    @property
    def blocks(self) -> int:
        return -(-self.length // BLOCK)

    def read(self, start: int = 0, stop: int | None = None) -> memoryview:
        """Bytes start..stop of the section, in the mapped file, their blocks verified."""
        stop = self.length if stop is None else stop
        self.check(start, stop)
        return self._file.view[self.offset + start : self.offset + stop]

    def array(self, dtype: str) -> np.ndarray:
        """The whole section as a read-only array over the mapped file."""
        return np.frombuffer(self.read(), dtype=dtype)

    def check(self, start: int, stop: int) -> None:
        """Raise IdcwhError naming the first damaged block among those that hold bytes start..stop."""
        if stop <= start:
            return
        if self._table is None or self._good is None:
            raw = self._file.view[self.table_offset : self.table_offset + 4 * self.blocks]
            if crc32c(raw) != self.table_crc:
                raise self._file.damaged(f"{self.where}: checksum table", self.table_offset)
            self._table = np.frombuffer(raw, dtype="<u4")
            self._good = np.zeros(self.blocks, dtype=bool)
        first, last = start // BLOCK, (stop - 1) // BLOCK
        for block in np.flatnonzero(~self._good[first : last + 1]) + first:
            at = self.offset + int(block) * BLOCK
            end = min(at + BLOCK, self.offset + self.length)
            if crc32c(self._file.view[at:end]) != int(self._table[block]):
                raise self._file.damaged(f"{self.where}: block {block}", at)
            self._good[block] = True


@dataclass
class Record:
    """The head of a record: `a`, `b`, `c` mean items, first id, 0 (ITEMS) or items, next id, records (COMMIT)."""

    type: int
    offset: int
    length: int
    sequence: int
    a: int
    b: int
    c: int
    sections: dict[int, Section]
    path: Path

    def error(self, what: str) -> IdcwhError:
        return IdcwhError(f"{self.path}: record {self.sequence} (byte {self.offset}) {what}")


class Mapped:
    """A codes.bin mapped read-only: its header and its records. A file that does not end in a commit is refused."""

    def __init__(self, path: Path, *, committed: bool = True) -> None:
        """`committed=False` is for a file that its writer is still at."""
        self.path = path
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < HEADER.size + CRC.size:
                raise IdcwhError(f"{path}: not a codes.bin: {size} bytes, shorter than its header")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.view = memoryview(self._map)
        self.size = len(self.view)
        self.bits, self.file_id, self._seed = self._header()
        self.records = list(self._records())
        if committed:
            self._check_commit()

    def _check_commit(self) -> None:
        items = sum(record.a for record in self.records if record.type == ITEMS)
        if not self.records or self.records[-1].type != COMMIT:
            raise IdcwhError(
                f"{self.path}: incomplete: it does not end in a commit ({self.size} bytes); "
                "the file was cut off; build it again or restore a copy"
            )
        if self.records[-1].a != items:
            raise self.records[-1].error(
                f"seals {self.records[-1].a} items, but there are {items}; build it again or restore a copy"
            )

    def verify(self) -> None:
        """Read every block, and the gaps between sections, which are zero."""
        for record in self.records:
            end = record.offset + RECORD.size + len(record.sections) * SECTION.size + CRC.size
            for section in record.sections.values():
                section.check(0, section.length)
                self._check_gap(record, end, section.offset)
                self._check_gap(record, section.offset + section.length, section.table_offset)
                end = section.table_offset + 4 * section.blocks
            self._check_gap(record, end, record.offset + record.length)

    def _check_gap(self, record: Record, start: int, stop: int) -> None:
        if any(self.view[start:stop]):
            raise record.error(
                f"is damaged in the gap at byte {start}, which is not zero; restore a copy or build again"
            )

    def close(self) -> None:
        """Let go of the mapping; arrays that still look into it keep it alive."""
        self.view = memoryview(b"")
        self.records = []

    def damaged(self, what: str, at: int) -> IdcwhError:
        return IdcwhError(
            f"{self.path}: damaged: {what} (byte {at}) does not match its checksum; restore a copy or build it again"
        )

    def _header(self) -> tuple[int, bytes, int]:
        raw = bytes(self.view[: HEADER.size + CRC.size])
        magic, version, bits, file_id = HEADER.unpack_from(raw)
        (crc,) = CRC.unpack_from(raw, HEADER.size)
        if magic != MAGIC:
            raise IdcwhError(f"{self.path}: not a codes.bin (it begins with {raw[:8]!r}, not {MAGIC!r})")
        if crc32c(raw[: HEADER.size]) != crc:
            raise self.damaged("header", 0)
        if version != VERSION:
            raise IdcwhError(
                f"{self.path}: codes.bin of format version {version}; this program reads version {VERSION}"
            )
        if not 1 <= bits <= MAX_BITS:
            raise IdcwhError(f"{self.path}: a code length of {bits} bits; expected 1 to {MAX_BITS}")
        return bits, file_id, crc

    def _records(self) -> Iterator[Record]:
        offset = HEADER.size + CRC.size
        sequence = 0
        while offset < self.size:
            record = self._record(offset, sequence)
            yield record
            offset += record.length
            sequence += 1

    def _record(self, offset: int, sequence: int) -> Record:
        where = f"record {sequence}"
        if offset + RECORD.size + CRC.size > self.size:
            raise IdcwhError(
                f"{self.path}: {self.size - offset} bytes at its end (byte {offset}) belong to no record; "
                "the file was cut off or something was appended; restore a copy or build it again"
            )
        magic, kind, length, at, number, head_size, count, a, b, c = RECORD.unpack_from(self.view, offset)
        if (
            magic != RECORD_MAGIC
            or head_size != RECORD.size + count * SECTION.size + CRC.size
            or head_size > self.size - offset
            or crc32c(self.view[offset : offset + head_size - CRC.size], self._seed)
            != CRC.unpack_from(self.view, offset + head_size - CRC.size)[0]
        ):
            raise self.damaged(f"head of {where}", offset)
        if at != offset or number != sequence or length < head_size or length % ALIGN or length > self.size - offset:
            raise IdcwhError(
                f"{self.path}: {where} (byte {offset}) claims {length} bytes of {self.size - offset}; "
                "the file was cut off or put together wrongly; restore a copy or build it again"
            )
        sections = {}
        taken = head_size  # sections and tables follow each other: none can overlap
        for i in range(count):
            kind_, table_crc, start, size, table = SECTION.unpack_from(
                self.view, offset + RECORD.size + i * SECTION.size
            )
            table_size = 4 * -(-size // BLOCK)
            name = f"{where}, {SECTION_NAMES.get(kind_, f'section {kind_}')}"
            if (
                start < taken
                or start % ALIGN
                or start + size > table
                or table + table_size > length
                or kind_ in sections
            ):
                raise IdcwhError(
                    f"{self.path}: {name} (byte {offset}) lies outside its record; restore a copy or build it again"
                )
            taken = table + table_size
            sections[kind_] = Section(kind_, offset + start, size, offset + table, table_crc, name, self)
        return Record(kind, offset, length, number, a, b, c, sections, self.path)


class Writer:
    """Appends records to a new file. The caller decides when they are synced and where the file goes."""

    def __init__(self, file: BinaryIO, bits: int, file_id: bytes) -> None:
        header = HEADER.pack(MAGIC, VERSION, bits, file_id)
        self._seed = crc32c(header)
        self._file = file
        self._offset = len(header) + CRC.size
        self._sequence = 0
        file.write(header + CRC.pack(self._seed))

    def record(self, kind: int, sections: dict[int, np.ndarray | bytes], a: int = 0, b: int = 0, c: int = 0) -> None:
        """Write one record whole: head, sections, their checksum tables."""
        head_size = RECORD.size + len(sections) * SECTION.size + CRC.size
        position = aligned(head_size)
        entries, parts = b"", []
        for name, content in sections.items():
            data = np.frombuffer(content, dtype="u1").data
            table = block_checksums(data).tobytes()
            table_at = position + len(data) + -len(data) % 4
            entries += SECTION.pack(name, crc32c(table), position, len(data), table_at)
            end = table_at + len(table)
            parts.append((data, bytes(-len(data) % 4) + table + bytes(aligned(end) - end)))
            position = aligned(end)
        head = (
            RECORD.pack(RECORD_MAGIC, kind, position, self._offset, self._sequence, head_size, len(sections), a, b, c)
            + entries
        )
        self._file.write(head + CRC.pack(crc32c(head, self._seed)) + bytes(aligned(head_size) - head_size))
        for data, tail in parts:
            self._file.write(data)
            self._file.write(tail)
        self._offset += position
        self._sequence += 1

    def commit(self, items: int, next_id: int) -> None:
        """Seal what was written: the data reaches the disk before the commit does, and the commit before we return."""
        self.sync()
        self.record(COMMIT, {}, items, next_id, self._sequence)
        self.sync()

    def sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
