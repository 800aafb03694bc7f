"""A private copy of codes.bin in memory. Programs that truncate or overwrite the file cannot affect it.

A mapped file shows later changes of its bytes, and a truncated one has lost them. The service therefore maps a copy,
which receives the changes of the file only when they are complete.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from ..database.database import Database
from ..errors import CorruptFileError, IdcwhError, NotSupportedError

_HEADER = 4096  # the header page, whose marks are the only bytes that a writer overwrites (docs/codes-bin.md)
_IDENTITY = 64  # its beginning, with the id of the file
_TAIL = 65536


class DatabaseCopy:
    """A database in memory with the contents of a file. `database` reads it, and `close` frees it.

    Raises the errors of Database.open, with the path of the file, and CorruptFileError for a file with a corrupt range.
    """

    def __init__(self, path: Path, file: int) -> None:
        if not hasattr(os, "memfd_create"):
            raise NotSupportedError("cannot be served on this system", path=path, expected="Linux")
        self._path = path
        self._copy = os.memfd_create("idcwh-serve", os.MFD_CLOEXEC)
        self._size = self._verified = 0
        try:
            self._append(file)
            with self._named():
                self.database = Database.open(f"/proc/self/fd/{self._copy}")
                self._verify()
        except BaseException:
            os.close(self._copy)
            raise

    def extend(self, file: int) -> bool:
        """Appends the later changes of the same file and returns True.

        Returns False without a change if the file is another one, or earlier bytes of it have changed.
        """
        begin = max(_HEADER, self._size - _TAIL)
        for offset, size in ((0, _IDENTITY), (begin, self._size - begin)):
            if os.pread(file, size, offset) != os.pread(self._copy, size, offset):
                return False
        self._append(file)
        with self._named():
            self.database.refresh()
            self._verify()
        return True

    def close(self) -> None:
        """Frees the copy when the last snapshot of it is gone."""
        self.database.close()
        os.close(self._copy)

    def _verify(self) -> None:
        """Verifies the commits after the last one that was verified, which nothing has changed in this copy."""
        commit = self.database.info()["commit"]
        self.database.verify(since=self._verified)
        self._verified = commit

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Gives errors the path of the file instead of that of its copy."""
        try:
            yield
        except IdcwhError as error:
            raise type(error)(
                error.problem, path=self._path, found=error.found, expected=error.expected, hint=error.hint
            ) from error

    def _append(self, file: int) -> None:
        """Copies the bytes after those of the last call, and then the marks.

        The marks are read first, so that a commit during the copy is not marked before all of it is copied.
        """
        marks = os.pread(file, _HEADER, 0)
        end = os.fstat(file).st_size
        os.lseek(self._copy, self._size, os.SEEK_SET)
        while self._size < end:
            sent = os.sendfile(self._copy, file, self._size, end - self._size)
            if sent == 0:
                raise CorruptFileError("was truncated while it was read", path=self._path)
            self._size += sent
        os.pwrite(self._copy, marks, 0)
