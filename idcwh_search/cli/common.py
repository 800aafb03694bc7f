"""What every command of the toolkit shares: errors as one line, exit codes, progress on a terminal only."""

from __future__ import annotations

import argparse
import codecs
import contextlib
import io
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from .. import __version__
from ..errors import IdcwhError
from ..files import check_replaced

DONE, FAILED, USAGE, SKIPPED = 0, 1, 2, 3
INTERRUPTED, TERMINATED = 130, 143
LARGEST = 2**31 - 1  # number on a command line
LARGEST_ID = 2**63 - 1


def command(body: Callable[[list[str] | None], int]) -> Callable[[list[str] | None], int]:
    """Wrap a command's body: mistakes become one line on stderr and exit code 1, never a traceback.

    IDCWH_TRACEBACK=1 lets the exception through, for whoever debugs the toolkit itself.
    """

    def main(argv: list[str] | None = None) -> int:
        try:
            for stream in (sys.stdout, sys.stderr):
                if isinstance(stream, io.TextIOWrapper):
                    stream.reconfigure(errors="idcwh")
            if threading.current_thread() is threading.main_thread():  # so that a kill cleans up like any other end
                signal.signal(signal.SIGTERM, _terminate)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", module=r"PIL\.")  # see images.py
                status = body(argv)
            sys.stdout.flush()
            return status
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return INTERRUPTED
        except BrokenPipeError:  # the reader of our output went away (`| head`): not our failure
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return DONE
        except (IdcwhError, ValueError, TypeError, OverflowError, OSError, MemoryError) as error:
            if os.environ.get("IDCWH_TRACEBACK"):
                raise
            print(f"error: {describe(error)}", file=sys.stderr)
            return FAILED

    return main


def _terminate(*_: Any) -> NoReturn:
    os.write(2, b"terminated\n")  # past Python's own buffers, which it may be in the middle of writing
    sys.exit(TERMINATED)


def describe(error: BaseException) -> str:
    """One line for an exception; an OSError names its file first, as the shell does."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return f"out of memory ({error})" if str(error) else "out of memory"
    return one_line(" ".join(str(error).split())) or type(error).__name__


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def one_line(text: str) -> str:
    """Text as it is shown: file names may hold line breaks and what moves a terminal's cursor; they are shown, not
    obeyed."""
    if not _CONTROL.search(text):
        return text
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text.replace("\\", "\\\\"))


def _written(error: UnicodeError) -> tuple[bytes, int]:
    """What an output's encoding lacks: bytes that are no text (of a file's name) as they were, the rest escaped."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    characters = error.object[error.start : error.end]
    found = b"".join(
        bytes([ord(c) - 0xDC00]) if 0xDC80 <= ord(c) <= 0xDCFF else c.encode("ascii", "backslashreplace")
        for c in characters
    )
    return found, error.end


codecs.register_error("idcwh", _written)


def refuse_existing(path: str | os.PathLike[str], force: bool) -> None:
    """IdcwhError where the output is there already and --force was not given."""
    if os.path.lexists(path) and not force:
        raise IdcwhError(f"{path}: already exists; choose another name or pass --force to replace it")


def refuse_database(path: str | os.PathLike[str], force: bool) -> None:
    """The same for a codes.bin, which with --force may replace another one, and nothing else."""
    from ..database import MAGIC

    refuse_existing(path, force)
    check_replaced(path, MAGIC, "codes.bin")


_hushed = False


def hush() -> None:
    """No more notes and bars from this process: it is one of several that would say the same."""
    global _hushed
    _hushed = True


def note(message: str) -> None:
    """Say something to the person at the terminal: everything that is not data goes to stderr."""
    if not _hushed:
        print(one_line(message), file=sys.stderr, flush=True)


def note_all(messages: Iterable[str]) -> None:
    """Write a note for each message."""
    for message in messages:
        note(message)


def progress_bar(**options: Any) -> Any:
    """A tqdm bar on stderr that shows itself on a terminal only."""
    from tqdm import tqdm

    return tqdm(file=sys.stderr, disable=True if _hushed else None, dynamic_ncols=True, **options)


class Parser(argparse.ArgumentParser):
    """argparse with --version, untouched line breaks in the epilog, and exit code 2 for wrong usage."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def with_version(self) -> Parser:
        self.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
        return self

    @contextlib.contextmanager
    def checking(self) -> Iterator[None]:
        """A value that an option does not take is wrong usage also where it is not argparse that sees it."""
        try:
            yield
        except (TypeError, ValueError) as error:
            if os.environ.get("IDCWH_TRACEBACK"):
                raise
            self.error(str(error))

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"error: {message} (see {self.prog} --help)\n")


def positive(text: str) -> int:
    """argparse type: an integer of at least 1."""
    return _whole(text, 1)


def natural(text: str) -> int:
    """argparse type: an integer of at least 0."""
    return _whole(text, 0)


def identifier(text: str) -> int:
    """argparse type: an id."""
    return _whole(text, 0, LARGEST_ID)


def add_device(add: Callable[..., Any]) -> None:
    """The options of where a model runs and what it expects; `add` is a parser's add_argument."""
    devices = ("auto", "cpu", "cuda", "tensorrt")
    add("--device", choices=devices, default="auto", help="where the model runs (default auto)")
    add(
        "--preprocess",
        type=preprocess,
        metavar="RESIZE,CROP",
        help="pixels of the shorter side and of the crop, for a model.onnx that has no metadata or was changed",
    )


def preprocess(text: str) -> Any:
    """argparse type: RESIZE,CROP or RESIZE,CROP,INTERPOLATION."""
    from ..images import Preprocess

    resize, _, rest = text.partition(",")
    crop, _, interpolation = rest.partition(",")
    try:
        return Preprocess(int(resize), int(crop), interpolation or "bilinear")
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"expected RESIZE,CROP in pixels, such as 240,224, not {text!r} ({error})"
        ) from error


def _whole(text: str, least: int, most: int = LARGEST) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        limit = f"of at least {least}" if value < least else f"up to {most}"
        raise argparse.ArgumentTypeError(f"expected a whole number {limit}, not {text!r}")
    return value
