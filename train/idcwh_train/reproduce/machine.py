"""Where and with what a cell was trained: processor, versions, revision of the source."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from idcwh_search import __version__

# Those that decide which kernels run, here and in PyTorch.
_FLAGS = (
    "popcnt", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16",
    "avx512_vpopcntdq", "amx_bf16", "amx_int8", "asimd", "bf16", "sve",
)  # fmt: skip
_PACKAGES = ("torch", "torchvision", "timm", "numpy")


def machine(device: Any) -> dict[str, Any]:
    """Plain Python: cpu, flags, cores, threads, gpu (None without), platform."""
    import torch

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
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "platform": platform.platform(),
    }


def versions() -> dict[str, str]:
    """Of Python, of this package and of those that compute."""
    found = {"python": platform.python_version(), "idcwh": __version__}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def revision() -> str | None:
    """Of the source tree that this file is tracked in, with "-dirty" for one with changes; None outside of one."""
    here = Path(__file__)

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(here.parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", here.name)
        return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return None
