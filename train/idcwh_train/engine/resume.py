"""The checks of a checkpoint before `--resume` continues it. checkpoint.py reads and writes the file."""

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

_RESTORE = "restore the file from a copy, or train again with --overwrite"
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
"""The parts of checkpoint.pt and their types. `*` is every item of a part. `?` marks parts that old files lack."""


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
    """Yields name and value of each part that matches a pattern of _PARTS. The value of a missing part is _ABSENT."""
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


def _check_known(prefix: str, given: Iterable[object], known: Container[str], path: Path) -> None:
    """Raises NotSupportedError for a name that this version does not know."""
    if unknown := sorted(str(name) for name in given if name not in known):
        problem = f"{prefix}{unknown[0]} of a newer version is not supported"
        raise NotSupportedError(problem, path=path, hint="resume with that version, or train again with --overwrite")


def recorded(saved: dict[str, Any], path: Path) -> Options:
    """Returns the options of a checkpoint.

    An option that was introduced after the checkpoint has its default, which keeps the earlier behaviour.

    Raises:
        CorruptFileError: an option has an invalid value.
        NotSupportedError: this version does not know an option.
    """
    _check_known("option ", saved["options"], OPTIONS, path)
    try:
        return Options(**saved["options"])
    except (TypeError, ValueError) as error:
        raise CorruptFileError(f"is corrupt: its options are invalid ({error})", path=path) from None


def identity(split: Split, dataset: LabelledImages, weights: str) -> dict[str, Any]:
    """Returns the SHA-256 checksums of protocol, dataset and initial weights that a checkpoint stores."""
    digest = None if weights in NO_FILES else hashlib.sha256(Path(weights).read_bytes()).hexdigest()
    return {"name": split.name, "sha256": split.sha256(), "dataset": dataset.sha256(), "weights": digest}


def check(run_dir: RunDir, saved: dict[str, Any], current: dict[str, Any]) -> None:
    """Raises MismatchError unless a checkpoint has the protocol, dataset and weights of `current`, see `identity`.

    With another protocol, queries could be training images. With other weights, a frozen backbone would change.
    """
    recorded_identity = saved["protocol"]
    for name in ("name", "sha256", "dataset"):
        if (expected := recorded_identity.get(name)) != current[name]:
            problem, hint = "does not match the checkpoint", "restore it, or train again with --overwrite"
            raise MismatchError(problem, path=run_dir.protocol, found=current[name], expected=expected, hint=hint)
    expected = recorded_identity.get("weights", current["weights"])  # an old checkpoint does not record them
    if expected != current["weights"]:
        problem, hint = "does not match the weights", "restore the weights file, or pass its new path with --weights"
        raise MismatchError(
            problem, path=run_dir.checkpoint, found=current["weights"], expected=expected, hint=hint
        )  # fmt: skip


def cut_log(log: Path, size: int) -> None:
    """Truncates log.jsonl to its first `size` bytes, the epochs of the checkpoint. Warns if the file is shorter."""
    content = log.read_bytes()[:size] if log.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < size:
        problem = "is incomplete" if log.exists() else "is missing"
        note(f"warning: {log}: {problem} (found {len(whole):,} bytes, expected {size:,}); training continues")
    with log.open("ab") as file:
        file.truncate(len(whole))
