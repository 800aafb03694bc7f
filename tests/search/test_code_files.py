"""Files of codes for idcwh-eval: corrupt and incomplete archives, and archives of other arrays."""

from __future__ import annotations

import numpy as np
import pytest

from idcwh_search.errors import CorruptFileError, IdcwhError, InvalidInputError
from idcwh_search.metrics import code_files
from support.errors import raises

ARRAYS = {
    "query_codes": np.zeros((2, 2), np.uint8),
    "query_labels": np.arange(2),
    "database_codes": np.zeros((3, 2), np.uint8),
    "database_labels": np.arange(3),
    "bits": np.int64(12),
}


@pytest.fixture
def whole(tmp_path):
    np.savez(tmp_path / "whole.npz", **ARRAYS)
    return (tmp_path / "whole.npz").read_bytes()


@pytest.mark.parametrize("change", ["text", "empty", "cut", "flipped", "array"])
def test_load_corrupt_archive_raises(change, whole, tmp_path):
    flipped = bytearray(whole)
    flipped[200] ^= 1
    path = tmp_path / "codes.npz"
    path.write_bytes({"text": b"hello", "empty": b"", "cut": whole[:-30], "flipped": flipped, "array": b""}[change])
    if change == "array":
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
    with raises(CorruptFileError, path=path):
        code_files.load(path)


def test_load_python_objects_raises(tmp_path):
    np.savez(tmp_path / "codes.npz", **ARRAYS | {"bits": np.array({"a": 1}, dtype=object)})
    with raises(CorruptFileError, path=tmp_path / "codes.npz", problem="Python objects"):
        code_files.load(tmp_path / "codes.npz")


def test_load_incomplete_archive_names_the_array(tmp_path):
    path = tmp_path / "codes.npz"
    np.savez(path, **{name: array for name, array in ARRAYS.items() if name != "query_labels"})
    with raises(InvalidInputError, path=path, found="query_codes, database_codes, database_labels, bits"):
        code_files.load(path)
    np.savez(path, **ARRAYS | {"bits": 12.0})
    with raises(InvalidInputError, path=path, found="float64 []", expected="one whole number"):
        code_files.load(path)


def test_load_missing_file_or_folder_raises(tmp_path):
    with pytest.raises(FileNotFoundError):
        code_files.load(tmp_path / "none.npz")
    with raises(IdcwhError, path=tmp_path):
        code_files.load(tmp_path)
