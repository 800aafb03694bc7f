"""From model.pt to a verified model.onnx: the steps in their order, for the command and for other programs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from idcwh_search.encoder import Encoder
from idcwh_search.errors import IdcwhError
from idcwh_search.files import replacing
from idcwh_search.images import Pixels, Preprocess, UnreadableImage, load_image
from idcwh_search.modelinfo import ModelInfo
from idcwh_search.runtime import check_device
from idcwh_train.checkpoint import load_model

from . import graph, verify

OnSkip = Callable[[str, str], object]  # (path, reason)


@dataclass(frozen=True)
class Exported:
    """What was written and how it was checked; `fingerprint` is the SHA-256 of the file at `path`, `size` in bytes."""

    path: Path
    size: int
    fingerprint: str
    info: ModelInfo
    device: str
    why: str
    comparison: verify.Comparison


def export_onnx(
    model: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    images: Sequence[str] | None = None,
    device: str = "auto",
    opset: int = graph.OPSET,
    on_skip: OnSkip | None = None,
) -> Exported:
    """Write the model.pt `model` to `out` as ONNX, if the file computes what the model computes.

    images: files to compare on; by default the sample that model.pt carries. Files that cannot be read are reported to
    on_skip(path, reason) and left out; without it the first one raises. Raises IdcwhError when the model cannot be read
    or exported, when `out` cannot be written, and when the comparison finds more than rounding; then no file appears.
    """
    source, out = Path(model), Path(out)
    network, content = load_model(source)
    preprocess = Preprocess.from_dict(content["preprocess"])
    info = ModelInfo(
        bits=content["bits"],
        preprocess=preprocess,
        classes=[str(name) for name in content["classes"]],
        method=content["method"],
        backbone=content["backbone"],
        source_sha256=hashlib.sha256(source.read_bytes()).hexdigest(),
    )
    pictures = _sample(content, preprocess, source) if images is None else _files(images, preprocess, on_skip)
    check_device(device)
    with replacing(out) as file:
        built = graph.build(network, info.bits, preprocess.crop, info.to_metadata(), opset)
        file.write(built.SerializeToString(deterministic=True))
        file.flush()
        encoder = Encoder(file.name, device=device, batch_size=verify.LARGEST)
        reference, _ = load_model(source)  # read anew: what is compared with the file has not been through the exporter
        comparison = verify.verify(reference, encoder, verify.chunks(pictures))
        if problem := comparison.problem():
            raise IdcwhError(f"{source}: the exported network is not the model: {problem}; nothing was written")
    return Exported(out, out.stat().st_size, encoder.fingerprint, info, encoder.device, encoder.why, comparison)


def _sample(content: dict[str, Any], preprocess: Preprocess, source: Path) -> Iterator[Pixels]:
    """The pictures kept in model.pt, uint8 [m, H, W, 3]."""
    kept = content["sample"].get("images")
    side = preprocess.crop
    if kept is None or not len(kept):
        raise IdcwhError(f"{source}: carries no sample images to compare on; name some with --verify IMAGES")
    if tuple(kept.shape[1:]) != (side, side, 3):
        found = " x ".join(map(str, kept.shape[1:]))
        raise IdcwhError(f"{source}: its sample images are {found}; its preprocessing says {side} x {side} x 3")
    yield from kept.numpy()


def _files(images: Sequence[str], preprocess: Preprocess, on_skip: OnSkip | None) -> Iterator[Pixels]:
    for path in images:
        try:
            yield load_image(path, preprocess)
        except UnreadableImage as error:
            if on_skip is None:
                raise
            on_skip(error.path, error.reason)
