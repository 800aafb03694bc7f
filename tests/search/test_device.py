"""The device of an Encoder and the options of a GPU, tested without a GPU."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from idcwh_search.encoder import cuda as gpu
from idcwh_search.encoder import device as devices
from idcwh_search.encoder import ort as runtime
from idcwh_search.encoder.encoder import Encoder
from idcwh_search.errors import NotSupportedError
from support.errors import raises

REAL_OBSTACLE = gpu.obstacle


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(gpu.ctypes, "CDLL", no_library)
    monkeypatch.setattr(runtime.load_onnxruntime(), "get_available_providers", lambda: [gpu.CUDA, runtime.CPU])


@pytest.fixture
def a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates a GPU, without running on it."""
    monkeypatch.setattr(gpu, "obstacle", lambda ort: None)


def test_auto_without_a_gpu_takes_the_cpu(linear: Any, no_gpu: None) -> None:
    encoder = Encoder(linear.write(), device="auto")
    assert (encoder.device, encoder.why) == ("cpu", "no GPU found")
    assert devices.usable() == ["cpu"]


def unusable(model: Path) -> str:
    """Returns the reason in the error of an Encoder on CUDA."""
    with raises(NotSupportedError, path="device cuda") as caught:
        Encoder(model, device="cuda")
    assert "\n" not in str(caught.value)
    return str(caught.value.problem.partition(": ")[2])


def test_cuda_without_a_gpu_is_not_supported(linear: Any, no_gpu: None) -> None:
    assert unusable(linear.write()).startswith(gpu.NO_GPU)
    with raises(NotSupportedError, path="device cuda"):
        devices.check_device("cuda")


def test_cuda_with_the_cpu_package_names_the_other(linear: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime.load_onnxruntime(), "get_available_providers", lambda: [runtime.CPU])
    monkeypatch.setattr(importlib.metadata, "version", only(onnxruntime="1.30.0"))
    reason = unusable(linear.write())
    assert reason.endswith("pip install 'idcwh[gpu]'") and "uninstall" not in reason
    assert Encoder(linear.write(), device="auto").why == reason


def test_cuda_with_both_packages_names_both(linear: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime.load_onnxruntime(), "get_available_providers", lambda: [runtime.CPU])
    monkeypatch.setattr(importlib.metadata, "version", only(**{"onnxruntime": "1.30.0", "onnxruntime-gpu": "1.31.1"}))
    reason = unusable(linear.write())
    assert "onnxruntime 1.30.0" in reason and "onnxruntime-gpu 1.31.1" in reason
    assert "pip uninstall -y onnxruntime onnxruntime-gpu" in reason


def only(**versions: str) -> Callable[[str], str]:
    def version(name: str) -> str:
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    return version


def test_cuda_whose_libraries_are_missing_names_them(linear: Any, a_gpu: None) -> None:
    """ONNX Runtime then silently uses the CPU. Here its provider really fails to load."""
    if REAL_OBSTACLE(runtime.load_onnxruntime()) is None:
        pytest.skip("a GPU is there")
    reason = unusable(linear.write())
    assert ".so" in reason and "onnxruntime-gpu[cuda,cudnn]" in reason
    encoder = Encoder(linear.write(), device="auto")
    assert (encoder.device, encoder.why) == ("cpu", reason)


def test_cuda_that_fails_to_start_gives_the_cause(linear: Any, a_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("[ONNXRuntimeError] : 1 : FAIL : out of memory\non device 0")

    monkeypatch.setattr(gpu, "open_session", fail)
    assert unusable(linear.write()).endswith(": out of memory on device 0")
    assert Encoder(linear.write()).device == "cpu"


def test_cuda_is_not_blamed_for_a_broken_model(linear: Any, a_gpu: None) -> None:
    result = linear.proto(12)
    result.graph.node[0].op_type = "Unknown"
    linear.path.write_bytes(result.SerializeToString())
    with raises(NotSupportedError, path=linear.path):
        Encoder(linear.path, device="cuda")


class OnCpu:
    """A CPU session that replaces a GPU's: it keeps the requested options and forwards all else."""

    asked: ClassVar[dict[str, Any]] = {}
    real: ClassVar[Any] = None

    def __init__(self, content: bytes, options: Any, providers: Any, **more: Any) -> None:
        OnCpu.asked = {"providers": providers, **more}
        self.session = OnCpu.real(content, options, providers=[runtime.CPU])
        self.providers = [entry if isinstance(entry, str) else entry[0] for entry in providers]

    def get_providers(self) -> list[str]:
        return self.providers

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)


@pytest.fixture
def pretended(a_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions on the simulated GPU run on the CPU, through the same buffers and bindings."""
    ort = runtime.load_onnxruntime()
    monkeypatch.setattr(OnCpu, "real", ort.InferenceSession)
    monkeypatch.setattr(ort, "InferenceSession", OnCpu)
    monkeypatch.setattr(ort, "preload_dlls", lambda: print("noise"), raising=False)
    monkeypatch.setattr(gpu.FixedShapes, "memory", "cpu")


def test_cuda_fallback_to_the_cpu_is_noticed(linear: Any, pretended: None, capfd: pytest.CaptureFixture[str]) -> None:
    """The session reports CUDA, but the profile of its first run shows that the network ran on the CPU."""
    reason = unusable(linear.write())
    assert reason.startswith("7 nodes") and "Cast " in reason and "strict=False" in reason
    encoder = Encoder(linear.write(), device="auto")
    assert (encoder.device, encoder.why) == ("cpu", reason)
    assert Encoder(linear.write(), device="cuda", strict=False).device == "cuda"
    assert capfd.readouterr().out == ""


def test_on_cpu_ignores_shapes_and_indices() -> None:
    def node(name: str, provider: str, **shapes: list[int]) -> dict[str, Any]:
        about = {"op_name": name.title(), "provider": provider}
        about["output_type_shape"] = [{kind: shape} for kind, shape in shapes.items()]  # type: ignore[assignment]
        return {"cat": "Node", "name": f"{name}_kernel_time", "args": about}

    events = [
        {"cat": "Session", "name": "model_run", "args": {}},
        node("shape", runtime.CPU, int64=[4]),
        node("conv", gpu.CUDA, float=[1, 8, 4, 4]),
        node("less", runtime.CPU, bool=[1]),
    ]
    assert gpu.on_cpu(events) == []
    slow = [node("resize", runtime.CPU, float16=[1, 8]), node("cast", runtime.CPU, uint8=[1, 2])]
    assert gpu.on_cpu([*events, *slow, *slow]) == ["Resize resize", "Cast cast"]


def test_cuda_runs_two_batch_shapes_without_tf32(linear: Any, pretended: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU, the test covers the requested options, the shapes and the buffers."""
    sizes: list[int] = []
    buffers = gpu.FixedShapes._buffers
    monkeypatch.setattr(gpu.FixedShapes, "_buffers", lambda self, size: (sizes.append(size), buffers(self, size))[1])
    encoder = Encoder(linear.write(), device="cuda", batch_size=8, strict=False, gpu=1, gpu_memory=2**30)
    assert encoder.device == "cuda" and encoder.parallel() == (encoder.run, 1)
    for n in (21, 3, 8, 1):
        assert np.array_equal(encoder.encode(linear.images(n)), linear.codes(linear.images(n), 12))
        assert np.array_equal(encoder.logits(linear.images(n)), linear.logits(linear.images(n), 12))
    assert sizes[-12:] == [8, 8, 8] * 2 + [8] * 4 + [1] * 2
    (name, cuda), cpu = OnCpu.asked["providers"]
    assert (name, cpu) == (gpu.CUDA, runtime.CPU) and OnCpu.asked["enable_fallback"] == 0
    assert cuda["use_tf32"] == "0" and cuda["cudnn_conv_algo_search"] == "HEURISTIC"
    assert cuda["arena_extend_strategy"] == "kSameAsRequested"
    assert (cuda["device_id"], cuda["gpu_mem_limit"]) == ("1", str(2**30))


def test_cuda_with_an_int8_model_is_not_supported(linear: Any, pretended: None) -> None:
    path = linear.write(meta={"idcwh_precision": "int8"})
    assert "int8" in unusable(path)
    encoder = Encoder(path)
    assert encoder.device == "cpu" and "int8" in encoder.why


def test_warm_up_runs_both_batch_shapes(linear: Any, pretended: None) -> None:
    encoder = Encoder(linear.write(), device="cuda", batch_size=8, strict=False)
    encoder.warm_up()
    assert set(encoder._bound._bound) == {1, 8}  # type: ignore[union-attr]


def test_cuda_buffers_are_shared_by_threads(linear: Any, pretended: None) -> None:
    encoder = Encoder(linear.write(48), device="cuda", batch_size=8, strict=False)

    def right(seed: int) -> bool:
        pixels = linear.images(50, seed)
        return all(np.array_equal(encoder.encode(pixels), linear.codes(pixels, 48)) for _ in range(5))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(right, range(12)))
