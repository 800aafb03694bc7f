"""Writing a new codes.bin: it grows in a temporary file beside its place, is synced, and is then renamed."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from . import codesbin, files
from .codes import check_bits, check_codes
from .codesbin import ITEMS, JSON, MANIFEST
from .database import Database
from .errors import IdcwhError
from .segment import MAX_KEY_BYTES, Pending, Segment
from .selection import as_ids

SEGMENT_ITEMS = 1 << 20  # items gathered in memory before they are written as a segment


class DatabaseBuilder(Database):
    """A database that is being made: `add`, search what is there, `close` to let it appear under its name."""

    def __init__(self, path: Path, bits: int, model: dict[str, Any] | None, *, replace: bool) -> None:
        bits = check_bits(bits)
        if path.exists() and not path.is_dir() and not replace:
            raise IdcwhError(f"{path}: already exists; choose another name or ask to replace it")
        manifest = json.dumps(model or {}, ensure_ascii=False, allow_nan=False).encode(errors="surrogateescape")
        self._replace = replace
        self._file = files.temporary_beside(path)
        self._temporary = Path(self._file.name)
        self._writer = codesbin.Writer(self._file, bits, uuid.uuid4().bytes)
        self._writer.record(MANIFEST, {JSON: manifest})
        self._pending = Pending()
        self._ids_seen = _Ids()
        self._stale = True
        super().__init__(path, self._map())

    def _map(self) -> codesbin.Mapped:
        self._file.flush()
        self._stale = False
        return codesbin.Mapped(self._temporary, committed=False)

    def add(
        self,
        codes: np.ndarray,
        ids: Sequence[int] | np.ndarray | None = None,
        keys: Sequence[str | None] | None = None,
        labels: Sequence[str | None] | None = None,
    ) -> np.ndarray:
        """Add codes, uint8 (n, code bytes); returns their ids, int64 [n].

        `ids` are unique and >= 0; by default they go on from the highest so far. `keys` (image paths) and `labels`
        (class names) are n texts each; None marks an item without one. On an error nothing is added.
        """
        if self._closed:
            raise ValueError(f"{self.path}: the database is closed; nothing can be added to it")
        check_codes(codes, self.bits)
        count = len(codes)
        for name, column in (("keys", keys), ("labels", labels)):
            if isinstance(column, str) or (column is not None and len(column) != count):
                raise ValueError(
                    f"{name}: expected {count} texts, one a code, not {1 if isinstance(column, str) else len(column)}"
                )
            wrong = next(
                (text for text in (() if column is None else column) if text is not None and not isinstance(text, str)),
                None,
            )
            if wrong is not None:
                raise TypeError(f"{name}: expected texts, not {type(wrong).__name__} ({wrong!r})")
        names = [None if key is None else os.fsencode(key) for key in keys] if keys is not None else [None] * count
        key_bytes = sum(len(name) for name in names if name)
        if key_bytes > MAX_KEY_BYTES:
            raise ValueError(f"keys: {key_bytes} bytes in one call, at most {MAX_KEY_BYTES}; add in smaller batches")
        given = self._ids_seen.take(ids, count)
        if count == 0:
            return given
        if self._pending.items and self._pending.key_bytes + key_bytes > MAX_KEY_BYTES:
            self._write_pending()
        self._pending.append(codes, given, names, [None] * count if labels is None else labels)
        self._stale = True
        if self._pending.items >= SEGMENT_ITEMS:
            self._write_pending()
        return given

    def _write_pending(self) -> None:
        if self._pending.items:
            sections, first_id = self._pending.sections()
            self._writer.record(ITEMS, sections, self._pending.items, first_id)
            self._pending = Pending()

    def _live(self) -> list[Segment]:
        """The segments, after making everything added so far searchable."""
        if self._stale and not self._closed:
            self._write_pending()
            self._use(self._map())
        return super()._live()

    def close(self) -> None:
        """Seal the database and let it appear at its path; afterwards this object searches nothing."""
        if self._file.closed:
            return
        try:
            self._write_pending()
            self._writer.commit(self._ids_seen.count, self._ids_seen.next)
            files.publish(self._file)
            self._file.close()
            if self._replace or not _link(self._temporary, self.path):
                self._temporary.replace(self.path)
            self._temporary.unlink(missing_ok=True)
            files.sync_directory(self.path.parent)
        except FileExistsError as error:
            self.discard()
            raise IdcwhError(
                f"{self.path}: was made by somebody else meanwhile; choose another name or ask to replace it"
            ) from error
        except OSError as error:
            self.discard()
            raise IdcwhError(f"{self.path}: cannot be written: {error.strerror}") from error
        super().close()

    def discard(self) -> None:
        """Give up: nothing is left behind."""
        super().close()
        with contextlib.suppress(OSError):
            self._file.close()
        self._temporary.unlink(missing_ok=True)

    def __enter__(self) -> DatabaseBuilder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


class _Ids:
    """The ids given so far: how many, the next free one, and whether a new one is taken."""

    def __init__(self) -> None:
        self.count = 0
        self.next = 0
        self._chosen: set[int] = set()  # ids given by the caller
        self._runs: list[range] = []  # ids we gave

    def take(self, ids: Sequence[int] | np.ndarray | None, count: int) -> np.ndarray:
        """Reserve these ids, or the next `count`; int64 [count]."""
        if ids is None:
            if self.next + count > 1 << 63:
                raise ValueError(f"ids: none are left after {self.next - 1}; give them explicitly")
            given = np.arange(self.next, self.next + count, dtype=np.int64)
            if self._runs and self._runs[-1].stop == self.next:
                self._runs[-1] = range(self._runs[-1].start, self.next + count)
            else:
                self._runs.append(range(self.next, self.next + count))
        else:
            given = self._check(as_ids(ids), count)
            self._chosen.update(given.tolist())
        self.count += count
        self.next = max(self.next, int(given.max()) + 1) if count else self.next
        return given

    def _check(self, ids: np.ndarray, count: int) -> np.ndarray:
        if ids.shape != (count,):
            raise ValueError(f"ids: expected shape ({count},), one a code, not {ids.shape}")
        if count and int(ids.min()) < 0:
            raise ValueError(f"ids: expected at least 0, not {int(ids.min())}")
        values, times = np.unique(ids, return_counts=True)
        if len(values) != count:
            raise ValueError(f"ids: {int(values[times > 1][0])} occurs twice")
        taken = next((i for i in values.tolist() if i in self._chosen or any(i in run for run in self._runs)), None)
        if taken is not None:
            raise ValueError(f"ids: {taken} is already in the database")
        return ids.copy()  # the caller may go on using the array


def _link(source: Path, target: Path) -> bool:
    """Give the file its name. A name that is taken is a FileExistsError, unlike with a rename; False: no links here."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:
        return False
    return True
