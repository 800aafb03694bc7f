"""The metadata of a model.onnx: code length, preprocessing, classes, and provenance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..codes import MAX_BITS
from ..errors import CorruptFileError, InvalidInputError, NotSupportedError
from ..images.preprocess import Preprocess

FORMAT = "1"
PRECISIONS = ("fp32", "fp16", "int8")
VERIFIED = "idcwh_verified"
TRAINING = "idcwh_training_images"
WITHOUT = "write it with idcwh-export, or pass its preprocessing: --preprocess RESIZE,CROP (in Python, preprocess=)"
_FIXED = {"idcwh_bit_order": "little", "idcwh_threshold": ">= 0"}  # a reader has to refuse other values


@dataclass(frozen=True)
class ModelInfo:
    """The metadata of a model.

    Attributes:
        bits: code length.
        preprocess: resize and crop of an image.
        classes: names in label order.
        method, backbone: name and options, as in model.pt.
        source_sha256: SHA-256 of the model.pt.
        precision: precision of the backbone, one of PRECISIONS; "unknown" for a file without metadata.
        verified: result of the comparison with model.pt (docs/export.md), or None.
        training_images: record of the training images (training_images.py), or None.
    """

    bits: int
    preprocess: Preprocess
    classes: list[str]
    method: dict[str, Any]
    backbone: dict[str, Any]
    source_sha256: str
    precision: str = "fp32"
    verified: dict[str, Any] | None = None
    training_images: dict[str, Any] | None = None

    @property
    def code_bytes(self) -> int:
        """Size of one code in bytes."""
        return -(-self.bits // 8)

    def to_metadata(self) -> dict[str, str]:
        """Returns the metadata of the ONNX file as strings (docs/model-files.md)."""
        return {
            "idcwh_format": FORMAT,
            "idcwh_bits": str(self.bits),
            **_FIXED,
            "idcwh_preprocess": json.dumps(self.preprocess.to_dict()),
            "idcwh_classes": json.dumps(self.classes, ensure_ascii=False).encode(errors="backslashreplace").decode(),
            "idcwh_method": json.dumps(self.method),
            "idcwh_backbone": json.dumps(self.backbone),
            "idcwh_source_sha256": self.source_sha256,
            "idcwh_precision": self.precision,
            **({} if self.verified is None else {VERIFIED: json.dumps(self.verified)}),
            **({} if self.training_images is None else {TRAINING: json.dumps(self.training_images)}),
        }

    @classmethod
    def from_metadata(cls, meta: Mapping[str, str]) -> ModelInfo:
        """Returns the metadata read from strings.

        Raises:
            CorruptFileError: an entry is missing or invalid.
            NotSupportedError: the format or the precision is one of a newer version.
        """
        if "idcwh_format" not in meta:
            raise CorruptFileError(found="no idcwh metadata", hint=WITHOUT)
        if meta["idcwh_format"] != FORMAT:
            raise NotSupportedError(_problem("idcwh_format"), found=meta["idcwh_format"], expected=FORMAT)
        for key, value in _FIXED.items():
            if meta.get(key) != value:
                raise CorruptFileError(_problem(key), found=meta.get(key, "no entry"), expected=value)
        bits = meta.get("idcwh_bits", "")
        if not bits.isdecimal() or len(bits) > 9 or not 1 <= int(bits) <= MAX_BITS:
            raise CorruptFileError(
                _problem("idcwh_bits"), found=repr(bits[:40]), expected=f"a whole number from 1 to {MAX_BITS}"
            )
        if (precision := meta.get("idcwh_precision", "fp32")) not in PRECISIONS:  # older files have no entry
            raise NotSupportedError(_problem("idcwh_precision"), found=repr(precision), expected=", ".join(PRECISIONS))
        try:
            preprocess = Preprocess.from_dict(_json(meta, "idcwh_preprocess", dict))
        except (ValueError, TypeError) as error:
            raise CorruptFileError(f"{_problem('idcwh_preprocess')}: {error}") from error
        return cls(
            bits=int(bits),
            preprocess=preprocess,
            classes=_texts(meta, "idcwh_classes"),
            method=_named(meta, "idcwh_method"),
            backbone=_named(meta, "idcwh_backbone"),
            source_sha256=meta.get("idcwh_source_sha256", ""),
            precision=precision,
            verified=_json(meta, VERIFIED, dict) if VERIFIED in meta else None,
            training_images=_json(meta, TRAINING, dict) if TRAINING in meta else None,
        )


def checked(session: Any, info: ModelInfo) -> ModelInfo:
    """Returns `info` after a check of an ONNX Runtime session, with the session's code length if that of `info` is 0.

    Raises IdcwhError if inputs or outputs of the session do not match by name, type and shape.
    """
    inputs = {node.name: node for node in session.get_inputs()}
    outputs = {node.name: node for node in session.get_outputs()}
    if set(inputs) != {"image"} or not {"codes", "logits"} <= set(outputs):
        raise InvalidInputError(
            found=f"{sorted(inputs)} and {sorted(outputs)}",
            expected="the input image and the outputs codes and logits", hint="write it with idcwh-export",
        )  # fmt: skip
    if not info.bits:
        if not isinstance(bits := outputs["logits"].shape[-1], int):
            raise InvalidInputError("code length is missing", hint="pass it as Encoder(path, bits=...)")
        info = replace(info, bits=bits)
    side = info.preprocess.crop
    expected = {
        "image": ("tensor(uint8)", [side, side, 3]),
        "codes": ("tensor(uint8)", [info.code_bytes]),
        "logits": ("tensor(float)", [info.bits]),
    }
    for name, (kind, shape) in expected.items():
        node = inputs.get(name) or outputs[name]
        if node.type != kind or list(node.shape[1:]) != shape:
            wanted = f"{kind} {['n', *shape]}" + (", by its metadata" if info.precision in PRECISIONS else "")
            raise InvalidInputError(f"{name} does not match", found=f"{node.type} {node.shape}", expected=wanted)
        if isinstance(node.shape[0], int):
            raise NotSupportedError(
                f"fixed batch size of {name} is not supported", found=node.shape[0], expected="any number"
            )
    return info


def _problem(key: str) -> str:
    return f"metadata {key} is invalid"


def _json(meta: Mapping[str, str], key: str, kind: type) -> Any:
    try:
        value = json.loads(meta[key])
    except (KeyError, ValueError, RecursionError) as error:  # RecursionError: deeply nested lists
        raise CorruptFileError(_problem(key), expected="JSON", hint="export the model again") from error
    return _of_kind(value, kind, key)


def _of_kind(value: Any, kind: type, key: str) -> Any:
    if not isinstance(value, kind):
        raise CorruptFileError(_problem(key), found=type(value).__name__, expected=kind.__name__)
    return value


def _texts(meta: Mapping[str, str], key: str) -> list[str]:
    return [_of_kind(value, str, key) for value in _json(meta, key, list)]


def _named(meta: Mapping[str, str], key: str) -> dict[str, Any]:
    value: dict[str, Any] = _json(meta, key, dict)
    _of_kind(value.get("name", ""), str, key)
    return value
