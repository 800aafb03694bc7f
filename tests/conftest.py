"""Shared by several packages: a small model.onnx made by hand, and the C++ library idcwh_encoder through its C ABI, for
the tests that compare it with Python and Pillow."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import idcwh_search as ih

if TYPE_CHECKING:
    import onnx


def linear_onnx(
    weights: np.ndarray, grey: float, batch: int | str = "n", image_type: int | None = None
) -> onnx.ModelProto:
    """A model.onnx without metadata whose logits are (pixels - grey) @ weights, float32 [side * side * 3, bits]; of
    uint8 unless image_type says otherwise."""
    from onnx import TensorProto, helper, numpy_helper

    bits = weights.shape[1]
    side = round((len(weights) / 3) ** 0.5)
    packing = np.zeros((bits, -(-bits // 8)), np.float32)
    packing[np.arange(bits), np.arange(bits) // 8] = 2.0 ** (np.arange(bits) % 8)
    constants = {"weights": weights, "packing": packing, "shape": np.array([0, -1])}
    constants |= {"zero": np.float32(0), "grey": np.float32(grey)}
    nodes = [
        helper.make_node("Cast", ["image"], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["pixels", "grey"], ["centred"]),
        helper.make_node("Reshape", ["centred", "shape"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["logits"]),
        helper.make_node("GreaterOrEqual", ["logits", "zero"], ["positive"]),
        helper.make_node("Cast", ["positive"], ["bits"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["bits", "packing"], ["bytes"]),
        helper.make_node("Cast", ["bytes"], ["codes"], to=TensorProto.UINT8),
    ]
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info("image", image_type or TensorProto.UINT8, [batch, side, side, 3])],
        [
            helper.make_tensor_value_info("codes", TensorProto.UINT8, [batch, -(-bits // 8)]),
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, [batch, bits]),
        ],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.fixture(scope="session")
def make_linear() -> Callable[..., onnx.ModelProto]:
    """`linear_onnx`."""
    return linear_onnx


class Picture(ctypes.Structure):
    """idcwh_picture."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
        ("stride", ctypes.c_ssize_t),
    )

    @classmethod
    def of(cls, pixels: np.ndarray) -> Picture:
        """A view of uint8 [h, w, 3] whose rows may lie apart."""
        assert pixels.dtype == np.uint8 and pixels.strides[1:] == (3, 1)
        return cls(pixels.ctypes.data, pixels.shape[1], pixels.shape[0], pixels.strides[0])


class Options(ctypes.Structure):
    """idcwh_encoder_options."""

    _fields_ = (
        ("library", ctypes.c_char_p),
        ("device", ctypes.c_int),
        ("threads", ctypes.c_uint),
        ("batch_size", ctypes.c_uint),
        ("spin", ctypes.c_int),
        ("gpu", ctypes.c_uint),
        ("gpu_memory", ctypes.c_size_t),
        ("preprocess", ctypes.c_void_p),
        ("bits", ctypes.c_uint),
    )


class CppError(Exception):
    """What idcwh_last_error() says; `status` is what the call returned."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Cpp:
    """The calls, with numpy arrays, and a status that is not 0 as a CppError."""

    def __init__(self, folder: Path) -> None:
        core = ctypes.CDLL(str(folder / "libidcwh.so.0"), mode=ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(str(folder / "libidcwh_encoder.so.0"))
        self._last_error = core.idcwh_last_error
        self._last_error.restype = ctypes.c_char_p
        for name in ("fingerprint", "why", "runtime"):
            getattr(self.library, f"idcwh_encoder_{name}").restype = ctypes.c_char_p
        self.library.idcwh_encoder_preprocess.restype = ctypes.c_void_p

    def call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.library, name)(*arguments)
        if status:
            raise CppError(status, self._last_error().decode())

    def text(self, name: str, *arguments: Any) -> str:
        """What a call writes into a buffer of the caller's."""
        length = ctypes.c_size_t()
        self.call(name, *arguments, None, ctypes.c_size_t(0), ctypes.byref(length))
        buffer = ctypes.create_string_buffer(length.value + 1)
        self.call(name, *arguments, buffer, ctypes.c_size_t(len(buffer)), None)
        return buffer.value.decode()

    def preprocess_handle(self, json: str) -> ctypes.c_void_p:
        """idcwh_preprocess; never freed, a few bytes a test."""
        handle = ctypes.c_void_p()
        self.call("idcwh_preprocess_from_json", json.encode(), ctypes.byref(handle))
        return handle

    def preprocess(self, json: str) -> Callable[[np.ndarray], np.ndarray]:
        handle = self.preprocess_handle(json)
        crop = self.library.idcwh_preprocess_crop(handle)

        def run(pixels: np.ndarray) -> np.ndarray:
            made = np.empty((crop, crop, 3), np.uint8)
            picture = Picture.of(pixels)
            self.call("idcwh_preprocess_run", handle, ctypes.byref(picture), ctypes.c_void_p(made.ctypes.data))
            return made

        return run

    def encoder(self, path: Path, threads: int = 1, device: int = 1, **options: Any) -> CppEncoder:
        return CppEncoder(self, path, Options(device=device, threads=threads, **options))


class CppEncoder:
    """idcwh_encoder."""

    def __init__(self, cpp: Cpp, path: Path, options: Options) -> None:
        self._cpp, self._handle = cpp, ctypes.c_void_p()
        cpp.call("idcwh_encoder_open", os.fsencode(path), ctypes.byref(options), ctypes.byref(self._handle))
        self.bits = cpp.library.idcwh_encoder_bits(self._handle)
        self.fingerprint = cpp.library.idcwh_encoder_fingerprint(self._handle).decode()
        self.preprocess = ctypes.c_void_p(cpp.library.idcwh_encoder_preprocess(self._handle))

    def close(self) -> None:
        self._cpp.library.idcwh_encoder_free(self._handle)

    def text(self, name: str, *arguments: Any) -> str:
        return self._cpp.text(f"idcwh_encoder_{name}", self._handle, *arguments)

    def check_manifest(self, manifest: str) -> None:
        self._cpp.call("idcwh_encoder_check_manifest", self._handle, manifest.encode())

    def encode(self, pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Codes and logits of uint8 [n, crop, crop, 3]."""
        pixels = np.ascontiguousarray(pixels)
        return self._run("idcwh_encoder_encode", ctypes.c_void_p(pixels.ctypes.data), len(pixels))

    def encode_pictures(self, pictures: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Codes and logits of pictures of any size."""
        views = (Picture * len(pictures))(*map(Picture.of, pictures))
        return self._run("idcwh_encoder_encode_pictures", views, len(pictures))

    def _run(self, name: str, data: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
        codes, logits = np.empty((n, -(-self.bits // 8)), np.uint8), np.empty((n, self.bits), np.float32)
        places = (ctypes.c_void_p(codes.ctypes.data), ctypes.c_void_p(logits.ctypes.data))
        self._cpp.call(name, self._handle, data, ctypes.c_size_t(n), *places)
        return codes, logits


@pytest.fixture(scope="session")
def cpp() -> Cpp:
    """The library that this installation carries."""
    if sys.platform != "linux":
        pytest.skip("the shared library is part of Linux packages only")
    return Cpp(Path(ih.get_library_dir()))


@pytest.fixture(scope="session")
def cpp_error() -> type[CppError]:
    return CppError


@pytest.fixture(scope="session")
def cpp_with_encoder(cpp: Cpp) -> Cpp:
    """The same library, with ONNX Runtime's shared library to run models."""
    onnxruntime = pytest.importorskip("onnxruntime")
    libraries = list((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*"))
    if not libraries and "IDCWH_ONNXRUNTIME" not in os.environ:
        pytest.skip(f"the wheel of onnxruntime {onnxruntime.__version__} has no libonnxruntime.so")
    for library in libraries:
        os.environ.setdefault("IDCWH_ONNXRUNTIME", str(library))
    return cpp


@pytest.fixture
def heif_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images are listed and decoded as without pillow-heif."""
    from idcwh_search.images import listing, preprocess

    formats = tuple(name for name in preprocess._formats() if name != "HEIF")
    monkeypatch.setattr(preprocess, "_formats", lambda: formats)
    for module in (listing, preprocess):
        monkeypatch.setattr(module, "heif_installed", lambda: False)
