"""Files that appear under their name only when they are whole, and replace nothing but an older one of their kind."""

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
    """A kind of file: its name in messages, and whether an open file is one."""

    name: str
    fits: Callable[[BinaryIO], bool]


def begins_with(name: str, pattern: bytes) -> Kind:
    """Returns the kind of files whose first 4096 bytes begin with a regular expression."""
    expression = re.compile(pattern, re.DOTALL)
    return Kind(name, lambda file: expression.match(file.read(4096)) is not None)


CODES_BIN = begins_with("codes.bin database", rb"\x89IDCWH\r\n")  # docs/codes-bin.md
NPY = begins_with(".npy array", rb"\x93NUMPY")
NPZ = begins_with(".npz archive of arrays", rb"PK\x03\x04.{26}[^/\0]{1,200}\.npy")
PNG = begins_with("PNG image", rb"\x89PNG\r\n\x1a\n")
# Files that nothing tells from others, such as raw codes: only an empty file is replaced.
UNRECOGNIZABLE = Kind("file that can be recognized as codes", lambda file: False)
# Names that only this toolkit gives, in a folder of its own: there is nothing else to replace.
OWN_NAME = Kind("file of a run", lambda file: True)


@contextlib.contextmanager
def replacing(path: StrPath, kind: Kind) -> Iterator[BinaryIO]:
    """Opens a file that takes the place of `path`, synced, when the block ends; an exception leaves no trace.

    A link is followed, and the file behind it replaced. A file that is replaced keeps its permissions.

    Raises:
        IdcwhError: `path` exists and is not of this kind, and not empty; before any work is done, and again after it.
        NotWrittenError: the place cannot be written, named before any work is done.
    """
    target = _checked(path, kind)
    try:
        with _temporary_beside(target) as file:  # open, and so locked, until it has its name
            try:
                yield file
                file.flush()
                move_into_place(file.name, target, kind, file)
            finally:
                Path(file.name).unlink(missing_ok=True)
    except OSError as error:
        raise NotWrittenError(f"cannot be written: {error.strerror or error}", path=target) from error


def check_target(path: StrPath, kind: Kind, *inputs: StrPath | None) -> None:
    """Raises IdcwhError unless `replacing(path, kind)` would succeed and `path` is none of `inputs`; for commands,
    before their long work."""
    target = _checked(path, kind, *inputs)
    with _temporary_beside(target) as file:
        Path(file.name).unlink()


def move_into_place(source: StrPath, path: StrPath, kind: Kind, file: BinaryIO | None = None) -> None:
    """Gives the file at `source`, which may be open as `file`, the name `path`, durably; raises as `replacing` does."""
    target = _checked(path, kind)
    with contextlib.nullcontext(file) if file else open(source, "rb") as opened:  # noqa: PTH123
        with contextlib.suppress(FileNotFoundError):
            os.fchmod(opened.fileno(), target.stat().st_mode & 0o777)
        os.fsync(opened.fileno())
    Path(source).replace(target)
    _sync_directory(target.parent)


@contextlib.contextmanager
def locked(path: StrPath) -> Iterator[None]:
    """Holds the lock of the database at `path`, which its writer holds as well; there need not be one.

    Raises LockedError if another process has the lock.
    """
    target = resolved(path)
    with contextlib.ExitStack() as stack:
        while target.is_file():
            try:
                file = stack.enter_context(target.open("rb"))
            except FileNotFoundError:  # removed meanwhile
                continue
            except OSError as error:
                raise _not_written(Path(path), error) from error
            if try_lock(file.fileno()) is False:
                raise LockedError(path=path, hint="try again when it is closed")
            if is_at(file.fileno(), target):
                break
            stack.pop_all().close()  # it was replaced between opening and locking
        yield


def beside(path: StrPath, suffix: str) -> Path:
    """Returns `path`, links followed, with `suffix` behind its name, which is cut where that would be too long."""
    target = resolved(path)
    return target.with_name(_cut(target, len(suffix)) + suffix)


def resolved(path: StrPath) -> Path:
    """Returns the path of what a write to `path` replaces; NotWrittenError for a link that leads nowhere."""
    target = Path(path)
    if not os.path.islink(target):  # noqa: PTH114 - which raises nothing
        return target
    try:
        return target.resolve(strict=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop, before Python 3.13
        raise NotWrittenError(
            "is a link that leads nowhere",
            path=target,
            found=target.readlink(),
            hint="remove it or choose another name",
        ) from error


def _checked(path: StrPath, kind: Kind, *inputs: StrPath | None) -> Path:
    """Returns what `path` leads to, which may be replaced by a file of this kind."""
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
            raise NotWrittenError(path=path, found="a device or a pipe", expected="the name of a regular file")
        with target.open("rb") as file:
            if target.stat().st_size and not kind.fits(file):
                problem, hint = f"already exists and is no {kind.name}", "remove it or choose another name"
                raise AlreadyExistsError(problem, path=path, hint=hint)
    except OSError as error:
        raise _not_written(Path(path), error) from error
    return target


def _not_written(target: Path, error: OSError) -> NotWrittenError:
    hint = "choose a folder that exists and is writable"
    return NotWrittenError(f"cannot be written: {error.strerror}", path=target, hint=hint)


def _cut(target: Path, more: int) -> str:
    """Returns the name of `target` or its beginning, such that `more` bytes fit behind it."""
    longest = 255
    with contextlib.suppress(OSError, ValueError):
        longest = os.pathconf(target.parent, "PC_NAME_MAX")
    name = target.name
    while len(os.fsencode(name)) + more > longest and name:
        name = name[:-1]
    return name


_RANDOM = ".xxxxxxxx.tmp"  # behind a dot and the name


def _temporary_beside(target: Path) -> BinaryIO:
    """Returns a new hidden file in the folder of `target`, open for writing and reading; its `name` is its full path.

    It is locked while it is open. Those without a lock were left by processes that were killed, and go. Until the file
    has its name it is private where what it replaces may be; else it has the permissions that the umask leaves.
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
            # Before it was locked, another process may have removed it as an abandoned one.
            if try_lock(file.fileno()) is not False and is_at(file.fileno(), name):
                return file
            file.close()
    except OSError as error:
        raise _not_written(target, error) from error


def _remove_abandoned(folder: Path, prefix: str) -> None:
    ours = re.compile(re.escape(prefix) + r"[a-z0-9_]{8}\.tmp")
    try:
        found = [entry.path for entry in os.scandir(folder) if ours.fullmatch(entry.name)]
    except OSError:  # whether one can write there is not for this to say
        return
    for path in found:
        with contextlib.suppress(OSError), open(path, "r+b") as file:  # noqa: PTH123
            if try_lock(file.fileno()) and is_at(file.fileno(), path):
                Path(path).unlink()


def cache_folder(name: str) -> Path | None:
    """Returns a folder in the user's cache folder; None for a user who has none: no HOME, and no entry in passwd."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "idcwh" / name
    except RuntimeError:
        return None


def is_at(handle: int, path: StrPath) -> bool:
    """Returns whether an open file is still the one at `path`, which may have been removed or replaced."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), os.stat(path))  # noqa: PTH116
    return False


def try_lock(handle: int) -> bool | None:
    """Locks an open file until it is closed. Returns False if another process has the lock, None without locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _sync_directory(folder: Path) -> None:
    """Makes a rename in this folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
