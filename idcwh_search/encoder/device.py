"""Device selection for ONNX Runtime.

A requested device that is not available is an error; "auto" falls back to the CPU and reports why. Sessions on a GPU
are in cuda.py, and the import of ONNX Runtime is in ort.py.
"""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from typing import Any

from ..errors import NotSupportedError
from . import cuda
from .ort import CPU, first_line, load_onnxruntime, session_options

DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class Opened:
    """A session, its device ("cpu" or "cuda"), and the reason for the choice in one line."""

    session: Any
    device: str
    why: str


def open_session(
    model: bytes,
    name: str,
    device: str = "auto",
    threads: int = 1,
    *,
    spin: bool = False,
    use: cuda.Use | None = None,
    image: tuple[int, ...] = (224, 224, 3),
    strict: bool = True,
) -> Opened:
    """Opens a model on a device.

    Args:
        model: the bytes of a model.onnx.
        name: path of the model for errors.
        device: "auto", "cpu" or "cuda". "auto" selects the GPU if it works, otherwise the CPU.
        threads: threads per run on the CPU.
        spin: True if CPU threads spin while they wait.
        use: settings of the GPU.
        image: shape of one image, (H, W, 3).
        strict: True to use a GPU only if the whole network runs there.

    Raises:
        NotSupportedError: "cuda" does not work, or ONNX Runtime cannot read the model.
    """
    check_name(device)
    ort, use = load_onnxruntime(), use or cuda.Use()
    if device == "cpu":
        return Opened(cpu_session(ort, model, name, threads, spin), "cpu", "requested")
    obstacle = cuda.obstacle(ort)
    if obstacle is None and use.precision == "int8":
        obstacle = "int8 models are not supported on CUDA, where they are slower than fp32 and give other codes"
    if obstacle is None:
        opened = _on_gpu(ort, model, use, image, strict)
        if not isinstance(opened, str):
            return Opened(opened, "cuda", "requested" if device == "cuda" else "a GPU is available")
        obstacle = opened
    session = cpu_session(ort, model, name, threads, spin)  # even for "cuda": an invalid model is the better error
    if device == "cuda":
        raise _unusable(obstacle)
    return Opened(session, "cpu", cuda.NO_GPU if obstacle.startswith(cuda.NO_GPU) else obstacle)


def check_device(device: str) -> None:
    """Raises the error of `open_session` for an unavailable device. Commands call it before long work."""
    check_name(device)
    if device == "cuda" and (obstacle := cuda.obstacle(load_onnxruntime())):
        raise _unusable(obstacle)


def check_name(device: str) -> None:
    """Raises ValueError for an unknown device."""
    if device not in DEVICES:
        raise ValueError(f"device must be one of {', '.join(DEVICES)}, not {reprlib.repr(device)}")


def usable() -> list[str]:
    """Returns the available devices, the CPU first. No model is opened for this check."""
    return ["cpu"] if obstacles() else ["cpu", "cuda"]


def obstacles() -> dict[str, str]:
    """Returns the unavailable devices: device -> reason."""
    obstacle = cuda.obstacle(load_onnxruntime())
    # Without a GPU, a hint about packages would not help.
    return {"cuda": cuda.absence() or obstacle} if obstacle else {}


def cpu_session(ort: Any, model: bytes, name: str, threads: int, spin: bool = False) -> Any:
    """Returns a session on the CPU. Raises NotSupportedError if ONNX Runtime cannot read the model."""
    try:
        return ort.InferenceSession(model, session_options(ort, threads, spin), providers=[CPU])
    except Exception as error:  # ONNX Runtime has one exception class per status, without a useful common base
        problem = f"cannot be run by ONNX Runtime {ort.__version__}: {first_line(error)}"
        raise NotSupportedError(problem, path=name) from error


def _on_gpu(ort: Any, model: bytes, use: cuda.Use, image: tuple[int, ...], strict: bool) -> Any:
    """Returns the session, or the reason why there is none as text."""
    try:
        session, stragglers = cuda.open_session(ort, model, use, image)
    except Exception as error:
        return f"CUDA could not be started: {first_line(error)}"
    if session.get_providers()[0] != cuda.CUDA:
        return cuda.missing_library(ort) or "ONNX Runtime did not select CUDA"
    if stragglers and strict:
        return (
            f"{len(stragglers)} nodes of the network would run on the CPU, {stragglers[0]} first; "
            "pass strict=False to allow it"
        )
    return session


def _unusable(obstacle: str) -> NotSupportedError:
    return NotSupportedError(f"cannot be used: {obstacle}", path="device cuda", hint="choose cpu or auto")
