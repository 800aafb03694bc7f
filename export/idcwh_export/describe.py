"""Descriptions of model files for --info and --list. A model.onnx is described without torch."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from idcwh_search._util.console import one_line
from idcwh_search.encoder import model_file
from idcwh_search.encoder.metadata import ModelInfo
from idcwh_search.errors import CorruptFileError, IdcwhError, InvalidInputError, NotFoundError

Description = dict[str, Any]
_CLASSES = 12  # number of classes listed in text; JSON has all
_FOREIGN = (KeyError, TypeError, ValueError, AttributeError)  # raised for a record of another program
_UNREADABLE = "not a record of idcwh-export"


def describe(path: Path) -> Description:
    """Returns the description of a model.onnx as plain Python, for JSON. Raises IdcwhError for another file."""
    import onnx

    loaded = model_file.LoadedModel.read(path)
    try:
        model = onnx.load_from_string(loaded.content)
    except Exception as error:  # protobuf has its own types of errors
        raise CorruptFileError(path=path, expected="an ONNX model") from error
    found: Description = {
        "path": str(path),
        "kind": "onnx",
        "bytes": len(loaded.content),
        "sha256": loaded.fingerprint,
        "checksum": loaded.checksum.value,
        "opset": next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), None),
        "ir_version": model.ir_version,
        "producer": f"{model.producer_name} {model.producer_version}".strip(),
        "weights": sum(int(np.prod(tensor.dims)) for tensor in model.graph.initializer),
        "operators": dict(Counter(node.op_type for node in model.graph.node).most_common()),
        "inputs": {value.name: _shape(value) for value in model.graph.input},
        "outputs": {value.name: _shape(value) for value in model.graph.output},
    }
    try:
        model_file.check_self_contained(loaded.content)
        info = ModelInfo.from_metadata(loaded.metadata)
    except IdcwhError as error:
        return found | {"problem": str(error)}
    return found | {
        "bits": info.bits,
        "precision": info.precision,
        "preprocess": info.preprocess.to_dict(),
        "method": info.method,
        "backbone": info.backbone,
        "classes": info.classes,
        "source_sha256": info.source_sha256,
        "verified": None if changed(found) else info.verified,  # it describes the original file
    }


def changed(model: Description) -> bool:
    """Returns True if the file was changed after it was verified."""
    return bool(model.get("checksum") == model_file.ChecksumState.WRONG.value)


def listed(paths: Iterable[str]) -> list[Description]:
    """Returns the descriptions of all models in these files and folders, in order. Those of model.pt are short."""
    models = [_any(path) for given in paths for path in _models(Path(given))]
    if not models:
        raise InvalidInputError("has no models", path="--list", expected=".onnx or .pt files, or folders with them")
    return models


def _models(path: Path) -> Iterator[Path]:
    if path.is_dir():
        files = (Path(folder) / name for folder, _, names in os.walk(path, onerror=_raise) for name in names)
        yield from sorted(p for p in files if p.suffix in (".onnx", ".pt") and p.name != "checkpoint.pt")
    elif path.exists():
        yield path
    else:
        raise NotFoundError(path=path, expected="a model or a folder with models")


def _raise(error: OSError) -> NoReturn:
    """Raises the error of a folder that cannot be read, because its models would be missing from the list."""
    raise error


def _any(path: Path) -> Description:
    try:
        return describe(path) if path.suffix != ".pt" else _trained(path)
    except (IdcwhError, OSError) as error:
        named = f"{error.path}: " if isinstance(error, IdcwhError) else ""
        why = (isinstance(error, OSError) and error.strerror) or str(error).removeprefix(named)
        return {"path": str(path), "kind": path.suffix.lstrip("."), "problem": why}


def _trained(path: Path) -> Description:
    from idcwh_train.engine.checkpoint import read_model  # torch

    content = read_model(path)
    wanted = ("bits", "preprocess", "method", "backbone", "classes")
    about = {name: content.get(name) for name in wanted}
    kept = content["sample"].get("images")
    return {"path": str(path), "kind": "pt", "bytes": path.stat().st_size, "precision": "fp32", **about} | {
        "sample": 0 if kept is None else len(kept)
    }


def table(models: list[Description]) -> str:
    """Returns the table of --list, with one line per model."""
    head = ("model", "bits", "backbone", "method", "classes", "precision", "bytes", "checked")
    rows = [head, *(tuple(map(one_line, _row(model))) for model in models)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    right = {1, 4, 6}
    return "\n".join(
        "  ".join(
            c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _row(model: Description) -> tuple[str, ...]:
    if "problem" in model:
        return (model["path"], *[""] * 5, f"{model['bytes']:,}" if "bytes" in model else "", model["problem"])
    return (
        model["path"],
        str(model["bits"]),
        str(model["backbone"].get("name", "?")),
        str(model["method"].get("name", "?")),
        str(len(model["classes"])),
        model["precision"],
        f"{model['bytes']:,}",
        _checked(model) if model["kind"] == "onnx" else f"not exported; {model['sample']} sample images",
    )


def _checked(model: Description) -> str:
    if changed(model):
        return "CHANGED after the export"
    verified = model["verified"]
    if not verified:
        return "not recorded"
    try:
        return "; ".join(
            f"{device}: "
            + ", ".join([f"{result['bits_differing']:,} of {result['bits_compared']:,} bits differ", *_maps(result)])
            for device, result in _comparisons(verified)
        )
    except _FOREIGN:
        return _UNREADABLE


def _comparisons(verified: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Returns the comparisons by device, with that in half arithmetic for an fp16 file."""
    half = verified.get("half_arithmetic")
    return [*verified["devices"].items(), *([] if half is None else [("half arithmetic", half)])]


def _maps(result: dict[str, Any]) -> list[str]:
    before, after = result.get("map_before"), result.get("map_after")
    return [] if before is None or after is None else [f"MAP {before:.4f} -> {after:.4f}"]


def text(model: Description) -> str:
    """Returns the description of a model.onnx as text."""
    lines = [
        ("file", f"{model['path']}, {model['bytes']:,} bytes, {model['checksum']}"),
        ("sha256", model["sha256"]),
        ("graph", f"{sum(model['operators'].values())} nodes, {model['weights']:,} weights, opset {model['opset']}, IR "
                  f"version {model['ir_version']}, by {model['producer'] or 'an unknown program'}"),
        *((f"input {name}", kind) for name, kind in model["inputs"].items()),
        *((f"output {name}", kind) for name, kind in model["outputs"].items()),
    ]  # fmt: skip
    if "problem" in model:
        return _aligned([*lines, ("problem", model["problem"])])
    side = model["preprocess"]
    classes = model["classes"]
    more = f" and {len(classes) - _CLASSES} more (--json)" if len(classes) > _CLASSES else ""
    bits = model["bits"]
    lines += [
        ("codes", f"{bits} bits in {-(-bits // 8)} bytes; bit i at position i % 8 of byte i // 8; 1: logit i >= 0"),
        ("pixels", f"RGB, upright; shorter side scaled to {side['resize']} pixels ({side['interpolation']}, "
                   f"antialiased), then the centre crop of {side['crop']} x {side['crop']}"),
        ("backbone", f"{_named(model['backbone'])}, in {model['precision']}"),
        ("method", _named(model["method"])),
        ("classes", f"{len(classes)}: {', '.join(classes[:_CLASSES])}{more}"),
        ("source", f"model.pt with sha256 {model['source_sha256']}"),
        *_how_checked(model),
    ]  # fmt: skip
    return _aligned(lines)


def _how_checked(model: Description) -> list[tuple[str, str]]:
    if changed(model):
        return [("checked", "no longer valid: the file was changed after the export")]
    verified = model["verified"]
    if not verified:
        return [("checked", "not recorded")]
    try:
        versions = ", ".join(f"{name} {version}" for name, version in verified["versions"].items())
        compared = [(f"  on {device}", _compared(result, verified)) for device, result in _comparisons(verified)]
        calibrated = verified.get("calibration")
        return [
            ("checked", f"on {verified['images']}, with {versions}"),
            *([("  calibrated", f"on {calibrated}")] if calibrated else []),
            *compared,
        ]
    except _FOREIGN:
        return [("checked", _UNREADABLE)]


def _compared(result: dict[str, Any], verified: dict[str, Any]) -> str:
    largest = f" (at |logit| up to {result['largest_logit_differing']:.3g})" if result["bits_differing"] else ""
    activation = result.get("largest_activation")
    return (
        f"{result['images']} images in batches of {', '.join(map(str, result['batches']))}: "
        f"{result['bits_differing']:,} of {result['bits_compared']:,} bits differ{largest}; "
        f"logits differ by at most {result['logit_distance']:.3g}, their scale is {result['logit_scale']:.3g}"
        + "".join(f"; {maps}, relevant: {verified['relevant']}" for maps in _maps(result))
        + ("" if activation is None else f"; largest activation {activation:.4g}")
    )


def _named(options: dict[str, Any]) -> str:
    shown = {key: f"{value:g}" if isinstance(value, float) else value for key, value in options.items()}
    rest = ", ".join(f"{key} {value}" for key, value in shown.items() if key != "name")
    return f"{options.get('name', '?')}{f' ({rest})' if rest else ''}"


def _aligned(lines: list[tuple[str, str]]) -> str:
    lines = [(one_line(name), one_line(value)) for name, value in lines]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines)


def _shape(value: Any) -> str:
    from onnx import helper

    tensor = value.type.tensor_type
    try:
        kind = helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    except KeyError:
        return f"unknown type {tensor.elem_type}"
    return f"{kind} [{', '.join(dim.dim_param or str(dim.dim_value) for dim in tensor.shape.dim)}]"
