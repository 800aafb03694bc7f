"""The C ABI of idcwh and idcwh_encoder through ctypes, for tests that compare them with Python and Pillow."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np


class Image(ctypes.Structure):
    """The struct idcwh_image, a view of pixels."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
        ("stride", ctypes.c_ssize_t),
    )

    @classmethod
    def of(cls, pixels: np.ndarray) -> Image:
        """Returns a view of uint8 [h, w, 3], whose rows need not be contiguous."""
        assert pixels.dtype == np.uint8 and pixels.strides[1:] == (3, 1)
        return cls(pixels.ctypes.data, pixels.shape[1], pixels.shape[0], pixels.strides[0])


class Options(ctypes.Structure):
    """The struct idcwh_encoder_options."""

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
    """The error of a call that failed: the text of idcwh_last_error() and the status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Cpp:
    """The functions of the library with NumPy arrays. A status other than 0 becomes a CppError."""

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
        """Returns the text that a call writes into its caller's buffer."""
        length = ctypes.c_size_t()
        self.call(name, *arguments, None, ctypes.c_size_t(0), ctypes.byref(length))
        buffer = ctypes.create_string_buffer(length.value + 1)
        self.call(name, *arguments, buffer, ctypes.c_size_t(len(buffer)), None)
        return buffer.value.decode()

    def preprocess_handle(self, json: str) -> ctypes.c_void_p:
        """Returns an idcwh_preprocess. It is never freed, which costs a few bytes per test."""
        handle = ctypes.c_void_p()
        self.call("idcwh_preprocess_from_json", json.encode(), ctypes.byref(handle))
        return handle

    def preprocess(self, json: str) -> Callable[[np.ndarray], np.ndarray]:
        """Returns the function from pixels of any size to pixels of the crop."""
        handle = self.preprocess_handle(json)
        crop = self.library.idcwh_preprocess_crop(handle)

        def run(pixels: np.ndarray) -> np.ndarray:
            result = np.empty((crop, crop, 3), np.uint8)
            image = Image.of(pixels)
            self.call("idcwh_preprocess_run", handle, ctypes.byref(image), ctypes.c_void_p(result.ctypes.data))
            return result

        return run

    def encoder(self, path: Path, threads: int = 1, device: int = 1, **options: Any) -> CppEncoder:
        return CppEncoder(self, path, Options(device=device, threads=threads, **options))


class CppEncoder:
    """A handle of idcwh_encoder."""

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
        """Returns codes and logits of uint8 [n, crop, crop, 3]."""
        pixels = np.ascontiguousarray(pixels)
        return self._run("idcwh_encoder_encode", ctypes.c_void_p(pixels.ctypes.data), len(pixels))

    def encode_images(self, images: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Returns codes and logits of images of any size."""
        views = (Image * len(images))(*map(Image.of, images))
        return self._run("idcwh_encoder_encode_images", views, len(images))

    def _run(self, name: str, data: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
        codes, logits = np.empty((n, -(-self.bits // 8)), np.uint8), np.empty((n, self.bits), np.float32)
        places = (ctypes.c_void_p(codes.ctypes.data), ctypes.c_void_p(logits.ctypes.data))
        self._cpp.call(name, self._handle, data, ctypes.c_size_t(n), *places)
        return codes, logits
