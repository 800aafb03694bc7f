"""The environment of an experiment: processor, package versions and source revision."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from idcwh_search import __version__
from idcwh_search._util.hardware import processor, version


def describe(device: torch.device) -> dict[str, Any]:
    """Returns machine, versions and revision for the file of an experiment."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    packages = {name: version(name) for name in ("torch", "torchvision", "timm", "numpy")}
    return {
        "versions": {"python": platform.python_version(), "idcwh": __version__, **packages},
        "machine": {**processor(), "threads": torch.get_num_threads(), "gpu": gpu},
        "revision": _revision(),
    }


def _revision() -> str | None:
    """Returns the commit of the source tree, with "-dirty" after changes, or None outside of a git tree."""
    here = Path(__file__)

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(here.parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", here.name)
        return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return None
