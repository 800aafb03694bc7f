"""What a model.onnx says of itself: its metadata, written by the exporter and read back by whoever runs it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..codes import MAX_BITS
from ..errors import CorruptFileError, InvalidInputError, NotSupportedError
from ..images.preprocess import Preprocess

FORMAT = "1"
PRECISIONS = ("fp32", "fp16", "int8")
VERIFIED = "idcwh_verified"
TRAINING = "idcwh_training_images"
WITHOUT = (
    "expected one written by idcwh-export; to use it all the same, say what it expects: "
    "--preprocess RESIZE,CROP, or Encoder(path, preprocess=Preprocess(resize=..., crop=...))"
)
_FIXED = {"idcwh_bit_order": "little", "idcwh_threshold": ">= 0"}  # no other is defined; a reader has to refuse one


@dataclass(frozen=True)
class ModelInfo:
    """The model behind an ONNX file.

    bits: code length. preprocess: how a picture becomes pixels. classes: names in label order. method, backbone: as
    in model.pt. source_sha256: of that model.pt. precision: what its network computes in, one of PRECISIONS.
    verified: what idcwh-export found when it compared the file with model.pt (docs/export.md); None where it says
    nothing of it. training_images: which images it was trained on (training_images.py), where that is recorded.
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
        """Bytes of one code."""
        return -(-self.bits // 8)

    def to_metadata(self) -> dict[str, str]:
        """The metadata of the ONNX file, all strings (ARCHITECTURE.md, model.onnx)."""
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
        """The inverse; an IdcwhError says what is missing or not as expected."""
        if "idcwh_format" not in meta:
            raise CorruptFileError(f"an ONNX model without idcwh metadata; {WITHOUT}")
        if meta["idcwh_format"] != FORMAT:
            raise NotSupportedError(
                f"metadata of format {meta['idcwh_format']}; this version of idcwh reads format {FORMAT}"
            )
        for key, value in _FIXED.items():
            if meta.get(key) != value:
                raise CorruptFileError(f"{key} is {meta.get(key)!r}; expected {value!r}")
        bits = meta.get("idcwh_bits", "")
        if not bits.isdecimal() or len(bits) > 9 or not 1 <= int(bits) <= MAX_BITS:
            raise CorruptFileError(f"idcwh_bits is {bits[:40]!r}; expected a whole number from 1 to {MAX_BITS}")
        try:
            preprocess = Preprocess.from_dict(_json(meta, "idcwh_preprocess", dict))
        except (ValueError, TypeError) as error:
            raise CorruptFileError(f"idcwh_preprocess: {error}") from error
        return cls(
            bits=int(bits),
            preprocess=preprocess,
            classes=_texts(meta, "idcwh_classes"),
            method=_named(meta, "idcwh_method"),
            backbone=_named(meta, "idcwh_backbone"),
            source_sha256=meta.get("idcwh_source_sha256", ""),
            precision=_precision(meta),
            verified=_json(meta, VERIFIED, dict) if VERIFIED in meta else None,
            training_images=_json(meta, TRAINING, dict) if TRAINING in meta else None,
        )


def explicit(session: Any, preprocess: Preprocess, bits: int | None = None) -> ModelInfo:
    """What a model is taken for whose metadata is missing or not to be believed: the caller says how pictures become
    pixels, and may say how many bits a code has; else the output logits does.
    """
    if bits is None:
        width = next((node.shape[-1] for node in session.get_outputs() if node.name == "logits"), None)
        if not isinstance(width, int):
            raise InvalidInputError(
                "its outputs do not say how many bits a code has; give it with Encoder(path, bits=...)"
            )
        bits = width
    return ModelInfo(bits, preprocess, [], {}, {}, "", precision="unknown")


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
        raise InvalidInputError(
            "its outputs are not packed codes: expected the input image and the outputs codes and logits, "
            f"not {sorted(inputs)} and {sorted(outputs)}; write it with idcwh-export"
        )
    for name, (kind, shape) in expected.items():
        node = inputs.get(name) or outputs[name]
        if node.type != kind or list(node.shape[1:]) != shape:
            says = "its metadata says" if info.precision in PRECISIONS else "expected"
            raise InvalidInputError(f"{name} is {node.type} {node.shape}; {says} {kind} {['n', *shape]}")
        if isinstance(node.shape[0], int):
            raise NotSupportedError(f"{name} takes exactly {node.shape[0]} images at a time; expected any number")


def _precision(meta: Mapping[str, str]) -> str:
    found = meta.get("idcwh_precision", "fp32")  # files written before there were others
    if found not in PRECISIONS:
        raise NotSupportedError(f"idcwh_precision is {found!r}; this version of idcwh knows {', '.join(PRECISIONS)}")
    return found


def _json(meta: Mapping[str, str], key: str, kind: type) -> Any:
    try:
        value = json.loads(meta[key])
    except (KeyError, ValueError, RecursionError) as error:  # the last: lists in lists in lists
        raise CorruptFileError(f"{key} is missing or not JSON; export the model again") from error
    if not isinstance(value, kind):
        raise CorruptFileError(f"{key} is a {type(value).__name__}; expected a {kind.__name__}")
    return value


def _texts(meta: Mapping[str, str], key: str) -> list[str]:
    value: list[Any] = _json(meta, key, list)
    wrong = next((entry for entry in value if not isinstance(entry, str)), None)
    if wrong is not None:
        raise CorruptFileError(f"{key} has an entry that is a {type(wrong).__name__}; expected a list of texts")
    return value


def _named(meta: Mapping[str, str], key: str) -> dict[str, Any]:
    value: dict[str, Any] = _json(meta, key, dict)
    if not isinstance(value.get("name", ""), str):
        raise CorruptFileError(f"{key} has a name that is a {type(value['name']).__name__}; expected a text")
    return value
