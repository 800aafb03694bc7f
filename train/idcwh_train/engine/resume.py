"""What `--resume` goes on from, and what has to be true before it does."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from idcwh_search._util.console import note
from idcwh_search.datasets import LabelledImages
from idcwh_search.errors import MismatchError, NotSupportedError
from idcwh_search.splits.split import Split

from ..options import NO_FILES, OPTIONS
from . import checkpoint, run_dir

_KEYS: dict[str, type] = {"options": dict, "protocol": dict, "trainer": dict, "log_bytes": int, "record": dict}


def read(path: Path) -> dict[str, Any]:
    """A checkpoint that has all it needs. IdcwhError for one of another version of this program."""
    saved = checkpoint.read(path, checkpoint.CHECKPOINT)
    lacking = [name for name, kind in _KEYS.items() if not isinstance(saved.get(name), kind)]
    if not lacking:
        lacking = [f"option {name}" for name in OPTIONS if name not in saved["options"]]
    if lacking:
        raise NotSupportedError(
            f"has no {lacking[0]}; another version of idcwh-train wrote it: go on with that one, "
            "or train anew with --overwrite",
            path=path,
        )
    return saved


def identity(split: Split, dataset: LabelledImages, weights: str) -> dict[str, Any]:
    """Returns the SHA-256 checksums that a checkpoint stores: protocol, dataset and the file of initial weights."""
    digest = None if weights in NO_FILES else hashlib.sha256(Path(weights).read_bytes()).hexdigest()
    return {"name": split.name, "sha256": split.sha256(), "dataset": dataset.sha256(), "weights": digest}


def check(out: Path, saved: dict[str, Any], own: dict[str, Any]) -> None:
    """IdcwhError unless the run was trained on the split of `own`, an identity: with another one its queries could be
    training images; and unless it began with those weights, of which a frozen backbone is still made."""
    theirs = saved["protocol"]
    if {**theirs, "weights": None} != {**own, "weights": None}:
        raise MismatchError(
            f"{out / run_dir.PROTOCOL}: not the protocol that {out / run_dir.CHECKPOINT} was trained on (their SHA-256 "
            "differ); put that one back, or train anew with --overwrite"
        )
    if theirs.get("weights", own["weights"]) != own["weights"]:  # a checkpoint of before they were recorded has none
        raise MismatchError(
            f"{out / run_dir.CHECKPOINT}: did not begin with these weights (their SHA-256 differ); put the file back, "
            "or say where it is now with --weights"
        )


def cut_log(log: Path, size: int) -> None:
    """Truncates log.jsonl to its first `size` bytes, the epochs in the checkpoint. Warns if the file is shorter."""
    content = log.read_bytes()[:size] if log.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < size:
        found = f"{len(whole):,} of {size:,} bytes" if log.exists() else "no such file"
        note(f"warning: {log}: {found} of what the checkpoint's epochs wrote; it goes on without them")
    with log.open("ab") as file:
        file.truncate(len(whole))
