"""Code shared by all commands: one-line errors, exit codes, standard streams, and common options."""

from __future__ import annotations

import argparse
import codecs
import contextlib
import getpass
import io
import logging
import os
import re
import select
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NoReturn

from .. import __version__
from .._util.console import describe, one_line, shown_bars, write_line
from ..encoder.ort import MAX_THREADS
from ..errors import AlreadyExistsError, IdcwhError, UsageError, not_installed
from .entry import open_descriptors

DONE, FAILED, USAGE, SKIPPED = 0, 1, 2, 3
INTERRUPTED, TERMINATED = 130, 143
EXIT_CODES = "0 done, 1 failed, 2 wrong usage"
EXIT_CODES_SKIPPED = f"{EXIT_CODES}, 3 done with skipped images"
LARGEST = 2**31 - 1  # largest number on a command line
LARGEST_ID = 2**63 - 1


def command(body: Callable[[list[str] | None], int]) -> Callable[[list[str] | None], int]:
    """Wraps the body of a command, so that errors become one line on stderr and an exit code instead of a traceback.

    If stdout cannot be written, the exit code is 1, except for a closed pipe (`| head`). Messages are dropped if stderr
    cannot be written. With IDCWH_TRACEBACK=1 exceptions are raised, for debugging of the toolkit itself.
    """

    def main(argv: list[str] | None = None) -> int:
        with _standard_streams() as output_error:
            try:
                status = _guarded(body, argv)
            except SystemExit as end:  # argparse exits after --help, --version and wrong usage
                if end.code in (DONE, None) and output_error():
                    raise SystemExit(FAILED) from None
                raise
            return FAILED if status in (DONE, SKIPPED) and output_error() else status

    return main


def _guarded(body: Callable[[list[str] | None], int], argv: list[str] | None) -> int:
    """Runs the body of a command and returns its exit code, or the exit code for its exception."""
    try:
        with _signals(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"PIL\.")  # see images/decoding.py
            logging.getLogger("matplotlib").setLevel(logging.ERROR)  # no warning about an unwritable cache folder
            _name_user()
            return body(argv)
    except KeyboardInterrupt:
        return _end(INTERRUPTED, "interrupted")
    except SystemExit as end:
        if end.code == TERMINATED:
            _end(TERMINATED, "terminated")
        raise
    except Exception as error:
        message = _message(error)
        if message is None or os.environ.get("IDCWH_TRACEBACK"):
            raise
        return _end(USAGE if isinstance(error, UsageError) else FAILED, f"error: {message}")


def _name_user() -> None:
    """Sets a name for a user without an entry in passwd, as in some containers, because PyTorch requires one."""
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["LOGNAME"] = f"uid_{os.getuid()}"


def _end(status: int, line: str) -> int:
    """Writes the last line of a command, below its progress bars, and returns the status."""
    for bar in shown_bars():
        bar.close()
    write_line(line)
    return status


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """Makes SIGINT raise KeyboardInterrupt and SIGTERM SystemExit, so that cleanup code runs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if before[signal.SIGINT] is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _terminate(*_: Any) -> NoReturn:
    sys.exit(TERMINATED)


class _Descriptor(io.RawIOBase):
    """A file descriptor as a stream that never fails. It keeps the first error and drops later output."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.error: OSError | None = None

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return os.isatty(self._number)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        while rest and self.error is None:
            try:
                rest = rest[os.write(self._number, rest) :]
            except BlockingIOError:  # another program made the terminal or pipe non-blocking
                select.select([], [self._number], [])
            except OSError as error:
                self.error = error
        return size


@contextlib.contextmanager
def _standard_streams() -> Iterator[Callable[[], bool]]:
    """Replaces the standard streams of the process by streams that never fail. Closed ones become the null device.

    Yields a function that reports an error of stdout in one line, and returns True if there was one. Streams that the
    caller of `main` has replaced stay unchanged.
    """
    open_descriptors()
    before = sys.stdin, sys.stdout, sys.stderr
    out: _Descriptor | None = None
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115
    if sys.stdout is None or sys.stdout is sys.__stdout__:
        out = _descriptor(1, sys.stdout)
        sys.stdout = _text(io.BufferedWriter(out), sys.stdout)
        sys.stdout.reconfigure(line_buffering=out.isatty())
    if sys.stderr is None or sys.stderr is sys.__stderr__:
        # Unbuffered, because a signal handler may write a message while another one is being written.
        sys.stderr = _text(_descriptor(2, sys.stderr), sys.stderr)
        sys.stderr.reconfigure(write_through=True)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="idcwh")

    def output_error() -> bool:
        sys.stdout.flush()
        if out is None or out.error is None or isinstance(out.error, BrokenPipeError):
            return False
        write_line(f"error: standard output: cannot be written: {out.error.strerror}")
        return True

    try:
        yield output_error
    finally:
        sys.stdout.flush()
        sys.stdin, sys.stdout, sys.stderr = before


def _descriptor(number: int, stream: Any) -> _Descriptor:
    """Returns the descriptor of a standard stream, or the null device for a closed one."""
    if stream is None:
        return _Descriptor(os.open(os.devnull, os.O_WRONLY))
    stream.flush()
    return _Descriptor(number)


def _text(binary: Any, stream: Any) -> io.TextIOWrapper:
    return io.TextIOWrapper(binary, getattr(stream, "encoding", None) or "utf-8")


def _message(error: Exception) -> str | None:
    """Returns one line for an error that the user can correct, or None for a bug of the toolkit."""
    if isinstance(error, ImportError) and not (error.name or "").startswith("idcwh"):
        return describe(not_installed(error))
    expected = (IdcwhError, ValueError, TypeError, OverflowError, OSError, MemoryError, RecursionError)
    if isinstance(error, expected) or type(error).__module__.startswith("onnxruntime."):
        return describe(error)
    return None


def _written(error: UnicodeError) -> tuple[bytes, int]:
    """Handles characters that the output encoding lacks: undecodable bytes of file names stay, others are escaped."""
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
    """Raises AlreadyExistsError for an output that exists, unless `force` is set."""
    if os.path.lexists(path) and not force:
        raise AlreadyExistsError(path=path, hint="choose another name or pass --force to replace it")


class Parser(argparse.ArgumentParser):
    """An argparse parser with --version, line breaks in the epilog, and one-line usage errors with exit code 2."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def with_version(self) -> Parser:
        self.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
        return self

    @contextlib.contextmanager
    def checking(self) -> Iterator[None]:
        """Ends the command as wrong usage after a TypeError or ValueError, with the option in place of the argument."""
        try:
            yield
        except (TypeError, ValueError) as error:
            if os.environ.get("IDCWH_TRACEBACK"):
                raise
            name, rest = re.match(r"(\w*)(.*)", str(error), re.DOTALL).groups()  # type: ignore[union-attr]
            option = f"--{name.replace('_', '-')}"
            is_option = rest[:1] in (":", " ") and option in self._option_string_actions
            self.error(f"{option}{rest}" if is_option else str(error))

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"error: {one_line(message)} (see {self.prog} --help)\n")


def whole(text: str, least: int, most: int = LARGEST) -> int:
    """Returns an argument as an integer. Raises ArgumentTypeError for other text and for a number out of range."""
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        limit = f">= {least}" if value < least else f"<= {most}"
        raise argparse.ArgumentTypeError(f"expected a whole number {limit}, not {text!r}")
    return value


# Types of argparse arguments.
positive = partial(whole, least=1)
natural = partial(whole, least=0)
threads = partial(whole, least=1, most=MAX_THREADS)
identifier = partial(whole, least=0, most=LARGEST_ID)


def path(text: str) -> str:
    """Returns an argument as a path. Raises ArgumentTypeError for an empty one, which would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("expected a path, not ''")
    return text


def bits(text: str) -> int:
    """Returns an argument as a code length. Raises ArgumentTypeError for an invalid one."""
    from ..codes import MAX_BITS

    return whole(text, 1, MAX_BITS)


def add_command(
    commands: Any, name: str, run: Callable[[Any], int], *, help: str, epilog: str, exit_codes: str = EXIT_CODES
) -> Any:
    """Adds a subcommand and returns its parser.

    Args:
        commands: subparsers of the command.
        name: name of the subcommand.
        run: function that gets the options and returns the exit code.
        help: line in the list of subcommands, which is also the description.
        epilog: examples and notes.
        exit_codes: exit codes with their meanings.
    """
    description, epilog = f"{help[0].upper()}{help[1:]}.", f"{epilog}\n\nexit codes: {exit_codes}"
    parser = commands.add_parser(name, help=help, description=description, epilog=epilog)
    parser.set_defaults(run=run, parser=parser)
    return parser


def add_database(add: Callable[..., Any]) -> None:
    """Adds the argument for a database. `add` is the add_argument of a parser."""
    add("db", type=path, metavar="FILE", help="database, such as codes.bin")


def add_root(add: Callable[..., Any]) -> None:
    """Adds the option for the folder of a database's images."""
    add("--root", type=path, metavar="DIR", help="current folder of the images (default as stored in the database)")


def add_model(parser: argparse.ArgumentParser, **options: Any) -> Callable[..., Any]:
    """Adds the options of a model, by default that of a database, as a group. Returns the group's add_argument.

    `options` are those of add_argument for --model.
    """
    add = parser.add_argument_group("model").add_argument
    options = {"help": "model.onnx (default as stored in the database)", **options}
    add("--model", type=path, metavar="FILE", **options)
    add_encoder(add)
    return add


def add_encoder(add: Callable[..., Any]) -> None:
    """Adds the options of an encoder: device, preprocessing and threads."""
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="device of the model (default auto)")
    add(
        "--preprocess",
        type=preprocess,
        metavar="RESIZE,CROP",
        help="shorter side and crop in pixels, for a model.onnx without metadata or modified after export",
    )
    add("--threads", type=threads, metavar="N", help="number of threads (default one per core)")


def encoder_options(options: Any) -> dict[str, Any]:
    """Returns the arguments of Encoder from the options of a command."""
    names = ("device", "threads", "batch_size", "preprocess")
    return {name: getattr(options, name) for name in names if hasattr(options, name)}


def preprocess(text: str) -> Any:
    """Returns an argument RESIZE,CROP or RESIZE,CROP,INTERPOLATION. Raises ArgumentTypeError for an invalid one."""
    from ..images.preprocess import Preprocess

    resize, _, rest = text.partition(",")
    crop, _, interpolation = rest.partition(",")
    expected = f"expected RESIZE,CROP in pixels, such as 240,224, not {text!r}"
    try:
        sides = int(resize), int(crop)
    except ValueError:
        raise argparse.ArgumentTypeError(expected) from None
    try:
        return Preprocess(*sides, interpolation or "bilinear")
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{expected} ({str(error).removeprefix('preprocess: ')})") from None
