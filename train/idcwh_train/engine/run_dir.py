"""The folder of a run: its lock, and the paths of its files.

DIR/protocol.json    split of the images into queries, training and database
DIR/log.jsonl        one record per epoch
DIR/checkpoint.pt    the state that --resume continues
DIR/model.pt         the model; with several code lengths model-12.pt, model-24.pt, ...
DIR/curves.png       plots of the log
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from idcwh_search._util.atomic import PNG, begins_with, check_target, is_at, try_lock
from idcwh_search.errors import AlreadyExistsError, LockedError, NotFoundError, NotWrittenError
from idcwh_search.splits import split

PROTOCOL, LOG, CHECKPOINT, CURVES = "protocol.json", "log.jsonl", "checkpoint.pt", "curves.png"
LOCK = ".lock"  # exists while a process works in the folder
TORCH = begins_with("file of idcwh-train", rb"PK\x03\x04.{26}[^\0]{0,255}/data\.pkl.*idcwh-(model|checkpoint)")
_KINDS = {PROTOCOL: split.KIND, LOG: begins_with("log of idcwh-train", rb'\{"epoch": '), CURVES: PNG}
_MODEL = re.compile(r"model(-[1-9][0-9]*)?\.pt")


def model_names(lengths: Iterable[int]) -> dict[int, str]:
    """Returns the file name of the model of each code length."""
    lengths = tuple(lengths)
    return {bits: f"model-{bits}.pt" if len(lengths) > 1 else "model.pt" for bits in lengths}


class RunDir:
    """The paths of a run's files, and the checks before a file of an earlier run is replaced."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.protocol, self.log = self.path / PROTOCOL, self.path / LOG
        self.checkpoint, self.curves = self.path / CHECKPOINT, self.path / CURVES
        self._modes: dict[Path, int] = {}  # permissions of the files that this run replaces

    def models(self, lengths: Iterable[int]) -> dict[int, Path]:
        """Returns the path of the model of each code length."""
        return {bits: self.path / name for bits, name in model_names(lengths).items()}

    def results(self) -> list[Path]:
        """Returns the existing models, checkpoint and curves, which a new run must not leave in place."""
        if not self.path.is_dir():
            return []
        names = (CHECKPOINT, CURVES)
        return sorted(path for path in self.path.iterdir() if _MODEL.fullmatch(path.name) or path.name in names)

    @contextlib.contextmanager
    def locked(self, resume: bool, overwrite: bool) -> Iterator[None]:
        """Locks the folder while a run works in it. Raises IdcwhError if the run must not write there."""
        check_folder(self.path)
        with alone(self.path, "idcwh-train"):
            earlier = self.results()
            for path in (*earlier, self.log, self.protocol):
                if path.is_dir():
                    problem = "already exists as a folder"
                    raise AlreadyExistsError(problem, path=path, hint="move it, or choose another --out")
            if earlier and not (overwrite or resume):
                hint = "pass --resume to continue that run, or --overwrite to replace it"
                raise AlreadyExistsError(f"{earlier[0].name} of a run already exists", path=self.path, hint=hint)
            for path in () if resume else (*earlier, self.log, self.protocol):
                if os.path.lexists(path):
                    check_target(path, _KINDS.get(path.name, TORCH))
            yield

    def check_unused(self) -> None:
        """Raises LockedError if another process works in the folder."""
        if (self.path / LOCK).exists():
            with alone(self.path, "idcwh-train"):
                pass

    def clear(self) -> None:
        """Removes the files of an earlier run except the log, and remembers their permissions."""
        for path in (*self.results(), self.protocol):
            with contextlib.suppress(FileNotFoundError):
                self._modes[path] = path.stat().st_mode & 0o777
            path.unlink(missing_ok=True)

    def new(self, path: Path) -> Path:
        """Returns the path of a file to write, with the permissions of the file that it replaces."""
        mode = self._modes.pop(path, None)
        if mode is not None and not path.exists():
            path.touch(mode=0o600)
            path.chmod(mode)
        return path


def check_folder(out: Path) -> None:
    """Raises IdcwhError if `out` exists and is not a folder."""
    if out.is_symlink() and not out.exists():
        raise NotFoundError(f"is a link to {out.readlink()}, which is missing", path=out, hint="choose another --out")
    if out.exists() and not out.is_dir():
        raise NotWrittenError("is invalid", path=out, found="a file", expected="a folder", hint="choose another --out")


@contextlib.contextmanager
def alone(out: Path, command: str) -> Iterator[None]:
    """Locks the folder `out`. The lock of a killed process is released. Raises LockedError if it is locked.

    Creates the folder and its parents, and removes them at the end if they are empty.
    """
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    path = out / LOCK
    handle = _lock(path)
    if handle is None:
        raise LockedError(f"is locked by another {command}", path=out, hint="wait for it, or choose another --out")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)
        with contextlib.suppress(OSError):  # it is not empty
            for folder in made:
                folder.rmdir()


def _lock(path: Path) -> int | None:
    """Returns the handle of the locked file, or None if another process holds the lock."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # the process that created the folder has just removed it
            continue
        locked = try_lock(handle)
        if locked is False:
            os.close(handle)
            return None
        if is_at(handle, path):
            return handle
        os.close(handle)  # the previous holder removed the file after it was opened here
