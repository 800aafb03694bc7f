"""Files that appear under their name only when they are whole."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from .errors import IdcwhError


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path`, synced, when the block ends; an exception leaves no trace.

    IdcwhError when the place cannot be written, named before any work is done.
    """
    target = Path(path)
    file = temporary_beside(target)
    temporary = Path(file.name)
    try:
        with file:
            yield file
            publish(file)
        temporary.replace(target)
        sync_directory(target.parent)
    except OSError as error:
        raise IdcwhError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def check_target(path: str | os.PathLike[str], *inputs: str | os.PathLike[str] | None) -> None:
    """IdcwhError unless `path` can be written and is none of `inputs`; for commands, before their long work."""
    target = Path(path)
    for given in inputs:
        if given is not None and target.exists() and Path(given).exists() and target.samefile(given):
            raise IdcwhError(f"{target}: is also an input of this command; choose another name for the output")
    with temporary_beside(target) as file:
        Path(file.name).unlink()


def check_replaced(path: str | os.PathLike[str], begins: bytes, kind: str) -> None:
    """IdcwhError where `path` is there already and not of the same kind (it begins otherwise): a slip of the hand must
    not cost a picture or a model. A file that holds nothing may be replaced, too.
    """
    target = Path(path)
    if target.is_file():
        with target.open("rb") as file:
            head = file.read(len(begins))
        if head and head.lower() != begins.lower():
            raise IdcwhError(
                f"{target}: is there already and no {kind}, so it is not replaced; choose another name, or remove it"
            )


def temporary_beside(target: Path) -> BinaryIO:
    """A new hidden file in the folder of `target`, open for writing and reading; its `name` is its full path."""
    if target.is_dir() or not target.name:
        raise IdcwhError(f"{target}: is a directory; expected the name of a file")
    if target.exists() and not target.is_file():
        raise IdcwhError(f"{target}: is a device or a pipe; expected the name of a file, which is replaced as a whole")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    except OSError as error:
        raise IdcwhError(
            f"{target}: cannot be written: {error.strerror}; choose a folder that exists and is writable"
        ) from error
    os.close(handle)
    return open(name, "w+b")  # noqa: PTH123 - a file object that knows its name


def publish(file: BinaryIO) -> None:
    """What was written reaches the disk, readable for whom the umask allows (a temporary file is private)."""
    file.flush()
    os.fchmod(file.fileno(), 0o666 & ~_umask())
    os.fsync(file.fileno())


def sync_directory(folder: Path) -> None:
    """Make a rename in this folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    """The process's umask; there is no way to read it but to set it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
