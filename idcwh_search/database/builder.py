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
from .items import Adding, columns


class DatabaseBuilder(Adding):
    """A database that is being made: `add`, then `close` to let it appear under its name. Leaving a `with` block by an
    exception leaves nothing behind; nothing is on disk for good before `close`."""

    def __init__(self, path: Path, bits: int, model: dict[str, Any] | None, *, replace: bool) -> None:
        """Use Database.build."""
        self.path = path
        self.bits = check_bits(bits)
        with making(path):
            self._builder: _core.DatabaseBuilder | None = _core.DatabaseBuilder(
                path_bytes(path), self.bits, json_bytes(model), replace
            )

    def __reduce__(self) -> Any:
        raise TypeError(f"{self.path}: a database that is being built cannot be copied or pickled; close it first")

    def __len__(self) -> int:
        return len(self._open())

    def _open(self) -> _core.DatabaseBuilder:
        if self._builder is None:
            raise ValueError(f"{self.path}: the database is closed or discarded; begin another with Database.build")
        return self._builder

    def _add(self, *given: Any) -> np.ndarray:
        with making(self.path):
            return self._open().add(*columns(self.bits, *given))

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
    """What the system refuses while a file is made becomes one line that names the place and what to do."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, FileExistsError):
            raise AlreadyExistsError(
                "already exists; choose another name or ask to replace it", path=self._path
            ) from error
        if isinstance(error, IsADirectoryError):
            raise NotWrittenError("is a directory; expected the name of a file", path=self._path) from error
        if isinstance(error, OSError):
            raise NotWrittenError(
                f"cannot be written: {error.strerror}; choose a folder that exists, is writable and has room",
                path=self._path,
            ) from error


def path_bytes(path: str | os.PathLike[str]) -> bytes:
    """A path as the system takes it; ValueError for what is none."""
    encoded = os.fsencode(path)
    if b"\0" in encoded or not encoded:
        raise ValueError(f"path {os.fspath(path)!r}: expected the name of a file")
    return encoded


def json_bytes(manifest: dict[str, Any] | None) -> bytes:
    """A manifest as the file keeps it; TypeError for what is no dictionary."""
    if not isinstance(manifest, dict | None):
        raise TypeError(f"the description of a model is a dictionary, not {type(manifest).__name__}")
    return json.dumps(manifest or {}, ensure_ascii=False, allow_nan=False).encode(errors="surrogateescape")
