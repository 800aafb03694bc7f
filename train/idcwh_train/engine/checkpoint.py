"""Reading and atomic writing of model.pt and checkpoint.pt, which hold tensors and plain Python only.

docs/model-files.md lists the keys of model.pt. `CheckpointWriter` writes checkpoint.pt, which resume.py checks.
"""

from __future__ import annotations

import io
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from idcwh_search._util.atomic import replacing
from idcwh_search._util.wording import counted
from idcwh_search.errors import CorruptFileError, IdcwhError, NotSupportedError
from idcwh_search.images.preprocess import Preprocess

from ..models import backbones, heads, weights
from ..models.hash_model import HashModel
from .run_dir import TORCH, RunDir

if TYPE_CHECKING:
    from ..options import Options
    from .trainer import Trainer

MODEL, CHECKPOINT, VERSION = "idcwh-model", "idcwh-checkpoint", 1
SECONDS_BETWEEN_CHECKPOINTS = 30.0
_MODEL_KEYS = {
    "bits": int, "classes": list, "backbone": dict, "method": dict, "preprocess": dict, "normalize": dict,
    "state": dict, "sample": dict, "training": dict,
}  # fmt: skip

Content = dict[str, Any]


def save_model(path: str | os.PathLike[str], model: HashModel, content: Content) -> None:
    """Writes model.pt. `content` has every required key but `format`, `version`, `bits` and `state`.

    The same model gives the same bytes, so the SHA-256 of the file identifies it.
    """
    state = {key: value.detach().cpu().contiguous() for key, value in model.state_dict().items()}
    head = heads.config(model.hash)
    whole = {"format": MODEL, "version": VERSION, "bits": model.bits, "head": head, **content, "state": state}
    if problem := _problem(whole):
        raise ValueError(f"model.pt: {problem}")
    write(Path(path), whole)


def load_model(path: str | os.PathLike[str]) -> tuple[HashModel, Content]:
    """Returns the model in eval mode on the CPU, and the rest of the file (without "state").

    Raises IdcwhError for a file that is missing, corrupt, of another format or of a later version.
    """
    content = read_model(path)
    state, backbone, normalize = content.pop("state"), content["backbone"], content["normalize"]
    try:
        network, features, bits = backbones.build(backbone), int(backbone["features"]), content["bits"]
        head = heads.build(content.get("head", {"kind": "linear"}), features, bits)
        model = HashModel(network, features, bits, normalize["mean"], normalize["std"], head=head)
        _load_state(model, state)
        Preprocess.from_dict(content["preprocess"])
    except IdcwhError as error:
        raise type(error)(str(error), path=path) from None
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        cause = " ".join(str(error).split())[:200]
        raise CorruptFileError(
            f"is corrupt: its parts do not match ({type(error).__name__}: {cause})", path=path
        ) from None
    return model.eval(), content


def read_model(path: str | os.PathLike[str]) -> Content:
    """Returns the content of a model.pt with every required key, without building the network."""
    content = read(Path(path), MODEL)
    if problem := _problem(content):
        raise CorruptFileError(f"is corrupt: {problem}", path=path)
    return content


def _load_state(model: nn.Module, state: dict[str, torch.Tensor]) -> None:
    expected = model.state_dict()
    if missing := sorted(set(expected) ^ set(state)):
        raise ValueError(f"{counted(len(missing), 'tensor')} of another network, {missing[0]} first")
    model.load_state_dict(backbones.versioned(state, expected))


def _problem(content: Content) -> str | None:
    """Returns the reason why a dictionary is not a model.pt, or None."""
    for key, kind in _MODEL_KEYS.items():
        if not isinstance(content.get(key), kind):
            return f"{key}: expected {kind.__name__}, found {type(content.get(key)).__name__}"
    bits, classes, centers = content["bits"], content["classes"], content.get("centers")
    if bits < 1:
        return f"bits: expected at least 1, not {bits}"
    if content.get("head", {"kind": "linear"}) == {"kind": "linear"}:
        hash_layer = content["state"].get("hash.weight")
        if not isinstance(hash_layer, torch.Tensor) or hash_layer.dim() < 1 or hash_layer.shape[0] != bits:
            found = f"{hash_layer.shape[0]}" if isinstance(hash_layer, torch.Tensor) and hash_layer.dim() else "none"
            return f"hash layer: expected {bits} bits, found {found}"
    if centers is not None and not isinstance(centers, torch.Tensor):
        return f"centers: expected a tensor, found {type(centers).__name__}"
    if centers is not None and tuple(centers.shape) != (len(classes), bits):
        return f"centers: expected [{len(classes)}, {bits}], found {list(centers.shape)}"
    for key in ("images", "labels"):
        kept = content["sample"].get(key)
        if kept is not None and (not isinstance(kept, torch.Tensor) or not kept.dim()):
            return f"sample: expected a tensor of {key}, found {type(kept).__name__}"
    return None


def read(path: Path, format: str) -> Content:
    """Returns the content of a file of idcwh-train with this format. Runs no code from the file."""
    content = weights.read(path, f"a {format.removeprefix('idcwh-')}.pt of idcwh-train")
    if not isinstance(content, dict) or content.get("format") != format:
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise CorruptFileError("has another format", path=path, found=found or "no format", expected=format)
    if content.get("version") != VERSION:
        raise NotSupportedError("has another version", path=path, found=content.get("version"), expected=VERSION)
    return content


def _canonical(value: Any) -> Any:
    """Returns the content such that equal contents give equal bytes.

    pickle writes a reference for a string that is the same object as an earlier one, but not for an equal string.
    """
    if isinstance(value, dict):
        return {_canonical(key): _canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    return sys.intern(value) if type(value) is str else value


def write(path: Path, content: Content) -> None:
    """Writes a file atomically, so that another process reads either the old content or the new one."""
    buffer = io.BytesIO()  # unlike a file it has no name, which torch.save would write into the archive
    torch.save(_canonical(content), buffer)
    with replacing(path, TORCH) as file:
        file.write(buffer.getbuffer())


class CheckpointWriter:
    """The writer of a run's checkpoint.pt, which does not write diverged weights.

    status: the checkpoint's position in words, for a run that fails.
    """

    def __init__(self, run_dir: RunDir, options: Options, identity: dict[str, Any]) -> None:
        self.run_dir, self.constant = run_dir, {"options": options.to_dict(), "protocol": identity}
        self.status = "there is no checkpoint"
        self._written_at = time.monotonic()

    def due(self) -> bool:
        """Returns True if SECONDS_BETWEEN_CHECKPOINTS have passed since the last checkpoint."""
        return time.monotonic() - self._written_at > SECONDS_BETWEEN_CHECKPOINTS

    def write(self, trainer: Trainer, **state: Any) -> None:
        """Writes the state of the trainer and of the session. Raises DivergedError for diverged weights."""
        trainer.check_weights()
        kind = {"format": CHECKPOINT, "version": VERSION}
        content = {**kind, **self.constant, "trainer": trainer.state(), **state}
        write(self.run_dir.new(self.run_dir.checkpoint), content)
        self._written_at = time.monotonic()
        self.describe(trainer)

    def describe(self, trainer: Trainer) -> None:
        """Sets `status` to the position of the trainer, after a checkpoint was written or read."""
        position = trainer.position
        done = f"{counted(position.epoch, 'epoch')} and {counted(position.step, 'step')}"
        self.status = f"{self.run_dir.checkpoint.name} has the last valid state, after {done}"
