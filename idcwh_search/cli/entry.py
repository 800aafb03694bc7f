"""Entry points of the eight commands. Each one sets up signals and descriptors before it imports the command.

The imports may take seconds. An interrupt during the imports ends the process at once, because nothing has to be
cleaned up.
"""

from __future__ import annotations

import atexit
import importlib
import os
import signal
from typing import Any, NoReturn


def train() -> int:
    """Runs idcwh-train."""
    return _run("idcwh_train.cli")


def reproduce() -> int:
    """Runs idcwh-reproduce."""
    return _run("idcwh_reproduce.cli")


def export() -> int:
    """Runs idcwh-export."""
    return _run("idcwh_export.cli")


def index() -> int:
    """Runs idcwh-index."""
    return _run("idcwh_search.cli.index")


def search() -> int:
    """Runs idcwh-search."""
    return _run("idcwh_search.cli.search")


def dedup() -> int:
    """Runs idcwh-dedup."""
    return _run("idcwh_search.cli.dedup")


def serve() -> int:
    """Runs idcwh-serve."""
    return _run("idcwh_search.cli.serve")


def evaluate() -> int:
    """Runs idcwh-eval."""
    return _run("idcwh_search.cli.evaluate")


def open_descriptors() -> None:
    """Opens the null device at closed descriptors among 0, 1 and 2.

    Otherwise the next opened file would get the number, and messages would be written into that file.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)


def _run(module: str) -> int:
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # ignored under nohup and in background jobs of a shell
        signal.signal(signal.SIGINT, _interrupt)
        # Python's shutdown takes a few hundred milliseconds with torch. The work is done then, so SIGINT is ignored.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    open_descriptors()
    status: int = importlib.import_module(module).main()
    return status


def _interrupt(*_: Any) -> NoReturn:
    """Ends the process at once. An exception during an import could be swallowed, or reported as another error."""
    try:
        os.write(2, b"interrupted\n")
    finally:
        os._exit(130)
