"""The checks of a checkpoint before `--resume` continues it. checkpoint.py writes and reads the file."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from types import UnionType
from typing import Any

from torch import Tensor

from idcwh_search._util.console import note
from idcwh_search.datasets import LabelledImages
from idcwh_search.errors import CorruptFileError, MismatchError, NotSupportedError
from idcwh_search.splits.split import Split

from ..options import NO_FILES, OPTIONS, Options
from . import checkpoint
from .run_dir import RunDir
from .trainer import Position

_RESTORE = "restore a copy, or train again with --overwrite"
_ABSENT = object()
_PARTS: dict[str, type | UnionType] = {
    "options": dict,
    "protocol": dict,
    "log_bytes": int,
    "record": dict,
    "failed?": dict,
    "trainer": dict,
    "trainer.position": dict,
    "trainer.position.epoch": int,
    "trainer.position.step": int,
    "trainer.position.taken?": int,
    "trainer.position.unlabelled?": int,
    "trainer.position.sums?": dict,
    "trainer.position.sums?.*": float,
    "trainer.network": dict,
    "trainer.network.*": Tensor,
    "trainer.average": dict | None,
    "trainer.average.*": Tensor,
    "trainer.averaged": int,
    "trainer.methods": list,
    "trainer.methods.*": dict,
    "trainer.methods.*.*": Tensor,
    "trainer.optimizer": dict,
    "trainer.optimizer.state": dict,
    "trainer.optimizer.state.*": dict,
    "trainer.optimizer.param_groups": list,
    "trainer.optimizer.param_groups.*": dict,
    "trainer.optimizer.param_groups.*.params": list,
    "trainer.codes": list,
    "trainer.codes.*": dict,
    "trainer.codes.*.packed": Tensor,
    "trainer.codes.*.spread": float,
    "best": dict | None,
    "best.map": float,
    "best.epoch": int,
    "best.weights": dict,
    "best.weights.*": Tensor,
    "best.methods": list,
    "best.methods.*": dict,
    "best.methods.*.*": Tensor,
}
"""The parts of checkpoint.pt and their types: `*` is every item of a part, and `?` marks what older versions lack."""


def read(path: Path) -> dict[str, Any]:
    """Returns a checkpoint whose parts are complete and of the right types.

    Raises:
        CorruptFileError: a part is missing or has another type.
        NotSupportedError: another version of this program wrote the file.
    """
    saved = checkpoint.read(path, checkpoint.CHECKPOINT)
    for pattern, kind in _PARTS.items():
        for name, value in _parts(saved, pattern.split(".")):
            if value is _ABSENT:
                raise CorruptFileError(f"is corrupt: {name} is missing", path=path, hint=_RESTORE)
            if not isinstance(value, kind):
                found, expected = type(value).__name__, getattr(kind, "__name__", str(kind))
                problem = f"is corrupt: {name} is invalid"
                raise CorruptFileError(problem, path=path, found=found, expected=expected, hint=_RESTORE)
    _check_known("trainer.position.", saved["trainer"]["position"], Position.__dataclass_fields__, path)
    return saved


def _parts(value: Any, keys: list[str], name: str = "") -> Iterator[tuple[str, Any]]:
    """Yields name and value of each part that a pattern of _PARTS stands for; the value of a missing one is _ABSENT."""
    if not keys:
        yield name, value
    elif value is not None:
        key, optional = keys[0].removesuffix("?"), keys[0].endswith("?")
        items: Iterable[tuple[Any, Any]] = [(key, value.get(key, _ABSENT))] if key != "*" else _items(value)
        for item, part in items:
            if not (optional and part is _ABSENT):
                yield from _parts(part, keys[1:], f"{name}.{item}" if name else str(item))


def _items(value: dict[Any, Any] | list[Any]) -> Iterable[tuple[Any, Any]]:
    return value.items() if isinstance(value, dict) else enumerate(value)


def _check_known(what: str, given: Iterable[object], known: Container[str], path: Path) -> None:
    if unknown := sorted(str(name) for name in given if name not in known):
        problem = f"{what}{unknown[0]} of a newer version is not supported"
        raise NotSupportedError(problem, path=path, hint="continue with that version, or train again with --overwrite")


def recorded(saved: dict[str, Any], path: Path) -> Options:
    """Returns the options of a checkpoint.

    An option that is younger than the checkpoint has its default, which is what training did without it.

    Raises:
        CorruptFileError: an option has an invalid value.
        NotSupportedError: this version does not know an option.
    """
    _check_known("option ", saved["options"], OPTIONS, path)
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
