"""ONNX Runtime, loaded without messages, and the options of its sessions. The device is chosen in device.py."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from .._util.console import first_line
from ..errors import NotInstalledError, NotSupportedError

CPU = "CPUExecutionProvider"
MAX_THREADS = 1024
SILENT = 4  # ONNX Runtime's severity "fatal": errors arrive as exceptions
GPU_FIX = "pip install 'idcwh[gpu]'"


def load_onnxruntime() -> Any:
    """Returns the module onnxruntime; raises NotInstalledError, with what to install, where it is missing or broken."""
    if "onnxruntime" in sys.modules:
        return sys.modules["onnxruntime"]
    try:
        # While it is imported it looks for devices and warns of what it does not find, before its logger can be set.
        with interrupts_delayed(), _silent_stderr():
            ort = importlib.import_module("onnxruntime")
            ort.set_default_logger_severity(SILENT)
    except ModuleNotFoundError as error:
        if error.name != "onnxruntime":
            raise
        raise NotInstalledError(path="onnxruntime", hint=f"pip install 'idcwh[cpu]', or {GPU_FIX} for a GPU") from error
    except (ImportError, AttributeError) as error:  # AttributeError: a folder without its library, left by an uninstall
        problem = f"cannot be loaded: {first_line(error)}"
        raise NotInstalledError(problem, path="onnxruntime", hint=both_or("reinstall it")) from error
    return ort


@contextlib.contextmanager
def running(name: str) -> Iterator[None]:
    """Raises the errors of ONNX Runtime in the block as a NotSupportedError with the path of the model."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("onnxruntime."):
            raise
        raise NotSupportedError(f"cannot be run by ONNX Runtime: {first_line(error)}", path=name) from error


def installed_distributions() -> dict[str, str]:
    """Returns the versions of the installed ONNX Runtime packages; if there are two, they overwrite each other."""
    from importlib import metadata  # takes longer to load than all the rest here, and is needed for errors only

    found = {}
    for name in ("onnxruntime", "onnxruntime-gpu"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def both_or(otherwise: str) -> str:
    """Returns how to repair an installation: a hint for both packages if both are installed, else `otherwise`."""
    found = installed_distributions()
    if len(found) < 2:
        return otherwise
    names = " and ".join(f"{name} {version}" for name, version in found.items())
    return f"{names} are both installed and overwrite each other: pip uninstall -y {' '.join(found)}, then {GPU_FIX}"


def session_options(ort: Any, threads: int = 1, spin: bool = False) -> Any:
    """Returns options of a session without messages, with this many threads per run on the CPU.

    Threads that spin while they wait take a tenth off a single query, and take cores from decoding and other work.
    """
    options = ort.SessionOptions()
    options.log_severity_level = SILENT
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spin)))
    return options


@contextlib.contextmanager
def interrupts_delayed() -> Iterator[None]:
    """Delays SIGINT to the end of the block: native code reports an interrupted import as a broken installation."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[FrameType | None] = []
    before = signal.signal(signal.SIGINT, lambda _, frame: arrived.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if arrived and callable(before):
            before(signal.SIGINT, arrived[0])


@contextlib.contextmanager
def _silent_stderr() -> Iterator[None]:
    """Discards what native code writes to file descriptor 2."""
    try:
        saved = os.dup(2)
    except OSError:  # there is no stderr
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)
