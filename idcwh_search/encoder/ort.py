"""Import of ONNX Runtime without its messages, and session options. The device is chosen in device.py."""

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
SILENT = 4  # log severity "fatal": errors are raised as exceptions anyway
GPU_FIX = "pip install 'idcwh[gpu]'"


def load_onnxruntime() -> Any:
    """Returns the module onnxruntime. Raises NotInstalledError with a hint if it is missing or cannot be loaded."""
    if "onnxruntime" in sys.modules:
        return sys.modules["onnxruntime"]
    try:
        # The import itself logs warnings about missing devices, before the severity can be set.
        with interrupts_delayed(), _silent_stderr():
            ort = importlib.import_module("onnxruntime")
            ort.set_default_logger_severity(SILENT)
    except ModuleNotFoundError as error:
        if error.name != "onnxruntime":
            raise
        raise NotInstalledError(path="onnxruntime", hint=f"pip install 'idcwh[cpu]', or {GPU_FIX} for a GPU") from error
    except (ImportError, AttributeError) as error:  # AttributeError: an uninstall left a folder without its library
        problem = f"cannot be loaded: {first_line(error)}"
        raise NotInstalledError(problem, path="onnxruntime", hint=both_or("reinstall it")) from error
    return ort


@contextlib.contextmanager
def running(name: str) -> Iterator[None]:
    """Converts errors of ONNX Runtime in the block into a NotSupportedError with the path of the model."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("onnxruntime."):
            raise
        raise NotSupportedError(f"cannot be run by ONNX Runtime: {first_line(error)}", path=name) from error


def installed_distributions() -> dict[str, str]:
    """Returns the installed ONNX Runtime packages: name -> version. Two of them overwrite each other's files."""
    from importlib import metadata  # a slow import, needed for errors only

    found = {}
    for name in ("onnxruntime", "onnxruntime-gpu"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def both_or(otherwise: str) -> str:
    """Returns the hint for a broken installation: how to repair it if two packages are installed, else `otherwise`."""
    found = installed_distributions()
    if len(found) < 2:
        return otherwise
    names = " and ".join(f"{name} {version}" for name, version in found.items())
    return f"{names} are both installed and overwrite each other: pip uninstall -y {' '.join(found)}, then {GPU_FIX}"


def session_options(ort: Any, threads: int = 1, spin: bool = False) -> Any:
    """Returns the options of a session without log messages.

    Args:
        ort: the module onnxruntime.
        threads: threads per run on the CPU.
        spin: True if threads spin while they wait. A single query takes about 10 % less time, but decoding and other
            work have fewer cores.
    """
    options = ort.SessionOptions()
    options.log_severity_level = SILENT
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spin)))
    return options


@contextlib.contextmanager
def interrupts_delayed() -> Iterator[None]:
    """Delays SIGINT to the end of the block. Native code reports an interrupted import as a broken installation."""
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
    """Discards the output of native code on file descriptor 2."""
    try:
        saved = os.dup(2)
    except OSError:  # stderr is closed
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
