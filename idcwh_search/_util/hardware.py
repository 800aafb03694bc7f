"""Properties of the machine: available cores and memory, the processor, and versions of packages."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from .._core import available_cores as available_cores

_MEMORY_LIMITS = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")

# CPU flags that select kernels in the engine, in PyTorch and in ONNX Runtime.
_FLAGS = (
    "popcnt", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx_vnni", "avx512_bf16",
    "avx512_vpopcntdq", "avx512_bitalg", "amx_bf16", "amx_int8", "asimd", "bf16", "sve",
)  # fmt: skip


def memory() -> int:
    """Returns the available memory in bytes: that of the machine or the limit of the container."""
    limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in _MEMORY_LIMITS:
        with contextlib.suppress(OSError, ValueError):  # the file has "max" if there is no limit
            limit = min(limit, int(file.read_text(encoding="ascii")))
    return limit


def processor() -> dict[str, Any]:
    """Returns cpu, family, flags, cores and platform as plain Python."""
    import platform

    fields: dict[str, str] = {}
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().split("\n\n")[0].splitlines():
            key, _, value = line.partition(":")
            fields[key.strip()] = value.strip()
    has = set(fields.get("flags", fields.get("Features", "")).split())
    return {
        "cpu": fields.get("model name") or platform.processor() or platform.machine(),
        "family": f"{fields.get('cpu family', '?')}/{fields.get('model', '?')}",
        "flags": [flag for flag in _FLAGS if flag in has],
        "cores": available_cores(),
        "platform": platform.platform(),
    }


def version(package: str) -> str:
    """Returns the version of an installed package, or "not installed"."""
    import importlib.metadata  # a slow import, needed here only

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
