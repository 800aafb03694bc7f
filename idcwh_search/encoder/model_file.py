"""Bytes, checksum and metadata of a model.onnx. No ONNX library is used, because it takes longer to load than a model.

ONNX is a protocol buffer, a sequence of tagged fields, and metadata can be appended as further fields. A model with a
checksum consists of the bytes that the exporter verified, metadata, and the SHA-256 of all that in the last field. The
checksum detects accidental changes, not attacks.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from .._util.atomic import StrPath
from ..errors import (
    CorruptFileError,
    InvalidInputError,
    ModelMismatchError,
    NotFoundError,
    NotSupportedError,
)
from ..images.preprocess import Preprocess
from .metadata import ModelInfo

CHECKSUM_KEY = "idcwh_sha256"
_EXPECTED = "a model.onnx written by idcwh-export"
_CHANGED = "does not match its checksum"
_WHEN_CHANGED = (
    "export it again; if another program changed it on purpose, pass --preprocess RESIZE,CROP (in Python, preprocess=)"
)
_GRAPH, _METADATA = 7, 14  # fields of ModelProto; a metadata entry is a message {1: key, 2: value}
# Paths to tensors: kind of message -> field -> kind of the message in it.
_INSIDE = {
    "model": {_GRAPH: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
_EXTERNAL_DATA = 13  # field of TensorProto: messages {1: key, 2: value}; the key "location" has the file name
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class ChecksumState(Enum):
    """The state of a file's checksum."""

    VALID = "unchanged since it was written"
    MISSING = "without a checksum"
    WRONG = "changed after it was written"


@dataclass(frozen=True)
class LoadedModel:
    """A model.onnx in memory, read once, so that the verified bytes are those that run.

    Attributes:
        path: absolute path of the file.
        content: bytes of the file.
        checksum: state of the checksum in the file.
        fingerprint: SHA-256 of the file.
        metadata: metadata_props of the file, key -> value.
    """

    path: str
    content: bytes
    checksum: ChecksumState
    fingerprint: str
    metadata: dict[str, str]

    @classmethod
    def read(cls, path: StrPath) -> LoadedModel:
        """Reads a file. Raises IdcwhError if it is missing, unreadable, or not an ONNX model."""
        if not os.fspath(path):
            raise InvalidInputError("path of the model is missing", expected=_EXPECTED)
        path = str(Path(path).absolute())
        try:
            # Reading a pipe would block.
            if stat.S_IFMT(Path(path).stat().st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
                raise NotSupportedError(path=path, found="a device or a pipe", expected=_EXPECTED)
            content = Path(path).read_bytes()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFoundError(path=path, expected=_EXPECTED) from error
        except OSError as error:
            raise InvalidInputError(f"cannot be read: {error.strerror}", path=path, expected=_EXPECTED) from error
        lines = metadata(content)
        if lines is None and content.startswith(b"PK\3\4") and b"data.pkl" in content:
            hint = f"run idcwh-export {shlex.quote(path)} --onnx"
            raise InvalidInputError(path=path, found="a PyTorch file", expected="a model.onnx", hint=hint)
        checksum, fingerprint = examine(content)
        if lines is None:
            problem = _CHANGED if checksum is ChecksumState.WRONG else None
            raise CorruptFileError(problem, path=path, expected=_EXPECTED)
        return cls(path, content, checksum, fingerprint, lines)

    def info(self, preprocess: Preprocess | None = None, bits: int | None = None) -> ModelInfo:
        """Returns the metadata, or the arguments for a file whose metadata is missing or not trustworthy.

        Args:
            preprocess: preprocessing of the model. If it is given, the metadata is read only with a valid checksum, and
                has to agree.
            bits: code length, which has to agree as well. Without metadata and `bits` the code length is 0.

        Raises:
            CorruptFileError: the checksum is wrong, and `preprocess` is not given.
            ModelMismatchError: an argument does not match the metadata.
            NotSupportedError: the model has weights in another file.
        """
        check_self_contained(self.content)
        if preprocess is not None and self.checksum is not ChecksumState.VALID:
            return ModelInfo(bits or 0, preprocess, [], {}, {}, "", precision="unknown")
        if self.checksum is ChecksumState.WRONG:
            raise CorruptFileError(_CHANGED, path=self.path, hint=_WHEN_CHANGED)
        info = ModelInfo.from_metadata(self.metadata)
        if preprocess not in (None, info.preprocess):
            raise ModelMismatchError(
                "metadata idcwh_preprocess does not match", path=self.path, found=info.preprocess, expected=preprocess,
                hint="leave --preprocess out (in Python, preprocess=), since the file has a valid checksum",
            )  # fmt: skip
        if bits not in (None, info.bits):
            raise ModelMismatchError(
                "metadata idcwh_bits does not match", path=self.path, found=info.bits, expected=bits
            )
        return info


def with_metadata(content: bytes, lines: dict[str, str]) -> bytes:
    """Returns the model with metadata entries appended."""
    return content + b"".join(_line(key, value) for key, value in lines.items())


def with_checksum(content: bytes) -> bytes:
    """Returns the model with its own SHA-256 appended as a metadata entry."""
    return with_metadata(content, {CHECKSUM_KEY: hashlib.sha256(content).hexdigest()})


def examine(content: bytes) -> tuple[ChecksumState, str]:
    """Returns the state of the checksum, and the SHA-256 of the whole file, in one pass."""
    body, tail = memoryview(content)[: -len(_EXAMPLE)], content[-len(_EXAMPLE) :]
    digest = hashlib.sha256(body)
    whole = tail == _EXAMPLE[:-64] + digest.hexdigest().encode()
    digest.update(tail)
    # A program that rewrites a model keeps its metadata. The checksum entry is then wrong or not the last one.
    state = (
        ChecksumState.VALID if whole else ChecksumState.WRONG if _EXAMPLE[:-64] in content else ChecksumState.MISSING
    )
    return state, digest.hexdigest()


def metadata(content: bytes) -> dict[str, str] | None:
    """Returns the metadata_props of a model, or None for bytes that are not an ONNX model."""
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
    """Raises NotSupportedError for a model with weights in another file, which the SHA-256 does not cover."""
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
                            found=f"weights in another file, {place}",
                            expected="weights in the file itself",
                            hint="write it with idcwh-export, or as one file with onnx.save_model",
                        )
                elif inside := _INSIDE.get(kind, {}).get(field):
                    messages.append((inside, value))
    except (ValueError, IndexError, TypeError):  # corrupt inner messages, which ONNX Runtime reports
        return


def _fields(content: bytes | memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yields (number, content) of all length-delimited fields, without parsing their content."""
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
    """Returns a number of variable length (seven bits per byte, low ones first) and the position after it."""
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


_EXAMPLE = _line(CHECKSUM_KEY, "0" * 64)  # has the length of every checksum entry
