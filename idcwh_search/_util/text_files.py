"""Checks of text and CSV files before they are read."""

from __future__ import annotations

import codecs
import os
from pathlib import Path

from ..errors import InvalidInputError


def check_text(head: bytes, path: str | os.PathLike[str], expected: str) -> None:
    """Raises InvalidInputError if the first bytes of a file are UTF-16 or binary, and not UTF-8 text."""
    utf16 = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if utf16 or b"\0" in head:
        raise InvalidInputError(
            path=path,
            found="UTF-16 text" if utf16 else "a NUL byte",
            expected=expected,
            hint="save it as UTF-8" if utf16 else None,
        )


def delimiter(path: Path) -> str:
    """Returns the separator of the first line: a comma if it has one, otherwise a semicolon, otherwise a tab."""
    with path.open("rb") as file:
        first = next((line for line in file if line.removeprefix(codecs.BOM_UTF8).strip()), b"")
    return next((mark for mark in ",;\t" if mark.encode() in first), ",")
