"""Bits and bytes of a code: `bits` bits are ceil(bits / 8) bytes, bit i in byte i // 8 at position i % 8 (least
significant first).

That is numpy.packbits(..., bitorder="little") and what faiss uses. Padding bits are zero.
"""

from __future__ import annotations

import operator

import numpy as np

from . import _core

MAX_BITS = 65535


def check_bits(bits: int) -> int:
    """`bits` as an int. TypeError unless it is a whole number, ValueError unless it is 1 to 65535."""
    try:
        if isinstance(bits, bool):
            raise TypeError
        number = operator.index(bits)
    except TypeError:
        raise TypeError(f"bits must be a whole number, not {bits!r}") from None
    if not 1 <= number <= MAX_BITS:
        raise ValueError(f"bits must be 1 to {MAX_BITS}, not {number}")
    return number


def code_bytes(bits: int) -> int:
    """Bytes of one code: ceil(bits / 8)."""
    return (check_bits(bits) + 7) // 8


def pack(h: np.ndarray) -> np.ndarray:
    """Binary codes of the outputs of a network, or of bits.

    h: (n, bits) real numbers, where bit i is 1 exactly where h >= 0 (so sgn(0) = +1, and any sign of zero), or bool,
    where bit i is 1 exactly where h is True. Integers are real numbers: +1 and -1 become 1 and 0, but so do 1 and 0
    become 1 and 1; convert 0/1 arrays with `.astype(bool)`.

    Returns uint8 (n, ceil(bits / 8)). ValueError for NaN or a wrong shape, TypeError for a wrong dtype.
    """
    values = np.asarray(h)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"h must be real numbers or bool, not {values.dtype}")
    if values.ndim != 2:
        raise ValueError(f"h must have shape (n, bits), not {values.shape}")
    check_bits(values.shape[1])
    if values.dtype.kind == "f" and np.isnan(values).any():
        row = int(np.flatnonzero(np.isnan(values).any(axis=1))[0])
        raise ValueError(f"h must not have NaN, but row {row} does: no bit can be told from it")
    ones = values if values.dtype == bool else values >= 0
    return np.packbits(ones, axis=1, bitorder="little")


def unpack(codes: np.ndarray, bits: int) -> np.ndarray:
    """The bits of packed codes: uint8 (n, ceil(bits / 8)) -> bool (n, bits). Errors as of `check_codes`."""
    check_codes(codes, bits, contiguous=False)
    return np.unpackbits(codes, axis=1, count=bits, bitorder="little").view(bool)


def check_codes(codes: np.ndarray, bits: int, name: str = "codes", contiguous: bool = True) -> np.ndarray:
    """Raise unless `codes` are packed codes of `bits` bits: uint8, shape (n, ceil(bits / 8)), padding bits zero.

    With `contiguous`, also unless rows lie one after the other, as the engine needs them to search without a copy.
    Returns the array itself. TypeError names a wrong type, ValueError anything else, with expected and actual.
    """
    width = code_bytes(bits)
    expected = f"uint8 of shape (n, {width}) for {bits} bits"
    if not isinstance(codes, np.ndarray):
        raise TypeError(f"{name} must be an array, {expected}, not {type(codes).__name__}")
    if codes.dtype != np.uint8:
        raise TypeError(f"{name} must be {expected}, not {codes.dtype} (real numbers and bool become codes by pack)")
    if codes.ndim != 2 or codes.shape[1] != width:
        raise ValueError(f"{name} must be {expected}, not of shape {codes.shape}")
    if not codes.flags.c_contiguous:
        if contiguous:
            raise ValueError(f"{name} must be C-contiguous (numpy.ascontiguousarray makes them so)")
        if bits % 8 and (codes[:, -1] >> (bits % 8)).any():
            raise _padding_error(codes, bits, name)
    elif not _core.padding_is_zero(codes, bits):
        raise _padding_error(codes, bits, name)
    return codes


def _padding_error(codes: np.ndarray, bits: int, name: str) -> ValueError:
    row = int(np.flatnonzero(codes[:, -1] >> (bits % 8))[0])
    return ValueError(
        f"{name}: row {row} has bits set beyond bit {bits - 1}: padding must be zero "
        f"(the last byte is {int(codes[row, -1])}, at most {(1 << bits % 8) - 1} was expected)"
    )
