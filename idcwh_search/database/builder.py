"""DatabaseBuilder: a database that appears under its name when it is whole; and what making one asks of arguments."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from .. import _core
from ..codes import check_bits
from ..errors import AlreadyExistsError, NotWrittenError
from .items import Adding, NewItems


class DatabaseBuilder(Adding):
    """A database that is being made: `add`, then `close` to let it appear under its name. Leaving a `with` block by an
    exception leaves nothing behind; nothing is on disk for good before `close`."""

    def __init__(self, path: Path, bits: int, model: dict[str, Any] | None, *, replace: bool) -> None:
        """Use Database.build."""
        self.path, self._bits = path, check_bits(bits)
        with making(path):
            self._builder: _core.DatabaseBuilder | None = _core.DatabaseBuilder(
                path_bytes(path), self._bits, json_bytes(model), replace
            )

    def __reduce__(self) -> Any:
        raise TypeError(f"{self.path}: a database that is being built cannot be copied or pickled; close it first")

    @property
    def bits(self) -> int:
        """Code length."""
        return self._bits

    def __len__(self) -> int:
        return len(self._open())

    def _open(self) -> _core.DatabaseBuilder:
        if self._builder is None:
            raise ValueError(f"{self.path}: the database is closed or discarded; begin another with Database.build")
        return self._builder

    def _add(self, items: NewItems) -> np.ndarray:
        with making(self.path):
            return self._open().add(*items)

    def close(self) -> None:
        """Let the database appear at its path, on disk for good."""
        if self._builder is None:
            return
        builder, self._builder = self._builder, None
        with making(self.path):
            builder.publish()

    def discard(self) -> None:
        """Give up: nothing is left behind."""
        self._builder = None

    def __enter__(self) -> DatabaseBuilder:
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


class making:
    """Context that turns an OSError while a file is made into an error of the toolkit about this path."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, FileExistsError):
            raise AlreadyExistsError(path=self._path, hint="choose another name or ask to replace it") from error
        if isinstance(error, IsADirectoryError):
            raise NotWrittenError(path=self._path, found="a folder", expected="a file") from error
        if isinstance(error, OSError):
            hint = "choose a folder that exists, is writable and has room"
            raise NotWrittenError(f"cannot be written: {error.strerror}", path=self._path, hint=hint) from error


def path_bytes(path: str | os.PathLike[str]) -> bytes:
    """Returns a path as the system takes it. Raises ValueError for an empty one or one with a null byte."""
    encoded = os.fsencode(path)
    if b"\0" in encoded or not encoded:
        raise ValueError(f"path must be the name of a file, not {os.fspath(path)!r}")
    return encoded


def json_bytes(manifest: dict[str, Any] | None) -> bytes:
    """Returns a manifest as the file stores it. Raises TypeError unless it is a dictionary or None."""
    if not isinstance(manifest, dict | None):
        raise TypeError(f"model must be a dictionary, not {type(manifest).__name__}")
    return json.dumps(manifest or {}, ensure_ascii=False, allow_nan=False).encode(errors="surrogateescape")
