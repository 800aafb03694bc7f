"""The mtime signature and the checksum by which idcwh-index recognises an image file.

The mtime signature needs only a stat call, but copying or unpacking a file changes it. The checksum needs the whole
file, and changes only with its bytes.
"""

# ruff: noqa: PTH116, PTH123, SIM115
from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO

import numpy as np

from .._core import crc32c
from ..errors import IdcwhError
from ..images import tar

_CHUNK = 1 << 20
_FILES = 64  # files per task of a thread
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)

NONE = (0, 0)
"""The checksum of a file that cannot be read."""


def signature(path: str) -> tuple[int, int]:
    """Returns the mtime signature, a nonzero 32-bit CRC of size and mtime, and the size in bytes.

    Returns (0, 0) for a missing file.
    """
    try:
        if inside := tar.stat(path):
            return crc32c(" ".join(map(str, inside)).encode()) or 1, inside[0]
        status = os.stat(path)
    except (OSError, ValueError):
        return 0, 0
    return crc32c(f"{status.st_size} {status.st_mtime_ns}".encode()) or 1, status.st_size


def checksum(path: str) -> tuple[int, int]:
    """Returns the size in bytes and the 64-bit BLAKE2b of a file, or NONE if it cannot be read."""
    digest, size = hashlib.blake2b(digest_size=8), 0
    try:
        file: IO[bytes] | None = tar.read(path)
        if file is None:
            if not stat.S_ISREG(os.stat(path).st_mode):  # opening a named pipe would block
                return NONE
            file = open(path, "rb", buffering=0)
        with file:
            while part := file.read(_CHUNK):
                digest.update(part)
                size += len(part)
    except (OSError, ValueError, IdcwhError):  # reported when the image is decoded
        return NONE
    return size, int.from_bytes(digest.digest(), "little")


def checksums(paths: Sequence[str], threads: int, progress: Callable[[int], object]) -> np.ndarray:
    """Returns the checksum of each file, uint64 (n, 2). `progress` is called with the number of files per task."""
    found, starts = np.zeros((len(paths), 2), np.uint64), range(0, len(paths), _FILES)
    with ThreadPoolExecutor(threads, thread_name_prefix="idcwh-checksum") as pool:
        try:
            parts = pool.map(lambda start: [*map(checksum, paths[start : start + _FILES])], starts)
            for start, part in zip(starts, parts, strict=True):
                found[start : start + len(part)] = part
                progress(len(part))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # an interrupt does not wait for queued files
    return found


def is_gone(path: str) -> bool:
    """Returns True if a file, or member of a tar file, does not exist.

    Raises OSError if that is unknown, such as for an unreadable folder or a failing disk.
    """
    try:
        os.stat(path)
    except ValueError:  # a NUL byte
        return True
    except OSError as error:
        if error.errno not in _GONE:
            raise
        return not tar.exists(path)
    return False
