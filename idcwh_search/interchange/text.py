"""Codes as texts of 0 and 1 with bit 0 leftmost, the format of SQL's bit(n) and of pgvector."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..codes import check_bits, unpack


def to_bit_strings(codes: np.ndarray, bits: int) -> list[str]:
    """Returns codes uint8 (n, code bytes) as n texts of `bits` characters, where character i is bit i.

    Raises TypeError or ValueError for invalid codes.
    """
    digits = unpack(codes, bits).view(np.uint8) + np.uint8(ord("0"))
    return [row.tobytes().decode("ascii") for row in digits]


def from_bit_strings(texts: Sequence[str], bits: int) -> np.ndarray:
    """Returns the codes of texts, uint8 (n, code bytes). Raises ValueError for a text that is not `bits` digits."""
    check_bits(bits)
    for row, text in enumerate(texts):
        if len(text) != bits or text.strip("01"):
            raise ValueError(f"text {row}: expected {bits} characters, 0 or 1, not {text[:80]!r}")
    digits = np.frombuffer("".join(texts).encode("ascii"), np.uint8) if len(texts) else np.empty(0, np.uint8)
    return np.packbits(digits.reshape(-1, bits) == ord("1"), axis=1, bitorder="little")
