"""ONNX Runtime, opened the way we need it: which device and why, quietly, and quickly.

What the model is and what its outputs mean is the business of encoder.py.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import io
import math
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import IdcwhError

DEVICES = ("auto", "cpu", "cuda")
_CUDA, _CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
_SILENT = 4  # ONNX Runtime's severity "fatal": what goes wrong arrives as an exception, and we say it in one line
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_GPU_FIX = "pip install 'idcwh[gpu]'"


@dataclass(frozen=True)
class Opened:
    """A session, the device it really runs on ("cpu" or "cuda"), and one line that says why that one."""

    session: Any
    device: str
    why: str


def available_cores() -> int:
    """The cores this process may use: its affinity mask, and a container's CPU quota, rounded up."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):
        quota, period = _QUOTA.read_text(encoding="ascii").split()
        if quota != "max":
            cores = min(cores, math.ceil(int(quota) / int(period)))
    return max(cores, 1)


def open_session(model: bytes, name: str, device: str = "auto", threads: int = 1) -> Opened:
    """Open `model`, called `name` in errors, on a device. `threads` are those of one run on the CPU.

    "cuda" where CUDA does not work is an IdcwhError with the cause and the cure; "auto" then takes the CPU and says
    why. A model that ONNX Runtime cannot read is an IdcwhError.
    """
    check_device(device)
    ort = load_onnxruntime()
    if device == "cpu":
        return Opened(_cpu_session(ort, model, name, threads), "cpu", "asked for")
    obstacle = cuda_obstacle(ort)
    if obstacle is None:
        try:
            session = _cuda_session(ort, model, threads)
        except Exception as error:
            obstacle = f"CUDA could not be started: {first_line(error)}"
        else:
            if session.get_providers()[0] == _CUDA:
                return Opened(session, "cuda", "asked for" if device == "cuda" else "a GPU is there")
            obstacle = _library_obstacle(ort)
    session = _cpu_session(ort, model, name, threads)  # for "cuda" too: if the model itself is at fault, this says so
    if device == "cuda":
        raise _no_cuda(obstacle)
    return Opened(session, "cpu", obstacle)


def check_device(device: str) -> None:
    """Raise what `open_session` would raise for a device that is not there, before a long piece of work."""
    if device not in DEVICES:
        raise ValueError(f"device must be one of {', '.join(DEVICES)}, not {device!r}")
    if device == "cuda" and (obstacle := cuda_obstacle(load_onnxruntime())):
        raise _no_cuda(obstacle)


def load_onnxruntime() -> Any:
    """The module onnxruntime; an IdcwhError that says what to install where it is missing or broken."""
    if "onnxruntime" in sys.modules:
        return sys.modules["onnxruntime"]
    try:
        # While it is imported it looks for devices and warns of what it does not find, before its logger can be set.
        with _silent_stderr():
            ort = importlib.import_module("onnxruntime")
            ort.set_default_logger_severity(_SILENT)
    except ModuleNotFoundError as error:
        if error.name != "onnxruntime":
            raise
        raise IdcwhError(f"ONNX Runtime is not installed: pip install 'idcwh[cpu]', or {_GPU_FIX} for a GPU") from error
    except (ImportError, AttributeError) as error:  # AttributeError: a folder without its library, left by an uninstall
        raise IdcwhError(f"ONNX Runtime does not load ({first_line(error)}): {_both_or('reinstall it')}") from error
    return ort


def cuda_obstacle(ort: Any) -> str | None:
    """What keeps ONNX Runtime from using a GPU, as far as can be told without loading its CUDA libraries; or None."""
    if _CUDA not in ort.get_available_providers():
        return f"this ONNX Runtime {ort.__version__} was built without CUDA: {_both_or(_GPU_FIX)}"
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return "no GPU found: the NVIDIA driver is not installed, or not visible in this container"
    count = ctypes.c_int(0)
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if status or not count.value:
        return f"the NVIDIA driver finds no GPU (status {status}; CUDA_VISIBLE_DEVICES={_visible()})"
    return None


def installed_distributions() -> dict[str, str]:
    """Which of the two ONNX Runtime packages are installed, and their versions. Together they overwrite each other."""
    from importlib import metadata  # takes longer to load than all the rest here, and is needed for errors only

    found = {}
    for name in ("onnxruntime", "onnxruntime-gpu"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def first_line(error: BaseException) -> str:
    """An exception of ONNX Runtime as one line without its source file and status code."""
    text = " ".join(str(error).split())
    return text.split(" : ", 3)[-1] if text.startswith("[ONNXRuntimeError]") else text or type(error).__name__


def _no_cuda(obstacle: str) -> IdcwhError:
    return IdcwhError(f"device cuda cannot be used, choose cpu or auto: {obstacle}")


def _both_or(otherwise: str) -> str:
    found = installed_distributions()
    if len(found) < 2:
        return otherwise
    names = " and ".join(f"{name} {version}" for name, version in found.items())
    return f"{names} are both installed and overwrite each other: pip uninstall -y {' '.join(found)}, then {_GPU_FIX}"


def _visible() -> str:
    return os.environ.get("CUDA_VISIBLE_DEVICES", "unset")


def _options(ort: Any, threads: int) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = _SILENT
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Threads that spin while they wait would take the cores that decode the next images; alone, a run loses a tenth.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _cpu_session(ort: Any, model: bytes, name: str, threads: int) -> Any:
    try:
        return ort.InferenceSession(model, _options(ort, threads), providers=[_CPU])
    except Exception as error:  # ONNX Runtime has an exception class for each status, with no useful common base
        cause = first_line(error)
        raise IdcwhError(f"{name}: not an ONNX model that ONNX Runtime {ort.__version__} can run ({cause})") from error


def _cuda_session(ort: Any, model: bytes, threads: int) -> Any:
    """A session without the card's shortcuts: no TF32, no algorithm search for every new shape, an arena that fits."""
    if hasattr(ort, "preload_dlls"):
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it misses; `_library_obstacle` says it better
            ort.preload_dlls()
    cuda = {
        "use_tf32": "0",
        "cudnn_conv_algo_search": "HEURISTIC",
        "arena_extend_strategy": "kSameAsRequested",
    }
    ort.set_default_logger_severity(_SILENT)
    # enable_fallback=0: a run that fails on the GPU must not go on quietly on the CPU.
    return ort.InferenceSession(model, _options(ort, threads), providers=[(_CUDA, cuda), _CPU], enable_fallback=0)


def _library_obstacle(ort: Any) -> str:
    """Why the CUDA provider did not load although there is a GPU: nearly always one missing library; name it."""
    provider = Path(ort.__file__).parent / "capi" / "libonnxruntime_providers_cuda.so"
    cause = "the CUDA provider did not load"
    try:
        ctypes.CDLL(str(provider))
    except OSError as error:
        cause = f"the CUDA provider did not load ({first_line(error)})"
    version = getattr(ort, "cuda_version", "") or "of the version it was built for"
    fix = _both_or("pip install 'onnxruntime-gpu[cuda,cudnn]'")
    return f"{cause}; ONNX Runtime {ort.__version__} needs CUDA {version} and cuDNN: {fix}"


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
        sys.stderr.flush()
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)
