"""Entry points of the six commands. Each one secures the process first and imports its command afterwards.

The imports of a command take up to seconds. Until the command itself runs, an interrupt has nothing to clean up.
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


def evaluate() -> int:
    """Runs idcwh-eval."""
    return _run("idcwh_search.cli.evaluate")


def open_descriptors() -> None:
    """Opens the null device at each of the descriptors 0, 1 and 2 that is closed.

    Otherwise the next file that the process opens takes the number, and messages are written into that file.
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
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as nohup and a shell's background jobs have it
        signal.signal(signal.SIGINT, _interrupt)
        # Python's own end, a few hundred milliseconds with torch, runs no handlers: the work is done, let it end.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    open_descriptors()
    status: int = importlib.import_module(module).main()
    return status


def _interrupt(*_: Any) -> NoReturn:
    """Ends the process at once: an exception inside an import may be swallowed, or reported as something else."""
    try:
        os.write(2, b"interrupted\n")
    finally:
        os._exit(130)
