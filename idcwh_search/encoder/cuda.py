"""ONNX Runtime on an NVIDIA GPU: what keeps it from there, the options it runs with, and the proof that it runs there.

Which device is taken is decided in device.py.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
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

from .._util.atomic import cache_folder
from ..errors import NotSupportedError
from .ort import CPU, GPU_FIX, SILENT, both_or, first_line, load_onnxruntime, session_options

CUDA, TENSORRT = "CUDAExecutionProvider", "TensorrtExecutionProvider"
PROVIDERS = {"cuda": CUDA, "tensorrt": TENSORRT}
_LIBRARIES = {
    "cuda": "pip install 'onnxruntime-gpu[cuda,cudnn]'",
    "tensorrt": "pip install tensorrt, of the version that this ONNX Runtime was built for",
}
_NUMBERS = {
    "float",
    "float16",
    "double",
    "bfloat16",
    "uint8",
    "int8",
}  # what a network computes; not shapes and indices


@dataclass(frozen=True)
class Use:
    """How a GPU is used: which one, the most bytes that the arena of activations may take (None: no limit), and the
    model's precision and number of pictures a batch, for which TensorRT builds its engine.
    """

    index: int = 0
    memory: int | None = None
    precision: str = "fp32"
    batch_size: int = 64


NO_GPU = "no GPU found"
"""How `obstacle` begins on a machine without one."""


def obstacle(ort: Any, device: str) -> str | None:
    """What keeps ONNX Runtime from a device, as far as can be told without loading its libraries; or None."""
    if PROVIDERS[device] not in ort.get_available_providers():
        name = "CUDA" if device == "cuda" else "TensorRT"
        return f"this ONNX Runtime {ort.__version__} was built without {name}: {both_or(GPU_FIX)}"
    if (driver := _driver()) is None:
        return _no_gpu()
    count = ctypes.c_int(0)
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if status or not count.value:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "unset")
        return f"the NVIDIA driver finds no GPU (status {status}; CUDA_VISIBLE_DEVICES={visible})"
    return None


def absence() -> str | None:
    """Returns why this machine has no GPU, whatever ONNX Runtime could do with one; None where it may have one."""
    return _no_gpu() if _driver() is None else None


def _no_gpu() -> str:
    return f"{NO_GPU}: the NVIDIA driver is not installed, or not visible in this container"


def _driver() -> Any:
    try:
        return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return None


def missing_library(ort: Any, device: str) -> str | None:
    """Which library keeps the provider from being loaded although there is a GPU; None when it can be loaded."""
    try:
        ctypes.CDLL(str(Path(ort.__file__).parent / "capi" / f"libonnxruntime_providers_{device}.so"))
    except OSError as error:
        cause = first_line(error)
    else:
        return None
    name, also = ("CUDA", "and cuDNN") if device == "cuda" else ("TensorRT", ", cuDNN and TensorRT")
    version = getattr(ort, "cuda_version", "") or "of the version it was built for"
    needs = f"needs CUDA {version} {also}".replace(" ,", ",")
    return (
        f"the {name} provider did not load ({cause}); ONNX Runtime {ort.__version__} {needs}: "
        f"{both_or(_LIBRARIES[device])}"
    )


def providers(device: str, use: Use, image: tuple[int, ...], model: bytes) -> list[Any]:
    """Providers in their order, with options: the same numbers every time, and memory that fits.

    On CUDA no TF32, which would round inputs to ten bits (for TensorRT there is no such option); no search of
    convolution algorithms for every new shape; an arena that grows by what is asked for. `image` is the shape of one
    picture, (H, W, 3).
    """
    cuda: dict[str, str] = {
        "device_id": str(use.index),
        "use_tf32": "0",
        "cudnn_conv_algo_search": "HEURISTIC",
        "arena_extend_strategy": "kSameAsRequested",
    }
    if use.memory is not None:
        cuda["gpu_mem_limit"] = str(use.memory)
    chosen: list[Any] = [(CUDA, cuda), CPU]
    if device == "tensorrt":
        shape = "x".join(map(str, image))
        trt = {
            "device_id": str(use.index),
            "trt_fp16_enable": str(int(use.precision == "fp16")),
            "trt_int8_enable": str(int(use.precision == "int8")),
            "trt_engine_cache_enable": "1",  # an engine takes minutes to build
            "trt_engine_cache_path": str(_cache(model, use.precision)),
            "trt_profile_min_shapes": f"image:1x{shape}",
            "trt_profile_opt_shapes": f"image:{use.batch_size}x{shape}",
            "trt_profile_max_shapes": f"image:{use.batch_size}x{shape}",
        }
        chosen.insert(0, (TENSORRT, trt))
    return chosen


def open_session(ort: Any, model: bytes, device: str, use: Use, image: tuple[int, ...]) -> tuple[Any, list[str]]:
    """A session on the GPU that has run once, and the parts of the network that it ran on the CPU all the same.

    The first run is needed anyway (kernels are loaded, cuDNN plans); profiled, it tells where every node ran.
    """
    import tempfile  # takes a part of the time to the first code that only this path should pay

    if hasattr(ort, "preload_dlls"):
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it misses; `missing_library` says it better
            ort.preload_dlls()
    ort.set_default_logger_severity(SILENT)
    with tempfile.TemporaryDirectory() as folder:
        options = session_options(ort)
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "first_run")
        chosen = providers(device, use, image, model)
        # enable_fallback=0: a run that fails on the GPU must not go on quietly on the CPU.
        session = ort.InferenceSession(model, options, providers=chosen, enable_fallback=0)
        session.run(None, {"image": np.zeros((1, *image), np.uint8)})
        profile = Path(session.end_profiling())
        return session, on_cpu(json.loads(profile.read_text(encoding="utf-8")))


def on_cpu(events: list[dict[str, Any]]) -> list[str]:
    """From the profile of a run: the nodes ("Conv conv1") that computed pictures or features on the CPU.

    Shapes, sizes and indices, whole numbers of a few bytes, are computed there by design, since they are needed there.
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
    """Runs a session with batches of two sizes, one picture and `batch_size`, in buffers that stay on the device.

    cuDNN plans anew for every shape it has not seen, which takes longer than the run itself; so a batch that is not
    full is padded. Nothing is allocated for a run. Threads take turns.
    """

    memory = "cuda"

    def __init__(self, session: Any, batch_size: int, index: int = 0) -> None:
        self.batch_size = batch_size
        self._session, self._place = session, (self.memory, index)
        self._image = tuple(session.get_inputs()[0].shape[1:])
        self._lock = threading.Lock()
        self._bound: dict[int, tuple[Any, ...]] = {}

    def __call__(self, pixels: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Codes and logits of 1 to batch_size pictures uint8 [n, H, W, 3]."""
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


def _cache(model: bytes, precision: str) -> Path:
    """Where the engines of one model lie. An engine holds weights, but ONNX Runtime names it by the graph alone: two
    trainings of one backbone must not meet in one folder.
    """
    folder = cache_folder("tensorrt")
    if folder is None:
        raise NotSupportedError("the engines of TensorRT need a folder; set HOME or XDG_CACHE_HOME")
    folder /= f"{hashlib.sha256(model).hexdigest()}-{precision}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
