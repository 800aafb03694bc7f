"""New items of a database: checks of the arguments of `Database.add` and their conversion for the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..codes import check_codes, code_bytes
from ..search.where import as_id_list

Texts = Sequence[str | None] | np.ndarray | None
MtimeSignatures = Sequence[int | None] | np.ndarray | None
Checksums = Sequence[Sequence[int] | None] | np.ndarray | None
_MAX_MTIME_SIGNATURE = int(np.iinfo(np.uint32).max)


class NewItems(NamedTuple):
    """Codes and columns in the engine's form."""

    codes: np.ndarray
    ids: np.ndarray | None
    keys: list[str | None] | None
    labels: list[str | None] | None
    mtime_signatures: np.ndarray | None
    checksums: np.ndarray | None

    @classmethod
    def of(
        cls,
        bits: int,
        codes: np.ndarray,
        ids: np.ndarray | Sequence[int] | None,
        keys: Texts,
        labels: Texts,
        mtime_signatures: MtimeSignatures,
        checksums: Checksums,
    ) -> NewItems:
        """Returns the checked arguments of `Database.add`."""
        codes = np.ascontiguousarray(check_codes(codes, bits, contiguous=False))
        return cls(
            codes.reshape(-1, code_bytes(bits)),
            None if ids is None else as_id_list(ids),
            None if keys is None else _one_per_code("keys", keys),
            None if labels is None else _one_per_code("labels", labels),
            None if mtime_signatures is None else mtime_signature_column(mtime_signatures),
            None if checksums is None else checksum_column(checksums),
        )


def class_names(label: str) -> set[str]:
    """Returns the names of a label: its text, and for a multi-label text `a|b` each class as well."""
    return {label, *label.split("|")}


def text_list(name: str, texts: Texts) -> list[str | None]:
    """Returns texts as a list. Raises ValueError for a single text, which is a sequence of letters."""
    if isinstance(texts, str):
        raise ValueError(f"{name}: expected texts, one per code, not the text {texts!r}")
    return texts.tolist() if isinstance(texts, np.ndarray) else list(texts or ())


def _one_per_code(name: str, texts: Texts) -> list[str | None]:
    if isinstance(texts, set | frozenset):
        raise TypeError(f"{name}: expected a list, one text per code, not a set, which has no order")
    return text_list(name, texts)


def mtime_signature_column(signatures: MtimeSignatures) -> np.ndarray:
    """Returns mtime signatures as uint32 (n,), None as 0. Raises TypeError or ValueError for invalid ones."""
    if not isinstance(signatures, np.ndarray):
        signatures = np.array([0 if signature is None else signature for signature in signatures or ()])
    if signatures.size == 0:
        signatures = signatures.astype(np.uint32)  # NumPy makes an empty list float64
    if signatures.dtype.kind not in "iu":
        raise TypeError(f"mtime_signatures must be whole numbers, not {signatures.dtype}")
    if signatures.ndim != 1:
        raise ValueError(f"mtime_signatures must have one dimension, not shape {signatures.shape}")
    if signatures.size and not 0 <= signatures.min() <= signatures.max() <= _MAX_MTIME_SIGNATURE:
        wrong = signatures.min() if signatures.min() < 0 else signatures.max()
        raise ValueError(f"mtime_signatures must be 0 to {_MAX_MTIME_SIGNATURE}, not {int(wrong)}")
    return np.ascontiguousarray(signatures, np.uint32)


def checksum_column(checksums: Checksums) -> np.ndarray:
    """Returns checksums as uint64 (n, 2), None as (0, 0). Raises TypeError or ValueError for invalid ones."""
    if not isinstance(checksums, np.ndarray):
        pairs = [(0, 0) if pair is None else tuple(pair) for pair in checksums or ()]
        if not all(type(number) is int for pair in pairs for number in pair):
            raise TypeError("checksums must be pairs of whole numbers")
        try:
            checksums = np.array(pairs, np.uint64).reshape(len(pairs), 2)
        except (ValueError, OverflowError):
            raise ValueError("checksums must be pairs of whole numbers, 0 to 2^64 - 1") from None
    if checksums.dtype != np.uint64:
        raise TypeError(f"checksums must be uint64, not {checksums.dtype}")
    if checksums.ndim != 2 or checksums.shape[1] != 2:
        raise ValueError(f"checksums must have shape (n, 2), not {checksums.shape}")
    return np.ascontiguousarray(checksums)
