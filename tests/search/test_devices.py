"""Which device an Encoder takes, and why; what a GPU is asked for, as far as a machine without one can tell."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from idcwh_search.encoder import cuda as gpu
from idcwh_search.encoder import device as devices
from idcwh_search.encoder import ort as runtime
from idcwh_search.encoder.encoder import Encoder
from idcwh_search.errors import IdcwhError

REAL_OBSTACLE = gpu.obstacle


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(gpu.ctypes, "CDLL", no_library)
    everything = [gpu.TENSORRT, gpu.CUDA, runtime.CPU]
    monkeypatch.setattr(runtime.load_onnxruntime(), "get_available_providers", lambda: everything)


@pytest.fixture
def a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as can be told without one."""
    monkeypatch.setattr(gpu, "obstacle", lambda ort, device: None)


def test_auto_takes_the_cpu_and_says_why(linear: Any, no_gpu: None) -> None:
    encoder = Encoder(linear.write(), device="auto")
    assert (encoder.device, encoder.why) == ("cpu", "no GPU found")
    assert devices.usable() == ["cpu"]


@pytest.mark.parametrize("device", ["cuda", "tensorrt"])
def test_a_device_without_a_gpu_is_an_error(device: str, linear: Any, no_gpu: None) -> None:
    with pytest.raises(IdcwhError, match=rf"device {device}: cannot be used.*no GPU found"):
        Encoder(linear.write(), device=device)
    with pytest.raises(IdcwhError, match="no GPU found"):
        devices.check_device(device)


@pytest.mark.parametrize(("device", "name"), [("cuda", "CUDA"), ("tensorrt", "TensorRT")])
def test_the_cpu_package_is_told_from_the_right_one(
    device: str, name: str, linear: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime.load_onnxruntime(), "get_available_providers", lambda: [runtime.CPU])
    monkeypatch.setattr(importlib.metadata, "version", only(onnxruntime="1.30.0"))
    with pytest.raises(IdcwhError, match=rf"built without {name}: pip install 'idcwh\[gpu\]'"):
        Encoder(linear.write(), device=device)
    assert "built without CUDA" in Encoder(linear.write(), device="auto").why


def test_both_packages_at_once_are_found_out(linear: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime.load_onnxruntime(), "get_available_providers", lambda: [runtime.CPU])
    monkeypatch.setattr(importlib.metadata, "version", only(**{"onnxruntime": "1.30.0", "onnxruntime-gpu": "1.31.1"}))
    both = r"onnxruntime 1\.30\.0 and onnxruntime-gpu 1\.31\.1 are both installed"
    with pytest.raises(IdcwhError, match=both) as error:
        Encoder(linear.write(), device="cuda")
    assert "pip uninstall -y onnxruntime onnxruntime-gpu" in str(error.value)


def only(**versions: str) -> Callable[[str], str]:
    def version(name: str) -> str:
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    return version


@pytest.mark.parametrize(("device", "needs"), [("cuda", "and cuDNN"), ("tensorrt", "cuDNN and TensorRT")])
def test_a_gpu_whose_libraries_are_missing(
    device: str, needs: str, linear: Any, a_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime then quietly takes the CPU; asked for a GPU, we must not. Here its provider really fails to load."""
    if REAL_OBSTACLE(runtime.load_onnxruntime(), "cuda") is None:
        pytest.skip("a GPU is there")
    with pytest.raises(
        IdcwhError, match=rf"device {device}: cannot be used.*needs CUDA .*{needs}: pip install"
    ) as error:
        Encoder(linear.write(), device=device)
    assert "did not load (" in str(error.value) and "\n" not in str(error.value)
    if device == "cuda":
        encoder = Encoder(linear.write(), device="auto")
        assert encoder.device == "cpu" and "did not load" in encoder.why


def test_cuda_that_fails_to_start(linear: Any, a_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("[ONNXRuntimeError] : 1 : FAIL : out of memory\non device 0")

    monkeypatch.setattr(gpu, "open_session", fail)
    with pytest.raises(IdcwhError, match=r"CUDA could not be started: out of memory on device 0$"):
        Encoder(linear.write(), device="cuda")
    assert Encoder(linear.write()).device == "cpu"


def test_a_broken_model_is_not_blamed_on_cuda(tmp_path: Path, a_gpu: None) -> None:
    (tmp_path / "m.onnx").write_text("hello")
    with pytest.raises(IdcwhError, match="not an ONNX model"):
        Encoder(tmp_path / "m.onnx", device="cuda")


class OnCpu:
    """A CPU session that takes a GPU's part: what it was asked for, and everything else as it is."""

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
    """Sessions on the "GPU" run on the CPU, through the same buffers and bindings."""
    ort = runtime.load_onnxruntime()
    monkeypatch.setattr(OnCpu, "real", ort.InferenceSession)
    monkeypatch.setattr(ort, "InferenceSession", OnCpu)
    monkeypatch.setattr(ort, "preload_dlls", lambda: print("noise"), raising=False)
    monkeypatch.setattr(gpu.FixedShapes, "memory", "cpu")


def test_a_quiet_fallback_is_found_out(linear: Any, pretended: None, capfd: pytest.CaptureFixture[str]) -> None:
    """The session says it is on CUDA, and the profile of its first run says that the network was not."""
    with pytest.raises(IdcwhError, match=r"7 nodes of the network would run on the CPU.*Cast .* first.*strict=False"):
        Encoder(linear.write(), device="cuda")
    encoder = Encoder(linear.write(), device="auto")
    assert encoder.device == "cpu" and "would run on the CPU" in encoder.why
    assert Encoder(linear.write(), device="cuda", strict=False).device == "cuda"
    assert capfd.readouterr().out == ""


def test_shapes_and_indices_may_be_computed_on_the_cpu() -> None:
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


def test_cuda_runs_batches_of_one_shape_without_shortcuts(
    linear: Any, pretended: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as a machine without a GPU can tell: the options that are asked for, the shapes and the buffers."""
    sizes: list[int] = []
    buffers = gpu.FixedShapes._buffers
    monkeypatch.setattr(gpu.FixedShapes, "_buffers", lambda self, size: (sizes.append(size), buffers(self, size))[1])
    encoder = Encoder(linear.write(), device="cuda", batch_size=8, strict=False, gpu=1, gpu_memory=2**30)
    assert encoder.device == "cuda" and encoder.parallel() == (encoder.run, 1)
    for n in (21, 3, 8, 1):
        assert np.array_equal(encoder.encode(linear.pictures(n)), linear.codes(linear.pictures(n), 12))
        assert np.array_equal(encoder.logits(linear.pictures(n)), linear.logits(linear.pictures(n), 12))
    assert sizes[-12:] == [8, 8, 8] * 2 + [8] * 4 + [1] * 2
    (name, cuda), cpu = OnCpu.asked["providers"]
    assert (name, cpu) == (gpu.CUDA, runtime.CPU) and OnCpu.asked["enable_fallback"] == 0
    assert cuda["use_tf32"] == "0" and cuda["cudnn_conv_algo_search"] == "HEURISTIC"
    assert cuda["arena_extend_strategy"] == "kSameAsRequested"
    assert (cuda["device_id"], cuda["gpu_mem_limit"]) == ("1", str(2**30))


@pytest.mark.parametrize(("precision", "enabled"), [("int8", ("1", "0")), ("fp16", ("0", "1")), ("fp32", ("0", "0"))])
def test_tensorrt_is_asked_for_these_shapes_in_this_precision(
    linear: Any, pretended: None, tmp_path: Path, monkeypatch: Any, precision: str, enabled: tuple[str, str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    encoder = Encoder(linear.write(meta={"idcwh_precision": precision}), device="tensorrt", batch_size=16, strict=False)
    assert encoder.device == "tensorrt"
    (name, options), (then, _), last = OnCpu.asked["providers"]
    assert (name, then, last) == (gpu.TENSORRT, gpu.CUDA, runtime.CPU)
    assert options["trt_profile_min_shapes"] == f"image:1x{linear.side}x{linear.side}x3"
    assert options["trt_profile_max_shapes"] == f"image:16x{linear.side}x{linear.side}x3"
    assert (options["trt_int8_enable"], options["trt_fp16_enable"]) == enabled


def test_tensorrt_shares_no_engine_between_models(
    linear: Any, pretended: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime names an engine by the graph, not by its weights; one folder a model keeps them apart."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def folder(path: Path, precision: str = "fp32") -> Path:
        preprocess = Encoder(path, device="cpu").preprocess
        gpu.open_session(
            runtime.load_onnxruntime(), path.read_bytes(), "tensorrt", gpu.Use(precision=precision),
            (preprocess.crop, preprocess.crop, 3),
        )  # fmt: skip
        return Path(OnCpu.asked["providers"][0][1]["trt_engine_cache_path"])

    path = linear.write()
    first, half = folder(path), folder(path, "fp16")
    assert folder(path) == first and first.is_dir() and first.is_relative_to(tmp_path / "cache")
    trained = onnx.load(path)
    (weight,) = [tensor for tensor in trained.graph.initializer if tensor.name == "weights"]
    weight.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(weight), weight.name))
    onnx.save(trained, tmp_path / "again.onnx")
    assert len({first, half, folder(tmp_path / "again.onnx")}) == 3


def test_an_int8_model_stays_off_cuda(linear: Any, pretended: None) -> None:
    path = linear.write(meta={"idcwh_precision": "int8"})
    with pytest.raises(IdcwhError, match="int8 model is for the CPU and for TensorRT"):
        Encoder(path, device="cuda")
    encoder = Encoder(path)
    assert encoder.device == "cpu" and "int8" in encoder.why


def test_warming_up_runs_both_shapes(linear: Any, pretended: None) -> None:
    encoder = Encoder(linear.write(), device="cuda", batch_size=8, strict=False)
    encoder.warm_up()
    assert set(encoder._bound._bound) == {1, 8}  # type: ignore[union-attr]


def test_threads_share_the_buffers_of_a_gpu(linear: Any, pretended: None) -> None:
    encoder = Encoder(linear.write(48), device="cuda", batch_size=8, strict=False)

    def right(seed: int) -> bool:
        pixels = linear.pictures(50, seed)
        return all(np.array_equal(encoder.encode(pixels), linear.codes(pixels, 48)) for _ in range(5))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(right, range(12)))
