"""Encoding of many images, in order, on all cores and in bounded memory.

The images are divided into chunks of one batch. A thread takes a chunk, decodes its images and runs the model on them.
On a CPU there is one thread per core, and each runs the model single-threaded. Decoding and inference then overlap
without a queue between them. On a GPU the threads take turns at running the model.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .._util.arguments import whole_or_none
from .._util.hardware import available_cores
from .._util.wording import counted
from ..images.decoding import UnreadableImage
from ..images.preprocess import Pixels
from .types import BatchEncoder, Codes, ImageInput

OnSkip = Callable[[str, str], object]  # (path, reason)
Progress = Callable[[int], object]  # (number of images encoded or skipped since the last call)
Run = Callable[[Pixels], tuple[Codes, Any]]

# With fewer images per thread, opening a second session takes longer than it saves (benchmarks/first_code.py times the
# opening).
_FEW = 16


@dataclass
class Summary:
    """Counts and times of a run so far.

    Attributes:
        images: number of images encoded.
        skipped: number of images that could not be read.
        seconds: wall time.
        decode_seconds, inference_seconds: seconds of all threads spent in reading images, and in the model.
    """

    images: int = 0
    skipped: int = 0
    seconds: float = 0.0
    decode_seconds: float = 0.0
    inference_seconds: float = 0.0

    @property
    def images_per_second(self) -> float:
        """Images encoded per second of wall time."""
        return self.images / self.seconds if self.seconds else 0.0

    @property
    def inference_share(self) -> float:
        """Share of the threads' time that was spent in the model, 0 to 1. The rest was spent in reading images."""
        busy = self.decode_seconds + self.inference_seconds
        return self.inference_seconds / busy if busy else 0.0

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return (
            f"{counted(self.images, 'image')}{skipped} in {self.seconds:.1f} s, {self.images_per_second:.0f} images/s "
            f"({100 * self.inference_share:.0f} % of the work in the model, the rest in reading images)"
        )


@dataclass
class _Chunk:
    """An encoded batch: positions of its images, their codes, the skipped images, and times in seconds."""

    positions: npt.NDArray[np.int64]
    codes: Codes
    skipped: list[UnreadableImage]
    decode_seconds: float
    inference_seconds: float


class EncodeRun:
    """An iterable of `(positions int64 [m], codes uint8 [m, bytes])` of the readable images, in their order.

    `positions` are positions in the argument of `encode_files`. `summary` is updated in every step. A break, an
    exception or Ctrl-C ends the threads.
    """

    def __init__(
        self,
        encoder: BatchEncoder,
        count: int,
        load: Callable[[int], Pixels],
        workers: int | None,
        on_skip: OnSkip | None,
        progress: Progress | None,
    ) -> None:
        self.summary = Summary()
        self._encoder, self._count, self._load = encoder, count, load
        self._workers = whole_or_none("workers", workers, 1) or (
            encoder.threads if encoder.device == "cpu" else available_cores()
        )
        self._on_skip, self._progress = on_skip, progress

    def __iter__(self) -> Iterator[tuple[npt.NDArray[np.int64], Codes]]:
        self.summary = Summary()
        started = time.perf_counter()
        for chunk in self._chunks():
            for error in chunk.skipped:
                if self._on_skip is None:
                    raise error
                self._on_skip(error.path, error.reason)
            self._account(chunk, time.perf_counter() - started)
            if self._progress is not None:
                self._progress(len(chunk.positions) + len(chunk.skipped))
            if len(chunk.positions):
                yield chunk.positions, chunk.codes

    def _chunks(self) -> Iterator[_Chunk]:
        """Yields the chunks in order. Several are in work at once, so that a slow file does not delay the others."""
        size = max(1, min(self._encoder.batch_size, -(-self._count // self._workers)))
        starts = range(0, self._count, size)
        few = self._count < _FEW * self._workers
        run, slots = (self._encoder.run, 1) if few else self._encoder.parallel()
        stop, turns = threading.Event(), threading.BoundedSemaphore(slots)
        window = 4 * self._workers
        pending: deque[Future[_Chunk]] = deque()
        with ThreadPoolExecutor(self._workers, thread_name_prefix="idcwh-encode") as pool:
            try:
                for start in starts:
                    members = range(start, min(start + size, self._count))
                    pending.append(pool.submit(self._work, members, run, turns, stop))
                    if len(pending) == window:
                        yield pending.popleft().result()
                while pending:
                    yield pending.popleft().result()
            finally:
                stop.set()  # chunks in work end at their next image, queued ones at once

    def _work(self, members: range, run: Run, turns: threading.Semaphore, stop: threading.Event) -> _Chunk:
        pixels = np.empty((len(members), *self._encoder.input_shape), np.uint8)
        positions: list[int] = []
        skipped: list[UnreadableImage] = []
        started = time.perf_counter()
        for position in members:
            if stop.is_set():
                break
            try:
                pixels[len(positions)] = self._load(position)
            except UnreadableImage as error:
                skipped.append(error)
            else:
                positions.append(position)
        decoded = time.perf_counter()
        with turns:
            entered = time.perf_counter()
            codes, _ = run(pixels[: len(positions)])
            left = time.perf_counter()
        return _Chunk(np.array(positions, np.int64), codes, skipped, decoded - started, left - entered)

    def _account(self, chunk: _Chunk, seconds: float) -> None:
        summary = self.summary
        summary.images += len(chunk.positions)
        summary.skipped += len(chunk.skipped)
        summary.decode_seconds += chunk.decode_seconds
        summary.inference_seconds += chunk.inference_seconds
        summary.seconds = seconds


def encode_files(
    encoder: BatchEncoder,
    images: Sequence[ImageInput],
    *,
    workers: int | None = None,
    on_skip: OnSkip | None = None,
    progress: Progress | None = None,
) -> EncodeRun:
    """Returns an iterable that encodes files, PIL images, or arrays uint8 [h, w, 3].

    Args:
        encoder: the model.
        images: the images, as in `Encoder.__call__`.
        workers: threads that decode, and on a CPU run the model; None for one per core.
        on_skip: called as on_skip(path, reason) for each file that cannot be read, in order, in the iterating thread.
            Without it the first such file raises its UnreadableImage.
        progress: called with the number of images encoded or skipped since the last call.
    """
    return EncodeRun(encoder, len(images), lambda i: encoder.pixels(images[i]), workers, on_skip, progress)


def encode_loaded(
    encoder: BatchEncoder,
    count: int,
    load: Callable[[int], Pixels],
    *,
    workers: int | None = None,
    on_skip: OnSkip | None = None,
    progress: Progress | None = None,
) -> EncodeRun:
    """Returns an iterable that encodes images which a function loads.

    Args:
        encoder: the model.
        count: number of images.
        load: returns the array of image 0, 1, ..., of the shape `encoder.input_shape`. It is called from several
            threads and raises UnreadableImage for an image to skip.
        workers, on_skip, progress: as in `encode_files`.
    """
    return EncodeRun(encoder, count, load, workers, on_skip, progress)
