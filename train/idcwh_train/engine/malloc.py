"""The C library's memory, kept instead of given back.

A training step on a CPU takes and frees hundreds of megabytes. glibc gives blocks of that size back to the kernel at
once, and the next step pays for clearing every page again (benchmarks/training.py).
"""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of mallopt(3)


def keep_freed() -> bool:
    """From now on memory that this process frees stays with it. False where the C library is another one."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, 1 << 30)) and bool(mallopt(_TRIM_THRESHOLD, (1 << 31) - 1))
