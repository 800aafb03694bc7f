"""Bodies of requests and uploaded images: limits on bytes, time, pixels and formats.

Nothing is written to disk, and no address is ever fetched. Images are decoded by images/decoding.py, so that the codes
are those of idcwh-index.
"""

from __future__ import annotations

import asyncio
import base64
import io
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from ..images.decoding import MAX_PIXELS, UnreadableImage, open_image, to_rgb
from ..images.preprocess import Preprocess, resample
from .problems import Problem, busy

MAX_BODY = 32 * 2**20
"""Most bytes of a body."""
BODY_SECONDS = 30.0
"""Seconds after which a body must have arrived."""
_DISCARDED = 64 * 2**20  # bytes of a too large body that are read, so that its client gets the answer
_BUFFERED = 256 * 2**20  # most bytes of all unfinished bodies, and of images that wait for a decoder
_LATE = "the body is late"
_LARGE = 32_000_000  # pixels above which one image at a time is decoded
FORM = "multipart/form-data"


class Bodies:
    """Bodies of requests within a common budget of memory."""

    def __init__(self) -> None:
        self._buffered = 0

    async def read(self, receive: Any, headers: Any) -> bytes:
        """Returns a body. Raises Problem with status 408, 413 or 429."""
        task = asyncio.current_task()
        assert task is not None
        # No asyncio.wait_for: before Python 3.12 it starts a task per body, which every search would wait for.
        late = asyncio.get_running_loop().call_later(BODY_SECONDS, task.cancel, _LATE)
        try:
            return await self._read(receive, headers)
        except asyncio.CancelledError as error:
            if error.args != (_LATE,):
                raise
            problem = f"body: is incomplete after {BODY_SECONDS:.0f} s; send it faster"
            raise Problem(408, problem, {"connection": "close"}) from None
        finally:
            late.cancel()

    @contextmanager
    def held(self, size: int) -> Iterator[None]:
        """Counts the bytes of an image that waits. Raises Problem with status 429 if there are too many."""
        if self._buffered + size > _BUFFERED:
            raise busy("decode")
        self._buffered += size
        try:
            yield
        finally:
            self._buffered -= size

    async def _read(self, receive: Any, headers: Any) -> bytes:
        message = await receive()
        if not message.get("more_body") and message["type"] == "http.request" and len(message["body"]) <= MAX_BODY:
            body: bytes = message["body"]
            return body
        declared = headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared) > MAX_BODY + _DISCARDED:
            raise _too_large()
        parts: list[bytes] = []
        size = 0
        try:
            while True:
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                part = message["body"]
                size += len(part)
                if size <= MAX_BODY:
                    self._buffered += len(part)
                    parts.append(part)
                    if self._buffered > _BUFFERED:
                        raise busy("body")
                elif size > MAX_BODY + _DISCARDED:
                    raise _too_large()
                if not message.get("more_body"):
                    break
                message = await receive()
        finally:
            self._buffered -= sum(map(len, parts))
        if size > MAX_BODY:
            raise _too_large()
        return b"".join(parts)


def _too_large() -> Problem:
    return Problem(413, f"body: is too large (at most {MAX_BODY:,} bytes)", {"connection": "close"})


async def form(body: bytes, content_type: str) -> dict[str, str | bytes]:
    """Returns the fields of a multipart form, files as bytes. Raises Problem with status 400."""

    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    parser = MultiPartParser(Headers({"content-type": content_type}), stream(), max_files=1, max_fields=20)
    parser.spool_max_size = MAX_BODY + 1  # in memory
    try:
        parsed = await parser.parse()
    except MultiPartException as error:
        raise Problem(400, f"body: is not a valid form ({error.message})") from None
    except (KeyError, UnicodeDecodeError, ValueError) as error:
        raise Problem(400, f"body: is not a valid form ({error})") from None
    fields: dict[str, str | bytes] = {}
    for name, value in parsed.multi_items():
        if name in fields:
            raise Problem(400, f"{name}: is given twice")
        fields[name] = await value.read() if isinstance(value, UploadFile) else value
    return fields


def from_base64(text: str) -> bytes:
    """Returns the bytes of an image in base64. Raises Problem with status 422."""
    try:
        content = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise Problem(422, f"image: is not base64 ({error})") from None
    if not content:
        raise Problem(422, "image: is empty")
    return content


@dataclass(frozen=True)
class Decoded:
    """An image as the input of the model, and the seconds of both stages."""

    pixels: np.ndarray
    decode: float
    preprocess: float


_one_large = threading.Lock()


def turn(image: Image.Image) -> AbstractContextManager[Any]:
    """Returns a context in which an image is decoded. It admits one large image at a time."""
    return _one_large if image.width * image.height > _LARGE else nullcontext()


def decode(content: bytes, preprocess: Preprocess) -> Decoded:
    """Returns an uploaded image as pixels. Raises Problem with status 413, 415 or 422."""
    started = time.perf_counter()
    try:
        image = open_image(io.BytesIO(content), "image")
    except UnreadableImage as error:
        too_large = error.reason.startswith("too large")
        raise Problem(413 if too_large else 422 if error.reason.startswith("corrupt") else 415, str(error)) from None
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise Problem(413, f"image: too large ({width} x {height}, at most {MAX_PIXELS:,} pixels)")
    try:
        with turn(image):
            rgb = to_rgb(image, "image")
            decoded = time.perf_counter()
            pixels = resample(rgb, preprocess)
    except UnreadableImage as error:
        raise Problem(422, str(error)) from None
    return Decoded(pixels, decoded - started, time.perf_counter() - decoded)
