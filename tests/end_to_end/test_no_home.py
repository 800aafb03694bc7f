"""Users without a home folder or a name, as in a container, and a home folder that is not writable."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

WITHOUT_PASSWD = """
import pwd
def getpwuid(uid):
    raise KeyError(f"getpwuid(): uid not found: {uid}")
pwd.getpwuid = getpwuid
import getpass
from idcwh_train.cli import main
data = ["--data", "data.npz", "--resize", "32", "--crop", "32", "--epochs", "2", "--query-per-class", "2"]
status = main([*data, "--out", "run", "--backbone", "compact", "--freeze"])
assert status == 0, status
getpass.getuser()
assert main([*data, "--out", "other", "--backbone", "resnet18"]) == 1
"""
NAMES = ("HOME", "USER", "LOGNAME", "LNAME", "USERNAME", "XDG_CACHE_HOME", "TORCH_HOME", "HF_HOME", "MPLCONFIGDIR")


@pytest.mark.parametrize("home", [None, "/dev/null"])
def test_training_without_a_usable_home_is_quiet(home: str | None, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", x=rng.integers(0, 256, (24, 16, 16, 3), np.uint8), y=np.arange(24) % 2)
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PASSWD], cwd=tmp_path, capture_output=True, text=True, check=False,
        env=environment if home is None else {**environment, "HOME": home}, timeout=600,
    )  # fmt: skip
    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "atplotlib" not in done.stderr and "Traceback" not in done.stderr
    assert "corrupt" not in done.stderr
    assert sum(line.startswith("features: not cached") for line in lines) == 1
    assert lines[-1].startswith("error: ") and "resnet18" in lines[-1]
    assert (tmp_path / "run" / "model.pt").exists() and not (tmp_path / "~").exists()
