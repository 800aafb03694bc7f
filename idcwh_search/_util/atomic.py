"""Atomic writes of files: a file appears at its path only when complete, and replaces only a file of its own kind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ..errors import AlreadyExistsError, InvalidInputError, LockedError, NotWrittenError

StrPath = str | os.PathLike[str]


class Kind(NamedTuple):
    """A kind of file: its name in messages, and a test of an open file."""

    name: str
    fits: Callable[[BinaryIO], bool]


def begins_with(name: str, pattern: bytes) -> Kind:
    """Returns the kind of files whose first bytes, at most 4096, match a regular expression."""
    expression = re.compile(pattern, re.DOTALL)
    return Kind(name, lambda file: expression.match(file.read(4096)) is not None)


CODES_BIN = begins_with("codes.bin database", rb"\x89IDCWH\r\n")  # docs/codes-bin.md
NPY = begins_with(".npy array", rb"\x93NUMPY")
NPZ = begins_with(".npz archive of arrays", rb"PK\x03\x04.{26}[^/\0]{1,200}\.npy")
PNG = begins_with("PNG image", rb"\x89PNG\r\n\x1a\n")
# Files without a signature, such as raw codes. Only an empty file is replaced.
UNRECOGNIZABLE = Kind("empty file", lambda file: False)
# File names that only this toolkit uses, in a folder of its own. Any file is replaced.
OWN_NAME = Kind("file of a run", lambda file: True)


@contextlib.contextmanager
def replacing(path: StrPath, kind: Kind) -> Iterator[BinaryIO]:
    """Opens a temporary file that replaces `path`, synced to disk, when the block ends. An exception removes it.

    A symbolic link is followed, and the file that it points to is replaced. A replaced file keeps its permissions.

    Raises:
        AlreadyExistsError: `path` exists, is not empty and is not of this kind. The check runs before and after the
            block.
        NotWrittenError: `path` cannot be written. This check, too, runs before the block.
    """
    target = _checked(path, kind)
    try:
        with _temporary_beside(target) as file:  # open, and therefore locked, until it is renamed
            try:
                yield file
                file.flush()
                move_into_place(file.name, target, kind, file)
            finally:
                Path(file.name).unlink(missing_ok=True)
    except OSError as error:
        raise NotWrittenError(f"cannot be written: {error.strerror or error}", path=target) from error


def check_target(path: StrPath, kind: Kind, *inputs: StrPath | None) -> None:
    """Raises IdcwhError unless `replacing(path, kind)` would succeed and `path` is not among `inputs`.

    Commands call it before long work.
    """
    target = _checked(path, kind, *inputs)
    with _temporary_beside(target) as file:
        Path(file.name).unlink()


def move_into_place(source: StrPath, path: StrPath, kind: Kind, file: BinaryIO | None = None) -> None:
    """Renames the file at `source` to `path`, synced to disk. Raises the errors of `replacing`.

    Args:
        source: path of the file.
        path: its new path.
        kind: the kind of file that may be replaced.
        file: the same file if it is open already.
    """
    target = _checked(path, kind)
    with contextlib.nullcontext(file) if file else open(source, "rb") as opened:  # noqa: PTH123
        with contextlib.suppress(FileNotFoundError):
            os.fchmod(opened.fileno(), target.stat().st_mode & 0o777)
        os.fsync(opened.fileno())
    Path(source).replace(target)
    _sync_directory(target.parent)


@contextlib.contextmanager
def locked(path: StrPath) -> Iterator[None]:
    """Holds the writer's lock of the database at `path` during the block. Does nothing if there is no database.

    Raises LockedError if another process holds the lock.
    """
    target = resolved(path)
    with contextlib.ExitStack() as stack:
        while target.is_file():
            try:
                file = stack.enter_context(target.open("rb"))
            except FileNotFoundError:  # removed after is_file()
                continue
            except OSError as error:
                raise _not_written(Path(path), error) from error
            if try_lock(file.fileno()) is False:
                raise LockedError(path=path, hint="try again when it is closed")
            if is_at(file.fileno(), target):
                break
            stack.pop_all().close()  # the file was replaced between opening and locking
        yield


def beside(path: StrPath, suffix: str) -> Path:
    """Returns `path` with links followed and `suffix` appended. A name that would be too long is cut first."""
    target = resolved(path)
    return target.with_name(_cut(target, len(suffix)) + suffix)


def resolved(path: StrPath) -> Path:
    """Returns the path of the file that a write to `path` replaces.

    Raises NotWrittenError for a broken link, and for a link to a pipe, such as /dev/stdout.
    """
    target = Path(path)
    if not os.path.islink(target):  # noqa: PTH114 - Path.is_symlink may raise
        return target
    try:
        return target.resolve(strict=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop, before Python 3.13
        if os.path.exists(target):  # noqa: PTH110 - Path.exists may raise
            raise _special(target) from error
        raise NotWrittenError(
            "is invalid",
            path=target,
            found=f"a broken link to {target.readlink()}",
            hint="remove it or choose another name",
        ) from error


def _checked(path: StrPath, kind: Kind, *inputs: StrPath | None) -> Path:
    """Returns the resolved `path`, after a check that a file of this kind may replace it."""
    if str(path) == "-":
        raise NotWrittenError(path=path, found="standard output", expected="the name of a file")
    target = resolved(path)
    try:
        mode = None
        with contextlib.suppress(FileNotFoundError):
            mode = target.stat().st_mode
        if not target.name or (mode is not None and stat.S_ISDIR(mode)):
            raise NotWrittenError(path=path, found="a directory", expected="the name of a file")
        for given in inputs:
            if given is not None and mode is not None and Path(given).exists() and target.samefile(given):
                hint = "choose another name for the output"
                raise InvalidInputError("is also an input of this command", path=path, hint=hint)
        if mode is None:
            return target
        if not stat.S_ISREG(mode):
            raise _special(path)
        with target.open("rb") as file:
            if target.stat().st_size and not kind.fits(file):
                hint = "remove it or choose another name"
                found = "a file with content" if kind is UNRECOGNIZABLE else "another kind of file"
                raise AlreadyExistsError(path=path, found=found, expected=kind.name, hint=hint)
    except OSError as error:
        raise _not_written(Path(path), error) from error
    return target


def _special(path: StrPath) -> NotWrittenError:
    return NotWrittenError(path=path, found="a device or a pipe", expected="the name of a regular file")


def _not_written(target: Path, error: OSError) -> NotWrittenError:
    hint = "choose a folder that exists and is writable"
    return NotWrittenError(f"cannot be written: {error.strerror}", path=target, hint=hint)


def _cut(target: Path, more: int) -> str:
    """Returns the name of `target`, cut so that `more` bytes can be appended."""
    longest = 255
    with contextlib.suppress(OSError, ValueError):
        longest = os.pathconf(target.parent, "PC_NAME_MAX")
    name = target.name
    while len(os.fsencode(name)) + more > longest and name:
        name = name[:-1]
    return name


_RANDOM = ".xxxxxxxx.tmp"  # suffix of a temporary file, whose name begins with a dot


def _temporary_beside(target: Path) -> BinaryIO:
    """Returns a new hidden file in the folder of `target`, open for reading and writing. Its `name` is its full path.

    The file is locked while it is open. Temporary files without a lock belong to killed processes and are removed.
    If `target` exists, only the owner may read the new file, because `target` may be private. Otherwise the umask
    decides.
    """
    prefix = f".{_cut(target, 1 + len(_RANDOM))}."
    try:
        _remove_abandoned(target.parent, prefix)
        mode = 0o600 if target.exists() else 0o666
        while True:
            name = target.parent / f"{prefix}{secrets.token_hex(4)}.tmp"
            try:
                file = open(name, "x+b", opener=lambda path, flags: os.open(path, flags, mode))  # noqa: SIM115
            except FileExistsError:
                continue
            # Another process may have removed the file as abandoned before it was locked.
            if try_lock(file.fileno()) is not False and is_at(file.fileno(), name):
                return file
            file.close()
    except OSError as error:
        raise _not_written(target, error) from error


def _remove_abandoned(folder: Path, prefix: str) -> None:
    ours = re.compile(re.escape(prefix) + r"[a-z0-9_]{8}\.tmp")
    try:
        found = [entry.path for entry in os.scandir(folder) if ours.fullmatch(entry.name)]
    except OSError:  # the caller reports a folder that cannot be written
        return
    for path in found:
        with contextlib.suppress(OSError), open(path, "r+b") as file:  # noqa: PTH123
            if try_lock(file.fileno()) and is_at(file.fileno(), path):
                Path(path).unlink()


def cache_folder(name: str) -> Path | None:
    """Returns a folder in the user's cache folder; None for a user without a home folder."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "idcwh" / name
    except RuntimeError:
        return None


def is_at(handle: int, path: StrPath) -> bool:
    """Returns True if an open file is still the one at `path`, False if that was removed or replaced."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), os.stat(path))  # noqa: PTH116
    return False


def try_lock(handle: int) -> bool | None:
    """Locks an open file until it is closed and returns True.

    Returns False if another process holds the lock, and None if the file system does not support locks.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _sync_directory(folder: Path) -> None:
    """Syncs a folder to disk, which makes a rename in it durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
