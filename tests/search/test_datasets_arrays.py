"""Datasets stored as arrays in an .npz archive."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from idcwh_search import datasets
from idcwh_search.errors import CorruptFileError, IdcwhError, InvalidInputError
from idcwh_search.images.preprocess import Preprocess
from idcwh_search.splits import protocols
from idcwh_search.splits.protocols import SplitOptions
from support.errors import raises

X = np.random.default_rng(0).integers(0, 256, (5, 6, 4, 3), dtype=np.uint8)
Y = np.array([2, 0, 1, 0, 2])


def archive(path: Path, save=np.savez, **content: object) -> str:
    save(path / "set.npz", **content)
    return str(path / "set.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archive_with_a_split_is_loaded(tmp_path, save):
    spec = archive(tmp_path, save, x_train=X[:3], y_train=Y[:3], x_test=X[3:], y_test=Y[3:])
    dataset = datasets.load(spec)
    assert dataset.keys == ["train/00000", "train/00001", "train/00002", "test/00000", "test/00001"]
    assert dataset.split == ["train"] * 3 + ["test"] * 2 and dataset.spec == spec
    assert (
        dataset.classes == ["0", "1", "2"]
        and dataset.labels.dtype == np.int64
        and dataset.labels.tolist() == Y.tolist()
    )
    np.testing.assert_array_equal(dataset.images, X)
    np.testing.assert_array_equal(dataset.image(4, Preprocess(4, 4)), X[4, 1:5])
    assert protocols.split(dataset).query.tolist() == [3, 4]


def test_archive_with_class_names_is_loaded(tmp_path):
    dataset = datasets.load(archive(tmp_path, x=X, y=Y.astype(np.uint8)[:, None], classes=["cat", "dog", "eel"]))
    assert dataset.keys == ["00000", "00001", "00002", "00003", "00004"] and not dataset.has_split
    assert dataset.classes == ["cat", "dog", "eel"] and dataset.labels.tolist() == Y.tolist()


def test_labels_with_gaps_are_their_own_class_names(tmp_path):
    dataset = datasets.load(archive(tmp_path, x=X, y=np.array([10, 1, 2, 1, 10])))
    assert dataset.classes == ["1", "2", "10"] and dataset.labels.tolist() == [2, 0, 1, 0, 2]


def test_bool_labels_are_multi_label(tmp_path):
    y = np.array([[1, 0], [1, 1], [0, 0], [0, 1], [1, 0]], bool)
    dataset = datasets.load(archive(tmp_path, x=X, y=y))
    assert dataset.multi_label and dataset.classes == ["0", "1"]
    np.testing.assert_array_equal(dataset.labels, y)


def test_archive_may_name_a_class_without_images(tmp_path):
    assert datasets.load(archive(tmp_path, x=X, y=Y, classes=["a", "b", "c", "d"])).classes == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("content", "array", "found"),
    [
        ({"x": X, "y": np.array([0, 1, -1, 0, 0])}, "y[2]", -1),
        ({"x": X, "y": Y, "classes": ["a", "b"]}, "y[0]", 2),
        ({"x": X, "y": Y, "classes": ["a", "b", "a"]}, "classes[2]", "'a' again"),
        ({"x": X, "y": Y, "classes": [1, 2, 3]}, "classes", "int64 [3]"),
        ({"x": X, "y": Y.astype(float)}, "y", "float64 [5]"),
        ({"x": X, "y": Y > 0}, "y", "bool [5]"),
        ({"x": X, "y": np.eye(5, dtype=int)}, "y", "int64 [5, 5]"),
        ({"x": X, "y": np.ones((5, 2), bool), "classes": ["a"]}, "classes", "1 names"),
        ({"x": X, "y": Y[:4]}, "y", "4 labels"),
        ({"x": X.astype(np.float32) / 255, "y": Y}, "x", np.float32),
        ({"x": X[..., 0], "y": Y}, "x", [5, 6, 4]),
        ({"x": X.transpose(0, 3, 1, 2), "y": Y}, "x", [5, 3, 6, 4]),
        ({"x": X[:, :0], "y": Y}, "x", [5, 0, 4, 3]),
        ({"x": X[:0], "y": Y[:0]}, "images", None),
        ({"x": X}, "y", "x"),
        ({"x_train": X, "y_train": Y}, "x_test, y_test", "x_train, y_train"),
        ({"images": X, "labels": Y}, "x_train, y_train, x_test, y_test", "none"),
        ({"x_train": X, "x": X, "y": Y}, "", "x_train and x"),
        ({"x_train": X, "y_train": Y, "x_test": X[:, :5], "y_test": Y}, "x_test", "5 x 4 x 3"),
        ({"x_train": X, "y_train": Y, "x_test": X, "y_test": Y[:, None] == [[0, 1]]}, "y_test", "bool [5, 2]"),
    ],
)
def test_archive_with_wrong_arrays_names_the_array(tmp_path, content, array, found):
    path = archive(tmp_path, **content)
    with raises(InvalidInputError, path=path, found=found, problem=array):
        datasets.load(path)


def test_archive_with_python_objects_is_not_loaded(tmp_path):
    path = archive(tmp_path, x=X, y=Y.astype(object))
    with raises(CorruptFileError, path=path):
        datasets.load(path)


def test_corrupt_archive_raises(tmp_path):
    path = Path(archive(tmp_path, x=X, y=Y))
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    single = io.BytesIO()
    np.save(single, X)
    for content in (b"", b"hello", whole[: len(whole) // 2], bytes(flipped), single.getvalue()):
        path.write_bytes(content)
        with raises(CorruptFileError, path=path):
            datasets.load(str(path))


@pytest.mark.parametrize("content", [b"hello\n", b"(lp0\nI1\na.", b"PK", b""])
def test_file_that_is_no_archive_is_corrupt(tmp_path, content):
    """numpy would take it for a pickle and suggest to load it."""
    (tmp_path / "set.npz").write_bytes(content)
    expected = "an .npz archive of x_train, y_train, x_test, y_test, or x and y, as numpy.savez writes them"
    with raises(CorruptFileError, path=tmp_path / "set.npz", expected=expected):
        datasets.load(str(tmp_path / "set.npz"))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archive_with_a_flipped_bit_raises_or_is_equal(tmp_path, save):
    """A flipped bit raises an error or has no effect on the arrays."""
    path = Path(archive(tmp_path, save, x=X, y=Y))
    whole = path.read_bytes()
    refused = 0
    for i in range(len(whole)):
        flipped = bytearray(whole)
        flipped[i] ^= 1 << i % 8
        path.write_bytes(flipped)
        try:
            dataset = datasets.load(str(path))
        except IdcwhError as error:
            assert error.path == str(path) and "\n" not in str(error)
            refused += 1
        else:
            np.testing.assert_array_equal(dataset.images, X)
            assert dataset.labels.tolist() == Y.tolist()
    assert refused > X.nbytes // 2


def test_array_longer_than_its_header_says_is_corrupt(tmp_path):
    """A flipped bit in the shape, with a matching CRC."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (4, 6, 4, 3)})
    y = io.BytesIO()
    np.save(y, Y[:4])
    with zipfile.ZipFile(tmp_path / "set.npz", "w") as out:
        out.writestr("x.npy", header.getvalue() + X.tobytes())
        out.writestr("y.npy", y.getvalue())
    with raises(CorruptFileError, path=tmp_path / "set.npz", problem="expected 288 by its header"):
        datasets.load(str(tmp_path / "set.npz"))


def test_array_with_a_huge_header_takes_no_memory(tmp_path):
    """The header of a member of a few bytes declares a terabyte."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (2**28, 32, 32, 3)})
    with zipfile.ZipFile(tmp_path / "set.npz", "w") as out:
        out.writestr("x.npy", header.getvalue() + bytes(100))
        out.writestr("y.npy", header.getvalue() + bytes(100))
    with raises(CorruptFileError, path=tmp_path / "set.npz", problem="824,633,720,832"):
        datasets.load(str(tmp_path / "set.npz"))


def test_arrays_in_fortran_order_are_loaded(tmp_path):
    dataset = datasets.load(archive(tmp_path, x=np.asfortranarray(X), y=Y))
    np.testing.assert_array_equal(dataset.images, X)
    assert dataset.images.flags.c_contiguous, "so that an image is contiguous"


def test_fingerprint_depends_on_pixels_and_sha256_does_not(tmp_path):
    before = datasets.load(archive(tmp_path, x=X, y=Y))
    other = X.copy()
    other[-1, 0, 0, 0] ^= 1
    after = datasets.load(archive(tmp_path, x=other, y=Y))
    assert before.fingerprint() != after.fingerprint() and before.sha256() == after.sha256()
    assert before.fingerprint() == datasets.load(archive(tmp_path, x=X, y=Y)).fingerprint()


def test_fingerprint_depends_on_file_sizes(tmp_path):
    (tmp_path / "a").mkdir()
    for name in ("1.png", "2.png"):
        Image.fromarray(X[0]).save(tmp_path / "a" / name)
    before = datasets.load(str(tmp_path)).fingerprint()
    assert datasets.load(str(tmp_path)).fingerprint() == before
    with (tmp_path / "a" / "2.png").open("ab") as file:
        file.write(b"0")
    assert datasets.load(str(tmp_path)).fingerprint() != before


def test_bool_labels_with_one_per_row_are_single(tmp_path):
    y = np.eye(3, dtype=bool)[Y]
    dataset = datasets.load(archive(tmp_path, x=X, y=y, classes=["cat", "dog", "eel"]))
    assert (
        dataset.labels.dtype == np.int64
        and dataset.labels.tolist() == Y.tolist()
        and dataset.classes == ["cat", "dog", "eel"]
    )
    with raises(InvalidInputError, path=dataset.spec, expected=9):
        protocols.split(dataset, SplitOptions(query_per_class=9))
