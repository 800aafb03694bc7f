"""Conversion of hashes of other programs, as hexadecimal text or 64-bit integers, to codes and back.

An order defines which bit of the text becomes bit 0 of the code. A Hamming distance does not depend on the
order, if all codes have the same one. Codes of different orders must not be compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args

import numpy as np

from ._util.arguments import whole
from .codes import as_array, check_bits, check_codes, code_bytes

Order = Literal["imagehash", "pdq", "img_hash"]

_PDQ_BITS = 256
_INVALID = 255
_SHOWN = 80  # characters of a text in an error
_NIBBLES = np.full(256, _INVALID, np.uint8)
for _digit in "0123456789abcdefABCDEF":
    _NIBBLES[ord(_digit)] = int(_digit, 16)
_REVERSED = np.packbits(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1), axis=1, bitorder="little")[:, 0]


def from_hex(strings: Iterable[str], bits: int | None = None, *, order: Order) -> np.ndarray:
    """Returns the codes of hexadecimal hashes, uint8 (n, ceil(bits / 8)).

    Upper case and a prefix `0x` are accepted.

    Args:
        strings: n texts of the same number of digits: ceil(bits / 4), or 2 ceil(bits / 8) for `img_hash`.
        bits: code length. By default 4 times the digits of the first text.
        order: `imagehash` for str(ImageHash). Bit 0 is the most significant of the text.
            `pdq` for PDQ with 256 bits. Bit 0 is the least significant of the text.
            `img_hash` for the bytes of the Rust crates img_hash and image_hasher. Bit 0 is the least significant of
            the first byte.

    Raises:
        TypeError: strings is one text, or has an element that is not a text.
        ValueError: a text has a wrong length, another character or a bit set beyond `bits`; or `order` is unknown. The
            error names row and text.
    """
    _check_order(order)
    if isinstance(strings, (str, bytes)):
        raise TypeError(f"strings must be a list of texts, not one {type(strings).__name__}")
    texts = list(strings)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"strings: row {row} must be a str, not {type(text).__name__}")
    digits = [text[2:] if text[:2] in ("0x", "0X") else text for text in texts]
    bits = _text_bits(digits, texts, bits, order)
    width = _digits(bits, order)
    for row, text in enumerate(digits):
        if len(text) != width:
            raise _error(row, texts[row], f"found {len(text)} digits, expected {width} for {bits} bits")
    return _from_nibbles(_nibbles(digits, texts, width), bits, order, texts)


def from_integers(values: Any, bits: int = 64, *, order: Order) -> np.ndarray:
    """Returns the codes of hashes stored as 64-bit integers, uint8 (n, ceil(bits / 8)).

    The code of an integer is that of its hexadecimal text in `from_hex`. A negative integer stands for the unsigned one
    with the same 64 bits, as in databases that have no unsigned integers.

    Args:
        values: int64 or uint64 (n,).
        bits: code length, 1 to 64.
        order: as in `from_hex`, except `pdq`.

    Raises:
        TypeError: values is not an array of int64 or uint64.
        ValueError: the shape or an argument is invalid, or a value has a bit set beyond `bits`.
    """
    _check_order(order)
    if order == "pdq":
        raise ValueError("order: 'pdq' is not supported for integers, because PDQ has 256 bits")
    bits = whole("bits", bits, 1, 64)
    array = np.asarray(as_array(values, "values"))
    if array.dtype not in (np.int64, np.uint64):
        raise TypeError(f"values must be int64 or uint64, not {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"values must have shape (n,), not {array.shape}")
    width = _digits(bits, order)
    octets = array.astype(">u8" if array.dtype == np.uint64 else ">i8").view(np.uint8).reshape(-1, 8)
    nibbles = np.stack([octets >> 4, octets & 15], axis=2).reshape(-1, 16)
    beyond = nibbles[:, : 16 - width].any(axis=1)
    if beyond.any():
        row = int(np.flatnonzero(beyond)[0])
        raise _error(row, array[row].item(), f"found a bit set beyond {bits} bits", "values")
    return _from_nibbles(nibbles[:, 16 - width :], bits, order, array, "values")


def to_hex(codes: Any, bits: int, order: Order) -> list[str]:
    """Returns codes as hexadecimal texts in lower case, the inverse of `from_hex`.

    Raises:
        TypeError: codes is not an array of uint8.
        ValueError: codes do not have `bits` bits, or the order is unknown or has another number of bits.
    """
    _check_order(order)
    _text_bits([], [], bits, order)
    octets = check_codes(codes, bits, contiguous=False)
    width = _digits(bits, order)
    if order == "pdq":
        octets = octets[:, ::-1]
    elif order == "imagehash":
        octets = _REVERSED[octets]
        if spare := -bits % 8:
            previous = np.pad(octets[:, :-1], ((0, 0), (1, 0)))
            octets = (octets >> spare) | (previous << (8 - spare))
    return [row.tobytes().hex()[-width:] for row in octets]


def _check_order(order: str) -> None:
    if order not in get_args(Order):
        raise ValueError(f"order: {order!r} is invalid (expected {', '.join(get_args(Order))})")


def _digits(bits: int, order: Order) -> int:
    return 2 * code_bytes(bits) if order == "img_hash" else (bits + 3) // 4


def _text_bits(digits: list[str], texts: list[str], bits: int | None, order: Order) -> int:
    if order == "pdq":
        if bits not in (None, _PDQ_BITS):
            raise ValueError(f"bits: {bits!r} is invalid for order 'pdq' (expected {_PDQ_BITS})")
        return _PDQ_BITS
    if bits is not None:
        return check_bits(bits)
    if not digits:
        raise ValueError("strings: no texts, so the code length is unknown; give bits")
    if not digits[0]:
        raise _error(0, texts[0], "found 0 digits")
    if order == "img_hash" and len(digits[0]) % 2:
        raise _error(0, texts[0], f"found {len(digits[0])} digits, expected two per byte")
    return check_bits(4 * len(digits[0]))


def _nibbles(digits: list[str], texts: list[str], width: int) -> np.ndarray:
    """Returns the values of digits, uint8 (n, width). Raises ValueError for a character that is not a digit."""
    characters = np.frombuffer("".join(digits).encode("ascii", "replace"), np.uint8)  # one byte per character
    nibbles = _NIBBLES[characters].reshape(-1, width)
    if (nibbles == _INVALID).any():
        row, column = (int(i) for i in np.argwhere(nibbles == _INVALID)[0])
        raise _error(row, texts[row], f"found {digits[row][column]!r}, expected hexadecimal digits")
    return nibbles


def _from_nibbles(nibbles: np.ndarray, bits: int, order: Order, texts: Any, name: str = "strings") -> np.ndarray:
    """Returns the codes of digits, most significant first. Raises ValueError for a bit set beyond `bits`."""
    if nibbles.shape[1] % 2:
        nibbles = np.pad(nibbles, ((0, 0), (1, 0)))
    octets = (nibbles[:, ::2] << 4) | nibbles[:, 1::2]
    spare = -bits % 8
    if spare:
        beyond = octets[:, -1 if order == "img_hash" else 0] >> (8 - spare) != 0
        if beyond.any():
            row = int(np.flatnonzero(beyond)[0])
            text = texts[row] if isinstance(texts, list) else texts[row].item()
            raise _error(row, text, f"found a bit set beyond {bits} bits", name)
    if order == "pdq":
        octets = octets[:, ::-1]
    elif order == "imagehash":
        if spare:
            following = np.pad(octets[:, 1:], ((0, 0), (0, 1)))
            octets = (octets << spare) | (following >> (8 - spare))
        octets = _REVERSED[octets]
    return np.ascontiguousarray(octets)


def _error(row: int, text: str | int, problem: str, name: str = "strings") -> ValueError:
    shown = repr(text[:_SHOWN]) if isinstance(text, str) else str(text)
    return ValueError(f"{name}: row {row} ({shown}) is invalid ({problem})")
