"""Conversion of a database's arguments into the engine's form, and errors for a file that cannot be created."""

from __future__ import annotations

import json
import os
from types import TracebackType
from typing import Any

from ..errors import AlreadyExistsError, NotWrittenError


class creating_file:
    """Context manager that converts an OSError during the creation of a file into an IdcwhError with its path."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, FileExistsError):
            raise AlreadyExistsError(path=self._path, hint="choose another name or pass replace=True") from error
        if isinstance(error, IsADirectoryError):
            raise NotWrittenError(path=self._path, found="a folder", expected="a file") from error
        if isinstance(error, OSError):
            hint = "choose a folder that exists, is writable and has free space"
            raise NotWrittenError(f"cannot be written: {error.strerror}", path=self._path, hint=hint) from error


def path_bytes(path: str | os.PathLike[str]) -> bytes:
    """Returns a path as bytes. Raises ValueError for an empty path or one with a null byte."""
    encoded = os.fsencode(path)
    if b"\0" in encoded or not encoded:
        raise ValueError(f"path must be the name of a file, not {os.fspath(path)!r}")
    return encoded


def json_bytes(manifest: dict[str, Any] | None) -> bytes:
    """Returns a manifest as JSON bytes. Raises TypeError unless it is a dictionary or None."""
    if not isinstance(manifest, dict | None):
        raise TypeError(f"model must be a dictionary, not {type(manifest).__name__}")
    return json.dumps(manifest or {}, ensure_ascii=False, allow_nan=False).encode(errors="surrogateescape")
