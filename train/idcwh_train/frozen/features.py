"""Features of a frozen backbone, computed once in float32 and cached on disk.

The name of a cache file is a checksum of everything that its content depends on: backbone, weights, preprocessing,
image bytes and runtime. A corrupt file is computed again. The exported model computes in float32 as well, so codes do
not change between training and export.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from idcwh_search._util import npz
from idcwh_search._util.atomic import OWN_NAME, cache_folder, replacing
from idcwh_search._util.console import describe, note, progress_bar
from idcwh_search._util.wording import counted
from idcwh_search.datasets import LabelledImages
from idcwh_search.errors import IdcwhError, NotWrittenError
from idcwh_search.images import tar
from idcwh_search.images.preprocess import Preprocess

from ..data.loader import Batch, ahead, read, read_one
from ..models.hash_model import Embedder
from . import ort_backbone
from .fold_batchnorm import folded

_ONNXRUNTIME = "onnxruntime"
_SECONDS_BETWEEN_PARTS = 30.0  # the most work that a killed process loses
_BATCH = {"cpu": 4, "cuda": 128}
"""Images per batch. On a CPU, the activations of four images stay in the cache (benchmarks/features.py)."""


@dataclass(frozen=True, eq=False)
class Features:
    """The features of images.

    x: float32 [m, features].
    rows: int64 [m], dataset rows of the images that could be read.
    failed: images that could not be read, key -> reason.
    """

    x: Tensor
    rows: np.ndarray
    failed: dict[str, str]


def extract(
    model: Embedder,
    dataset: LabelledImages,
    rows: np.ndarray,
    preprocess: Preprocess,
    device: torch.device,
    cache: Path | None,
) -> Features:
    """Returns the features of images `rows` from the folder `cache`. Computes and stores them if they are missing.

    Images that cannot be read are skipped and listed in `failed`.
    """
    cached = _Cache(cache / f"{_key(model, dataset, rows, preprocess, device)}.npz") if cache else None
    if cached and (complete := cached.whole()):
        note(f"features: {counted(len(complete.rows), 'image')} from {cached.file}")
        return complete
    before = cached.load() if cached else None
    if cached and before:
        note(f"features: {counted(len(before.rows), 'image')} of an interrupted run from {cached.file.parent}")
    started = time.monotonic()
    features = compute(model, dataset, rows, preprocess, device, before=before, keep=cached.keep if cached else None)
    count, seconds = len(features.x) - (len(before.x) if before else 0), time.monotonic() - started
    note(f"features: {counted(count, 'image')} in {seconds:.1f} s, {count / seconds:.0f} images/s on {device.type}")
    if cached:
        cached.finish(features)
    elif default_cache() is None:
        note("features: not cached (there is no home folder); name a folder with --cache")
    return features


class _Cache:
    """The cached features KEY.npz, and the parts KEY.N.part.npz of an interrupted computation.

    KEY is a checksum of everything that the features depend on, so reading a file checks only the checksums of the
    archive. N is the number of images before the part.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._next = 0  # images before the next part

    def whole(self) -> Features | None:
        """Returns the features of all images, or None."""
        return _read(self.file)

    def load(self) -> Features | None:
        """Returns the features of the first images from the parts, or None if there are no parts."""
        parts: list[Features] = []
        while part := _read(self._part()):
            parts.append(part)
            self._next += len(part.rows) + len(part.failed)
        if not parts:
            return None
        failed = {key: reason for part in parts for key, reason in part.failed.items()}
        return Features(torch.cat([part.x for part in parts]), np.concatenate([part.rows for part in parts]), failed)

    def keep(self, features: Features) -> None:
        """Writes the features of the images that follow the last part."""
        if _write(features, self._part()):
            self._next += len(features.rows) + len(features.failed)

    def finish(self, features: Features) -> None:
        """Writes the features of all images, and deletes the parts."""
        if _write(features, self.file):
            for part in self.file.parent.glob(f"{self.file.stem}.*.part.npz"):
                part.unlink(missing_ok=True)

    def _part(self) -> Path:
        return self.file.with_suffix(f".{self._next}.part.npz")


def _read(file: Path) -> Features | None:
    """Returns the features of a file, or None if it is missing or corrupt. Reports a corrupt file."""
    try:
        content, _ = npz.read(file, ("x", "rows", "failed"), "features")
        return Features(torch.from_numpy(content["x"]), content["rows"], json.loads(str(content["failed"])))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (IdcwhError, KeyError, ValueError) as error:
        note(f"features: {file}: is corrupt ({describe(error)}); its features are computed again")
        return None


def _write(features: Features, file: Path) -> bool:
    """Writes features. Reports a file that cannot be written, and returns False."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file, OWN_NAME) as out:
            np.savez(out, x=features.x.numpy(), rows=features.rows, failed=np.array(json.dumps(features.failed)))
        return True
    except (NotWrittenError, OSError) as error:
        note(f"features: not cached ({describe(error)}); name another folder with --cache")
        return False


def default_cache() -> Path | None:
    """Returns the default folder of features, or None if the user has no cache folder."""
    return cache_folder("features")


def compute(
    model: Embedder,
    dataset: LabelledImages,
    rows: np.ndarray,
    preprocess: Preprocess,
    device: torch.device,
    precision: str = "float32",
    before: Features | None = None,
    keep: Callable[[Features], None] | None = None,
) -> Features:
    """Returns the features of images `rows` in eval mode, without augmentation.

    On a CPU the backbone computes in float32, and many images are computed by ONNX Runtime if it is installed.

    Args:
        precision: precision of the backbone on CUDA.
        before: the features of the first rows from an earlier call, up to the end of a batch.
        keep: called with the new features at intervals, and when the computation is interrupted.
    """
    size = _BATCH[device.type]
    generator = torch.Generator().manual_seed(0)  # torch's default generator must not depend on the state of the cache
    example = torch.rand(2, 3, preprocess.crop, preprocess.crop, generator=generator).to(device)
    training = model.backbone.training
    network: Callable[[Tensor], Tensor] | None = None
    if _engine(device, len(rows)) == _ONNXRUNTIME:
        network = ort_backbone.session(model.backbone.eval(), example)
    if network is None:
        network = folded(model.backbone, example).to(memory_format=torch.channels_last)
    mean, std = model.mean.to(device), model.std.to(device)
    half = device.type == "cuda" and precision == "bfloat16"

    def forward(batch: Batch) -> tuple[Tensor, Batch]:
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=half):
            if not len(batch.rows):
                return torch.zeros(0, model.features), batch
            return network((batch.pixels.to(device).float() - mean) / std).float().cpu(), batch

    done = 0 if before is None else len(before.rows) + len(before.failed)
    plan = [rows[i : i + size] for i in range(done, len(rows), size)]
    if device.type == "cpu":  # one thread per batch, each with one core
        work = ahead(lambda some: forward(read_one(dataset, some, preprocess)), plan)
    else:
        work = map(forward, read(dataset, plan, preprocess))
    # One block for all features: small results that are allocated between the large buffers of the batches would
    # fragment the memory.
    x, kept, n = torch.empty(len(rows), model.features), np.empty(len(rows), np.int64), 0
    failed: dict[str, str] = {}
    if before is not None:
        n = len(before.rows)
        x[:n], kept[:n], failed = before.x, before.rows, dict(before.failed)
    saved = done_now = (n, len(failed))  # numbers of images that could be read and that could not
    saved_at = time.monotonic()

    def save() -> None:
        nonlocal saved, saved_at
        new = dict(itertools.islice(failed.items(), saved[1], done_now[1]))
        if keep is not None and done_now != saved:
            keep(Features(x[saved[0] : done_now[0]].clone(), kept[saved[0] : done_now[0]], new))
        saved, saved_at = done_now, time.monotonic()

    with one_thread(device), progress_bar(total=len(rows), initial=done, desc="encoding", unit="image") as bar:
        try:
            for part, batch in work:
                x[n : n + len(part)] = part
                kept[n : n + len(part)] = batch.rows.numpy()
                n += len(part)
                failed.update({dataset.keys[row]: reason for row, reason in batch.failed.items()})
                done_now = (n, len(failed))
                bar.update(len(batch.rows) + len(batch.failed))
                if time.monotonic() - saved_at > _SECONDS_BETWEEN_PARTS:
                    save()
        except BaseException:
            save()
            raise
    model.backbone.train(training)
    return Features(x[:n].clone() if n < len(x) else x, kept[:n], failed)


@contextlib.contextmanager
def one_thread(device: torch.device) -> Iterator[None]:
    """Limits torch to one thread per operator on a CPU, for work that is small or already parallel."""
    before = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def joined(a: Features, b: Features) -> Features:
    """Returns the features of `a` and `b`, which have no common rows, in the order of the rows."""
    rows = np.concatenate([a.rows, b.rows])
    order = np.argsort(rows)
    return Features(torch.cat([a.x, b.x])[torch.from_numpy(order)], rows[order], {**a.failed, **b.failed})


def _engine(device: torch.device, images: int) -> str:
    """Returns the runtime for a number of images. The rounding of the features depends on it."""
    if device.type == "cpu" and images >= ort_backbone.ENOUGH and ort_backbone.installed():
        return _ONNXRUNTIME
    return device.type


def _key(
    model: Embedder, dataset: LabelledImages, rows: np.ndarray, preprocess: Preprocess, device: torch.device
) -> str:
    head = ["features", 3, _engine(device, len(rows)), preprocess.to_dict(), rows.tolist()]
    digest = hashlib.sha256(json.dumps(head).encode())
    for tensor in (model.mean, model.std):
        digest.update(tensor.cpu().numpy().tobytes())
    for name, tensor in model.backbone.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    for row in rows:
        digest.update(_image_digest(dataset, int(row)))
    return digest.hexdigest()[:32]


def _image_digest(dataset: LabelledImages, row: int) -> bytes:
    """Returns the SHA-256 of an image as it is stored, or zeros for a file that cannot be read."""
    path = dataset.path(row)
    if path is None:
        return hashlib.sha256(np.asarray(dataset.images[row]).tobytes()).digest()
    try:
        with tar.read(path) or path.open("rb") as file:
            return hashlib.sha256(file.read()).digest()
    except (OSError, IdcwhError):
        return bytes(32)
