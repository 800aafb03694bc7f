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

from idcwh_search.errors import IdcwhError
from idcwh_search.files import is_at, try_lock

PROTOCOL, LOG, CHECKPOINT, CURVES = "protocol.json", "log.jsonl", "checkpoint.pt", "curves.png"
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
    """IdcwhError when `out` is no folder or, unless they may be overwritten, holds the results of a run."""
    if out.exists() and not out.is_dir():
        raise IdcwhError(f"{out}: is a file; --out names a folder")
    if not overwrite and (earlier := results(out)):
        raise IdcwhError(f"{out}: holds {earlier[0].name} of an earlier run; --resume goes on, --overwrite replaces it")


@contextlib.contextmanager
def alone(out: Path, command: str) -> Iterator[None]:
    """Hold the folder `out`; IdcwhError when another process does. A process that is killed lets go. Makes the folder,
    and removes it at the end if nothing was written into it."""
    made = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    path = out / ".lock"
    handle = _lock(path)
    if handle is None:
        raise IdcwhError(f"{out}: another {command} works there; wait for it, or choose another --out")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)
        if made:
            with contextlib.suppress(OSError):
                out.rmdir()


def _lock(path: Path) -> int | None:
    """An open file with the lock, or None when somebody else has it."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        locked = try_lock(handle)
        if locked is False:
            os.close(handle)
            return None
        if is_at(handle, path):
            return handle
        os.close(handle)  # whoever had it has removed the file between our opening and locking it
