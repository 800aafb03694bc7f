"""Features of a frozen backbone, computed once in float32 and cached on disk.

The name of a cache file is a checksum of everything that its content depends on: backbone, weights, preprocessing, the
bytes of the images, and the runtime. A corrupt file is computed again. The exported model computes in float32 as well,
so codes do not change between training and export.
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
_SECONDS_BETWEEN_PARTS = 30.0  # a killed process loses at most the work of these
_BATCH = {"cpu": 4, "cuda": 128}
"""Images per batch. On a CPU the activations of four images stay in the cache: twice as fast as 32."""


@dataclass(frozen=True, eq=False)
class Features:
    """x: float32 [m, features]; rows: int64 [m], the rows that could be read; failed: key -> reason."""

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
    """Returns the features of images `rows`, from the folder `cache` if they are there, else computed and stored.

    An image that cannot be read is left out and listed.
    """
    parts = _Cache(cache / f"{_key(model, dataset, rows, preprocess, device)}.npz") if cache else None
    if parts and (whole := parts.whole()):
        note(f"features: {counted(len(whole.rows), 'image')} from {parts.file}")
        return whole
    before = parts.load() if parts else None
    if parts and before:
        note(f"features: {counted(len(before.rows), 'image')} of an interrupted run from {parts.file.parent}")
    started = time.monotonic()
    features = compute(model, dataset, rows, preprocess, device, before=before, keep=parts.keep if parts else None)
    count, seconds = len(features.x) - (len(before.x) if before else 0), time.monotonic() - started
    note(f"features: {counted(count, 'image')} in {seconds:.1f} s, {count / seconds:.0f} images/s on {device.type}")
    if parts:
        parts.finish(features)
    elif default_cache() is None:
        note("features: not kept for the next run (there is no home folder); --cache names a folder")
    return features


class _Cache:
    """The file KEY.npz of features, and the parts KEY.N.part.npz of an interrupted computation.

    KEY is a SHA-256 of everything that the features depend on, and N the number of images before the part. The
    checksums of the archive are therefore the only check of a file.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._next = 0  # images before the next part

    def whole(self) -> Features | None:
        """Returns the features of all images, or None."""
        return _read(self.file)

    def load(self) -> Features | None:
        """Returns the features of the parts, which are of the first images; None if there are none."""
        found: list[Features] = []
        while part := _read(self._part()):
            found.append(part)
            self._next += len(part.rows) + len(part.failed)
        if not found:
            return None
        failed = {key: reason for part in found for key, reason in part.failed.items()}
        return Features(torch.cat([part.x for part in found]), np.concatenate([part.rows for part in found]), failed)

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
    """Returns the features of a file; None if there is none, or a corrupt one, which is reported."""
    try:
        content, _ = npz.read(file, ("x", "rows", "failed"), "features")
        return Features(torch.from_numpy(content["x"]), content["rows"], json.loads(str(content["failed"])))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (IdcwhError, KeyError, ValueError) as error:
        note(f"features: {file} is corrupt ({describe(error)}); computed again")
        return None


def _write(features: Features, file: Path) -> bool:
    """Writes features. Returns False, with a note, if the file cannot be written."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file, OWN_NAME) as out:
            np.savez(out, x=features.x.numpy(), rows=features.rows, failed=np.array(json.dumps(features.failed)))
        return True
    except (NotWrittenError, OSError) as error:
        note(f"features: not kept for the next run ({describe(error)}); --cache names another folder")
        return False


def default_cache() -> Path | None:
    """Returns the default folder of features in the user's cache folder, or None if there is none."""
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
    """Returns the features of images `rows` in eval mode, without augmentation, with batch norm folded.

    The backbone computes in `precision` on CUDA and in float32 on a CPU, for many images with ONNX Runtime where it is
    installed.

    Args:
        before: the features of the first rows from an earlier call, up to the end of a batch.
        keep: called with the new features from time to time and when the computation is interrupted.
    """
    size = _BATCH[device.type]
    generator = torch.Generator().manual_seed(0)  # its own: whether features were cached must not change what follows
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
    # One block from the beginning: small results kept one by one would lie between the large buffers of the batches,
    # and the holes would be too small for the next buffers (18 GB for 60,000 images).
    x, kept, n = torch.empty(len(rows), model.features), np.empty(len(rows), np.int64), 0
    failed: dict[str, str] = {}
    if before is not None:
        n = len(before.rows)
        x[:n], kept[:n], failed = before.x, before.rows, dict(before.failed)
    saved = at = (n, len(failed))  # rows that are kept, and whole: images that were read, and that were not
    saved_at = time.monotonic()

    def save() -> None:
        nonlocal saved, saved_at
        new = dict(itertools.islice(failed.items(), saved[1], at[1]))
        if keep is not None and at != saved:
            keep(Features(x[saved[0] : at[0]].clone(), kept[saved[0] : at[0]], new))
        saved, saved_at = at, time.monotonic()

    with one_thread(device), progress_bar(total=len(rows), initial=done, desc="encoding", unit="image") as bar:
        try:
            for part, batch in work:
                x[n : n + len(part)] = part
                kept[n : n + len(part)] = batch.rows.numpy()
                n += len(part)
                failed.update({dataset.keys[row]: reason for row, reason in batch.failed.items()})
                at = (n, len(failed))
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
    """Runs each operator on one core of a CPU, for small or already parallel work."""
    before = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def joined(a: Features, b: Features) -> Features:
    """Returns the features of two disjoint sets of rows, in the order of the rows."""
    rows = np.concatenate([a.rows, b.rows])
    order = np.argsort(rows)
    return Features(torch.cat([a.x, b.x])[torch.from_numpy(order)], rows[order], {**a.failed, **b.failed})


def _engine(device: torch.device, images: int) -> str:
    """Returns the runtime for a number of images. The last bits of features depend on it."""
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
    """Returns the SHA-256 of an image as it is stored, or a constant for a file that cannot be read."""
    path = dataset.path(row)
    if path is None:
        return hashlib.sha256(np.asarray(dataset.images[row]).tobytes()).digest()
    try:
        with tar.read(path) or path.open("rb") as file:
            return hashlib.sha256(file.read()).digest()
    except (OSError, IdcwhError):
        return bytes(32)
