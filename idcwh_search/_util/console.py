"""Messages and progress bars on standard error, and the escaping of text for a terminal."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable
from typing import Any

from . import progress


def first_line(error: BaseException) -> str:
    """Returns the message of an exception as one line. The source file and status of ONNX Runtime are removed."""
    text = " ".join(str(error).split())
    return text.split(" : ", 3)[-1] if text.startswith("[ONNXRuntimeError]") else text or type(error).__name__


def describe(error: BaseException) -> str:
    """Returns one line for an exception. For an OSError the line begins with the path."""
    if isinstance(error, FileNotFoundError) and error.filename:
        return one_line(f"{error.filename}: is missing")
    if isinstance(error, OSError) and error.strerror:
        return one_line(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
    if isinstance(error, MemoryError):
        return f"out of memory ({error})" if str(error) else "out of memory"
    return one_line(first_line(error))


_ESCAPED = {"Cc", "Cf", "Zl", "Zp"}  # control, format (direction, zero width) and line separator characters
_JOINERS = "\u200c\u200d"  # zero-width characters that words of several languages contain


def one_line(text: str) -> str:
    """Returns text for one line of a terminal. Line breaks, control and direction characters are escaped."""
    if text.isprintable():
        return text
    escaped = [c for c in text if unicodedata.category(c) in _ESCAPED and c not in _JOINERS]
    if not escaped:
        return text
    return text.replace("\\", "\\\\").translate({ord(c): ascii(c)[1:-1] for c in escaped})


_quiet = False


def set_quiet() -> None:
    """Discards notes and bars of this process, for one of several processes that would write the same."""
    global _quiet
    _quiet = True


def note(message: str) -> None:
    """Writes a message to stderr, unless `set_quiet` was called. stdout is for data only."""
    if not _quiet:
        write_line(message)


def write_line(message: str) -> None:
    """Writes a line to stderr, above any progress bars."""
    line = f"{one_line(message)}\n"
    if shown_bars():
        sys.modules["tqdm"].tqdm.write(line, file=sys.stderr, end="")
    else:
        sys.stderr.write(line)
        sys.stderr.flush()


def shown_bars() -> list[Any]:
    """Returns the visible progress bars."""
    return list(getattr(getattr(sys.modules.get("tqdm"), "tqdm", None), "_instances", []))


def note_all(messages: Iterable[str]) -> None:
    """Writes a note for each message."""
    for message in messages:
        note(message)


def progress_bar(**options: Any) -> Any:
    """Returns a progress bar on stderr. Options are those of `progress.bar`: desc, total and unit (a singular noun)."""
    return progress.bar(note, _quiet, **{**options, "desc": one_line(options["desc"])})
