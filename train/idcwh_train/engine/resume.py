"""The checks of a checkpoint before `--resume` continues it. checkpoint.py writes and reads the file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from idcwh_search._util.console import note
from idcwh_search.datasets import LabelledImages
from idcwh_search.errors import CorruptFileError, MismatchError, NotSupportedError
from idcwh_search.splits.split import Split

from ..options import NO_FILES, Options
from . import checkpoint
from .run_dir import RunDir

_KEYS: dict[str, type] = {"options": dict, "protocol": dict, "trainer": dict, "log_bytes": int, "record": dict}


def read(path: Path) -> dict[str, Any]:
    """Returns a checkpoint. Raises NotSupportedError for one of another version of this program."""
    saved = checkpoint.read(path, checkpoint.CHECKPOINT)
    missing = [name for name, kind in _KEYS.items() if not isinstance(saved.get(name), kind)]
    if missing:
        problem = f"has no {missing[0]}; another version of idcwh-train wrote it"
        raise NotSupportedError(problem, path=path, hint="continue with that version, or train again with --overwrite")
    return saved


def recorded(saved: dict[str, Any], path: Path) -> Options:
    """Returns the options of a checkpoint. Raises CorruptFileError for invalid ones.

    An option that is younger than the checkpoint has its default, which is what training did without it.
    """
    try:
        return Options(**saved["options"])
    except (TypeError, ValueError) as error:
        raise CorruptFileError(f"has invalid options ({error})", path=path) from None


def identity(split: Split, dataset: LabelledImages, weights: str) -> dict[str, Any]:
    """Returns the SHA-256 checksums that a checkpoint stores: protocol, dataset and the file of initial weights."""
    digest = None if weights in NO_FILES else hashlib.sha256(Path(weights).read_bytes()).hexdigest()
    return {"name": split.name, "sha256": split.sha256(), "dataset": dataset.sha256(), "weights": digest}


def check(run_dir: RunDir, saved: dict[str, Any], own: dict[str, Any]) -> None:
    """Raises MismatchError unless a checkpoint was trained on the protocol and from the weights of `own`, an identity.

    With another protocol its queries could be training images, and a frozen backbone is made of the weights again.
    """
    theirs = saved["protocol"]
    for name in ("name", "sha256", "dataset"):
        if theirs.get(name) != own[name]:
            problem, hint = "is not that of the checkpoint", "restore it, or train again with --overwrite"
            raise MismatchError(problem, path=run_dir.protocol, found=own[name], expected=theirs.get(name), hint=hint)
    if theirs.get("weights", own["weights"]) != own["weights"]:  # an old checkpoint does not record them
        problem, hint = "did not start from these weights", "restore the file, or pass its current path with --weights"
        found, expected = own["weights"], theirs["weights"]
        raise MismatchError(problem, path=run_dir.checkpoint, found=found, expected=expected, hint=hint)


def cut_log(log: Path, size: int) -> None:
    """Truncates log.jsonl to its first `size` bytes, the epochs in the checkpoint. Warns if the file is shorter."""
    content = log.read_bytes()[:size] if log.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < size:
        found = f"{len(whole):,} of {size:,} bytes" if log.exists() else "no such file"
        note(f"warning: {log}: {found} of the log that the checkpoint knows; continues without the rest")
    with log.open("ab") as file:
        file.truncate(len(whole))
