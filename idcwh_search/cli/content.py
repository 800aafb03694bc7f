"""Size, time and bytes of image files: the quick signature and the checksum by which idcwh-index recognises an image.

The signature costs a look-up in the file system and changes with the time of the file, which copying, unpacking and
other file systems change, too. The checksum costs reading the file and changes with its bytes only.
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
_FILES = 64  # read by a thread at a time
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)

NONE = (0, 0)
"""The checksum of a file that cannot be read."""


def signature(path: str) -> tuple[int, int]:
    """Returns a 32-bit CRC of size and time, never 0, and the size in bytes; (0, 0) for a file that is not there."""
    try:
        if inside := tar.stat(path):
            return crc32c(" ".join(map(str, inside)).encode()) or 1, inside[0]
        status = os.stat(path)
    except (OSError, ValueError):
        return 0, 0
    return crc32c(f"{status.st_size} {status.st_mtime_ns}".encode()) or 1, status.st_size


def checksum(path: str) -> tuple[int, int]:
    """Returns the size in bytes and the 64-bit BLAKE2b of the bytes of a file; NONE where it cannot be read."""
    digest, size = hashlib.blake2b(digest_size=8), 0
    try:
        file: IO[bytes] | None = tar.read(path)
        if file is None:
            if not stat.S_ISREG(os.stat(path).st_mode):  # opening a named pipe would wait for ever
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
    """Returns the checksum of each file, uint64 (n, 2), read by several threads."""
    found, starts = np.zeros((len(paths), 2), np.uint64), range(0, len(paths), _FILES)
    with ThreadPoolExecutor(threads, thread_name_prefix="idcwh-checksum") as pool:
        try:
            parts = pool.map(lambda start: [*map(checksum, paths[start : start + _FILES])], starts)
            for start, part in zip(starts, parts, strict=True):
                found[start : start + len(part)] = part
                progress(len(part))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # an interrupt does not wait for the other files
    return found


def is_gone(path: str) -> bool:
    """Returns whether there is no such file, nor a member of a tar file of this name. Raises OSError where that cannot
    be told: a folder that is not readable or a disk that fails is not an empty one."""
    try:
        os.stat(path)
    except ValueError:  # a NUL byte
        return True
    except OSError as error:
        if error.errno not in _GONE:
            raise
        return not tar.exists(path)
    return False
