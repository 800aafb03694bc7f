"""Settings of the C library's memory allocator for training on a CPU.

A training step allocates and frees hundreds of megabytes. By default glibc returns blocks of that size to the kernel,
which clears every page again in the next step. benchmarks/training.py measures the difference.
"""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of mallopt(3)


def keep_freed() -> bool:
    """Makes glibc keep freed memory in this process. Returns False for another C library."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, 1 << 30)) and bool(mallopt(_TRIM_THRESHOLD, (1 << 31) - 1))
