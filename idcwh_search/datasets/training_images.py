"""The record of a model's training images as short checksums, by which they are recognised in an evaluation."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from . import LabelledImages

_BYTES = 4
"""Bytes per checksum. With a million training images, one query in 4,000 is falsely recognised."""


def record(dataset: LabelledImages, rows: np.ndarray) -> dict[str, Any]:
    """Returns the record of the images `rows` as plain Python: their number, and their checksums in base64."""
    return {"images": len(rows), "sums": base64.b64encode(np.sort(_sums(dataset, rows)).tobytes()).decode()}


def count(recorded: Mapping[str, Any] | None, dataset: LabelledImages, rows: np.ndarray) -> int | None:
    """Returns the number of `rows` whose images are in a record; None if the record is missing or corrupt.

    A file is recognised by its key and its size in bytes, an image in an array by its key and its pixels.
    """
    try:
        found = np.frombuffer(base64.b64decode((recorded or {})["sums"], validate=True), "<u4")
    except (KeyError, TypeError, ValueError, binascii.Error):
        return None
    return int(np.isin(_sums(dataset, rows), found).sum())


def _sums(dataset: LabelledImages, rows: np.ndarray) -> np.ndarray:
    whole = b"".join(hashlib.sha256(_identity(dataset, int(row))).digest()[:_BYTES] for row in rows)
    return np.frombuffer(whole, "<u4")


def _identity(dataset: LabelledImages, row: int) -> bytes:
    key = dataset.keys[row].encode("utf-8", "surrogateescape")
    path = dataset.path(row)
    if path is None:
        return key + b"\0" + np.ascontiguousarray(dataset.images[row]).tobytes()
    size = -1  # for an image in a tar file, or a missing one
    with contextlib.suppress(OSError):
        size = path.stat().st_size
    return key + b"\0" + str(size).encode()
