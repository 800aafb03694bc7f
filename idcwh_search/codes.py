"""Packing of bits into codes, and the checks of packed codes.

A code of `bits` bits takes ceil(bits / 8) bytes. Bit i is in byte i // 8 at position i % 8, least significant first.
NumPy's packbits(..., bitorder="little") and faiss use the same order. Padding bits are zero.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from . import _core
from ._util.arguments import whole

MAX_BITS = 65535
_NEARLY_ALL = 0.99
_ENOUGH_BITS = 64  # `pack` does not warn about fewer bits: they may be equal by chance


def check_bits(bits: int) -> int:
    """Returns a code length as an int. Raises TypeError for a non-integer, ValueError outside 1 to 65535."""
    return whole("bits", bits, 1, MAX_BITS)


def code_bytes(bits: int) -> int:
    """Returns the size of one code in bytes, ceil(bits / 8)."""
    return (check_bits(bits) + 7) // 8


def pack(h: Any) -> np.ndarray:
    """Returns the packed binary codes of network outputs or of bits: uint8 (n, ceil(bits / 8)).

    Warns (UserWarning) when at least 99 % of the bits are equal.

    Args:
        h: array or CPU tensor of shape (n, bits). Real numbers give bit 1 where h >= 0, so that sgn(0) = +1. Booleans
            give bit 1 where h is True.

    Raises:
        ValueError: h has NaN, or a wrong shape.
        TypeError: h has a wrong dtype. Integers are refused, because zeros and ones would all become 1 (0 >= 0).
    """
    ones = output_bits(h)
    share = ones.mean() if ones.size >= _ENOUGH_BITS else 0.5
    if not 1 - _NEARLY_ALL < share < _NEARLY_ALL:
        warnings.warn(
            f"pack: {100 * max(share, 1 - share):.4g} % of the bits are {int(share > 0.5)}, so codes hardly differ; "
            "centre features first, such as h - h.mean(axis=0)",
            stacklevel=2,
        )
    return np.packbits(ones, axis=1, bitorder="little")


def pack_outputs(h: np.ndarray) -> np.ndarray:
    """Returns `pack(h)` without the warning, for callers that report the bit balance themselves."""
    return np.packbits(output_bits(h), axis=1, bitorder="little")


def output_bits(h: Any) -> np.ndarray:
    """Returns the bits of network outputs, bool (n, bits). Raises the errors of `pack`."""
    values = np.asarray(as_array(h, "h"))
    if values.dtype.kind in "iu":
        raise TypeError(
            f"h must be real numbers or bool, not {values.dtype}; convert zeros and ones with h.astype(bool), "
            "and -1 and +1 with h > 0"
        )
    if values.dtype.kind not in "fb":
        raise TypeError(f"h must be real numbers or bool, not {values.dtype}")
    if values.ndim != 2:
        raise ValueError(f"h must have shape (n, bits), not {values.shape}")
    check_bits(values.shape[1])
    if values.dtype.kind == "f" and np.isnan(values).any():
        row = int(np.flatnonzero(np.isnan(values).any(axis=1))[0])
        raise ValueError(f"h must not contain NaN, but row {row} does")
    return values if values.dtype == bool else values >= 0


def as_array(values: Any, name: str) -> Any:
    """Returns a tensor of another library as an array over the same memory, and any other value unchanged.

    A tensor is an object with `__array__` or `__dlpack__`. Raises TypeError for one that NumPy cannot read, such as
    one on a GPU.
    """
    if isinstance(values, np.ndarray) or not (hasattr(values, "__array__") or hasattr(values, "__dlpack__")):
        return values
    try:
        return np.asarray(values) if hasattr(values, "__array__") else np.from_dlpack(values)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        device = getattr(values, "device", None)
        place = "" if device is None else f" on device {device}"
        raise TypeError(
            f"{name}: a {type(values).__name__}{place} cannot become a NumPy array ({' '.join(str(error).split())}); "
            "give an array or a CPU tensor, such as x.detach().cpu()"
        ) from error


def unpack(codes: Any, bits: int) -> np.ndarray:
    """Returns the bits of packed codes: uint8 (n, ceil(bits / 8)) -> bool (n, bits).

    Raises the errors of `check_codes`.
    """
    codes = check_codes(codes, bits, contiguous=False)
    return np.unpackbits(codes, axis=1, count=bits, bitorder="little").view(bool)


def check_codes(codes: Any, bits: int, name: str = "codes", contiguous: bool = True) -> np.ndarray:
    """Returns packed codes after a check: uint8, shape (n, ceil(bits / 8)), padding bits zero.

    Args:
        codes: array, returned itself; or CPU tensor, returned as an array over its memory.
        bits: code length.
        name: name of the argument in errors.
        contiguous: requires C-contiguous rows, which the engine searches without a copy.

    Raises:
        TypeError: the value is not an array, or has a wrong dtype.
        ValueError: the shape, the memory layout or a padding bit is wrong.
    """
    width = code_bytes(bits)
    expected = f"uint8 of shape (n, {width}) for {bits} bits"
    codes = as_array(codes, name)
    if not isinstance(codes, np.ndarray):
        raise TypeError(f"{name} must be an array, {expected}, not {type(codes).__name__}")
    if codes.dtype != np.uint8:
        raise TypeError(f"{name} must be {expected}, not {codes.dtype}; convert real numbers and bool with pack")
    if codes.ndim != 2 or codes.shape[1] != width:
        unpacked = codes.ndim == 2 and codes.shape[1] == bits
        hint = "; pack zeros and ones with pack(x.astype(bool))" if unpacked else ""
        raise ValueError(f"{name} must be {expected}, not of shape {codes.shape}{hint}")
    if not codes.flags.c_contiguous:
        if contiguous:
            raise ValueError(f"{name} must be C-contiguous; copy them with numpy.ascontiguousarray")
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
