"""Messages and progress bars on standard error, and text from files made safe for a terminal."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable
from typing import Any

from . import progress


def first_line(error: BaseException) -> str:
    """Returns an exception of ONNX Runtime as one line without its source file and status code."""
    text = " ".join(str(error).split())
    return text.split(" : ", 3)[-1] if text.startswith("[ONNXRuntimeError]") else text or type(error).__name__


def describe(error: BaseException) -> str:
    """Returns one line for an exception; an OSError names its file first, as the shell does."""
    if isinstance(error, OSError) and error.strerror:
        return one_line(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
    if isinstance(error, MemoryError):
        return f"out of memory ({error})" if str(error) else "out of memory"
    return one_line(first_line(error))


_ESCAPED = {"Cc", "Cf", "Zl", "Zp"}  # controls, format characters (of direction, without width), line separators
_JOINERS = "\u200c\u200d"  # which words of several languages need


def one_line(text: str) -> str:
    """Returns text for a terminal; what would break the line, move the cursor or reverse the direction is escaped."""
    if text.isprintable():
        return text
    escaped = [c for c in text if unicodedata.category(c) in _ESCAPED and c not in _JOINERS]
    if not escaped:
        return text
    return text.replace("\\", "\\\\").translate({ord(c): ascii(c)[1:-1] for c in escaped})


_quiet = False


def set_quiet() -> None:
    """Discards the notes and bars of this process: it is one of several that would write the same."""
    global _quiet
    _quiet = True


def note(message: str) -> None:
    """Writes a note for people to stderr: everything that is not data goes there."""
    if not _quiet:
        write_line(message)


def write_line(message: str) -> None:
    """Writes a line to stderr, above the progress bars that are shown there."""
    line = f"{one_line(message)}\n"
    if shown_bars():
        sys.modules["tqdm"].tqdm.write(line, file=sys.stderr, end="")
    else:
        sys.stderr.write(line)
        sys.stderr.flush()


def shown_bars() -> list[Any]:
    """Returns the progress bars that are shown."""
    return list(getattr(getattr(sys.modules.get("tqdm"), "tqdm", None), "_instances", []))


def note_all(messages: Iterable[str]) -> None:
    """Writes a note for each message."""
    for message in messages:
        note(message)


def progress_bar(**options: Any) -> Any:
    """Returns what counts long work on stderr, with desc, total and unit (a singular noun): see `progress.bar`."""
    return progress.bar(note, _quiet, **{**options, "desc": one_line(options["desc"])})
