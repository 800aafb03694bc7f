"""The served contents of codes.bin: loading, refreshing and changing.

Requests read `Store.contents`, which is replaced as a whole. One thread at a time loads the file, builds structures
beside the served contents, and then exchanges them. Only the first contents are served without structures, until these
are built. After a failure the last good contents remain.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from .._util.console import describe, note
from .._util.wording import counted
from ..database.database import Database, DatabaseSnapshot, part
from ..errors import IdcwhError, InvalidInputError, MismatchError, ModelMismatchError, NotFoundError
from ..hexadecimal import BYTES, Order
from .copies import DatabaseCopy

Result = TypeVar("Result")
Filter = tuple[tuple[str, ...] | None, tuple[str, ...] | None, tuple[int, ...] | None]
"""Labels, key prefixes and ids of `where`."""

_FILTERS = 32  # most cached filters
_FILTER_BYTES = 256 * 2**20  # most bytes of cached filters, of which the latest remains in any case
_Signature = tuple[int, int, int, int]


class Contents:
    """The items of one commit. Thread-safe.

    Attributes:
        snapshot: the items.
        generation: number of the commit.
        bits, items: code length and number of items.
    """

    def __init__(self, snapshot: DatabaseSnapshot, generation: int) -> None:
        self.snapshot, self.generation = snapshot, generation
        self.bits, self.items = snapshot.bits, len(snapshot)
        self._filters: OrderedDict[Filter, tuple[np.ndarray, int]] = OrderedDict()  # ids and bytes
        self._lock = threading.Lock()

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Description of the model and of the images."""
        return self.snapshot.manifest

    @cached_property
    def order(self) -> Order:
        """Order of the bits in the hexadecimal text of a code."""
        return self.snapshot.hash_order or BYTES

    @cached_property
    def labels(self) -> dict[str, int]:
        """Number of items of each label, sorted by label."""
        return self.snapshot.label_counts()

    def where(self, wanted: Filter) -> np.ndarray:
        """Returns the ids that match a filter, the same array for the same filter. Unknown names match no item."""
        with self._lock:
            if (known := self._filters.get(wanted)) is not None:
                self._filters.move_to_end(wanted)
                return known[0]
        labels, prefixes, ids = wanted
        found = None
        if labels is not None or prefixes is not None:
            found = self.snapshot.select(labels=labels, key_prefixes=prefixes, missing_ok=True)
        if ids is not None:
            listed = np.unique(np.array(ids, np.int64))
            found = listed if found is None else np.intersect1d(found, listed)
        assert found is not None
        size = found.nbytes + sum(map(len, (labels or ()) + (prefixes or ()))) + 8 * len(ids or ())
        with self._lock:
            found, _ = self._filters.setdefault(wanted, (found, size))
            total = sum(each for _, each in self._filters.values())
            while len(self._filters) > _FILTERS or (total > _FILTER_BYTES and len(self._filters) > 1):
                total -= self._filters.popitem(last=False)[1][1]
        return found


class Store:
    """The database that is served.

    Attributes:
        contents: the items that requests read; None while the first contents are loaded.
        problem: why the contents may be older than the file, or None.
        checked: when the contents were last known to be those of the file, by time.monotonic.
    """

    def __init__(
        self, path: Path, *, structures: bool = True, on_refresh: Callable[[str], object] | None = None
    ) -> None:
        self.path, self._structures = path, structures
        self._on_refresh = on_refresh or (lambda result: None)
        self.contents: Contents | None = None
        self.problem: str | None = None
        self.checked = time.monotonic()
        self.model: str | None = None
        """Fingerprint of the model that encodes queries. A file of another model is refused."""
        self._copy: DatabaseCopy | None = None
        self._served: _Signature | None = None
        self._failed: _Signature | None = None
        self._changing = threading.RLock()

    def load(self) -> None:
        """Loads the first contents, without structures. Raises an IdcwhError or OSError if the file is bad."""
        with self._changing:
            self._update(force=True)

    def optimize(self) -> None:
        """Builds the structures of the first contents, while these are served."""
        if not self._structures:
            return
        began = time.perf_counter()
        with self._changing:
            assert self._copy is not None
            try:
                self._copy.database.optimize(threads=1)
            except Exception as error:
                note(f"index structures: {describe(error)}; searches are scans")
                return
            self._show(self._copy)
        note(f"index structures: built in {time.perf_counter() - began:.1f} s")

    def refresh(self, force: bool = False) -> bool:
        """Loads the changes of the file and returns True if there were any. A failure sets `problem`.

        force: tries a file again that could not be loaded before.
        """
        with self._changing:
            try:
                changed = self._update(force)
            except Exception as error:  # whatever the file contains, the last good contents are served
                self._fail(describe(error))
                return False
            if changed:
                assert self.contents is not None
                self._on_refresh("changed")
                note(f"refreshed: generation {self.contents.generation}, {counted(self.contents.items, 'item')}")
            return changed

    @property
    def busy(self) -> bool:
        """True while a thread loads or changes the file, or builds structures."""
        if not self._changing.acquire(blocking=False):
            return True
        self._changing.release()
        return False

    def change(self, body: Callable[[Database, DatabaseSnapshot], Result]) -> Result:
        """Changes the file by body(database, snapshot) and loads the result. The change is durable when this returns.

        The snapshot has the contents of the file before the change. In contrast to the database it finds keys by the
        table that earlier requests have built.

        Raises the errors of the database, such as LockedError while another process writes, and IdcwhError if the file
        cannot be loaded.
        """
        with self._changing, Database.open(self.path, "r+") as database:
            self.refresh()  # until the database is closed, nothing else changes the file
            if self.problem is not None:
                raise IdcwhError(self.problem)
            assert self.contents is not None
            result = body(database, self.contents.snapshot)
        self.refresh()
        return result

    def _update(self, force: bool) -> bool:
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would block
        except FileNotFoundError as error:
            raise NotFoundError(path=self.path) from error
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise InvalidInputError(path=self.path, found="a folder, a device or a pipe", expected="a file")
            signature = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            if signature == self._failed and not force:
                return False
            changed = False
            if signature != self._served:
                self._failed = signature
                changed = self._read(file)
                self._served, self._failed = signature, None
        finally:
            os.close(file)
        problem, self.problem, self.checked = self.problem, None, time.monotonic()
        if problem is not None:
            note(f"{self.path}: is served again")
        return changed

    def _read(self, file: int) -> bool:
        """Loads the file and returns True if its contents are not those that are served."""
        if self._copy is not None:
            try:
                extended = self._copy.extend(file)
            except (IdcwhError, OSError):
                extended = False  # the whole file may be a good one nevertheless
            if extended:
                assert self.contents is not None
                if self._copy.database.info()["commit"] == self.contents.generation:
                    return False
                self._show(self._copy)
                return True
        copy = DatabaseCopy(self.path, file)
        try:
            self._check(copy.database)
            if self._structures and self.contents is not None:
                copy.database.optimize(threads=1)
            self._show(copy)
        except BaseException:
            copy.close()
            raise
        if self._copy is not None:
            self._copy.close()
        self._copy = copy
        return True

    def _check(self, database: Database) -> None:
        """Raises MismatchError for a file that cannot replace the served contents."""
        if self.contents is not None:
            if database.bits != self.contents.bits:
                found, expected = f"{database.bits} bits", f"{self.contents.bits} bits"
                raise MismatchError("code length does not match", path=self.path, found=found, expected=expected)
            if database.hash_order != self.contents.snapshot.hash_order:
                found, expected = database.hash_order or "no order", self.contents.snapshot.hash_order or "no order"
                raise ModelMismatchError("hash order does not match", path=self.path, found=found, expected=expected)
        stored = part(database.manifest, "model").get("sha256")
        if self.model is not None and stored != self.model:
            found = stored or "no model"
            raise ModelMismatchError("model does not match", path=self.path, found=found, expected=self.model)

    def _show(self, copy: DatabaseCopy) -> None:
        contents = Contents(copy.database.snapshot(), copy.database.info()["commit"])
        self.contents = contents

    def _fail(self, problem: str) -> None:
        self._on_refresh("failed")
        known, self.problem = self.problem, problem
        if problem != known:
            note(f"{problem}; the last good contents are served")
