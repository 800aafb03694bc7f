"""ONNX Runtime in an Encoder: threads, output and imports of the process, and a broken installation."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from idcwh_search.encoder import device, encoder, ort
from idcwh_search.encoder.encoder import Encoder
from idcwh_search.errors import NotInstalledError
from support.errors import raises


@pytest.mark.parametrize("spin", [False, True])
def test_session_options_spin_only_on_request(spin: bool, linear: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    real = ort.session_options
    monkeypatch.setattr(device, "session_options", lambda *given: asked.append(real(*given)) or asked[-1])
    Encoder(linear.write(), spin=spin, threads=2).parallel()
    entries = [options.get_session_config_entry("session.intra_op.allow_spinning") for options in asked]
    assert entries == [str(int(spin))] * 2


def test_encoder_threads_default_to_available_cores(linear: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "available_cores", lambda: 3)
    assert Encoder(linear.write()).threads == 3
    assert Encoder(linear.write(), threads=2).threads == 2


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs an affinity mask")
def test_available_cores_follow_the_affinity_mask() -> None:
    """CPU quotas are tested in csrc/tests/test_cores.cpp, with simulated control groups."""
    code = """
import os
from idcwh_search._util import hardware
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
print(hardware.available_cores(), hardware.processor()["cores"])
"""
    assert python(code).stdout.split() == ["1", "1"]


# ------------------------------------------------------------------------------------------------ a process of its own


def python(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )


def test_encoder_imports_no_torch_and_prints_nothing(linear: Any) -> None:
    code = (
        "import sys, numpy; from idcwh_search import Encoder\n"
        "Encoder(sys.argv[1])([numpy.zeros((9, 9, 3), 'uint8')])\n"
        "sys.exit('torch' in sys.modules)"
    )
    done = python(code, str(linear.write()))
    assert done.stdout == "" and done.stderr == ""


def test_onnxruntime_warnings_at_import_are_discarded(tmp_path: Path) -> None:
    stub = "import os; os.write(2, b'GPU device discovery failed'); set_default_logger_severity = lambda level: None"
    (tmp_path / "onnxruntime.py").write_text(stub)
    code = "import os; from idcwh_search.encoder import ort; ort.load_onnxruntime(); os.write(2, b'still there')"
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    assert python(code, PYTHONPATH=path).stderr == "still there"


def test_onnxruntime_import_delays_an_interrupt(tmp_path: Path) -> None:
    stub = "import os, signal; os.kill(os.getpid(), signal.SIGINT); set_default_logger_severity = lambda level: None"
    (tmp_path / "onnxruntime.py").write_text(stub)
    code = """
import signal, sys
from idcwh_search.encoder import ort
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
try:
    ort.load_onnxruntime()
except KeyboardInterrupt:
    print("interrupted", hasattr(sys.modules["onnxruntime"], "set_default_logger_severity"))
"""
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    assert python(code, PYTHONPATH=path).stdout.split() == ["interrupted", "True"]


def test_onnxruntime_missing_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    error = ModuleNotFoundError("No module named 'onnxruntime'", name="onnxruntime")
    monkeypatch.setattr(ort, "importlib", SimpleNamespace(import_module=raiser(error)))
    with raises(NotInstalledError, path="onnxruntime") as caught:
        ort.load_onnxruntime()
    assert "'idcwh[cpu]'" in caught.value.hint


def test_onnxruntime_half_removed_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uninstalling one of the two packages leaves a folder without its library."""
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    monkeypatch.setattr(ort, "importlib", SimpleNamespace(import_module=lambda name: SimpleNamespace()))
    with raises(NotInstalledError, path="onnxruntime"):
        ort.load_onnxruntime()


def raiser(error: Exception) -> Callable[[str], Any]:
    def fail(name: str) -> Any:
        raise error

    return fail
