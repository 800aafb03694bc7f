"""Image files and thumbnails of items, from below one folder only."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from threading import Lock

from PIL import Image
from starlette.responses import FileResponse, Response

from ..images import tar
from ..images.decoding import HEAD, UnreadableImage, kind_of, open_image, to_rgb
from .problems import Problem
from .uploads import turn

SIZES = (32, 1024)
"""Least and largest longer side of a thumbnail in pixels."""
_CACHE = 64 * 2**20  # bytes of thumbnails in memory
_TYPES = {
    "JPEG": "image/jpeg",
    "PNG": "image/png",
    "GIF": "image/gif",
    "WebP": "image/webp",
    "TIFF": "image/tiff",
    "BMP": "image/bmp",
    "AVIF": "image/avif",
    "HEIC": "image/heic",
    "JPEG 2000": "image/jp2",
    "ICO": "image/x-icon",
}
_HEADERS = {
    "cache-control": "private, max-age=300",
    "content-security-policy": "default-src 'none'; sandbox",
    "x-content-type-options": "nosniff",
}


class ImageFiles:
    """The folder of images. Keys are paths relative to it, which may lead into tar files. Thread-safe."""

    def __init__(self, root: Path) -> None:
        self._root = os.path.realpath(root)
        self._thumbnails: dict[tuple[str, int], bytes] = {}
        self._bytes = 0
        self._lock = Lock()

    def file(self, key: str, match: str | None) -> Response:
        """Returns the image file of an item, or 304 if `match` has its ETag. Raises Problem with status 404."""
        path, tag = self._find(key, "")
        if _matches(match, tag):
            return Response(status_code=304, headers={**_HEADERS, "etag": tag})
        content = tar.read(path)
        if content is not None:
            head, body = content.getvalue()[:HEAD], content.getvalue()
            return Response(body, headers={**_HEADERS, "etag": tag}, media_type=_type(head))
        try:
            with Path(path).open("rb") as file:
                head = file.read(HEAD)
        except OSError as error:
            raise _missing(key) from error
        return FileResponse(path, headers={**_HEADERS, "etag": tag}, media_type=_type(head))

    def thumbnail(self, key: str, size: int, match: str | None) -> Response:
        """Returns a JPEG whose longer side has `size` pixels at most. Raises Problem with status 404 or 422."""
        path, tag = self._find(key, str(size))
        headers = {**_HEADERS, "etag": tag}
        if _matches(match, tag):
            return Response(status_code=304, headers=headers)
        with self._lock:
            content = self._thumbnails.get((tag, size))
        if content is None:
            content = self._shrunk(path, size)
            self._keep((tag, size), content)
        return Response(content, headers=headers, media_type="image/jpeg")

    def _shrunk(self, path: str, size: int) -> bytes:
        try:
            with tar.read(path) or Path(path).open("rb") as file:
                image = open_image(file, path)
                image.draft("RGB", (2 * size, 2 * size))  # a thumbnail is not encoded, so fewer pixels do no harm
                with turn(image):
                    rgb = to_rgb(image, path)
        except (UnreadableImage, OSError) as error:
            raise Problem(422, f"image: cannot be decoded ({getattr(error, 'reason', error)})") from None
        rgb.thumbnail((size, size), Image.Resampling.BICUBIC)
        out = io.BytesIO()
        rgb.save(out, "JPEG", quality=85)
        return out.getvalue()

    def _keep(self, name: tuple[str, int], content: bytes) -> None:
        with self._lock:
            if name not in self._thumbnails:
                self._thumbnails[name] = content
                self._bytes += len(content)
            while self._bytes > _CACHE:
                oldest = next(iter(self._thumbnails))
                self._bytes -= len(self._thumbnails.pop(oldest))

    def _find(self, key: str, variant: str) -> tuple[str, str]:
        """Returns path and ETag of an image. Raises Problem with status 404 for one that is not below the folder."""
        path = os.path.join(self._root, key)  # noqa: PTH118 (a Path would change the key)
        try:
            archive = tar.split(path)
            real = os.path.realpath(archive[0] if archive else path)
            if os.path.commonpath([self._root, real]) != self._root:
                raise _missing(key)
            if archive:
                signature = tar.stat(path)
                found = f"{archive[0]}/{archive[1]}" if signature is not None else None
            else:
                status = os.stat(real)  # noqa: PTH116
                signature = (status.st_size, status.st_mtime_ns)
                found = real if os.path.isfile(real) else None  # noqa: PTH113
        except (OSError, ValueError) as error:
            raise _missing(key) from error
        if found is None:
            raise _missing(key)
        digest = hashlib.blake2b(repr((real, key, signature, variant)).encode(errors="surrogateescape"), digest_size=12)
        return found, f'"{digest.hexdigest()}"'


def _missing(key: str) -> Problem:
    return Problem(404, f"{key[:200]}: is missing in the folder of images")


def _matches(header: str | None, tag: str) -> bool:
    if header is None:
        return False
    return header.strip() == "*" or tag in [one.strip().removeprefix("W/") for one in header.split(",")]


def _type(head: bytes) -> str:
    return _TYPES.get(kind_of(head) or "", "application/octet-stream")
