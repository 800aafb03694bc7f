"""What a model.onnx says of itself: its metadata, written by the exporter and read back by whoever runs it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import IdcwhError
from .images import Preprocess

FORMAT = "1"
_FIXED = {"idcwh_bit_order": "little", "idcwh_threshold": ">= 0"}  # no other is defined; a reader has to refuse one


@dataclass(frozen=True)
class ModelInfo:
    """The model behind an ONNX file.

    bits: code length. preprocess: how a picture becomes pixels. classes: names in label order. method, backbone: as
    in model.pt. source_sha256: of that model.pt.
    """

    bits: int
    preprocess: Preprocess
    classes: list[str]
    method: dict[str, Any]
    backbone: dict[str, Any]
    source_sha256: str

    @property
    def code_bytes(self) -> int:
        """Bytes of one code."""
        return -(-self.bits // 8)

    def to_metadata(self) -> dict[str, str]:
        """The metadata of the ONNX file, all strings (ARCHITECTURE.md, model.onnx)."""
        return {
            "idcwh_format": FORMAT,
            "idcwh_bits": str(self.bits),
            **_FIXED,
            "idcwh_preprocess": json.dumps(self.preprocess.to_dict()),
            "idcwh_classes": json.dumps(self.classes, ensure_ascii=False),
            "idcwh_method": json.dumps(self.method),
            "idcwh_backbone": json.dumps(self.backbone),
            "idcwh_source_sha256": self.source_sha256,
        }

    @classmethod
    def from_metadata(cls, meta: Mapping[str, str]) -> ModelInfo:
        """The inverse; an IdcwhError says what is missing or not as expected."""
        if "idcwh_format" not in meta:
            raise IdcwhError("an ONNX model without idcwh metadata; expected one written by idcwh-export")
        if meta["idcwh_format"] != FORMAT:
            raise IdcwhError(f"metadata of format {meta['idcwh_format']}; this version of idcwh reads format {FORMAT}")
        for key, value in _FIXED.items():
            if meta.get(key) != value:
                raise IdcwhError(f"{key} is {meta.get(key)!r}; expected {value!r}")
        bits = meta.get("idcwh_bits", "")
        if not bits.isdecimal() or int(bits) < 1:
            raise IdcwhError(f"idcwh_bits is {bits!r}; expected a whole number of at least 1")
        try:
            preprocess = Preprocess.from_dict(_json(meta, "idcwh_preprocess", dict))
        except (ValueError, TypeError) as error:
            raise IdcwhError(f"idcwh_preprocess: {error}") from error
        return cls(
            bits=int(bits),
            preprocess=preprocess,
            classes=_json(meta, "idcwh_classes", list),
            method=_json(meta, "idcwh_method", dict),
            backbone=_json(meta, "idcwh_backbone", dict),
            source_sha256=meta.get("idcwh_source_sha256", ""),
        )


def check_signature(session: Any, info: ModelInfo) -> None:
    """Inputs and outputs of an ONNX Runtime session are what `info` says, by name, type and shape; else IdcwhError."""
    side = info.preprocess.crop
    expected = {
        "image": ("tensor(uint8)", [side, side, 3]),
        "codes": ("tensor(uint8)", [info.code_bytes]),
        "logits": ("tensor(float)", [info.bits]),
    }
    inputs = {node.name: node for node in session.get_inputs()}
    outputs = {node.name: node for node in session.get_outputs()}
    if set(inputs) != {"image"} or not {"codes", "logits"} <= set(outputs):
        raise IdcwhError(
            f"expected the input image and the outputs codes and logits, not {sorted(inputs)} and {sorted(outputs)}"
        )
    for name, (kind, shape) in expected.items():
        node = inputs.get(name) or outputs[name]
        if node.type != kind or list(node.shape[1:]) != shape:
            raise IdcwhError(f"{name} is {node.type} {node.shape}; its metadata says {kind} {['n', *shape]}")
        if isinstance(node.shape[0], int):
            raise IdcwhError(f"{name} takes exactly {node.shape[0]} images at a time; expected any number")


def _json(meta: Mapping[str, str], key: str, kind: type) -> Any:
    try:
        value = json.loads(meta[key])
    except (KeyError, ValueError) as error:
        raise IdcwhError(f"{key} is missing or not JSON; export the model again") from error
    if not isinstance(value, kind):
        raise IdcwhError(f"{key} is a {type(value).__name__}; expected a {kind.__name__}")
    return value
