"""The list of pairs of images that are not duplicates, although their codes are similar.

Each line of the file has two keys with a tab between them. A key with a tab, a line break or a backslash has \\t, \\n,
\\r or \\\\ in its place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from .._util.text_files import check_text
from ..errors import InvalidInputError

_EXPECTED = "two keys with a tab between them"
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_PLAIN = {escape: character for character, escape in _ESCAPES.items()}


class NotDuplicates:
    """Pairs of keys. The order of the two keys does not matter."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        pairs = list(pairs)
        self._numbers = {key: number for number, key in enumerate(dict.fromkeys(key for pair in pairs for key in pair))}
        numbers = [(self._numbers[a], self._numbers[b]) for a, b in pairs]
        self._pairs = np.unique(self._joined(*np.array(numbers, np.int64).reshape(-1, 2).T))

    def __len__(self) -> int:
        return len(self._pairs)

    def numbers(self, keys: list[str | None]) -> np.ndarray:
        """Returns a number per distinct key of the list, int64 (n,), and -1 for any other key and for None."""
        return np.fromiter((self._numbers.get(key, -1) if key else -1 for key in keys), np.int64, len(keys))

    def has(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Returns True for each pair of numbers that is in the list."""
        return (a >= 0) & (b >= 0) & np.isin(self._joined(a, b), self._pairs)

    def _joined(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.minimum(a, b) * len(self._numbers) + np.maximum(a, b)


def read(path: str | os.PathLike[str]) -> NotDuplicates:
    """Returns the pairs in a file. Empty lines are ignored. Raises InvalidInputError with file and line."""
    content = Path(path).read_bytes()
    check_text(content, path, f"UTF-8 text, per line {_EXPECTED}")
    text = os.fsdecode(content.removeprefix(b"\xef\xbb\xbf"))
    found = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not line:
            continue
        keys = line.split("\t")
        if len(keys) != 2 or not all(keys):
            fields = f"{sum(map(bool, keys))} keys" if len(keys) <= 2 else f"{len(keys) - 1} tabs"
            raise InvalidInputError(path=f"{path}:{number}", found=fields, expected=_EXPECTED)
        found.append((_unescaped(keys[0], path, number), _unescaped(keys[1], path, number)))
    return NotDuplicates(found)


def line(a: str, b: str) -> str:
    """Returns the line of a pair, without the line break."""
    return "\t".join("".join(_ESCAPES.get(c, c) for c in key) for key in (a, b))


def _unescaped(key: str, path: str | os.PathLike[str], number: int) -> str:
    def plain(match: re.Match[str]) -> str:
        if match[0] not in _PLAIN:
            raise InvalidInputError(path=f"{path}:{number}", found=match[0], expected=r"\\, \t, \n or \r")
        return _PLAIN[match[0]]

    return re.sub(r"\\.?", plain, key, flags=re.DOTALL)
