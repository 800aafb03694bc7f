"""Encoder: the codes of a model.onnx, what it refuses, and how it chooses its device. The oracle is numpy.

The model is a linear map with small whole numbers, built with onnx.helper, so that float32 is exact.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from idcwh_search import devices, gpu, onnx_file, runtime
from idcwh_search.encoder import Encoder
from idcwh_search.errors import IdcwhError
from idcwh_search.images import Preprocess, UnreadableImage, load_image
from idcwh_search.modelinfo import ModelInfo

SIDE = 8
Make = Callable[..., Path]
REAL_OBSTACLE = gpu.obstacle


def weights(bits: int) -> np.ndarray:
    return np.random.default_rng(bits).integers(-3, 4, (SIDE * SIDE * 3, bits)).astype(np.float32)


def info(bits: int) -> ModelInfo:
    preprocess, classes = Preprocess(SIDE + 2, SIDE), ["chat", "Straße"]
    return ModelInfo(bits, preprocess, classes, {"name": "idcwh"}, {"name": "none"}, "0" * 64)


def model(bits: int, batch: int | str = "n", image_type: int = TensorProto.UINT8) -> onnx.ModelProto:
    packing = np.zeros((bits, -(-bits // 8)), np.float32)
    packing[np.arange(bits), np.arange(bits) // 8] = 2.0 ** (np.arange(bits) % 8)
    constants = {"w": weights(bits), "p": packing, "shape": np.array([0, -1])}
    constants |= {"zero": np.float32(0), "mid": np.float32(128)}
    nodes = [
        helper.make_node("Cast", ["image"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["float", "mid"], ["centred"]),
        helper.make_node("Reshape", ["centred", "shape"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["logits"]),
        helper.make_node("GreaterOrEqual", ["logits", "zero"], ["positive"]),
        helper.make_node("Cast", ["positive"], ["bits"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["bits", "p"], ["bytes"]),
        helper.make_node("Cast", ["bytes"], ["codes"], to=TensorProto.UINT8),
    ]
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info("image", image_type, [batch, SIDE, SIDE, 3])],
        [
            helper.make_tensor_value_info("codes", TensorProto.UINT8, [batch, -(-bits // 8)]),
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, [batch, bits]),
        ],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    helper.set_model_props(made, info(bits).to_metadata())
    return made


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def write(bits: int = 12, meta: dict[str, str | None] | None = None, **options: Any) -> Path:
        made = model(bits, **options)
        values = {**info(bits).to_metadata(), **(meta or {})}
        del made.metadata_props[:]
        helper.set_model_props(made, {key: value for key, value in values.items() if value is not None})
        (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
        return tmp_path / "model.onnx"

    return write


def pictures(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, SIDE, SIDE, 3), dtype=np.uint8)


def expected_logits(pixels: np.ndarray, bits: int) -> np.ndarray:
    return (pixels.astype(np.float64).reshape(len(pixels), SIDE * SIDE * 3) - 128) @ weights(bits)


def expected_codes(pixels: np.ndarray, bits: int) -> np.ndarray:
    return np.packbits(expected_logits(pixels, bits) >= 0, axis=1, bitorder="little")


# ------------------------------------------------------------------------------------------------ encoding


@pytest.mark.parametrize("bits", [1, 7, 8, 12, 48, 100, 1024])
def test_codes_and_logits(bits: int, make: Make) -> None:
    encoder = Encoder(make(bits))
    pixels = pictures(21)
    codes, logits = encoder.run(pixels)
    assert codes.dtype == np.uint8 and logits.dtype == np.float32
    assert np.array_equal(logits, expected_logits(pixels, bits))
    assert np.array_equal(codes, expected_codes(pixels, bits))
    assert np.array_equal(encoder.encode(pixels), codes) and np.array_equal(encoder.logits(pixels), logits)


@pytest.mark.parametrize("batch_size", [1, 3, 8, 64, None])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9])
def test_any_number_in_batches_of_any_size(n: int, batch_size: int | None, make: Make) -> None:
    encoder = Encoder(make(), batch_size=batch_size)
    assert np.array_equal(encoder.encode(pictures(n)), expected_codes(pictures(n), 12))
    assert encoder.encode(pictures(n)).shape == (n, 2)


def test_a_zero_logit_is_a_one(make: Make) -> None:
    grey = np.full((1, SIDE, SIDE, 3), 128, np.uint8)
    encoder = Encoder(make(12))
    assert (encoder.logits(grey) == 0).all() and encoder.encode(grey).tolist() == [[255, 15]]


def test_what_it_says_of_itself(make: Make) -> None:
    path = make(12)
    encoder = Encoder(str(path))
    assert (encoder.bits, encoder.code_bytes, encoder.preprocess) == (12, 2, Preprocess(SIDE + 2, SIDE))
    assert encoder.classes == ["chat", "Straße"] and encoder.method == {"name": "idcwh"} and encoder.info == info(12)
    assert encoder.fingerprint == hashlib.sha256(path.read_bytes()).hexdigest()
    assert encoder.device == "cpu" and encoder.why and "\n" not in encoder.why


def test_calling_it_with_pictures_of_every_kind(make: Make, tmp_path: Path) -> None:
    big = np.random.default_rng(3).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    path = tmp_path / "a.png"
    Image.fromarray(big).save(path)
    encoder = Encoder(make())
    (code,) = expected_codes(load_image(path, encoder.preprocess)[None], 12)
    for one in (path, str(path), Image.open(path), big):
        assert np.array_equal(encoder(one), code[None])
        assert np.array_equal(encoder([one, path]), [code, code])
    assert np.array_equal(encoder(np.stack([big, big])), [code, code])
    assert encoder([]).shape == (0, 2)


def test_calling_it_with_something_else(make: Make, tmp_path: Path) -> None:
    encoder = Encoder(make())
    with pytest.raises(UnreadableImage, match="gone"):
        encoder([tmp_path / "gone.jpg"])
    for wrong in (np.zeros((4, 4, 3), np.float32), np.zeros((4, 4), np.uint8), 3):
        with pytest.raises(TypeError, match=r"picture must be|not iterable"):
            encoder([wrong])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((1, SIDE, SIDE, 3), np.float32),
        np.zeros((1, SIDE, SIDE, 3), np.int8),
        np.zeros((1, 3, SIDE, SIDE), np.uint8),
        np.zeros((SIDE, SIDE, 3), np.uint8),
        [[0]],
    ],
)
def test_wrong_pixels_are_refused(pixels: Any, make: Make) -> None:
    with pytest.raises(TypeError, match=r"expected preprocessed pictures uint8 \[n, 8, 8, 3\], not"):
        Encoder(make()).encode(pixels)


def test_views_are_taken_as_they_look(make: Make) -> None:
    encoder, pixels = Encoder(make()), pictures(20)
    for view in (pixels[::2], pixels[:, ::-1], np.asfortranarray(pixels), pixels[..., ::-1]):
        assert np.array_equal(encoder.encode(view), expected_codes(view, 12))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_many_pictures_take_the_parallel_way(threads: int, make: Make) -> None:
    many = pictures(200)
    encoder = Encoder(make(48), threads=threads)
    crops = np.stack([encoder.pixels(picture) for picture in many])
    assert np.array_equal(encoder(many), expected_codes(crops, 48))


def test_threads_share_one_encoder(make: Make) -> None:
    encoder, wrong = Encoder(make(48)), []

    def work(seed: int) -> None:
        pixels = pictures(50, seed)
        run, _ = encoder.parallel()
        if not np.array_equal(encoder.encode(pixels), expected_codes(pixels, 48)):
            wrong.append(seed)
        if not np.array_equal(run(pixels)[0], expected_codes(pixels, 48)):
            wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_file_can_be_moved(make: Make, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    moved = make().rename(tmp_path / "elsewhere" / "other name.onnx")
    assert np.array_equal(Encoder(moved).encode(pictures(2)), expected_codes(pictures(2), 12))


def test_a_file_that_is_replaced_meanwhile_is_noticed(make: Make) -> None:
    path = make(12)
    encoder = Encoder(path, threads=2)
    make(13)
    with pytest.raises(IdcwhError, match="was replaced"):
        encoder.parallel()


# ------------------------------------------------------------------------------------------------ refusals


def test_what_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("hello")
    (tmp_path / "empty.onnx").touch()
    (tmp_path / "folder.onnx").mkdir()
    no_model = "not an ONNX model"
    cases = {"gone.onnx": "No such", "folder.onnx": "directory", "text.onnx": no_model, "empty.onnx": no_model}
    for name, cause in cases.items():
        with pytest.raises(IdcwhError, match=cause) as error:
            Encoder(tmp_path / name)
        assert str(error.value).startswith(str(tmp_path / name)) and "\n" not in str(error.value)


def test_a_model_of_a_later_onnx(make: Make) -> None:
    path = make()
    made = onnx.load(path)
    made.ir_version = 99
    path.write_bytes(made.SerializeToString())
    with pytest.raises(IdcwhError, match=r"not an ONNX model that ONNX Runtime .* can run \(.*IR version: 99"):
        Encoder(path)


def test_a_truncated_model(make: Make) -> None:
    path = make()
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(IdcwhError, match=r"model\.onnx: "):
        Encoder(path)


@pytest.mark.parametrize(
    ("meta", "complaint"),
    [
        ({"idcwh_format": None}, "without idcwh metadata"),
        ({"idcwh_format": "2"}, "format 2; this version of idcwh reads format 1"),
        ({"idcwh_bit_order": "big"}, "idcwh_bit_order is 'big'; expected 'little'"),
        ({"idcwh_threshold": "> 0"}, "idcwh_threshold"),
        ({"idcwh_bits": "twelve"}, "idcwh_bits is 'twelve'"),
        ({"idcwh_bits": "0"}, "at least 1"),
        ({"idcwh_bits": None}, "idcwh_bits"),
        ({"idcwh_bits": "13"}, r"logits is tensor\(float\)"),
        ({"idcwh_bits": "17"}, r"codes is tensor\(uint8\)"),
        ({"idcwh_preprocess": "{"}, "idcwh_preprocess is missing or not JSON"),
        ({"idcwh_preprocess": '{"resize": 8, "crop": 9, "interpolation": "box"}'}, "crop <= resize"),
        ({"idcwh_preprocess": '{"resize": 9, "crop": 9, "interpolation": "box"}'}, r"image is tensor\(uint8\)"),
        ({"idcwh_classes": "{}"}, "idcwh_classes is a dict; expected a list"),
        ({"idcwh_method": None}, "idcwh_method is missing"),
        ({"idcwh_precision": "int4"}, "idcwh_precision is 'int4'"),
        ({"idcwh_verified": "yes"}, "idcwh_verified is missing or not JSON"),
    ],
)
def test_metadata_that_does_not_hold(meta: dict[str, str | None], complaint: str, make: Make) -> None:
    with pytest.raises(IdcwhError, match=complaint) as error:
        Encoder(make(12, meta=meta))
    assert "model.onnx: " in str(error.value) and "\n" not in str(error.value)


def test_a_frozen_batch_size_is_refused(make: Make) -> None:
    with pytest.raises(IdcwhError, match="exactly 1 images at a time"):
        Encoder(make(batch=1))


def test_another_input_type_is_refused(make: Make) -> None:
    with pytest.raises(IdcwhError, match=r"image is tensor\(float\)"):
        Encoder(make(image_type=TensorProto.FLOAT))


def test_other_outputs_are_refused(tmp_path: Path) -> None:
    made = model(12)
    del made.graph.output[0]
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(
        IdcwhError, match=r"not packed codes: .*outputs codes and logits, not \['image'\] and \['logits'\]"
    ):
        Encoder(tmp_path / "m.onnx")


def test_a_sealed_model_that_was_changed_is_refused(make: Make) -> None:
    path = make()
    path.write_bytes(onnx_file.sealed(path.read_bytes()))
    assert Encoder(path).bits == 12
    changed = onnx.load(path)
    changed.graph.node[1].input.reverse()
    path.write_bytes(changed.SerializeToString())
    with pytest.raises(IdcwhError, match=r"model\.onnx: was changed after idcwh-export wrote it.*Encoder\(path"):
        Encoder(path)
    assert np.array_equal(  # -x in place of x
        Encoder(path, preprocess=Preprocess(SIDE + 2, SIDE)).logits(pictures(3)), -expected_logits(pictures(3), 12)
    )


def test_a_model_without_metadata_is_used_when_told_what_it_expects(tmp_path: Path) -> None:
    made = model(12)
    del made.metadata_props[:]
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(IdcwhError, match=r"without idcwh metadata.*Encoder\(path, preprocess=Preprocess\("):
        Encoder(tmp_path / "m.onnx")
    encoder = Encoder(tmp_path / "m.onnx", preprocess=Preprocess(SIDE, SIDE))
    assert np.array_equal(encoder.encode(pictures(5)), expected_codes(pictures(5), 12))
    assert (encoder.bits, encoder.classes, encoder.info.precision) == (12, [], "unknown")
    assert Encoder(tmp_path / "m.onnx", preprocess=Preprocess(SIDE, SIDE), bits=12).bits == 12
    with pytest.raises(IdcwhError, match=r"codes is tensor\(uint8\).*expected tensor\(uint8\) \['n', 3\]"):
        Encoder(tmp_path / "m.onnx", preprocess=Preprocess(SIDE, SIDE), bits=17)
    with pytest.raises(IdcwhError, match=r"image is tensor\(uint8\).*expected"):
        Encoder(tmp_path / "m.onnx", preprocess=Preprocess(16, 16))


def test_codes_that_are_not_the_logits_packed_are_refused(make: Make) -> None:
    path = make()
    made = onnx.load(path)
    made.graph.node[4].op_type = "Less"
    path.write_bytes(made.SerializeToString())
    with pytest.raises(IdcwhError, match="its codes are not its logits >= 0, packed"):
        Encoder(path)


@pytest.mark.parametrize(
    "options",
    [{"threads": 0}, {"batch_size": 0}, {"batch_size": 2.5}, {"device": "gpu"}, {"gpu_memory": 0}, {"gpu": -1}],
)
def test_wrong_options(options: dict[str, Any], make: Make) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Encoder(make(), **options)


# ------------------------------------------------------------------------------------------------ the device


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


def test_auto_takes_the_cpu_and_says_why(make: Make, no_gpu: None) -> None:
    encoder = Encoder(make(), device="auto")
    assert encoder.device == "cpu" and "no GPU found" in encoder.why
    assert devices.usable() == ["cpu"]


@pytest.mark.parametrize("device", ["cuda", "tensorrt"])
def test_a_device_without_a_gpu_is_an_error(device: str, make: Make, no_gpu: None) -> None:
    with pytest.raises(IdcwhError, match=rf"device {device} cannot be used.*no GPU found"):
        Encoder(make(), device=device)
    with pytest.raises(IdcwhError, match="no GPU found"):
        devices.check_device(device)


@pytest.mark.parametrize(("device", "name"), [("cuda", "CUDA"), ("tensorrt", "TensorRT")])
def test_the_cpu_package_is_told_from_the_right_one(
    device: str, name: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime.load_onnxruntime(), "get_available_providers", lambda: [runtime.CPU])
    monkeypatch.setattr(importlib.metadata, "version", only(onnxruntime="1.30.0"))
    with pytest.raises(IdcwhError, match=rf"built without {name}: pip install 'idcwh\[gpu\]'"):
        Encoder(make(), device=device)
    assert "built without CUDA" in Encoder(make(), device="auto").why


def test_both_packages_at_once_are_found_out(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime.load_onnxruntime(), "get_available_providers", lambda: [runtime.CPU])
    monkeypatch.setattr(importlib.metadata, "version", only(**{"onnxruntime": "1.30.0", "onnxruntime-gpu": "1.31.1"}))
    both = r"onnxruntime 1\.30\.0 and onnxruntime-gpu 1\.31\.1 are both installed"
    with pytest.raises(IdcwhError, match=both) as error:
        Encoder(make(), device="cuda")
    assert "pip uninstall -y onnxruntime onnxruntime-gpu" in str(error.value)


def only(**versions: str) -> Callable[[str], str]:
    def version(name: str) -> str:
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    return version


@pytest.mark.parametrize(("device", "needs"), [("cuda", "and cuDNN"), ("tensorrt", "cuDNN and TensorRT")])
def test_a_gpu_whose_libraries_are_missing(
    device: str, needs: str, make: Make, a_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime then quietly takes the CPU; asked for a GPU, we must not. Here its provider really fails to load."""
    if REAL_OBSTACLE(runtime.load_onnxruntime(), "cuda") is None:
        pytest.skip("a GPU is there")
    with pytest.raises(
        IdcwhError, match=rf"device {device} cannot be used.*needs CUDA .*{needs}: pip install"
    ) as error:
        Encoder(make(), device=device)
    assert "did not load (" in str(error.value) and "\n" not in str(error.value)
    if device == "cuda":
        encoder = Encoder(make(), device="auto")
        assert encoder.device == "cpu" and "did not load" in encoder.why


def test_cuda_that_fails_to_start(make: Make, a_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("[ONNXRuntimeError] : 1 : FAIL : out of memory\non device 0")

    monkeypatch.setattr(gpu, "open_session", fail)
    with pytest.raises(IdcwhError, match=r"CUDA could not be started: out of memory on device 0$"):
        Encoder(make(), device="cuda")
    assert Encoder(make()).device == "cpu"


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


def test_a_quiet_fallback_is_found_out(make: Make, pretended: None, capfd: pytest.CaptureFixture[str]) -> None:
    """The session says it is on CUDA, and the profile of its first run says that the network was not."""
    with pytest.raises(IdcwhError, match=r"7 nodes of the network would run on the CPU.*Cast .* first.*strict=False"):
        Encoder(make(), device="cuda")
    encoder = Encoder(make(), device="auto")
    assert encoder.device == "cpu" and "would run on the CPU" in encoder.why
    assert Encoder(make(), device="cuda", strict=False).device == "cuda"
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
    make: Make, pretended: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as a machine without a GPU can tell: the options that are asked for, the shapes and the buffers."""
    sizes: list[int] = []
    buffers = gpu.FixedShapes._buffers
    monkeypatch.setattr(gpu.FixedShapes, "_buffers", lambda self, size: (sizes.append(size), buffers(self, size))[1])
    encoder = Encoder(make(), device="cuda", batch_size=8, strict=False, gpu=1, gpu_memory=2**30)
    assert encoder.device == "cuda" and encoder.parallel() == (encoder.run, 1)
    for n in (21, 3, 8, 1):
        assert np.array_equal(encoder.encode(pictures(n)), expected_codes(pictures(n), 12))
        assert np.array_equal(encoder.logits(pictures(n)), expected_logits(pictures(n), 12))
    assert sizes[-12:] == [8, 8, 8] * 2 + [8] * 4 + [1] * 2
    (name, cuda), cpu = OnCpu.asked["providers"]
    assert (name, cpu) == (gpu.CUDA, runtime.CPU) and OnCpu.asked["enable_fallback"] == 0
    assert cuda["use_tf32"] == "0" and cuda["cudnn_conv_algo_search"] == "HEURISTIC"
    assert cuda["arena_extend_strategy"] == "kSameAsRequested"
    assert (cuda["device_id"], cuda["gpu_mem_limit"]) == ("1", str(2**30))


def test_tensorrt_is_asked_for_these_shapes(make: Make, pretended: None, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    encoder = Encoder(make(meta={"idcwh_precision": "int8"}), device="tensorrt", batch_size=16, strict=False)
    assert encoder.device == "tensorrt"
    (name, options), (then, _), last = OnCpu.asked["providers"]
    assert (name, then, last) == (gpu.TENSORRT, gpu.CUDA, runtime.CPU)
    assert options["trt_profile_min_shapes"] == f"image:1x{SIDE}x{SIDE}x3"
    assert options["trt_profile_max_shapes"] == f"image:16x{SIDE}x{SIDE}x3"
    assert (options["trt_int8_enable"], options["trt_fp16_enable"]) == ("1", "0")


def test_an_int8_model_stays_off_cuda(make: Make, pretended: None) -> None:
    path = make(meta={"idcwh_precision": "int8"})
    with pytest.raises(IdcwhError, match="int8 model is for the CPU and for TensorRT"):
        Encoder(path, device="cuda")
    encoder = Encoder(path)
    assert encoder.device == "cpu" and "int8" in encoder.why


def test_warming_up_runs_both_shapes(make: Make, pretended: None) -> None:
    encoder = Encoder(make(), device="cuda", batch_size=8, strict=False)
    encoder.warm_up()
    assert set(encoder._bound._bound) == {1, 8}  # type: ignore[union-attr]


def test_threads_share_the_buffers_of_a_gpu(make: Make, pretended: None) -> None:
    encoder = Encoder(make(48), device="cuda", batch_size=8, strict=False)

    def right(seed: int) -> bool:
        pixels = pictures(50, seed)
        return all(np.array_equal(encoder.encode(pixels), expected_codes(pixels, 48)) for _ in range(5))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(right, range(12)))


@pytest.mark.parametrize("spin", [False, True])
def test_threads_spin_only_when_asked(spin: bool, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    real = runtime.session_options
    monkeypatch.setattr(devices, "session_options", lambda *given: asked.append(real(*given)) or asked[-1])
    Encoder(make(), spin=spin, threads=2).parallel()
    entries = [options.get_session_config_entry("session.intra_op.allow_spinning") for options in asked]
    assert entries == [str(int(spin))] * 2


def test_threads_follow_the_affinity_mask(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 5}, raising=False)
    monkeypatch.setattr(runtime, "_QUOTA", Path("/nonexistent"))
    assert Encoder(make()).threads == 3
    assert Encoder(make(), threads=2).threads == 2


@pytest.mark.parametrize(
    ("text", "cores"), [("max 100000", 8), ("150000 100000", 2), ("20000 100000", 1), ("rubbish", 8)]
)
def test_cores_follow_the_quota(text: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpu.max").write_text(text)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(runtime, "_QUOTA", tmp_path / "cpu.max")
    assert runtime.available_cores() == cores


# ------------------------------------------------------------------------------------------------ a process of its own


def python(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )


def test_torch_is_never_imported_and_nothing_is_printed(make: Make) -> None:
    code = (
        "import sys, numpy; from idcwh_search import Encoder\n"
        "Encoder(sys.argv[1])([numpy.zeros((9, 9, 3), 'uint8')])\n"
        "sys.exit('torch' in sys.modules)"
    )
    done = python(code, str(make()))
    assert done.stdout == "" and done.stderr == ""


def test_warnings_of_native_code_at_import_are_not_shown(tmp_path: Path) -> None:
    stub = "import os; os.write(2, b'GPU device discovery failed'); set_default_logger_severity = lambda level: None"
    (tmp_path / "onnxruntime.py").write_text(stub)
    code = "import os; from idcwh_search import runtime; runtime.load_onnxruntime(); os.write(2, b'still there')"
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    assert python(code, PYTHONPATH=path).stderr == "still there"


def test_a_missing_onnxruntime_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    error = ModuleNotFoundError("No module named 'onnxruntime'", name="onnxruntime")
    monkeypatch.setattr(runtime, "importlib", SimpleNamespace(import_module=raiser(error)))
    with pytest.raises(IdcwhError, match=r"not installed: pip install 'idcwh\[cpu\]'"):
        runtime.load_onnxruntime()


def test_a_half_removed_onnxruntime_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uninstalling one of the two packages leaves a folder without its library behind."""
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    monkeypatch.setattr(runtime, "importlib", SimpleNamespace(import_module=lambda name: SimpleNamespace()))
    with pytest.raises(IdcwhError, match="ONNX Runtime does not load"):
        runtime.load_onnxruntime()


def raiser(error: Exception) -> Callable[[str], Any]:
    def fail(name: str) -> Any:
        raise error

    return fail
