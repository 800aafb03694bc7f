"""What a number was measured on: processor, instruction sets, cores, versions. For benchmarks and results."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path
from typing import Any

from .._core import available_cores

# The flags that decide which kernels run, in our engine, in PyTorch and in ONNX Runtime.
_FLAGS = (
    "popcnt", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx_vnni", "avx512_bf16",
    "avx512_vpopcntdq", "avx512_bitalg", "amx_bf16", "amx_int8", "asimd", "bf16", "sve",
)  # fmt: skip


def processor() -> dict[str, Any]:
    """Plain Python: cpu, family, flags, cores that this process may use, platform."""
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
    """Of an installed package, or "not installed"."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
