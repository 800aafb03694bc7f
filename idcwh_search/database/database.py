"""Database, a durable file of codes with ids, keys and labels (codes.bin).

The file format is implemented in csrc/src/storage and specified in docs/codes-bin.md. This module adds the Python
interface.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, cast

import numpy as np

from .. import _core
from .._util.deprecated import renamed_argument, warn_renamed
from ..codes import check_bits
from ..errors import CorruptFileError, MismatchError, ModelMismatchError
from ..hexadecimal import Order
from ..search.base import Ids, Searchable, read_only
from ..search.join import BLOCK, Join
from ..search.where import Where, as_id_list
from .arguments import creating_file, json_bytes, path_bytes
from .items import Checksums, MtimeSignatures, NewItems, Texts, class_names, text_list

FORMAT = 1
_NAMED = 20  # labels per message


class _Readable(Searchable):
    """Base class of a database and its snapshots: access to the columns."""

    def _snapshot(self) -> _core.DatabaseSnapshot:
        raise NotImplementedError

    @property
    def codes(self) -> np.ndarray:
        """Codes in row order, uint8 (n, code bytes), read-only. They are a view of the file if it has one segment,
        otherwise a copy.
        """
        view = self._snapshot()
        codes = view.codes_in_place()
        return read_only(view.copy()[0]) if codes is None else codes

    @property
    def manifest(self) -> dict[str, Any]:
        """Description of the model and of the images, as stored in the file."""
        text = self._snapshot().manifest()  # outside the try block, because a closed database raises ValueError
        try:
            manifest = json.loads(text.decode(errors="surrogateescape"))
        except (ValueError, RecursionError):
            manifest = None
        if not isinstance(manifest, dict):
            raise CorruptFileError(
                "manifest is corrupt",
                path=getattr(self, "path", None),
                expected="a JSON object",
                hint="write another one with set_manifest",
            )
        return manifest

    @property
    def hash_order(self) -> Order | None:
        """Order of the bits of hashes of another program, as in `from_hex`; None for other codes."""
        return cast("Order | None", part(self.manifest, "hashes").get("order"))

    def keys(self, ids: Ids | None = None) -> list[str | None]:
        """Returns the keys (image paths) of these ids, or of all items in row order; None for an item without one."""
        return self._snapshot().keys(None if ids is None else as_id_list(ids))

    def labels(self, ids: Ids | None = None) -> list[str | None]:
        """Returns the labels of these ids, or of all items in row order; None for an item without one."""
        return self._snapshot().labels(None if ids is None else as_id_list(ids))

    def mtime_signatures(self, ids: Ids | None = None) -> np.ndarray:
        """Returns the mtime signatures of these ids, or of all items in row order: uint32 (n,), 0 for none."""
        return self._snapshot().mtime_signatures(None if ids is None else as_id_list(ids))

    def stamps(self, ids: Ids | None = None) -> np.ndarray:
        """Returns `mtime_signatures`. Deprecated."""
        warn_renamed("stamps()", "mtime_signatures()")
        return self.mtime_signatures(ids)

    def checksums(self, ids: Ids | None = None) -> np.ndarray:
        """Returns the checksums of these ids, or of all items in row order: uint64 (n, 2), (0, 0) for none.

        A checksum consists of the size in bytes and a hash of the image file.
        """
        return self._snapshot().checksums(None if ids is None else as_id_list(ids))

    def label_names(self) -> list[str]:
        """Returns the distinct labels, sorted."""
        return sorted(self.label_counts())

    def label_counts(self) -> dict[str, int]:
        """Returns the number of items with each distinct label, sorted by label."""
        return dict(sorted(self._snapshot().label_counts()))

    def select(
        self,
        *,
        labels: Sequence[str] | None = None,
        key_prefixes: Sequence[str] | None = None,
        missing_ok: bool = False,
    ) -> np.ndarray:
        """Returns the ids of the items with one of the labels and one of the key prefixes, int64, in row order.

        The result can be passed as `where` to every search.

        Args:
            labels: labels, or None for any. A multi-label item with the text `a|b` has the labels a, b and `a|b`.
            key_prefixes: beginnings of keys, or None for any.
            missing_ok: True if labels and prefixes that no item has match nothing, instead of being errors.

        Raises:
            ValueError: no item has one of the labels, or no key has one of the prefixes.
        """
        view = self._snapshot()
        wanted = None if labels is None else set(text_list("labels", labels))
        prefixes = None if key_prefixes is None else text_list("key_prefixes", key_prefixes)
        chosen = None
        if wanted is not None:
            names = {label: class_names(label) for label, _ in view.label_counts()}
            if not missing_ok:
                _check_labels(wanted, set[str]().union(*names.values()))
            chosen = [label for label, classes in names.items() if not wanted.isdisjoint(classes)]
        mask, found = view.match(chosen, prefixes)
        if prefixes is not None and not all(found) and not missing_ok:
            _fail_prefix(prefixes[found.index(False)], view)
        return view.ids()[mask]

    def find(self, keys: Sequence[str]) -> np.ndarray:
        """Returns the ids of the items with one of these keys, int64, ascending.

        The first call reads all keys and builds a table of 6 to 8 bytes per item, which later calls use.
        """
        return self._snapshot().find(text_list("keys", keys))

    def join(
        self,
        other: Searchable,
        radius: int,
        where: Where = None,
        *,
        max_pairs: int | None = None,
        block: int = BLOCK,
        threads: int | None = None,
    ) -> Join:
        """Returns the pairs of `Searchable.join`. Raises ModelMismatchError for a database of another model."""
        if isinstance(other, _Readable):
            check_same_model(self, other)
        return super().join(other, radius, where, max_pairs=max_pairs, block=block, threads=threads)


class DatabaseSnapshot(_Readable):
    """The contents of a database at one moment. Later changes do not affect it. It may outlive the database."""

    def __init__(self, view: _core.DatabaseSnapshot) -> None:
        """Wraps a snapshot of the engine; callers use Database.snapshot."""
        self._view = view

    def _snapshot(self) -> _core.DatabaseSnapshot:
        return self._view

    def __repr__(self) -> str:
        return f"DatabaseSnapshot(bits={self.bits}) of {len(self)} items"


@dataclass(frozen=True)
class CorruptRange:
    """A corrupt range of a database file.

    Attributes:
        `what`: name of the structure in the file.
        offset, length: position and size in bytes.
    """

    what: str
    offset: int
    length: int


@dataclass(frozen=True)
class Verification:
    """The result of `Database.check`.

    Attributes:
        corrupt: the corrupt ranges.
        items: number of items according to the last commit.
        good_items: number of items in segments without a corrupt range.
        torn: bytes of an unfinished write at the end of the file, which are harmless.
    """

    corrupt: tuple[CorruptRange, ...]
    items: int
    good_items: int
    torn: int


class Database(_Readable):
    """A codes.bin file. `open`, `create` and `build` return one, which is also a context manager.

    A change is durable when its method returns. An error leaves the file unchanged. One handle at a time may be open
    for changing, and any number for reading. A reader keeps the state at opening until it calls `refresh`. Methods may
    be called from many threads.

    The file is mapped into memory. If another program truncates it, reads raise IdcwhError. This needs a handler for
    SIGBUS, which is installed when the first database is opened and passes other faults on to the previous handler. A
    program with its own SIGBUS handler, such as `faulthandler.enable`, has to install it before it opens a database.
    """

    def __init__(self, path: Path, database: _core.Database | None = None, building: bool = False) -> None:
        """Wraps a database of the engine; callers use `open`, `create` or `build`."""
        if not isinstance(database, _core.Database):
            raise TypeError("Database cannot be called; use Database.open, Database.create or Database.build")
        self.path = path
        self._database = database
        errors = creating_file(path) if building else contextlib.nullcontext()
        self._errors = errors

    @classmethod
    def open(cls, path: str | os.PathLike[str], mode: str = "r") -> Database:
        """Opens a database.

        Args:
            path: the file.
            mode: "r" for searching; "r+" for searching and changing, which locks the file against other writers.

        Raises:
            CorruptFileError: the file is not a complete codes.bin.
            LockedError: mode is "r+", and another handle has the file open for changing.
            NotSupportedError: the file has a later format version.
            OSError: the file is missing (FileNotFoundError) or cannot be read.
        """
        if mode not in ("r", "r+"):
            raise ValueError(f"mode must be 'r' or 'r+', not {mode!r}; create a new database with Database.create")
        return cls(Path(path), _core.Database.open(path_bytes(path), mode == "r+"))

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], bits: int, model: dict[str, Any] | None = None, *, replace: bool = False
    ) -> Database:
        """Creates an empty database on disk, open for changing.

        Args:
            path: the file. A link is followed.
            bits: code length.
            model: description of the model, a JSON-serialisable dictionary.
            replace: True to replace an existing codes.bin or empty file, whose permissions are kept.

        Raises:
            AlreadyExistsError: the file exists, and `replace` is False or the file is of another kind.
            NotWrittenError: the file cannot be written.
        """
        with creating_file(path):
            database = _core.Database.create(path_bytes(path), check_bits(bits), json_bytes(model), replace)
        return cls(Path(path), database)

    @classmethod
    def build(
        cls, path: str | os.PathLike[str], bits: int, model: dict[str, Any] | None = None, *, replace: bool = False
    ) -> Database:
        """Creates a database that is compacted, synced and moved to `path` when it is closed.

        Single changes are not synced, so this is the fastest way to add many items. `discard`, and leaving a `with`
        block by an exception, remove the unfinished file. Arguments and errors are those of `create`.
        """
        with creating_file(path):
            database = _core.Database.create(path_bytes(path), check_bits(bits), json_bytes(model), replace, True)
        return cls(Path(path), database, building=True)

    def __reduce__(self) -> Any:
        """Returns what pickle and copy need to open the file again, for a database that is open for reading.

        The copy has the newest commit and no index structures. Raises TypeError for a database that is open for
        changing, because only one handle may change a file.
        """
        if self._database.writable:
            raise TypeError(
                f"{self.path}: copying and pickling are not supported for a database that is open for changing; "
                "open it with mode 'r'"
            )
        self._database.snapshot()  # raises ValueError if the database is closed
        return Database.open, (str(self.path.absolute()),)

    def _snapshot(self) -> _core.DatabaseSnapshot:
        return self._database.snapshot()

    def _writable(self) -> _core.Database:
        """Returns the database of the engine. Raises ValueError if it is open for reading only."""
        if not self._database.writable:
            raise ValueError(f"{self.path}: is open for reading; open it with mode='r+' to change it")
        return self._database

    def snapshot(self) -> DatabaseSnapshot:
        """Returns the current contents, which later changes do not affect."""
        return DatabaseSnapshot(self._database.snapshot())

    def refresh(self) -> bool:
        """Loads changes of other processes and returns True if there were any."""
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
        """Adds codes and returns their ids, int64 (n,). An error leaves the database unchanged.

        Args:
            codes: packed codes, uint8 (n, code bytes).
            ids: n new unique ids >= 0. By default they continue from the largest id ever used.
            keys: n image paths, which may repeat; None for an item without one.
            labels: n class names; None for an item without one.
            mtime_signatures: n integers below 2^32 that change when the image file changes; None or 0 for an item
                without one.
            checksums: n pairs of integers below 2^64, size in bytes and hash of the image file; None or (0, 0) for an
                item without one.

        Raises:
            TypeError, ValueError: an argument is invalid, or an id exists.
            OSError: the file cannot be written; NotWrittenError for a database of `build`.
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
        """Replaces codes and columns of existing items. Arguments are those of `add`.

        Raises KeyError for a missing id.
        """
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
        """Removes the items with the ids `removed` and adds new ones, and returns the ids of the new ones.

        Both happen in one atomic step, even in a crash. The other arguments are those of `add`.
        """
        new = NewItems.of(self.bits, codes, ids, keys, labels, mtime_signatures, checksums)
        with self._errors:
            return self._writable().update(as_id_list(removed), *new)

    def remove(self, ids: Ids | None = None, *, keys: Sequence[str] | None = None) -> int:
        """Removes the items with these ids, or all items with one of these keys, and returns their number.

        Raises KeyError for a missing id or key, and then removes nothing.
        """
        if ids is not None and keys is None:
            return self._writable().remove(as_id_list(ids))
        if keys is not None and ids is None:
            return self._writable().remove_keys(text_list("keys", keys))
        raise ValueError("remove: give either ids or keys")

    def set_manifest(self, manifest: dict[str, Any]) -> None:
        """Replaces the description of the model and of the images."""
        self._writable().set_manifest(json_bytes(manifest))

    def compact(self) -> None:
        """Writes the items without removed rows into a new file, which replaces the old one atomically."""
        self._writable().compact()

    # searching faster

    def optimize(self, memory: int | None = None, threads: int | None = None) -> None:
        """Builds index structures in memory that make searches faster. Neither the results nor the file change.

        The structures belong to this handle. Items added later are scanned until there are many, and then get a
        structure, too. A database has one structure per segment, and one structure is faster than several, so call
        `compact` first. `structures`, `explain` and `drop_structures` are those of a HammingIndex.

        Args:
            memory: most bytes for the structures; None for 128 bytes per code plus 1 MiB per segment.
            threads: number of threads; None for one per available core.
        """
        self._database.optimize(memory, threads)

    def drop_structures(self) -> None:
        """Frees the memory of the structures that `optimize` built."""
        self._database.drop_structures()

    # the file

    def info(self) -> dict[str, Any]:
        """Returns properties of the file as a dictionary.

        They are path, format, code length, numbers of items, removed rows and segments, size in bytes, bytes that
        `compact` would free, number of the commit, next id, and manifest.
        """
        return {
            "path": str(self.path),
            "format": FORMAT,
            "bits": self.bits,
            **self._database.info(),
            "manifest": self.manifest,
        }

    def check(self, threads: int | None = None, *, since: int = 0) -> Verification:
        """Reads the whole file and returns a report of every corrupt range. `verify` raises an error instead.

        since: number of a commit. Items that this commit or an earlier one wrote are left out.
        """
        found = self._database.check(threads, since)
        corrupt = tuple(CorruptRange(*span) for span in found["corrupt"])
        return Verification(corrupt, found["items"], found["good_items"], found["torn"])

    def verify(self, *, since: int = 0) -> None:
        """Reads the file like `check`, and raises CorruptFileError with the first corrupt range, if there is one."""
        found = self.check(since=since)
        if found.corrupt:
            first, more = found.corrupt[0], len(found.corrupt) - 1
            lost = found.good_items != found.items
            raise CorruptFileError(
                f"is corrupt at byte {first.offset} ({first.what})" + (f" and in {more} more ranges" if more else ""),
                path=self.path,
                found=f"{found.good_items} items in good segments" if lost else None,
                expected=found.items if lost else None,
                hint="restore a copy or build it again",
            )

    def close(self) -> None:
        """Closes the file. A database of `build` then appears at its path. Arrays of the database stay valid."""
        with self._errors:
            self._database.close()

    def discard(self) -> None:
        """Closes the database, and removes the unfinished file of `build`."""
        self._database.discard()

    def __enter__(self) -> Database:
        len(self)  # raises ValueError if the database is closed
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close() if kind is None else self.discard()


def _check_labels(wanted: set[str | None], known: set[str]) -> None:
    if missing := sorted(map(str, wanted - known)):
        shown = ", ".join(sorted(known)[:_NAMED]) + (f" and {len(known) - _NAMED} more" if len(known) > _NAMED else "")
        raise ValueError(f"label {missing[0]!r} is missing (found {shown or 'no labels'}); pass existing labels")


def _fail_prefix(prefix: str | None, view: _core.DatabaseSnapshot) -> NoReturn:
    first = next((key for key in view.keys(None) if key is not None), None)
    example = "no keys" if first is None else f"keys such as {first!r}"
    raise ValueError(f"key prefix {prefix!r} is missing (found {example}); pass the beginning of an existing key")


def part(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    """Returns an object of the manifest, such as "model", or an empty dictionary."""
    found = manifest.get(name)
    return found if isinstance(found, dict) else {}


def check_same_model(database: _Readable, other: _Readable) -> None:
    """Raises MismatchError unless both have one code length and, by their manifests, one origin.

    The origin is a model with its preprocessing, or the order of hashes of another program. A database without one
    matches only another one without. Hashers differ only if both are known.
    """
    if other.bits != database.bits:
        found, expected = f"{other.bits} bits", f"{database.bits} bits"
        raise MismatchError("code length does not match", path=_path(other), found=found, expected=expected)
    stored, wanted = other.manifest, database.manifest
    for section, name, noun, hint in (
        ("hashes", "order", "hash order", "import both databases with one hash order"),
        ("hashes", "hasher", "hasher", "import hashes of one hasher"),
        ("model", "sha256", "model", "build both databases with one model"),
        ("model", "preprocess", "preprocessing", "build both databases with one model"),
    ):
        its, ours = part(stored, section).get(name), part(wanted, section).get(name)
        if its != ours and (name != "hasher" or (its and ours)):
            raise ModelMismatchError(
                f"{noun} does not match",
                path=_path(other),
                found=its or f"no {noun}",
                expected=ours or f"no {noun}",
                hint=hint,
            )


def _path(database: _Readable) -> Path | str:
    """Returns the path of a database, or the argument's name for a snapshot, which has none."""
    return getattr(database, "path", "other")
