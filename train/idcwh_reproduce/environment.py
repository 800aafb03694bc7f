"""Where and with what a cell was trained: processor, versions, revision of the source."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any

from idcwh_search import __version__
from idcwh_search._util.hardware import processor, version

_PACKAGES = ("torch", "torchvision", "timm", "numpy")


def machine(device: Any) -> dict[str, Any]:
    """Plain Python: cpu, flags, cores, threads, gpu (None without), platform."""
    import torch

    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {**processor(), "threads": torch.get_num_threads(), "gpu": gpu}


def versions() -> dict[str, str]:
    """Of Python, of this package and of those that compute."""
    return {
        "python": platform.python_version(),
        "idcwh": __version__,
        **{name: version(name) for name in _PACKAGES},
    }


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
