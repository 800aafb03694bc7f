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
    """A session, the device that it runs on ("cpu" or "cuda"), and why that one, in one line."""

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
        name: its name in errors.
        device: "auto" takes the GPU where it works and otherwise the CPU.
        threads, spin: of one run on the CPU.
        use, image: the GPU and the shape of one image (H, W, 3) on it.
        strict: takes a GPU only if the whole network runs there.

    Raises:
        NotSupportedError: "cuda" does not work, or ONNX Runtime cannot read the model.
    """
    check_name(device)
    ort, use = load_onnxruntime(), use or cuda.Use()
    if device == "cpu":
        return Opened(cpu_session(ort, model, name, threads, spin), "cpu", "requested")
    obstacle = cuda.obstacle(ort)
    if obstacle is None and use.precision == "int8":
        obstacle = "an int8 model is for the CPU: on CUDA it would be slower than in fp32 and give other codes"
    if obstacle is None:
        opened = _on_gpu(ort, model, use, image, strict)
        if not isinstance(opened, str):
            return Opened(opened, "cuda", "requested" if device == "cuda" else "a GPU is available")
        obstacle = opened
    session = cpu_session(ort, model, name, threads, spin)  # for "cuda", too: it shows a fault of the model itself
    if device == "cuda":
        raise _unusable(obstacle)
    return Opened(session, "cpu", cuda.NO_GPU if obstacle.startswith(cuda.NO_GPU) else obstacle)


def check_device(device: str) -> None:
    """Raises what `open_session` would raise for a device that is not available, before a long piece of work."""
    check_name(device)
    if device == "cuda" and (obstacle := cuda.obstacle(load_onnxruntime())):
        raise _unusable(obstacle)


def check_name(device: str) -> None:
    """Raises ValueError for an unknown device."""
    if device not in DEVICES:
        raise ValueError(f"device must be one of {', '.join(DEVICES)}, not {reprlib.repr(device)}")


def usable() -> list[str]:
    """Returns the devices that are available, as far as is known before a model is opened; the CPU always, first."""
    return ["cpu"] if obstacles() else ["cpu", "cuda"]


def obstacles() -> dict[str, str]:
    """Returns the device that is not available, and why."""
    obstacle = cuda.obstacle(load_onnxruntime())
    # Without a GPU, no package would help.
    return {"cuda": cuda.absence() or obstacle} if obstacle else {}


def cpu_session(ort: Any, model: bytes, name: str, threads: int, spin: bool = False) -> Any:
    """Opens a session on the CPU."""
    try:
        return ort.InferenceSession(model, session_options(ort, threads, spin), providers=[CPU])
    except Exception as error:  # ONNX Runtime has an exception class for each status, with no useful common base
        problem = f"cannot be run by ONNX Runtime {ort.__version__}: {first_line(error)}"
        raise NotSupportedError(problem, path=name) from error


def _on_gpu(ort: Any, model: bytes, use: cuda.Use, image: tuple[int, ...], strict: bool) -> Any:
    """Returns the session, or a text that says why there is none."""
    try:
        session, stragglers = cuda.open_session(ort, model, use, image)
    except Exception as error:
        return f"CUDA could not be started: {first_line(error)}"
    if session.get_providers()[0] != cuda.CUDA:
        return cuda.missing_library(ort) or "CUDA was passed over by ONNX Runtime"
    if stragglers and strict:
        return (
            f"{len(stragglers)} nodes of the network would run on the CPU, {stragglers[0]} first; "
            "allow it with strict=False"
        )
    return session


def _unusable(obstacle: str) -> NotSupportedError:
    return NotSupportedError(f"cannot be used: {obstacle}", path="device cuda", hint="choose cpu or auto")
