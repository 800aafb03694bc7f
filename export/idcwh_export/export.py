"""Export of a model.pt to verified ONNX files, for the command and for other programs."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import itertools
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from idcwh_search._util.atomic import Kind, check_target, replacing
from idcwh_search._util.hardware import available_cores
from idcwh_search.encoder import device as devices
from idcwh_search.encoder import model_file
from idcwh_search.encoder.encoder import Encoder
from idcwh_search.encoder.metadata import PRECISIONS, VERIFIED, ModelInfo
from idcwh_search.encoder.ort import load_onnxruntime
from idcwh_search.errors import IdcwhError, MismatchError
from idcwh_search.images.listing import LeftOut
from idcwh_search.images.preprocess import Preprocess
from idcwh_train.engine.checkpoint import load_model

from . import fp16 as half
from . import graph, int8, verify
from .emulation import HalfArithmetic
from .sample_images import OnSkip, SampleImages, chosen, sample

KIND = Kind("ONNX model", lambda file: model_file.metadata(file.read()) is not None)

if TYPE_CHECKING:
    import onnx

CALIBRATION = 128  # largest number of images for the calibration of int8
SEEN = "the images it was compared on"
_EMULATED = "half arithmetic"  # the name of the emulation among the devices


@dataclass(frozen=True)
class Exported:
    """One file that was written, and its verification.

    Attributes:
        path, size: the file and its size in bytes.
        fingerprint: SHA-256 of the file.
        info: its metadata.
        comparisons: the comparisons by device.
        half: the comparison of an fp16 file in emulated half arithmetic.
        float_layers: the number of first layers of an int8 file that stayed in float32.
        calibration: the calibration images of an int8 file; SEEN if it was compared on the same images.
    """

    path: Path
    size: int
    fingerprint: str
    info: ModelInfo
    comparisons: dict[str, verify.Comparison]
    half: verify.Comparison | None = None
    float_layers: int | None = None
    calibration: str | None = None


@dataclass(frozen=True)
class Export:
    """All files of one export.

    Attributes:
        files: one per precision.
        origin: the origin of the images in the comparison.
        labelled: True if these images have labels.
        passed_over: devices without a comparison, device -> reason.
        left_out: files in the given folders that were used neither for the comparison nor for the calibration.
    """

    files: list[Exported]
    origin: str
    labelled: bool
    passed_over: dict[str, str]
    left_out: LeftOut = field(default_factory=LeftOut)


@dataclass
class _Candidate:
    """A file before its verification: its path, its metadata, and the bytes that are compared."""

    out: Path
    file: BinaryIO
    info: ModelInfo
    content: bytes
    float_layers: int | None
    calibration: str | None


def export_onnx(
    model: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    precisions: Sequence[str] = ("fp32",),
    images: str | None = None,
    calibration: str | None = None,
    limit: int | None = None,
    device: str = "auto",
    opset: int = graph.OPSET,
    simplify: bool = False,
    on_skip: OnSkip | None = None,
) -> Export:
    """Writes the model.pt `model` to `out` as ONNX, if the codes of the two agree.

    Args:
        precisions: one file for each of "fp32", "fp16", "int8" (see `names`).
        images, calibration: the images for the comparison and for the calibration of int8, as for
            sample_images.chosen; by default the sample in model.pt.
        limit: the number of images for the comparison.
        device: the device of the comparison; "auto" is every available device.
        on_skip: called as on_skip(path, reason) for each file that cannot be read; without it the first one raises.

    Raises:
        IdcwhError: the model cannot be read or exported, a file cannot be written, or codes differ by more than
            rounding or more than the precision allows. Then no file is written.
    """
    source, targets = Path(model), names(Path(out), precisions)
    for target in targets.values():
        check_target(target, KIND, source, *(spec for spec in (images, calibration) if spec != "-"))
    network, content = load_model(source)
    preprocess = Preprocess.from_dict(content["preprocess"])

    def samples(spec: str | None, skip: OnSkip | None, limit: int | None) -> SampleImages:
        return sample(content, preprocess, source) if spec is None else chosen(spec, preprocess, skip, limit)

    compared_on = samples(images, on_skip, limit)
    left_out = [compared_on.left_out]
    devices.check_device(device)
    info = ModelInfo(
        bits=content["bits"],
        preprocess=preprocess,
        classes=[str(name) for name in content["classes"]],
        method=content["method"],
        backbone=content["backbone"],
        source_sha256=hashlib.sha256(source.read_bytes()).hexdigest(),
        training_images=recorded if isinstance(recorded := content["training"].get("images"), dict) else None,
    )
    with contextlib.ExitStack() as stack:
        files = {precision: stack.enter_context(replacing(target, KIND)) for precision, target in targets.items()}
        built = graph.build(network, info.bits, preprocess.crop, {}, opset)
        if simplify:
            built = graph.simplified(built)
        made = []
        for precision, target in targets.items():
            about, changed, layers, origin = replace(info, precision=precision), built, None, None
            if precision == "fp16":
                changed = _copy(built)
                half.convert(changed)
            elif precision == "int8":
                kept = content["sample"].get("images")
                spec = calibration or (images if kept is None or not len(kept) else None)
                seen = spec == images  # if so, the comparison reports the files that cannot be read
                calibrated_on = samples(spec, (lambda *_: None) if seen else on_skip, CALIBRATION)
                pixels = np.stack(list(itertools.islice(calibrated_on, CALIBRATION)))
                origin = SEEN if seen else calibrated_on.origin.replace("--verify", "--calibrate")
                left_out += [] if seen else [calibrated_on.left_out]
                changed, layers = int8.quantize(built, pixels, available_cores())
            made.append(_Candidate(target, files[precision], about, graph.finished(changed, about), layers, origin))
        reference, _ = load_model(source)  # a copy that the exporter has not changed
        compared, passed_over = _compare(made, reference, compared_on, device)
        written = [_write(candidate, found, compared_on) for candidate, found in zip(made, compared, strict=True)]
    labelled = compared_on.relevance is not None
    return Export(written, compared_on.origin, labelled, passed_over, LeftOut.joined(left_out))


def names(out: Path, precisions: Sequence[str]) -> dict[str, Path]:
    """Returns the file of each precision: m.onnx, m.fp16.onnx, m.int8.onnx. A single file has the given name."""
    if unknown := [name for name in precisions if name not in PRECISIONS]:
        raise ValueError(f"precisions: expected some of {', '.join(PRECISIONS)}, not {unknown[0]!r}")
    ordered = [name for name in PRECISIONS if name in precisions]
    if len(ordered) == 1:
        return {ordered[0]: out}
    return {name: out if name == "fp32" else out.with_suffix(f".{name}{out.suffix}") for name in ordered}


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = type(model)()
    copy.CopyFrom(model)
    return copy


def _compare(
    made: list[_Candidate], network: Any, samples: SampleImages, device: str
) -> tuple[list[dict[str, verify.Comparison]], dict[str, str]]:
    """Returns the comparisons by device of each candidate, and the reasons why other devices have none."""
    runs: list[tuple[int, str, Encoder | HalfArithmetic]] = []
    passed_over: dict[str, str] = {}
    for place, candidate in enumerate(made):
        candidate.file.write(model_file.with_checksum(candidate.content))
        candidate.file.flush()
        for name in devices.usable() if device == "auto" else [device]:
            try:
                encoder = Encoder(candidate.file.name, device=name, batch_size=verify.LARGEST)
            except IdcwhError as error:
                if device != "auto" or name == "cpu":
                    raise
                passed_over[f"{candidate.info.precision} on {name}"] = str(error)
            else:
                runs.append((place, name, encoder))
        if candidate.info.precision == "fp16":
            runs.append((place, _EMULATED, HalfArithmetic(candidate.content, candidate.info, available_cores())))
    if device == "auto":
        passed_over |= devices.obstacles()
    found = verify.verify(network, [run for _, _, run in runs], verify.chunks(samples), samples.relevance)
    compared: list[dict[str, verify.Comparison]] = [{} for _ in made]
    for (place, name, _), comparison in zip(runs, found, strict=True):
        compared[place][name] = comparison
        if problem := comparison.problem():
            file = f"{made[place].info.precision} {'in' if name == _EMULATED else 'on'} {name}"
            raise MismatchError(
                f"does not match the model ({file}): {problem}", path=made[place].out, hint="nothing was written"
            )
    return compared, passed_over


def _write(candidate: _Candidate, found: dict[str, verify.Comparison], samples: SampleImages) -> Exported:
    """Writes the verified model, with the result of the verification in its metadata, and its checksum."""
    emulated = found.pop(_EMULATED, None)
    verified: dict[str, Any] = {
        "versions": {name: importlib.metadata.version(name) for name in ("idcwh", "torch", "onnx")}
        | {"onnxruntime": load_onnxruntime().__version__},
        "images": samples.origin,
        "relevant": "the same label" if samples.relevance else "the nearest by the model's logits",
        "devices": {name: comparison.to_dict() for name, comparison in found.items()},
    }
    if emulated is not None:
        verified["half_arithmetic"] = emulated.to_dict()
    if candidate.float_layers is not None:
        verified["float_layers"] = candidate.float_layers
        verified["calibration"] = candidate.calibration
    content = model_file.with_checksum(model_file.with_metadata(candidate.content, {VERIFIED: json.dumps(verified)}))
    candidate.file.seek(0)
    candidate.file.truncate()
    candidate.file.write(content)
    info = ModelInfo.from_metadata(model_file.metadata(content) or {})
    digest = hashlib.sha256(content).hexdigest()
    return Exported(
        candidate.out, len(content), digest, info, found, emulated, candidate.float_layers, candidate.calibration
    )
