"""The outer layers of a model.onnx, which need no ONNX library: its metadata, whether it was changed, and whether its
weights are in it.

ONNX is a protocol buffer, a run of tagged fields. Appending a field to one appends to its message: a sealed model is
the model that was checked, byte for byte, with lines of metadata behind it, the last of them the SHA-256 of all before.
The seal is a guard against tools and accidents, not against an enemy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from enum import Enum

from ..errors import NotSupportedError

SEAL = "idcwh_sha256"
_GRAPH, _METADATA = 7, 14  # fields of ModelProto; metadata_props is a message {1: key, 2: value}, one for each line
# Where tensors are: kind of message -> field -> kind of the message in it.
_INSIDE = {
    "model": {_GRAPH: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
_EXTERNAL_DATA = 13  # of a tensor: {1: key, 2: value}, of which "location" is the file
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Seal(Enum):
    """What the end of a file says of the rest."""

    WHOLE = "unchanged since it was written"
    NONE = "without a seal"
    BROKEN = "changed after it was written"


def with_metadata(content: bytes, lines: dict[str, str]) -> bytes:
    """The model with more metadata behind it."""
    return content + b"".join(_line(key, value) for key, value in lines.items())


def sealed(content: bytes) -> bytes:
    """The model with its own SHA-256 behind it."""
    return with_metadata(content, {SEAL: hashlib.sha256(content).hexdigest()})


def examine(content: bytes) -> tuple[Seal, str]:
    """The state of the seal, and the SHA-256 of the whole file, for the price of one."""
    body, tail = memoryview(content)[: -len(_EXAMPLE)], content[-len(_EXAMPLE) :]
    digest = hashlib.sha256(body)
    whole = tail == _EXAMPLE[:-64] + digest.hexdigest().encode()
    digest.update(tail)
    # Programs that write a model anew keep its metadata: the line is there, but no longer fits or no longer comes last.
    state = Seal.WHOLE if whole else Seal.BROKEN if _EXAMPLE[:-64] in content else Seal.NONE
    return state, digest.hexdigest()


def metadata(content: bytes) -> dict[str, str] | None:
    """The model's metadata_props; None for bytes that are no ONNX model (ONNX Runtime will say what is wrong)."""
    found: dict[str, str] = {}
    graph = False
    try:
        for field, value in _fields(content):
            graph |= field == _GRAPH
            if field == _METADATA:
                line = {number: bytes(text).decode() for number, text in _fields(value)}
                found[line.get(1, "")] = line.get(2, "")
    except (ValueError, IndexError, TypeError):
        return None
    return found if graph else None


def check_self_contained(content: bytes) -> None:
    """Raises IdcwhError for a model with weights in another file, which its SHA-256 says nothing of."""
    messages: list[tuple[str, memoryview]] = [("model", memoryview(content))]
    try:
        while messages:
            kind, message = messages.pop()
            for field, value in _fields(message):
                if kind == "tensor" and field == _EXTERNAL_DATA:
                    entry = {number: bytes(text) for number, text in _fields(value)}
                    if entry.get(1) == b"location":
                        place = entry.get(2, b"").decode(errors="backslashreplace")
                        raise NotSupportedError(
                            f"some of its weights are in another file, {place}, which its fingerprint does not cover; "
                            "write it with idcwh-export, or as one file with onnx.save_model"
                        )
                elif inside := _INSIDE.get(kind, {}).get(field):
                    messages.append((inside, value))
    except (ValueError, IndexError, TypeError):  # no ONNX model: ONNX Runtime will say what is wrong
        return


def _fields(content: bytes | memoryview) -> Iterator[tuple[int, memoryview]]:
    """(number, content) of the fields that have a length, each skipped over without a look inside."""
    view, at = memoryview(content), 0
    while at < len(view):
        tag, at = _varint(view, at)
        kind = tag & 7
        if kind == _VARINT:
            _, at = _varint(view, at)
        elif kind == _BYTES:
            length, at = _varint(view, at)
            if length > len(view) - at:
                raise ValueError("a field longer than the file")
            yield tag >> 3, view[at : at + length]
            at += length
        elif kind in (_FIXED32, _FIXED64):
            at += 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"a field of kind {kind}")


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    """A number of variable length, seven bits a byte, low ones first, and where it ends."""
    value = shift = 0
    while True:
        byte = view[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("a number of more than ten bytes")


def _line(key: str, value: str) -> bytes:
    return _field(_METADATA, _field(1, key.encode()) + _field(2, value.encode()))


def _field(number: int, content: bytes) -> bytes:
    head, rest = bytearray([number << 3 | _BYTES]), len(content)
    while rest > 0x7F:
        head.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes(head) + bytes([rest]) + content


_EXAMPLE = _line(SEAL, "0" * 64)  # every seal is as long
