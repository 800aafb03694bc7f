"""Conversion of hashes of other programs, as hexadecimal text or 64-bit integers, to codes and back.

An order defines which bit of the text becomes bit 0 of the code. A Hamming distance does not depend on the
order, if all codes have the same one. Codes of different orders must not be compared.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterable
from typing import Any, Literal, get_args

import numpy as np

from ._util.arguments import whole
from ._util.wording import counted
from .codes import as_array, check_bits, check_codes, code_bytes

Order = Literal["imagehash", "pdq", "img_hash"]

ORDERS: tuple[Order, ...] = get_args(Order)
BYTES: Order = "img_hash"
"""The order in which the text of a code consists of its bytes, as for codes of a model."""

_HASHERS = ("average_hash", "colorhash", "dhash", "dhash_vertical", "phash", "phash_simple", "whash")
HASHERS = {**{name: name for name in _HASHERS}, "ahash": "average_hash"}
"""The hashers of ImageHash, which share one order, by the names of columns that have their hashes."""

_PDQ_BITS = 256
_INTEGER_BITS = 64
_DECIMAL = re.compile("[+-]?[0-9]{1,40}")
_SHOWN = 80  # characters of a text in an error
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
    check_order(order)
    if isinstance(strings, (str, bytes)):
        raise TypeError(f"strings must be a list of texts, not one {type(strings).__name__}")
    texts = list(strings)
    if not all(issubclass(kind, str) for kind in set(map(type, texts))):
        row, text = next((row, text) for row, text in enumerate(texts) if not isinstance(text, str))
        raise TypeError(f"strings: row {row} must be a str, not {type(text).__name__}")
    bits = text_bits(texts, bits, order)
    digits = list(map(_without_prefix, texts))
    width = _digits(bits, order)
    if set(map(len, digits)) - {width}:
        row = next(row for row, text in enumerate(digits) if len(text) != width)
        raise _error(row, texts[row], counted(len(digits[row]), "digit"), f"{width} for {bits} bits")
    try:
        octets = binascii.unhexlify("0" * (width % 2) + ("0" * (width % 2)).join(digits) if digits else "")
    except ValueError:
        for row, text in enumerate(digits):
            if other := re.search("[^0-9a-fA-F]", text):
                raise _error(row, texts[row], repr(other[0]), "hexadecimal digits") from None
        raise
    return _from_octets(np.frombuffer(octets, np.uint8).reshape(-1, (width + 1) // 2), bits, order, texts)


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
    check_order(order)
    bits = integer_bits(bits, order)
    array = np.asarray(as_array(values, "values"))
    if array.dtype not in (np.int64, np.uint64):
        raise TypeError(
            f"values must be int64 or uint64, not {array.dtype}; convert them with numpy.array(values, numpy.uint64)"
        )
    if array.ndim != 1:
        raise ValueError(f"values must have shape (n,), not {array.shape}")
    octets = array.astype(">u8" if array.dtype == np.uint64 else ">i8").view(np.uint8).reshape(-1, 8)
    beyond = octets[:, : 8 - code_bytes(bits)].any(axis=1)
    if beyond.any():
        row = int(np.flatnonzero(beyond)[0])
        raise _error(row, array[row].item(), f"a bit set beyond {bits} bits", name="values")
    return _from_octets(octets[:, 8 - code_bytes(bits) :], bits, order, array, "values")


def to_hex(codes: Any, bits: int, order: Order) -> list[str]:
    """Returns codes as hexadecimal texts in lower case, the inverse of `from_hex`.

    Raises:
        TypeError: codes is not an array of uint8.
        ValueError: codes do not have `bits` bits, or the order is unknown or has another number of bits.
    """
    check_order(order)
    text_bits([], bits, order)
    octets = _octets(check_codes(codes, bits, contiguous=False), bits, order)
    text, end = octets.tobytes().hex(), 2 * octets.shape[1]
    skipped = end - _digits(bits, order)
    return [text[start + skipped : start + end] for start in range(0, len(text), end)]


def to_integers(codes: Any, bits: int, order: Order) -> np.ndarray:
    """Returns codes as integers, uint64 (n,), the inverse of `from_integers`. `.view(numpy.int64)` makes them signed.

    Raises:
        TypeError: codes is not an array of uint8.
        ValueError: codes do not have `bits` bits, these are more than 64, or the order is unknown or `pdq`.
    """
    check_order(order)
    bits = integer_bits(bits, order)
    octets = _octets(check_codes(codes, bits, contiguous=False), bits, order)
    return np.pad(octets, ((0, 0), (8 - octets.shape[1], 0))).view(">u8")[:, 0].astype(np.uint64)


def parse_integers(texts: list[str]) -> np.ndarray:
    """Returns the values of decimal texts for `from_integers`, uint64 (n,); negative ones modulo 2^64.

    Raises InvalidHashError for a text that is not an integer of 64 bits.
    """
    values = []
    for row, text in enumerate(texts):
        if not _DECIMAL.fullmatch(text):  # int accepts more, such as 1_000
            raise _error(row, text, "another text", "a decimal integer")
        value = int(text)
        if not -(2**63) <= value < 2**64:
            raise _error(row, text, "more than 64 bits")
        values.append(value % 2**64)
    return np.array(values, np.uint64)


def check_order(order: str) -> None:
    """Raises ValueError for an unknown order."""
    if order not in ORDERS:
        raise ValueError(f"order: {order!r} is invalid (expected {', '.join(ORDERS)})")


class InvalidHashError(ValueError):
    """A text or an integer that is not a hash.

    Attributes:
        row: its row, from 0.
        shown: the hash, cut off after some characters.
        found, expected: the actual and the required value; `expected` may be None.
    """

    row: int
    shown: str
    found: str
    expected: str | None


def _digits(bits: int, order: Order) -> int:
    return 2 * code_bytes(bits) if order == "img_hash" else (bits + 3) // 4


def text_bits(texts: list[str], bits: int | None, order: Order) -> int:
    """Returns the code length of texts in `from_hex`: `bits`, or that of the first text if it is None.

    Raises the errors of `from_hex`.
    """
    if order == "pdq":
        if bits not in (None, _PDQ_BITS):
            raise ValueError(f"bits: {bits!r} is invalid for order 'pdq' (expected {_PDQ_BITS})")
        return _PDQ_BITS
    if bits is not None:
        return check_bits(bits)
    if not texts:
        raise ValueError("strings: no texts, so the code length is unknown; give bits")
    digits = len(_without_prefix(texts[0]))
    if not digits:
        raise _error(0, texts[0], "0 digits")
    if order == "img_hash" and digits % 2:
        raise _error(0, texts[0], counted(digits, "digit"), "two per byte")
    return check_bits(4 * digits)


def _without_prefix(text: str) -> str:
    return text[2:] if text[:2] in ("0x", "0X") else text


def integer_bits(bits: int, order: Order) -> int:
    """Returns the checked code length of integers in `from_integers`. Raises ValueError for an invalid one."""
    if order == "pdq":
        raise ValueError("order: 'pdq' is not supported for integers, because PDQ has 256 bits")
    return whole("bits", bits, 1, _INTEGER_BITS)


def _from_octets(octets: np.ndarray, bits: int, order: Order, texts: Any, name: str = "strings") -> np.ndarray:
    """Returns the codes of bytes, most significant first. Raises InvalidHashError for a bit set beyond `bits`."""
    spare = -bits % 8
    if spare:
        beyond = octets[:, -1 if order == "img_hash" else 0] >> (8 - spare) != 0
        if beyond.any():
            row = int(np.flatnonzero(beyond)[0])
            text = texts[row] if isinstance(texts, list) else texts[row].item()
            raise _error(row, text, f"a bit set beyond {bits} bits", name=name)
    if order == "pdq":
        octets = octets[:, ::-1]
    elif order == "imagehash":
        if spare:
            following = np.pad(octets[:, 1:], ((0, 0), (0, 1)))
            octets = (octets << spare) | (following >> (8 - spare))
        octets = _REVERSED[octets]
    return octets.copy()


def _octets(codes: np.ndarray, bits: int, order: Order) -> np.ndarray:
    """Returns the bytes of which `_from_octets` makes these codes."""
    if order == "pdq":
        return codes[:, ::-1]
    if order == "img_hash":
        return codes
    octets = _REVERSED[codes]
    if spare := -bits % 8:
        previous = np.pad(octets[:, :-1], ((0, 0), (1, 0)))
        octets = (octets >> spare) | (previous << (8 - spare))
    return octets


def _error(
    row: int, text: str | int, found: str, expected: str | None = None, name: str = "strings"
) -> InvalidHashError:
    shown = repr(text[:_SHOWN]) if isinstance(text, str) else str(text)
    problem = f"found {found}" + (f", expected {expected}" if expected else "")
    error = InvalidHashError(f"{name}: row {row} ({shown}) is invalid ({problem})")
    error.row, error.shown, error.found, error.expected = row, shown, found, expected
    return error
