"""Device selection for ONNX Runtime.

A requested device that is not available is an error; "auto" falls back to the CPU and reports why. Sessions on a GPU
are in cuda.py, and the import of ONNX Runtime is in ort.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import IdcwhError, NotSupportedError
from . import cuda
from .ort import CPU, first_line, load_onnxruntime, session_options

DEVICES = ("auto", "cpu", "cuda", "tensorrt")
_FP_ONLY = "an int8 model is for the CPU and for TensorRT: on CUDA it would be slower than in fp32 and give other codes"


@dataclass(frozen=True)
class Opened:
    """A session, the device it really runs on ("cpu", "cuda" or "tensorrt"), and one line that says why that one."""

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
    """Open `model`, called `name` in errors, on a device.

    threads, spin: of one run on the CPU. use, image: on a GPU, see cuda.py. strict: take a GPU only if the whole
    network runs there. "cuda" or "tensorrt" that does not work is an IdcwhError with the cause and the cure; "auto"
    then takes the CPU and says why (TensorRT it never takes: building its engine takes minutes). A model that ONNX
    Runtime cannot read is an IdcwhError.
    """
    check_name(device)
    ort, use = load_onnxruntime(), use or cuda.Use()
    if device == "cpu":
        return Opened(cpu_session(ort, model, name, threads, spin), "cpu", "asked for")
    wanted = "cuda" if device == "auto" else device
    obstacle = cuda.obstacle(ort, wanted)
    if obstacle is None and wanted == "cuda" and use.precision == "int8":
        obstacle = _FP_ONLY
    if obstacle is None:
        opened = _on_gpu(ort, model, wanted, use, image, strict)
        if isinstance(opened, str):
            obstacle = opened
        else:
            return Opened(opened, wanted, "asked for" if device == wanted else "a GPU is there")
    # for "cuda" too: if the model itself is at fault, this says so
    session = cpu_session(ort, model, name, threads, spin)
    if device != "auto":
        raise _no_gpu(device, obstacle)
    return Opened(session, "cpu", cuda.NO_GPU if obstacle.startswith(cuda.NO_GPU) else obstacle)


def check_device(device: str) -> None:
    """Raise what `open_session` would raise for a device that is not there, before a long piece of work."""
    check_name(device)
    if device in cuda.PROVIDERS and (obstacle := cuda.obstacle(load_onnxruntime(), device)):
        raise _no_gpu(device, obstacle)


def check_name(device: str) -> None:
    """ValueError for a device of no known name."""
    if device not in DEVICES:
        raise ValueError(f"device must be one of {', '.join(DEVICES)}, not {device!r}")


def usable() -> list[str]:
    """The devices that can be had here, as far as can be told without opening a model; the CPU always, first."""
    return ["cpu", *(device for device in cuda.PROVIDERS if device not in obstacles())]


def obstacles() -> dict[str, str]:
    """The others, and why not."""
    ort = load_onnxruntime()
    found = {device: cuda.obstacle(ort, device) for device in cuda.PROVIDERS}
    if why := cuda.absence():  # then nothing that could be installed would help
        found = {device: obstacle and why for device, obstacle in found.items()}
    return {device: why for device, why in found.items() if why is not None}


def cpu_session(ort: Any, model: bytes, name: str, threads: int, spin: bool = False) -> Any:
    """A session on the CPU."""
    try:
        return ort.InferenceSession(model, session_options(ort, threads, spin), providers=[CPU])
    except Exception as error:  # ONNX Runtime has an exception class for each status, with no useful common base
        cause = first_line(error)
        raise NotSupportedError(
            f"{name}: not an ONNX model that ONNX Runtime {ort.__version__} can run ({cause})"
        ) from error


def _on_gpu(ort: Any, model: bytes, device: str, use: cuda.Use, image: tuple[int, ...], strict: bool) -> Any:
    """The session, or in words why there is none."""
    title = "CUDA" if device == "cuda" else "TensorRT"
    try:
        session, stragglers = cuda.open_session(ort, model, device, use, image)
    except Exception as error:
        missing = cuda.missing_library(ort, device) if device == "tensorrt" else None  # CUDA is passed over quietly
        return missing or f"{title} could not be started: {first_line(error)}"
    if session.get_providers()[0] != cuda.PROVIDERS[device]:
        return cuda.missing_library(ort, device) or f"{title} was passed over by ONNX Runtime"
    if stragglers and strict:
        return (
            f"{len(stragglers)} nodes of the network would run on the CPU all the same, {stragglers[0]} first; "
            "allow it with strict=False"
        )
    return session


def _no_gpu(device: str, obstacle: str) -> IdcwhError:
    return NotSupportedError(f"cannot be used, choose cpu or auto: {obstacle}", path=f"device {device}")
