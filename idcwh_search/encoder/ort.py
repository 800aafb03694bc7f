"""ONNX Runtime, loaded quietly, with errors that say what to install; and the cores and threads it may use.

On which device a model is opened is decided in device.py.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from .._core import available_cores as available_cores
from .._util.console import first_line
from ..errors import NotInstalledError, NotSupportedError

CPU = "CPUExecutionProvider"
MAX_THREADS = 1024
SILENT = 4  # ONNX Runtime's severity "fatal": what goes wrong arrives as an exception, and we say it in one line
_MEMORY_LIMITS = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")
GPU_FIX = "pip install 'idcwh[gpu]'"


def memory() -> int:
    """The bytes of memory that this process may use: the machine's, or a container's limit."""
    limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in _MEMORY_LIMITS:
        with contextlib.suppress(OSError, ValueError):  # "max" where there is none
            limit = min(limit, int(file.read_text(encoding="ascii")))
    return limit


def load_onnxruntime() -> Any:
    """The module onnxruntime; an IdcwhError that says what to install where it is missing or broken."""
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
        raise NotInstalledError(
            f"ONNX Runtime is not installed: pip install 'idcwh[cpu]', or {GPU_FIX} for a GPU"
        ) from error
    except (ImportError, AttributeError) as error:  # AttributeError: a folder without its library, left by an uninstall
        raise NotInstalledError(
            f"ONNX Runtime does not load ({first_line(error)}): {both_or('reinstall it')}"
        ) from error
    return ort


@contextlib.contextmanager
def running(name: str) -> Iterator[None]:
    """Raises what ONNX Runtime raises during a run of a model as an IdcwhError that names the model."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("onnxruntime."):
            raise
        raise NotSupportedError(f"{name}: cannot be run by ONNX Runtime ({first_line(error)})") from error


def installed_distributions() -> dict[str, str]:
    """Which of the two ONNX Runtime packages are installed, and their versions. Together they overwrite each other."""
    from importlib import metadata  # takes longer to load than all the rest here, and is needed for errors only

    found = {}
    for name in ("onnxruntime", "onnxruntime-gpu"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def both_or(otherwise: str) -> str:
    """How to repair an installation: of both packages if both are there, else what the caller says."""
    found = installed_distributions()
    if len(found) < 2:
        return otherwise
    names = " and ".join(f"{name} {version}" for name, version in found.items())
    return f"{names} are both installed and overwrite each other: pip uninstall -y {' '.join(found)}, then {GPU_FIX}"


def session_options(ort: Any, threads: int = 1, spin: bool = False) -> Any:
    """Options of a session: quiet, and with so many threads a run on the CPU.

    Threads that spin while they wait answer a single query a tenth sooner, and take the cores that decode the next
    images or serve somebody else.
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
    """File descriptor 2 into nowhere, for what native code writes there."""
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
