"""What `--resume` goes on from, and what has to be true before it does."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from idcwh_search.cli.common import note
from idcwh_search.datasets import LabelledImages
from idcwh_search.errors import IdcwhError
from idcwh_search.splits import Split

from . import checkpoint, folder
from .recipes import Options

_KEYS: dict[str, type] = {"options": dict, "protocol": dict, "trainer": dict, "log_bytes": int, "record": dict}


def read(path: Path) -> dict[str, Any]:
    """A checkpoint that has all it needs. IdcwhError for one of another version of this program."""
    saved = checkpoint.read(path, checkpoint.CHECKPOINT)
    lacking = [name for name, kind in _KEYS.items() if not isinstance(saved.get(name), kind)]
    if not lacking:
        lacking = [f"option {field.name}" for field in fields(Options) if field.name not in saved["options"]]
    if lacking:
        raise IdcwhError(
            f"{path}: has no {lacking[0]}; another version of idcwh-train wrote it: go on with that one, "
            "or train anew with --overwrite"
        )
    return saved


def identity(split: Split, dataset: LabelledImages) -> dict[str, Any]:
    """What a checkpoint knows its protocol by: plain Python."""
    return {"name": split.name, "sha256": split.sha256(), "dataset": dataset.sha256()}


def check_protocol(out: Path, saved: dict[str, Any], split: Split, dataset: LabelledImages) -> None:
    """IdcwhError unless the run was trained on this split: with another one its queries could be training images."""
    if saved["protocol"] != identity(split, dataset):
        raise IdcwhError(
            f"{out / folder.PROTOCOL}: not the protocol that {out / folder.CHECKPOINT} was trained on (their SHA-256 "
            "differ); put that one back, or train anew with --overwrite"
        )


def cut_log(log: Path, size: int) -> None:
    """Leave in log.jsonl what the checkpoint knows, its first `size` bytes: later epochs are run again. What of it is
    no longer there is said, and left out: training does not need it.
    """
    content = log.read_bytes()[:size] if log.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < size:
        found = f"{len(whole):,} of {size:,} bytes" if log.exists() else "no such file"
        note(f"warning: {log}: {found} of what the checkpoint's epochs wrote; it goes on without them")
    with log.open("ab") as file:
        file.truncate(len(whole))
