"""Encoder, which turns images into packed codes by a model.onnx. torch is never imported.

model_file.py reads the file and metadata.py its metadata. device.py chooses the device, and batch.py encodes many
files.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from PIL import Image

from .._util.arguments import whole, whole_or_none
from .._util.hardware import available_cores
from ..codes import MAX_BITS
from ..errors import CorruptFileError, IdcwhError, MismatchError
from ..images.preprocess import Pixels, Preprocess, load_image, to_pixels
from . import device as devices
from . import ort
from .batch import encode_files
from .cuda import FixedShapes, Use
from .metadata import checked
from .model_file import ChecksumState, LoadedModel
from .types import ENCODED, Codes, ImageInput, Logits

# Images per run. On a CPU each core runs batches of its own. 8 images of 224 x 224 take about 100 MB there, and larger
# batches are not faster (benchmarks/encode.py). A GPU needs larger ones.
_CPU_BATCH, _GPU_BATCH = 8, 64


class Encoder:
    """A model.onnx in an ONNX Runtime session, which turns images into packed codes.

        enc = Encoder("model.onnx")
        codes = enc(["a.jpg", "b.jpg"])     # paths, PIL images, arrays uint8 [h, w, 3] -> uint8 [2, ceil(bits / 8)]
        codes = enc.encode(pixels)          # preprocessed images, uint8 [n, H, W, 3]

    Several threads may use one encoder at once. A pickled or copied encoder opens the same file again.

    Args:
        model: path of the model.onnx.
        device: "auto", "cpu" or "cuda". A requested GPU that does not work is an error. "auto" selects CUDA if it
            works, otherwise the CPU.
        threads: threads per run on the CPU; None for all available cores.
        batch_size: images per run; None for 8 on a CPU and 64 on a GPU.
        strict: True to use a GPU only if a first run shows that the whole network runs there. Nodes that compute
            shapes and indices may run on the CPU.
        spin: True if CPU threads spin while they wait. A single query takes about 10 % less time, but other work has
            one core less.
        gpu: number of the GPU.
        gpu_memory: most bytes for activations on the GPU, the arena of ONNX Runtime; None for no limit.
        preprocess: preprocessing of a file without metadata, or of one that was modified after export. The metadata
            of such a file is ignored. An unmodified file whose metadata disagrees is refused.
        bits: code length of such a file; None for the number of logits.

    Attributes:
        device, why: device of the session, and the reason for the choice.
        bits, code_bytes: code length in bits, and bytes per code.
        preprocess, classes, method: metadata of the model.
        info: all metadata.
        fingerprint: SHA-256 of the file.
        path: absolute path of the file.

    Raises:
        NotFoundError: the file is missing.
        CorruptFileError: the file is not an ONNX model of this project, was modified after export, or contradicts its
            metadata.
        ModelMismatchError: `preprocess` or `bits` contradict the metadata of an unmodified file.
        NotSupportedError: the requested device does not work, or the model has weights in another file, which its
            fingerprint does not cover.
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
        devices.check_name(device)
        threads = whole_or_none("threads", threads, 1, ort.MAX_THREADS)
        batch_size = whole_or_none("batch_size", batch_size, 1)
        gpu, gpu_memory = whole("gpu", gpu, 0), whole_or_none("gpu_memory", gpu_memory, 1)
        bits = whole_or_none("bits", bits, 1, MAX_BITS)
        if preprocess is not None and not isinstance(preprocess, Preprocess):
            raise TypeError(f"preprocess: expected a Preprocess(resize, crop), not {type(preprocess).__name__}")
        self._options: dict[str, Any] = {"device": device, "threads": threads, "batch_size": batch_size}
        self._options |= {"strict": strict, "spin": spin, "gpu": gpu, "gpu_memory": gpu_memory}
        self._options |= {"preprocess": preprocess, "bits": bits}

        loaded = LoadedModel.read(model)
        self.path, self.fingerprint = loaded.path, loaded.fingerprint
        self.threads = threads or available_cores()
        try:
            info = loaded.info(preprocess, bits)
            image, use = (info.preprocess.crop, info.preprocess.crop, 3), Use(gpu, gpu_memory, info.precision)
            opened = devices.open_session(
                loaded.content, self.path, device, self.threads, spin=spin, use=use, image=image, strict=strict
            )
            self.info = checked(opened.session, info)
        except IdcwhError as error:
            raise error.about(self.path) from error.__cause__
        self._session, self.device, self.why = opened.session, opened.device, opened.why
        self.batch_size = batch_size or (_CPU_BATCH if self.device == "cpu" else _GPU_BATCH)
        self.bits, self.code_bytes = self.info.bits, self.info.code_bytes
        self.preprocess, self.classes, self.method = self.info.preprocess, self.info.classes, self.info.method
        self._bound = None if self.device == "cpu" else FixedShapes(self._session, self.batch_size, gpu)
        # `parallel` opens a second session from these bytes.
        self._content = loaded.content if self.device == "cpu" and self.threads > 1 else None
        self._single: Any = None
        self._lock = threading.Lock()
        if loaded.checksum is not ChecksumState.VALID:  # otherwise the exporter has checked the outputs
            self._check_outputs()

    def __repr__(self) -> str:
        return f"Encoder({self.path!r}, bits={self.bits}, device={self.device!r}, {self.fingerprint[:12]})"

    def __reduce__(self) -> Any:
        """Returns what pickle and copy need to open the same file again."""
        return _reopened, (self.path, self.fingerprint, self._options)

    def __call__(self, images: ImageInput | Iterable[ImageInput]) -> Codes:
        """Returns codes uint8 [n, ceil(bits / 8)] of one or more images.

        An image is a path, the bytes of an image file, a file opened in binary mode, a PIL image, or an array
        uint8 [h, w, 3] RGB. Raises UnreadableImage for the first image that cannot be read; `batch.encode_files` can
        skip such images.
        """
        one = isinstance(images, (Image.Image, *ENCODED)) or hasattr(images, "read")
        if isinstance(images, np.ndarray) and images.ndim not in (3, 4):
            self.pixels(images)  # raises the error for a wrong image
        if one or (isinstance(images, np.ndarray) and images.ndim == 3):
            images = [images]  # type: ignore[list-item]
        parts = [codes for _, codes in encode_files(self, list(images), on_skip=None)]  # type: ignore[arg-type]
        return np.concatenate(parts) if parts else np.empty((0, self.code_bytes), np.uint8)

    def pixels(self, image: ImageInput) -> Pixels:
        """Returns one image as the input of the model, uint8 [H, W, 3]. Raises UnreadableImage or TypeError."""
        if isinstance(image, np.ndarray):
            if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
                raise TypeError(f"image must be uint8 [h, w, 3], not {image.dtype} {list(image.shape)}")
            image = Image.fromarray(image)
        if isinstance(image, Image.Image):
            return to_pixels(image, self.preprocess)
        if isinstance(image, ENCODED) or hasattr(image, "read"):
            return load_image(image, self.preprocess)
        raise TypeError(
            "image must be a path, the bytes of an image file, a file opened in binary mode, a PIL image or an "
            f"array, not {type(image).__name__}"
        )

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """Shape of the pixels of one image."""
        return self.preprocess.crop, self.preprocess.crop, 3

    def encode(self, pixels: Pixels) -> Codes:
        """Returns codes uint8 [n, ceil(bits / 8)] of preprocessed images uint8 [n, H, W, 3], n >= 0."""
        return self.run(pixels)[0]

    def logits(self, pixels: Pixels) -> Logits:
        """Returns logits float32 [n, bits] of preprocessed images uint8 [n, H, W, 3]; bit i is logit i >= 0."""
        return self.run(pixels)[1]

    def run(self, pixels: Pixels) -> tuple[Codes, Logits]:
        """Returns codes and logits of preprocessed images uint8 [n, H, W, 3], computed in runs of `batch_size`."""
        return self._run(self._session, pixels)

    def parallel(self) -> tuple[Callable[[Pixels], tuple[Codes, Logits]], int]:
        """Returns a function like `run` for many images, and the number of threads that should call it at once.

        On a CPU the function uses a second, single-threaded session. With one caller per core no thread waits for the
        slowest part of a layer, and the callers can decode as well. On a GPU there is one run at a time.
        """
        if self.device != "cpu" or self.threads == 1:
            return self.run, 1
        with self._lock:
            if self._single is None:
                assert self._content is not None
                spin = self._options["spin"]
                self._single = devices.open_session(self._content, self.path, "cpu", threads=1, spin=spin).session
                self._content = None
        return partial(self._run, self._single), self.threads

    def warm_up(self) -> None:
        """Runs the model once per batch size, so that the first query is not slower than later ones."""
        side = self.preprocess.crop
        for size in {1, self.batch_size}:
            self.encode(np.zeros((size, side, side, 3), np.uint8))

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

    def _check_outputs(self) -> None:
        """Raises CorruptFileError unless the codes of one image of noise are its logits, packed."""
        side, hint = self.preprocess.crop, "write it again with idcwh-export"
        codes, logits = self.run(np.random.default_rng(0).integers(0, 256, (1, side, side, 3), np.uint8))
        if not np.isfinite(logits).all():
            raise CorruptFileError(path=self.path, found="logits that are not finite", hint=hint)
        if not np.array_equal(codes, np.packbits(logits >= 0, axis=1, bitorder="little")):
            raise CorruptFileError(
                path=self.path, found="other codes",
                expected="logits >= 0, packed eight per byte, the first in the lowest bit", hint=hint,
            )  # fmt: skip

    def _check_pixels(self, pixels: Pixels) -> None:
        side = self.preprocess.crop
        if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (side, side, 3):
            found = f"{pixels.dtype} {list(pixels.shape)}" if isinstance(pixels, np.ndarray) else type(pixels).__name__
            raise TypeError(f"pixels must be preprocessed images uint8 [n, {side}, {side}, 3], not {found}")


def _reopened(path: str, fingerprint: str, options: dict[str, Any]) -> Encoder:
    """Returns the encoder that was pickled. Raises MismatchError if its file was replaced since."""
    encoder = Encoder(path, **options)
    if encoder.fingerprint != fingerprint:
        raise MismatchError(
            "does not match the pickled encoder", path=path, found=encoder.fingerprint, expected=fingerprint
        )
    return encoder
