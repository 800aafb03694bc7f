"""The folder of a run: who may write there, and which of its files are the run's.

DIR/protocol.json    which images are queries, training and database
DIR/log.jsonl        a line an epoch
DIR/checkpoint.pt    what --resume goes on from
DIR/model.pt         the model; with several code lengths model-12.pt, model-24.pt, ...
DIR/curves.png       the log as a picture
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
TORCH = begins_with("file of idcwh-train", rb"PK\x03\x04.{26}[^\0]{0,255}/data\.pkl.*idcwh-(model|checkpoint)")
_KINDS = {PROTOCOL: split.KIND, LOG: begins_with("log of idcwh-train", rb'\{"epoch": '), CURVES: PNG}
_MODEL = re.compile(r"model(-[1-9][0-9]*)?\.pt")


def model_names(lengths: Iterable[int]) -> dict[int, str]:
    """Code length -> name of the model's file."""
    lengths = tuple(lengths)
    return {bits: f"model-{bits}.pt" if len(lengths) > 1 else "model.pt" for bits in lengths}


def results(out: Path) -> list[Path]:
    """What a run in `out` has left that a new one must not be taken for: models, checkpoint, curves; by name."""
    if not out.is_dir():
        return []
    return sorted(path for path in out.iterdir() if _MODEL.fullmatch(path.name) or path.name in (CHECKPOINT, CURVES))


def check(out: Path, overwrite: bool) -> None:
    """IdcwhError when a run cannot write into `out`, or it holds the results of one that may not be overwritten."""
    check_folder(out)
    earlier = results(out)
    for path in (*earlier, out / LOG, out / PROTOCOL):
        if path.is_dir():
            raise AlreadyExistsError(
                "is a folder where a file of the run belongs; move it, or choose another --out", path=path
            )
    if earlier and not overwrite:
        raise AlreadyExistsError(
            f"holds {earlier[0].name} of an earlier run; --resume goes on, --overwrite replaces it", path=out
        )


def check_kinds(out: Path) -> None:
    """Raises IdcwhError where a file that a new run in `out` replaces is not one of a run."""
    for path in (*results(out), out / LOG, out / PROTOCOL):
        if os.path.lexists(path):
            check_target(path, _KINDS.get(path.name, TORCH))


def check_folder(out: Path) -> None:
    """IdcwhError when `out` is there, and no folder."""
    if out.is_symlink() and not out.exists():
        raise NotFoundError(f"is a link to {out.readlink()}, which is not there; --out names a folder", path=out)
    if out.exists() and not out.is_dir():
        raise NotWrittenError("is a file; --out names a folder", path=out)


@contextlib.contextmanager
def alone(out: Path, command: str) -> Iterator[None]:
    """Hold the folder `out`; IdcwhError when another process does. A process that is killed lets go. Makes the folder,
    and those above it, and removes them at the end if nothing was written."""
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    path = out / ".lock"
    handle = _lock(path)
    if handle is None:
        raise LockedError(f"another {command} works there; wait for it, or choose another --out", path=out)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)
        with contextlib.suppress(OSError):  # there is something in it
            for folder in made:
                folder.rmdir()


def _lock(path: Path) -> int | None:
    """An open file with the lock, or None when somebody else has it."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # whoever had made the folder has just removed it
            continue
        locked = try_lock(handle)
        if locked is False:
            os.close(handle)
            return None
        if is_at(handle, path):
            return handle
        os.close(handle)  # whoever had it has removed the file between our opening and locking it
