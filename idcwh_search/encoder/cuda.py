"""ONNX Runtime on an NVIDIA GPU: checks of the installation, session options, and a check that the network ran there.

The device is chosen in device.py.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .ort import CPU, GPU_FIX, SILENT, both_or, first_line, load_onnxruntime, session_options

CUDA = "CUDAExecutionProvider"
_LIBRARIES = "pip install 'onnxruntime-gpu[cuda,cudnn]'"
# Element types of images and features. Shapes and indices have others.
_NUMBERS = {"float", "float16", "double", "bfloat16", "uint8", "int8"}


@dataclass(frozen=True)
class Use:
    """Settings of a GPU session.

    Attributes:
        index: number of the GPU.
        memory: most bytes for activations, the arena of ONNX Runtime; None for no limit.
        precision: precision of the model.
    """

    index: int = 0
    memory: int | None = None
    precision: str = "fp32"


NO_GPU = "no GPU found"
"""The beginning of `obstacle` on a machine without a GPU."""


def obstacle(ort: Any) -> str | None:
    """Returns the reason why ONNX Runtime cannot use a GPU, or None. The libraries are not loaded for this check."""
    if CUDA not in ort.get_available_providers():
        return f"this ONNX Runtime {ort.__version__} was built without CUDA: {both_or(GPU_FIX)}"
    if why := absence():
        return why
    driver, count = _driver(), ctypes.c_int(0)
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if status or not count.value:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "unset")
        return f"the NVIDIA driver finds no GPU (status {status}; CUDA_VISIBLE_DEVICES={visible})"
    return None


def absence() -> str | None:
    """Returns the reason why this machine has no usable GPU, or None. The check does not depend on ONNX Runtime."""
    if _driver() is not None:
        return None
    return f"{NO_GPU}: the NVIDIA driver is not installed, or not visible in this container"


def _driver() -> Any:
    try:
        return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return None


def missing_library(ort: Any) -> str | None:
    """Returns the reason why the CUDA provider cannot be loaded, with the missing library, or None if it can."""
    try:
        ctypes.CDLL(str(Path(ort.__file__).parent / "capi" / "libonnxruntime_providers_cuda.so"))
    except OSError as error:
        cause = first_line(error)
    else:
        return None
    version = getattr(ort, "cuda_version", "") or "(the version it was built for)"
    needs = f"ONNX Runtime {ort.__version__} needs CUDA {version} and cuDNN"
    return f"the CUDA provider did not load ({cause}); {needs}: {both_or(_LIBRARIES)}"


def providers(use: Use) -> list[Any]:
    """Returns the execution providers with options for reproducible numbers and bounded memory.

    TF32 is off, because it rounds inputs to ten bits. Convolution algorithms are chosen by a heuristic, not by a search
    per shape. The arena grows only by the requested bytes.
    """
    cuda = {
        "device_id": str(use.index),
        "use_tf32": "0",
        "cudnn_conv_algo_search": "HEURISTIC",
        "arena_extend_strategy": "kSameAsRequested",
    }
    if use.memory is not None:
        cuda["gpu_mem_limit"] = str(use.memory)
    return [(CUDA, cuda), CPU]


def open_session(ort: Any, model: bytes, use: Use, image: tuple[int, ...]) -> tuple[Any, list[str]]:
    """Returns a session on the GPU that has run once, and the nodes of the network that it ran on the CPU.

    The first run loads the kernels and lets cuDNN plan. Its profile has the device of every node.
    """
    import tempfile  # imported here only, so that the CPU path starts faster

    if hasattr(ort, "preload_dlls"):
        with contextlib.redirect_stdout(io.StringIO()):  # it prints missing libraries; `missing_library` is clearer
            ort.preload_dlls()
    ort.set_default_logger_severity(SILENT)
    with tempfile.TemporaryDirectory() as folder:
        options = session_options(ort)
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "first_run")
        # enable_fallback=0: a run that fails on the GPU must not silently continue on the CPU.
        session = ort.InferenceSession(model, options, providers=providers(use), enable_fallback=0)
        session.run(None, {"image": np.zeros((1, *image), np.uint8)})
        profile = Path(session.end_profiling())
        return session, on_cpu(json.loads(profile.read_text(encoding="utf-8")))


def on_cpu(events: list[dict[str, Any]]) -> list[str]:
    """Returns the nodes, such as "Conv conv1", that computed images or features on the CPU, from the profile of a run.

    Nodes that compute shapes, sizes and indices are left out. They run on the CPU by design.
    """
    found = []
    for event in events:
        about = event.get("args", {})
        if event.get("cat") != "Node" or about.get("provider") != CPU:
            continue
        kinds = {kind for tensor in about.get("output_type_shape", []) for kind in tensor}
        if kinds & _NUMBERS:
            found.append(f"{about.get('op_name')} {event['name'].removesuffix('_kernel_time')}")
    return list(dict.fromkeys(found))


class FixedShapes:
    """A session that runs batches of two sizes, one image and `batch_size`, in permanent buffers on the device.

    cuDNN plans again for every new shape, which takes longer than the run. So a batch that is not full is padded. A run
    allocates nothing. Threads take turns.
    """

    memory = "cuda"

    def __init__(self, session: Any, batch_size: int, index: int = 0) -> None:
        self.batch_size = batch_size
        self._session, self._place = session, (self.memory, index)
        self._image = tuple(session.get_inputs()[0].shape[1:])
        self._lock = threading.Lock()
        self._bound: dict[int, tuple[Any, ...]] = {}

    def __call__(self, pixels: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Returns codes and logits of 1 to batch_size images uint8 [n, H, W, 3]."""
        count = len(pixels)
        with self._lock:
            binding, image, codes, logits, host = self._buffers(1 if count == 1 else self.batch_size)
            host[:count], host[count:] = pixels, 0
            image.update_inplace(host)
            binding.synchronize_inputs()
            self._session.run_with_iobinding(binding)
            binding.synchronize_outputs()
            return codes.numpy()[:count].copy(), logits.numpy()[:count].copy()

    def _buffers(self, size: int) -> tuple[Any, ...]:
        if size not in self._bound:
            value, (device, index) = load_onnxruntime().OrtValue, self._place
            host = np.zeros((size, *self._image), np.uint8)
            image = value.ortvalue_from_shape_and_type(host.shape, np.uint8, device, index)
            shapes = {output.name: output.shape for output in self._session.get_outputs()}
            codes, logits = (
                value.ortvalue_from_shape_and_type([size, shapes[name][1]], kind, device, index)
                for name, kind in (("codes", np.uint8), ("logits", np.float32))
            )
            binding = self._session.io_binding()
            binding.bind_ortvalue_input("image", image)
            binding.bind_ortvalue_output("codes", codes)
            binding.bind_ortvalue_output("logits", logits)
            self._bound[size] = binding, image, codes, logits, host
        return self._bound[size]
