"""Tensors of torch as codes, labels, ids and network outputs. The oracle is torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import idcwh_search as ih

torch = pytest.importorskip("torch")


@pytest.fixture
def bits(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 2, (60, 20)).astype(bool)


def test_index_of_uint8_tensors_equals_that_of_arrays(bits: np.ndarray) -> None:
    codes = ih.pack(bits)
    of_arrays, of_tensors = ih.HammingIndex(20), ih.HammingIndex(20)
    of_arrays.add(codes)
    of_tensors.add(torch.from_numpy(codes), ids=torch.arange(60))
    for where in (None, torch.arange(0, 60, 3), torch.arange(60) % 2 == 0):
        chosen = None if where is None else where.numpy()
        expected = of_arrays.search(codes[:5], 7, where=chosen)
        np.testing.assert_array_equal(of_tensors.search(torch.from_numpy(codes[:5]), 7, where=where), expected)


def test_database_of_uint8_tensors_stores_their_bytes(bits: np.ndarray, tmp_path: Path) -> None:
    codes = ih.pack(bits)
    with ih.Database.create(tmp_path / "codes.bin", 20) as database:
        database.add(torch.from_numpy(codes))
        np.testing.assert_array_equal(database.codes, codes)


def test_pack_of_a_tensor_equals_pack_of_its_array(bits: np.ndarray) -> None:
    h = torch.where(torch.from_numpy(bits), 1.0, -1.0)
    np.testing.assert_array_equal(ih.pack(h), ih.pack(bits))
    np.testing.assert_array_equal(ih.unpack(torch.from_numpy(ih.pack(h)), 20), bits)


def test_evaluate_of_tensors_equals_evaluate_of_arrays(bits: np.ndarray, rng: np.random.Generator) -> None:
    codes, labels = ih.pack(bits), rng.integers(0, 4, 60)
    expected = ih.evaluate(codes[:9], labels[:9], codes, labels, bits=20)
    tensors = [torch.from_numpy(array) for array in (codes[:9], labels[:9], codes, labels)]
    assert ih.evaluate(*tensors, bits=20).map == expected.map


class Exchanged:
    """An array that other libraries can read only through DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: object) -> object:
        return self._array.__dlpack__(**options)  # type: ignore[arg-type]

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def test_codes_by_dlpack_equal_arrays(bits: np.ndarray) -> None:
    codes = ih.pack(bits)
    index = ih.HammingIndex(20)
    index.add(Exchanged(codes))  # type: ignore[arg-type]
    np.testing.assert_array_equal(index.codes, codes)
    np.testing.assert_array_equal(ih.pack(Exchanged(np.where(bits, 1.0, -1.0))), codes)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros((3, 20), device="meta"),
        torch.zeros((3, 20), requires_grad=True),
        torch.zeros((3, 20), dtype=torch.bfloat16),
    ],
    ids=["meta", "gradient", "bfloat16"],
)
def test_tensor_that_numpy_cannot_read_is_one_line(tensor: torch.Tensor) -> None:
    index = ih.HammingIndex(20)
    index.add(np.zeros((3, 3), np.uint8))
    calls = {
        "h": lambda: ih.pack(tensor),
        "codes": lambda: index.add(tensor),
        "queries": lambda: index.search(tensor, 1),
        "where": lambda: index.search(np.zeros((1, 3), np.uint8), 1, where=tensor),
        "query_codes": lambda: ih.evaluate(tensor, [0], tensor, [0], bits=20),
    }
    for name, call in calls.items():
        with pytest.raises(TypeError, match=rf"^{name}: ") as caught:
            call()
        assert "\n" not in str(caught.value)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tensor_on_a_gpu_is_one_line_that_names_it() -> None:
    with pytest.raises(TypeError, match=r"^queries: .* cuda:0 "):
        ih.HammingIndex(8).search(torch.zeros((1, 1), dtype=torch.uint8, device="cuda"), 1)
