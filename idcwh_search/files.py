"""Files that appear under their name only when they are whole."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from .errors import IdcwhError

StrPath = str | os.PathLike[str]


class NotWritten(IdcwhError):
    """A place that cannot be written, or a disk that is full: nothing is wrong with what was to be written."""


@contextlib.contextmanager
def replacing(path: StrPath) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path`, synced, when the block ends; an exception leaves no trace.

    NotWritten when the place cannot be written, named before any work is done.
    """
    target = Path(path)
    file = temporary_beside(target)
    temporary = Path(file.name)
    try:
        with file:  # open, and so locked, until it has its name
            yield file
            publish(file)
            temporary.replace(target)
        sync_directory(target.parent)
    except OSError as error:
        raise NotWritten(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def check_target(path: StrPath, *inputs: StrPath | None) -> None:
    """IdcwhError unless `path` can be written and is none of `inputs`; for commands, before their long work."""
    target = Path(path)
    for given in inputs:
        if given is not None and target.exists() and Path(given).exists() and target.samefile(given):
            raise IdcwhError(f"{target}: is also an input of this command; choose another name for the output")
    with temporary_beside(target) as file:
        Path(file.name).unlink()


def check_replaced(path: StrPath, begins: bytes, kind: str) -> None:
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
    """A new hidden file in the folder of `target`, open for writing and reading; its `name` is its full path.

    It is locked while it is open. Those without a lock were left by processes that were killed, and go.
    """
    if target.is_dir() or not target.name:
        raise NotWritten(f"{target}: is a directory; expected the name of a file")
    if target.exists() and not target.is_file():
        raise NotWritten(f"{target}: is a device or a pipe; expected the name of a file, which is replaced as a whole")
    try:
        _remove_abandoned(target)
        while True:
            handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
            os.close(handle)
            with contextlib.suppress(FileNotFoundError):  # somebody who looks for abandoned ones may be faster
                file = open(name, "r+b")  # noqa: PTH123, SIM115 - a file object that knows its name
                if try_lock(file.fileno()) is not False and is_at(file.fileno(), name):
                    return file
                file.close()
    except OSError as error:
        raise NotWritten(
            f"{target}: cannot be written: {error.strerror}; choose a folder that exists and is writable"
        ) from error


def _remove_abandoned(target: Path) -> None:
    ours = re.compile(re.escape(f".{target.name}.") + r"[a-z0-9_]{8}\.tmp")  # as mkstemp names them
    try:
        found = [entry.path for entry in os.scandir(target.parent) if ours.fullmatch(entry.name)]
    except OSError:  # whether one can write there is not for this to say
        return
    for path in found:
        with contextlib.suppress(OSError), open(path, "r+b") as file:  # noqa: PTH123
            if try_lock(file.fileno()) and is_at(file.fileno(), path):
                Path(path).unlink()


def is_at(handle: int, path: StrPath) -> bool:
    """Whether an open file is the one that is there now: it may have been removed, and another made."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), os.stat(path))  # noqa: PTH116
    return False


def try_lock(handle: int) -> bool | None:
    """Lock an open file for as long as it is open. False when somebody else has it, None where there are no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


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
