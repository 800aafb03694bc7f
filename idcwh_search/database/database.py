"""Database: codes with ids, keys and labels in one file, codes.bin, that loses nothing.

The file and its guarantees are csrc/src/storage (specification: docs/codes-bin.md); here texts, arrays and the
manifest become Python's.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from .. import _core
from .._util.deprecated import renamed_argument, warn_renamed
from ..codes import check_bits
from ..errors import CorruptFileError
from ..search.base import Ids, Searchable, read_only
from ..search.where import as_id_list
from .arguments import creating_file, json_bytes, path_bytes
from .items import Checksums, MtimeSignatures, NewItems, Texts, class_names, text_list

FORMAT = 1
_NAMED = 20  # labels that a message lists


class _Readable(Searchable):
    """The columns of a database and of its snapshots."""

    def _snapshot(self) -> _core.DatabaseSnapshot:
        raise NotImplementedError

    @property
    def codes(self) -> np.ndarray:
        """Codes in row order, uint8 (n, code bytes), read-only: in the file where they are one segment, else a
        copy."""
        view = self._snapshot()
        codes = view.codes_in_place()
        return read_only(view.copy()[0]) if codes is None else codes

    @property
    def manifest(self) -> dict[str, Any]:
        """The description of the model and the images of the database."""
        text = self._snapshot().manifest()  # outside of the try: a closed database has a ValueError of its own
        try:
            manifest = json.loads(text.decode(errors="surrogateescape"))
        except (ValueError, RecursionError):
            manifest = None
        if not isinstance(manifest, dict):
            raise CorruptFileError(
                "its manifest is not a JSON object", path=getattr(self, "path", None), hint="set another one"
            )
        return manifest

    def keys(self, ids: Ids | None = None) -> list[str | None]:
        """Returns the keys (image paths) of these ids, or of all in row order; None where an item has none."""
        return self._snapshot().keys(None if ids is None else as_id_list(ids))

    def labels(self, ids: Ids | None = None) -> list[str | None]:
        """Returns the labels of these ids, or of all in row order; None where an item has none."""
        return self._snapshot().labels(None if ids is None else as_id_list(ids))

    def mtime_signatures(self, ids: Ids | None = None) -> np.ndarray:
        """Returns the mtime signatures of these ids, or of all in row order, uint32 (n,); 0 where an item has none."""
        return self._snapshot().mtime_signatures(None if ids is None else as_id_list(ids))

    def stamps(self, ids: Ids | None = None) -> np.ndarray:
        """Returns `mtime_signatures`. Deprecated."""
        warn_renamed("stamps()", "mtime_signatures()")
        return self.mtime_signatures(ids)

    def checksums(self, ids: Ids | None = None) -> np.ndarray:
        """Returns the checksums of these ids, or of all in row order, uint64 (n, 2); (0, 0) where an item has none.

        A checksum is the size and a hash of the content behind a key.
        """
        return self._snapshot().checksums(None if ids is None else as_id_list(ids))

    def label_names(self) -> list[str]:
        """Returns the distinct labels, sorted."""
        return sorted({label for label in self.labels() if label is not None})

    def select(self, *, labels: Sequence[str] | None = None, key_prefixes: Sequence[str] | None = None) -> np.ndarray:
        """Returns the ids of the items that have one of these labels and a key that begins with one of these prefixes.

        They are int64, in row order, and what `where` of every search takes. An item of several classes, whose label is
        `a|b`, has the labels a, b and `a|b`. Raises ValueError for a label that no item has, which names those that
        there are, and for a prefix that no key has.
        """
        view = self._snapshot()
        kept = np.ones(len(view), bool)
        if labels is not None:
            kept &= _with_labels(view.labels(None), set(text_list("labels", labels)))
        if key_prefixes is not None:
            kept &= _with_prefixes(view.keys(None), text_list("key_prefixes", key_prefixes))
        return view.ids()[kept]

    def find(self, keys: Sequence[str]) -> np.ndarray:
        """Returns the ids of the items with one of these keys, int64, ascending."""
        return self._snapshot().find(text_list("keys", keys))


class DatabaseSnapshot(_Readable):
    """The contents of a database at one moment. It does not change with the file, and may outlive the database."""

    def __init__(self, view: _core.DatabaseSnapshot) -> None:
        """Use Database.snapshot."""
        self._view = view

    def _snapshot(self) -> _core.DatabaseSnapshot:
        return self._view

    def __repr__(self) -> str:
        return f"DatabaseSnapshot(bits={self.bits}) of {len(self)} items"


@dataclass(frozen=True)
class CorruptRange:
    """A corrupt range of a database: what it is, and where in the file, in bytes."""

    what: str
    offset: int
    length: int


@dataclass(frozen=True)
class Verification:
    """The result of `Database.check`.

    corrupt       the corrupt ranges
    items         items that the file should hold
    good_items    of these, items in segments without a corrupt range
    torn          bytes of a write that never ended (harmless)
    """

    corrupt: tuple[CorruptRange, ...]
    items: int
    good_items: int
    torn: int


class Database(_Readable):
    """A codes.bin: `create` or `build` a new one, or `open` one. A context manager each way.

    A write has reached the disk when its method returns; whatever happens to the process or the machine, the file
    then holds what was acknowledged. After an error it is as it was. One process writes at a time; any number read:
    they see what was there when they opened it, until they `refresh`. Methods may be called from many threads.

    The file is mapped into memory. A file that another program cuts off raises IdcwhError, by a handler for SIGBUS that
    is installed when the first database is opened and passes other faults on to the handler before it. A program that
    installs a handler for SIGBUS of its own, `faulthandler.enable` included, does so before it opens a database.
    """

    def __init__(self, path: Path, database: _core.Database | None = None, building: bool = False) -> None:
        """Use `open`, `create` or `build`."""
        if not isinstance(database, _core.Database):
            raise TypeError("Database is not called; use Database.open, Database.create or Database.build")
        self.path = path
        self._database = database
        errors = creating_file(path) if building else contextlib.nullcontext()
        self._errors = errors

    @classmethod
    def open(cls, path: str | os.PathLike[str], mode: str = "r") -> Database:
        """Opens a database: mode "r" to search, "r+" to change it as well, which locks it against other writers.

        Raises CorruptFileError for a file that is not a whole codes.bin, LockedError while another handle writes to it,
        NotSupportedError for a later format version, and FileNotFoundError or another OSError for none at all.
        """
        if mode not in ("r", "r+"):
            raise ValueError(f"mode must be 'r' or 'r+', not {mode!r}; make a new database with Database.create")
        return cls(Path(path), _core.Database.open(path_bytes(path), mode == "r+"))

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], bits: int, model: dict[str, Any] | None = None, *, replace: bool = False
    ) -> Database:
        """Creates a database of `bits`-bit codes without items, on disk at once and open for changing.

        `model` describes what makes the codes (any JSON-serialisable dictionary). An existing file is an error
        unless `replace` is set, which replaces a codes.bin or an empty file and nothing else. The new file has the
        permissions of the old one; a link is followed.
        """
        with creating_file(path):
            database = _core.Database.create(path_bytes(path), check_bits(bits), json_bytes(model), replace)
        return cls(Path(path), database)

    @classmethod
    def build(
        cls, path: str | os.PathLike[str], bits: int, model: dict[str, Any] | None = None, *, replace: bool = False
    ) -> Database:
        """Begins a database that appears at `path` when it is closed, compact and synced, or never.

        Arguments are those of `create`. Changes are not synced, which is faster: the way to add many items. `discard`,
        and leaving a `with` block by an exception, leave nothing behind.
        """
        with creating_file(path):
            database = _core.Database.create(path_bytes(path), check_bits(bits), json_bytes(model), replace, True)
        return cls(Path(path), database, building=True)

    def __reduce__(self) -> Any:
        """Returns how to open the file again, for pickling and copying a database that is open for reading.

        The copy sees the newest commit, and has no structures of `optimize`. Raises TypeError for a database that is
        open for changing, which one handle may do at a time.
        """
        if self._database.writable:
            raise TypeError(
                f"{self.path}: a database that is open for changing cannot be copied or pickled; "
                "open it with mode 'r' where it is only searched"
            )
        self._database.snapshot()  # raises where it is closed
        return Database.open, (str(self.path.absolute()),)

    def _snapshot(self) -> _core.DatabaseSnapshot:
        return self._database.snapshot()

    def _writable(self) -> _core.Database:
        """Returns the file, to change it. Raises ValueError if it is open for reading."""
        if not self._database.writable:
            raise ValueError(f"{self.path}: is open for reading; open it with mode='r+' to change it")
        return self._database

    def snapshot(self) -> DatabaseSnapshot:
        """Returns the current contents, for as long as the snapshot is kept."""
        return DatabaseSnapshot(self._database.snapshot())

    def refresh(self) -> bool:
        """Takes up changes of other processes; returns whether there were any."""
        return self._database.refresh()

    # changing

    @renamed_argument("stamps", "mtime_signatures")
    def add(
        self,
        codes: np.ndarray,
        ids: np.ndarray | Sequence[int] | None = None,
        keys: Texts = None,
        labels: Texts = None,
        mtime_signatures: MtimeSignatures = None,
        checksums: Checksums = None,
    ) -> np.ndarray:
        """Adds codes, uint8 (n, code bytes), and returns their ids, int64 (n,).

        ids: unique, >= 0, not yet in the database; by default they continue from the highest ever used. keys (image
        paths, which may repeat) and labels (class names): n texts each; None marks an item without one.
        mtime_signatures: n whole numbers below 2^32 that change with the content behind a key; None or 0 marks an item
        without one.
        checksums: n pairs of whole numbers below 2^64, the size in bytes and a hash of the content behind a key; None
        or (0, 0) marks an item without one.
        """
        return self.update([], codes, ids, keys, labels, mtime_signatures, checksums)

    @renamed_argument("stamps", "mtime_signatures")
    def replace(
        self,
        ids: np.ndarray | Sequence[int],
        codes: np.ndarray,
        keys: Texts = None,
        labels: Texts = None,
        mtime_signatures: MtimeSignatures = None,
        checksums: Checksums = None,
    ) -> None:
        """Replaces the items with these ids, which all exist, by new codes and columns."""
        self.update(ids, codes, ids, keys, labels, mtime_signatures, checksums)

    @renamed_argument("stamps", "mtime_signatures")
    def update(
        self,
        removed: Ids,
        codes: np.ndarray,
        ids: np.ndarray | Sequence[int] | None = None,
        keys: Texts = None,
        labels: Texts = None,
        mtime_signatures: MtimeSignatures = None,
        checksums: Checksums = None,
    ) -> np.ndarray:
        """Removes the items with the ids `removed` and adds others, in one step: a crash leaves both or neither."""
        new = NewItems.of(self.bits, codes, ids, keys, labels, mtime_signatures, checksums)
        with self._errors:
            return self._writable().update(as_id_list(removed), *new)

    def remove(self, ids: Ids | None = None, *, keys: Sequence[str] | None = None) -> int:
        """Removes the items with these ids, or every item with one of these keys, and returns their number.

        Raises KeyError for an id or a key that is missing, and then nothing is removed.
        """
        if ids is not None and keys is None:
            return self._writable().remove(as_id_list(ids))
        if keys is not None and ids is None:
            return self._writable().remove_keys(text_list("keys", keys))
        raise ValueError("remove: give either ids or keys")

    def set_manifest(self, manifest: dict[str, Any]) -> None:
        """Replaces the description of the model and the images of the database."""
        self._writable().set_manifest(json_bytes(manifest))

    def compact(self) -> None:
        """Writes all items into a new file, without removed ones, which replaces the old file at once."""
        self._writable().compact()

    # searching faster

    def optimize(self, memory: int | None = None, threads: int | None = None) -> None:
        """Builds what makes searches faster, in at most `memory` bytes beyond the file; results do not change.

        memory: None for 128 bytes per code and 1 MiB for each segment.

        The structures are in memory, for this handle; the file does not change. Items that are added later are scanned
        until they are many, then they are covered as well. One structure is faster than several: `compact` first.
        `structures`, `explain` and `drop_structures` are as for a HammingIndex.
        """
        self._database.optimize(memory, threads)

    def drop_structures(self) -> None:
        """Frees the memory of what `optimize` built."""
        self._database.drop_structures()

    # the file

    def info(self) -> dict[str, Any]:
        """Returns facts about the file: path, format, code length, items, removed rows still in it, segments, size and
        bytes that `compact` would free, number of the commit, next id, and the manifest."""
        return {
            "path": str(self.path),
            "format": FORMAT,
            "bits": self.bits,
            **self._database.info(),
            "manifest": self.manifest,
        }

    def check(self, threads: int | None = None) -> Verification:
        """Reads the whole file and returns a report of every corrupt range; see `verify`."""
        found = self._database.check(threads)
        corrupt = tuple(CorruptRange(*span) for span in found["corrupt"])
        return Verification(corrupt, found["items"], found["good_items"], found["torn"])

    def verify(self) -> None:
        """Reads the whole file and raises CorruptFileError, with the first corrupt range, unless all of it is good."""
        found = self.check()
        if found.corrupt:
            first, more = found.corrupt[0], len(found.corrupt) - 1
            lost = found.good_items != found.items
            raise CorruptFileError(
                f"is corrupt at byte {first.offset} ({first.what})" + (f" and {more} more ranges" if more else ""),
                path=self.path,
                found=f"{found.good_items} items in good segments" if lost else None,
                expected=found.items if lost else None,
                hint="restore a copy or build it again",
            )

    def close(self) -> None:
        """Lets go of the file, which is at its path from now on. Arrays taken from the database stay valid."""
        with self._errors:
            self._database.close()

    def discard(self) -> None:
        """Closes a database that `build` began and leaves nothing behind; the same as `close` for any other."""
        self._database.discard()

    def __enter__(self) -> Database:
        len(self)  # ValueError when it is closed
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close() if kind is None else self.discard()


def _with_labels(found: list[str | None], wanted: set[str | None]) -> np.ndarray:
    names = {label: class_names(label) for label in set(found) if label is not None}
    known = set().union(*names.values())
    if missing := sorted(map(str, wanted - known)):
        shown = ", ".join(sorted(known)[:_NAMED]) + (f" and {len(known) - _NAMED} more" if len(known) > _NAMED else "")
        raise ValueError(f"label {missing[0]!r} is missing (found {shown or 'no labels'}); give labels that items have")
    chosen = {label for label, classes in names.items() if not wanted.isdisjoint(classes)}
    return np.fromiter((label in chosen for label in found), bool, len(found))


def _with_prefixes(found: list[str | None], wanted: list[str | None]) -> np.ndarray:
    kept = np.zeros(len(found), bool)
    for prefix in wanted:
        with_it = np.fromiter((key is not None and key.startswith(prefix or "") for key in found), bool, len(found))
        if not with_it.any():
            first = next((key for key in found if key is not None), None)
            example = "no keys" if first is None else f"keys such as {first!r}"
            raise ValueError(f"key prefix {prefix!r} is missing (found {example}); give the beginning of a key")
        kept |= with_it
    return kept


def part(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    """Returns an object of the manifest, such as "model"; empty where there is none."""
    found = manifest.get(name)
    return found if isinstance(found, dict) else {}
