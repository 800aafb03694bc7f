"""Pictures to packed codes through model.onnx; torch is not needed, and never imported.

What the model says of itself is read in metadata.py, the device is chosen in device.py, and keeping every core busy
with many files is the business of batch.py.
"""

from __future__ import annotations

import os
import shlex
import stat
import threading
from collections.abc import Callable, Iterable
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ..errors import (
    CorruptFileError,
    IdcwhError,
    InvalidInputError,
    MismatchError,
    ModelMismatchError,
    NotSupportedError,
)
from ..images.preprocess import Pixels, Preprocess, load_image, to_pixels
from . import device as devices
from . import model_file, ort
from .batch import encode_files
from .cuda import FixedShapes, Use
from .metadata import WITHOUT, ModelInfo, check_signature, explicit
from .types import ENCODED, Codes, Logits, Picture

# Images a run. On a CPU each core runs batches of its own: 8 images of 224 x 224 take some 100 MB, and more at once
# gain nothing. A GPU wants more.
_CPU_BATCH, _GPU_BATCH = 8, 64


class Encoder:
    """A model.onnx, ready to make codes.

        enc = Encoder("model.onnx")
        codes = enc(["a.jpg", "b.jpg"])         # uint8 [2, ceil(bits / 8)]; also PIL images, arrays uint8 [h, w, 3],
                                                # the bytes of image files, and files opened in binary mode
        codes = enc.encode(pixels)              # uint8 [n, H, W, 3] that are preprocessed already

    device      "auto", "cpu" or "cuda". Asked for, a GPU that cannot be had is an error; "auto" takes
                CUDA where it works, else the CPU, and `why` says which and for what reason
    threads     of one run on the CPU: all cores that this process may use
    batch_size  pictures a run
    strict      take a GPU only if the whole network runs on it, proven by a first run; shapes and indices aside
    spin        CPU threads wait for their next work spinning: a single query a tenth sooner, and a core less for others
    gpu         the number of the GPU
    gpu_memory  the most bytes that activations may take there (the arena of ONNX Runtime); None: no limit
    preprocess, bits
                what the model expects and gives, for a file without metadata, or one that was changed after it was
                written; its metadata is not looked at then, but an unchanged file that says something else is refused.
                bits: of a code, by default as many as there are logits

    Afterwards `device` is what it really runs on. `bits`, `code_bytes` (of one code), `preprocess`, `classes` and
    `method` are the model's, `info` is all it says of itself, `fingerprint` the SHA-256 of its file. A model
    with weights in another file is refused, since its fingerprint does not cover them.

    Raises IdcwhError when the file is missing, no ONNX model, not one of ours, changed since it was written, or not
    what its metadata says, and when a device that was asked for cannot be had. One encoder may be used by several
    threads at once. A pickled or copied encoder opens the same file again.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        device: str = "auto",
        threads: int | None = None,
        batch_size: int | None = None,
        *,
        strict: bool = True,
        spin: bool = False,
        gpu: int = 0,
        gpu_memory: int | None = None,
        preprocess: Preprocess | None = None,
        bits: int | None = None,
    ) -> None:
        self.path = str(Path(model).absolute())  # it is read again by `parallel`, wherever the process is by then
        self.threads = _at_least_one("threads", threads) or ort.available_cores()
        if self.threads > ort.MAX_THREADS:
            raise ValueError(f"threads must be at most {ort.MAX_THREADS}, not {self.threads}")
        devices.check_name(device)
        if preprocess is not None and not isinstance(preprocess, Preprocess):
            raise TypeError(f"preprocess: expected a Preprocess(resize, crop), not {type(preprocess).__name__}")
        size, memory = _at_least_one("batch_size", batch_size), _at_least_one("gpu_memory", gpu_memory)
        bits = _at_least_one("bits", bits)
        if isinstance(gpu, bool) or not isinstance(gpu, int) or gpu < 0:
            raise ValueError(f"gpu must be the number of a GPU, 0 for the first, not {gpu!r}")
        content = _read(self.path)
        seal, self.fingerprint = model_file.examine(content)
        try:
            model_file.check_self_contained(content)
            said = _said(content, seal) if preprocess is None else _contradicted(content, seal, preprocess)
            if said is not None and bits not in (None, said.bits):
                raise ModelMismatchError(f"its codes have {said.bits} bits, not {bits}")
            expected = said.preprocess if said else preprocess or Preprocess()
            use = Use(gpu, memory, said.precision if said else "fp32")
            image = (expected.crop, expected.crop, 3)
            opened = devices.open_session(
                content, self.path, device, self.threads, spin=spin, use=use, image=image, strict=strict
            )
            self._session, self.device, self.why = opened.session, opened.device, opened.why
            self.info = said or explicit(self._session, expected, bits)
            check_signature(self._session, self.info)
        except IdcwhError as error:
            raise error.about(self.path) from error.__cause__
        self.batch_size = size or (_CPU_BATCH if self.device == "cpu" else _GPU_BATCH)
        self.bits, self.code_bytes = self.info.bits, self.info.code_bytes
        self.preprocess, self.classes, self.method = self.info.preprocess, self.info.classes, self.info.method
        self._bound = None if self.device == "cpu" else FixedShapes(self._session, self.batch_size, gpu)
        self._spin = spin
        self._options: dict[str, Any] = {"device": device, "threads": threads, "batch_size": batch_size}
        self._options |= {"strict": strict, "spin": spin, "gpu": gpu, "gpu_memory": gpu_memory}
        self._options |= {"preprocess": preprocess, "bits": bits}
        self._single: Any = None  # see `parallel`
        self._lock = threading.Lock()
        if seal is not model_file.Seal.WHOLE:  # else the exporter has tried
            self._try()

    def __repr__(self) -> str:
        return f"Encoder({self.path!r}, bits={self.bits}, device={self.device!r}, {self.fingerprint[:12]})"

    def __reduce__(self) -> Any:
        """Returns how to open the same file again, for pickling and copying."""
        return _reopened, (self.path, self.fingerprint, self._options)

    def __call__(self, pictures: Picture | Iterable[Picture]) -> Codes:
        """Codes uint8 [n, ceil(bits / 8)] of one image or several.

        An image is a path, the bytes of an image file, a file opened in binary mode, a PIL image, or an array
        uint8 [h, w, 3] RGB. Raises UnreadableImage for the first that cannot be read; `pipeline.encode_files` skips
        such files.
        """
        one = isinstance(pictures, (Image.Image, *ENCODED)) or hasattr(pictures, "read")
        if isinstance(pictures, np.ndarray) and pictures.ndim not in (3, 4):
            self.pixels(pictures)  # which says what a picture is
        if one or (isinstance(pictures, np.ndarray) and pictures.ndim == 3):
            pictures = [pictures]  # type: ignore[list-item]
        parts = [codes for _, codes in encode_files(self, list(pictures), on_skip=None)]  # type: ignore[arg-type]
        return np.concatenate(parts) if parts else np.empty((0, self.code_bytes), np.uint8)

    def pixels(self, picture: Picture) -> Pixels:
        """One picture as the model sees it: uint8 [H, W, 3]. Raises UnreadableImage."""
        if isinstance(picture, np.ndarray):
            if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
                raise TypeError(f"an image must be uint8 [h, w, 3], not {picture.dtype} {list(picture.shape)}")
            picture = Image.fromarray(picture)
        if isinstance(picture, Image.Image):
            return to_pixels(picture, self.preprocess)
        if isinstance(picture, ENCODED) or hasattr(picture, "read"):
            return load_image(picture, self.preprocess)
        raise TypeError(
            "an image must be a path, the bytes of an image file, a file opened in binary mode, a PIL image or an "
            f"array, not {type(picture).__name__}"
        )

    def encode(self, pixels: Pixels) -> Codes:
        """Codes uint8 [n, ceil(bits / 8)] of preprocessed pictures uint8 [n, H, W, 3], n >= 0."""
        return self.run(pixels)[0]

    def logits(self, pixels: Pixels) -> Logits:
        """Logits float32 [n, bits] of preprocessed pictures uint8 [n, H, W, 3]; bit i of a code is logit i >= 0."""
        return self.run(pixels)[1]

    def run(self, pixels: Pixels) -> tuple[Codes, Logits]:
        """Codes and logits of preprocessed pictures, `batch_size` at a time."""
        return self._run(self._session, pixels)

    def parallel(self) -> tuple[Callable[[Pixels], tuple[Codes, Logits]], int]:
        """For many images: a function like `run`, and how many threads should call it at once.

        On a CPU that is one single-threaded run a core: no thread waits for the slowest part of a layer, and decoding
        in the same threads needs no queue. It takes a second session of the same model. On a GPU one run at a time.
        """
        if self.device != "cpu" or self.threads == 1:
            return self.run, 1
        with self._lock:
            if self._single is None:
                self._single = self._open_single()
        return partial(self._run, self._single), self.threads

    def warm_up(self) -> None:
        """Run once in each batch size that will be run, so that no query pays for what is done only the first time."""
        side = self.preprocess.crop
        for size in {1, self.batch_size}:
            self.encode(np.zeros((size, side, side, 3), np.uint8))

    def _open_single(self) -> Any:
        content = _read(self.path)
        _check_unchanged(self.path, model_file.examine(content)[1], self.fingerprint)
        return devices.open_session(content, self.path, "cpu", threads=1, spin=self._spin).session

    def _run(self, session: Any, pixels: Pixels) -> tuple[Codes, Logits]:
        self._check_pixels(pixels)
        codes = np.empty((len(pixels), self.code_bytes), np.uint8)
        logits = np.empty((len(pixels), self.bits), np.float32)
        for start in range(0, len(pixels), self.batch_size):
            batch = np.ascontiguousarray(pixels[start : start + self.batch_size])
            stop = start + len(batch)
            with ort.running(self.path):
                if self._bound is not None:
                    codes[start:stop], logits[start:stop] = self._bound(batch)
                else:
                    codes[start:stop], logits[start:stop] = session.run(["codes", "logits"], {"image": batch})
        return codes, logits

    def _try(self) -> None:
        """One picture of noise: are these packed codes at all?"""
        side = self.preprocess.crop
        codes, logits = self.run(np.random.default_rng(0).integers(0, 256, (1, side, side, 3), np.uint8))
        if not np.isfinite(logits).all():
            raise CorruptFileError("its logits are not finite; write it anew with idcwh-export", path=self.path)
        if not np.array_equal(codes, np.packbits(logits >= 0, axis=1, bitorder="little")):
            raise CorruptFileError(
                "its codes are not its logits >= 0, packed eight to a byte, the first in the lowest bit; "
                "write it with idcwh-export",
                path=self.path,
            )

    def _check_pixels(self, pixels: Pixels) -> None:
        side = self.preprocess.crop
        if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (side, side, 3):
            found = f"{pixels.dtype} {list(pixels.shape)}" if isinstance(pixels, np.ndarray) else type(pixels).__name__
            raise TypeError(f"expected preprocessed pictures uint8 [n, {side}, {side}, 3], not {found}")


def _reopened(path: str, fingerprint: str, options: dict[str, Any]) -> Encoder:
    """Returns the encoder that was pickled. Raises IdcwhError where the file is another one by now."""
    encoder = Encoder(path, **options)
    _check_unchanged(path, encoder.fingerprint, fingerprint)
    return encoder


def _check_unchanged(path: str, found: str, expected: str) -> None:
    if found != expected:
        raise MismatchError("was replaced while it was in use; open it again", path=path)


def _said(content: bytes, seal: model_file.Seal) -> ModelInfo | None:
    """What the file says of itself; None when it cannot be read at all, which opening it will explain."""
    lines = model_file.metadata(content)
    if seal is model_file.Seal.BROKEN:
        raise CorruptFileError(f"was changed after idcwh-export wrote it, by damage or by a tool; {WITHOUT}")
    return None if lines is None else ModelInfo.from_metadata(lines)


def _contradicted(content: bytes, seal: model_file.Seal, preprocess: Preprocess) -> ModelInfo | None:
    """What an unchanged file says, which `preprocess` has to agree with; None for one that is not to be believed."""
    if seal is not model_file.Seal.WHOLE:
        return None
    said = _said(content, seal)
    if said is not None and said.preprocess != preprocess:
        raise ModelMismatchError(
            f"says that it expects {said.preprocess}, not {preprocess}, and was not changed since it was written; "
            "leave --preprocess out (in Python, preprocess=)"
        )
    return said


def _read(path: str) -> bytes:
    """The whole file at once, so that what is fingerprinted is what runs."""
    try:
        if stat.S_IFMT(Path(path).stat().st_mode) not in (stat.S_IFREG, stat.S_IFDIR):  # a pipe would be waited for
            raise NotSupportedError("a device or a pipe; expected a model.onnx written by idcwh-export", path=path)
        content = Path(path).read_bytes()
    except OSError as error:
        raise IdcwhError(f"{error.strerror}; expected a model.onnx written by idcwh-export", path=path) from error
    if content.startswith(b"PK\3\4") and b"data.pkl" in content:
        raise InvalidInputError(
            f"is a PyTorch file; expected a model.onnx: run idcwh-export {shlex.quote(path)} --onnx", path=path
        )
    return content


def _at_least_one(name: str, value: int | None) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")
    return int(value)
