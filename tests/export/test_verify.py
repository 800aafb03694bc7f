"""The comparison of a file with its network, which accepts correct files and finds every fault. The faults are written
into the ONNX file by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

from idcwh_export import graph, retrieval, verify
from idcwh_search.encoder import model_file
from idcwh_search.encoder.encoder import Encoder
from idcwh_search.encoder.metadata import ModelInfo
from idcwh_search.images.preprocess import Preprocess

BITS = 12


def changed(file: bytes, name: str, change: Callable[[np.ndarray], np.ndarray]) -> bytes:
    """Returns the model with one of its constants changed; `name` is the end of its name."""
    model = onnx.load_from_string(file)
    (tensor,) = [tensor for tensor in model.graph.initializer if tensor.name.endswith(name)]
    value = np.asarray(change(numpy_helper.to_array(tensor).copy()), np.float32)
    tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    return model.SerializeToString()


def compared(network: nn.Module, file: bytes, folder: Path, pixels: np.ndarray) -> verify.Comparison:
    (folder / "m.onnx").write_bytes(model_file.with_checksum(file))
    encoder = Encoder(folder / "m.onnx", batch_size=verify.LARGEST)
    (comparison,) = verify.verify(network, [encoder], verify.chunks(list(pixels)))
    return comparison


def test_verify_of_a_faithful_file_passes(exported: Any, network: Any, images: np.ndarray, tmp_path: Path) -> None:
    comparison = compared(network, exported[BITS], tmp_path, images)
    assert comparison.problem() is None
    assert (comparison.images, comparison.differing, comparison.largest) == (40, 0, 0.0)
    assert comparison.bits == (4 * 32 + 8) * BITS and comparison.batches == (1, 3, 8, 32)
    assert 0 <= comparison.distance <= 1e-5 * comparison.scale
    with torch.inference_mode():
        logits = network(torch.from_numpy(images).permute(0, 3, 1, 2)).double()
    assert comparison.scale == pytest.approx(float(logits.square().mean().sqrt()), rel=1e-5)
    assert "0 of 1,632 bits differ" in str(comparison)


def test_verify_repeats_few_images_for_each_batch_size(
    exported: Any, network: nn.Module, images: np.ndarray, tmp_path: Path
) -> None:
    comparison = compared(network, exported[BITS], tmp_path, images[:2])
    assert comparison.problem() is None and comparison.images == 2 and comparison.batches == (1, 2, 3, 8)


FAULTS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray], str]] = {
    "a mean wrong by a thousandth": ("mean", lambda v: v + 0.255, "logits differ by|bits differ"),
    "mean of another convention": ("mean", lambda v: v * 0 + 127.5, "differ"),
    "a wrong deviation": ("std", lambda v: v * 1.01, "differ"),
    "one sign flipped": ("hash.weight", lambda v: v * np.where(np.arange(len(v)) == 5, -1, 1)[:, None], "bits differ"),
    "channels swapped": ("0.weight", lambda v: v[:, ::-1], "differ"),
    "bits in the other order": ("packing", lambda v: v[::-1], "its codes are not the packed signs"),
    "a missing bit": ("packing", lambda v: v * (np.arange(len(v)) != 3)[:, None], "its codes are not the packed signs"),
    "a weight that is NaN": ("hash.weight", lambda v: v * np.nan, "not finite"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_verify_finds_every_fault(fault: str, exported: Any, network: Any, images: np.ndarray, tmp_path: Path) -> None:
    name, change, complaint = FAULTS[fault]
    comparison = compared(network, changed(exported[BITS], name, change), tmp_path, images)
    problem = comparison.problem()
    assert problem is not None and "\n" not in problem
    assert any(word in problem for word in complaint.split("|")), problem


def test_verify_finds_a_fault_of_one_batch_size(
    exported: Any, network: Any, images: np.ndarray, tmp_path: Path
) -> None:
    """Simulates a graph with a fixed number of images, which is correct for one batch size only."""
    (tmp_path / "m.onnx").write_bytes(exported[BITS])
    encoder = Encoder(tmp_path / "m.onnx", batch_size=verify.LARGEST)
    honest = encoder.run
    for size in (1, 3, 8, 32):

        def run(pixels: np.ndarray, size: int = size) -> Any:
            return honest(pixels[::-1]) if len(pixels) == size > 1 else honest(255 - pixels if size == 1 else pixels)

        encoder.run = run  # type: ignore[method-assign]
        (comparison,) = verify.verify(network, [encoder], [images[:32]])
        assert comparison.problem()


def test_problem_is_more_than_rounding_at_zero() -> None:
    comparison = verify.Comparison(images=8, bits=96, scale=1.0, differing=1, largest=0.9e-4, distance=1.1e-4)
    assert comparison.problem() is None
    assert "1 of 96 bits differ (at |logit| up to 9e-05)" in str(comparison)
    assert "|logit| up to 0.00011" in (replace(comparison, largest=1.1e-4).problem() or "")
    assert "0.00031" in (replace(comparison, largest=0.0, distance=3.1e-4).problem() or "")


@pytest.mark.slow
def test_verify_measures_the_rounding_of_the_model(
    exported: Any, network: Any, images: np.ndarray, tmp_path: Path
) -> None:
    """The network's logits are small differences of large numbers. A fault must exceed their rounding."""
    offset = 3e4
    with torch.no_grad():  # features far from zero, and a hash layer that subtracts their mean
        network.backbone[1].bias.add_(offset)
        network.backbone[2] = nn.Identity()
        features = network.embed(torch.from_numpy(images).permute(0, 3, 1, 2))
        network.hash.bias.sub_((features @ network.hash.weight.T).mean(0))
    (tmp_path / "x").mkdir()
    file = graph.build(network, BITS, 32, {}).SerializeToString()
    file = model_file.with_metadata(file, ModelInfo(BITS, Preprocess(32, 32), [], {}, {}, "").to_metadata())
    comparison = compared(network, file, tmp_path / "x", images)
    assert comparison.distance > verify.SAME * comparison.scale and comparison.noise > 0
    assert comparison.problem() is None, "a difference within the rounding of the network"
    wrong = compared(network, changed(file, "mean", lambda v: v + 25.5), tmp_path, images)
    assert wrong.problem() is not None and wrong.noise == comparison.noise


def test_verify_limits_scale_with_the_logits(exported: Any, network: Any, images: np.ndarray, tmp_path: Path) -> None:
    """A network with logits a million times smaller must meet the same relative limits."""
    with torch.no_grad():
        network.hash.weight.mul_(1e-6)
        network.hash.bias.mul_(1e-6)
    small = changed(exported[BITS], "hash.weight", lambda v: v * 1e-6)
    assert compared(network, small, tmp_path, images).problem() is None
    wrong = changed(small, "mean", lambda v: v + 0.255)
    assert compared(network, wrong, tmp_path, images).problem() is not None


def test_verify_of_a_model_with_nan_reports_it(exported: Any, network: Any, images: np.ndarray, tmp_path: Path) -> None:
    with torch.no_grad():
        network.hash.bias.fill_(float("nan"))
    assert "logits of the model are not finite" in (compared(network, exported[BITS], tmp_path, images).problem() or "")


def test_verify_without_images_is_a_problem(exported: Any, network: Any, images: np.ndarray, tmp_path: Path) -> None:
    assert compared(network, exported[BITS], tmp_path, images[:0]).problem() == "there are no images to compare"


def test_problem_of_a_lower_precision_is_lost_map() -> None:
    comparison = verify.Comparison(precision="int8", images=8, bits=96, differing=5, largest=0.4, distance=0.9)
    assert "MAP cannot be compared" in (comparison.problem() or "")
    comparison = replace(comparison, ranked=8, map_before=0.5, map_after=0.4901)
    assert comparison.problem() is None
    problem = replace(comparison, map_after=0.4899).problem() or ""
    assert all(value in problem for value in ("0.5000", "0.4899", "int8", "0.01", "5 of 96", "8 images"))
    assert "0.002" in (replace(comparison, precision="fp16", map_after=0.4979).problem() or "")
    comparison = replace(comparison, precision="fp16", map_after=0.4981)
    assert comparison.problem() is None
    for activation in (32_752.0, 0.0):
        reached = replace(comparison, activation=activation)
        assert reached.problem() is None and f"{activation:.4g}" in str(reached)
    for activation, value in ((32_760.0, "32760"), (np.inf, "more than 65,504"), (np.nan, "more than 65,504")):
        assert value in (replace(comparison, activation=activation).problem() or "")
    assert replace(comparison, fault="a fault").problem() == "a fault"


def test_verify_ranks_images_of_all_classes(
    exported: Any, network: Any, images: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the classes, the first 8 of 16 would be of one class, and all codes would be equally good."""
    monkeypatch.setattr(verify, "RANKED", 8)
    path = tmp_path / "m.onnx"
    path.write_bytes(model_file.with_checksum(exported[BITS]))
    encoder, labels = Encoder(path), np.repeat([0, 1], 8)
    (comparison,) = verify.verify(network, [encoder], verify.chunks(images[:16]), lambda: labels)
    rows = np.linspace(0, 15, 8).round().astype(int)
    codes = encoder.encode(images[:16])[rows]
    expected = retrieval.mean_average_precision(codes, retrieval.share_a_label(labels[rows]), encoder.bits)
    assert (comparison.images, comparison.ranked, comparison.to_dict()["map_images"]) == (16, 8, 8)
    assert comparison.map_after == expected < 1


def test_verify_ranks_the_codes_of_the_file(exported: Any, network: Any, images: np.ndarray, tmp_path: Path) -> None:
    """The first MAP is of torch's codes, the second of the file's codes, here with another hash layer."""
    labels = np.random.default_rng(0).integers(0, 4, 40)  # in an order that differs from its reverse
    (tmp_path / "m.onnx").write_bytes(changed(exported[BITS], "hash.weight", lambda v: v[:, ::-1]))
    encoder = Encoder(tmp_path / "m.onnx", batch_size=verify.LARGEST)
    (comparison,) = verify.verify(network, [encoder], verify.chunks(list(images)), lambda: labels)
    with torch.inference_mode():
        logits = network(torch.from_numpy(images).permute(0, 3, 1, 2)).numpy()
    relevant = labels[:, None] == labels
    for value, codes in (
        (comparison.map_before, np.packbits(logits >= 0, axis=1, bitorder="little")),
        (comparison.map_after, encoder.encode(images)),
    ):
        assert value == pytest.approx(retrieval.mean_average_precision(codes, relevant, BITS), abs=1e-12)
    assert comparison.map_before != comparison.map_after
    assert comparison.images_per_second > 0


@pytest.mark.parametrize(("count", "sizes"), [(0, []), (1, [1]), (32, [32]), (70, [32, 32, 6])])
def test_chunks_hold_every_image_in_order(count: int, sizes: list[int]) -> None:
    pixels = np.arange(count, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), np.uint8)
    parts = list(verify.chunks(iter(pixels)))
    assert [len(part) for part in parts] == sizes
    assert np.array_equal(np.concatenate(parts) if parts else pixels, pixels)
