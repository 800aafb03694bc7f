"""Fixtures of several packages: a small handmade model.onnx, the C++ library, and images without pillow-heif."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import idcwh_search as ih
from support.c_abi import Cpp
from support.commands import Runner
from support.models import linear_onnx

if TYPE_CHECKING:
    import onnx

# Before torch is imported, also in processes that tests start. Threads on small images mostly wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def make_linear() -> Callable[..., onnx.ModelProto]:
    """`linear_onnx`."""
    return linear_onnx


@pytest.fixture(scope="session")
def cpp() -> Cpp:
    """The installed C++ library."""
    if sys.platform != "linux":
        pytest.skip("the shared library is part of Linux packages only")
    return Cpp(Path(ih.get_library_dir()))


@pytest.fixture(scope="session")
def cpp_with_encoder(cpp: Cpp) -> Cpp:
    """The same library, with ONNX Runtime's shared library to run models."""
    onnxruntime = pytest.importorskip("onnxruntime")
    libraries = list((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*"))
    if not libraries and "IDCWH_ONNXRUNTIME" not in os.environ:
        pytest.skip(f"the wheel of onnxruntime {onnxruntime.__version__} has no libonnxruntime.so")
    for library in libraries:
        os.environ.setdefault("IDCWH_ONNXRUNTIME", str(library))
    return cpp


@pytest.fixture
def heif_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists and decodes images as without pillow-heif."""
    from idcwh_search.images import decoding, listing

    formats = tuple(name for name in decoding._formats() if name != "HEIF")
    monkeypatch.setattr(decoding, "_formats", lambda: formats)
    for module in (listing, decoding):
        monkeypatch.setattr(module, "heif_installed", lambda: False)


@pytest.fixture
def commands(capsys: pytest.CaptureFixture[str]) -> Runner:
    """Runs commands in this process."""
    return Runner(capsys)
