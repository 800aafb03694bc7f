"""Error classes: fields, wording, pickling, and the classes of the C++ engine's errors."""

from __future__ import annotations

import copy
import pickle
import struct

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search import _core, errors
from support.errors import raises

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ih.IdcwhError)]


@pytest.mark.parametrize("kind", KINDS)
def test_error_message_is_made_of_its_fields(kind):
    error = kind(path="a/b.bin", found=3, expected="4 bytes", hint="restore a copy")
    assert str(error) == f"a/b.bin: {kind.default} (found 3, expected 4 bytes); restore a copy"
    assert (error.path, error.found, error.expected, error.hint) == ("a/b.bin", 3, "4 bytes", "restore a copy")
    assert str(kind("is odd")) == "is odd" and str(kind(path="x")) == f"x: {kind.default}"


@pytest.mark.parametrize("kind", KINDS)
def test_error_about_a_path_keeps_its_class_and_fields(kind):
    error = kind("is odd", found=1, expected=2, hint="look").about("x")
    assert type(error) is kind and str(error) == "x: is odd (found 1, expected 2); look"
    assert str(error.about("y")) == str(error)
    assert str(error.about(hint="delete it")) == "x: is odd (found 1, expected 2); delete it"


@pytest.mark.parametrize("kind", KINDS)
def test_error_survives_pickling_and_copying(kind):
    error = kind("is odd", path="x", found=1)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind and str(again) == str(error) and vars(again) == vars(error)


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        (ih.NotFoundError, "is missing"),
        (ih.AlreadyExistsError, "already exists"),
        (ih.NotWrittenError, "cannot be written"),
        (ih.CorruptFileError, "is corrupt"),
        (ih.LockedError, "is locked by another writer"),
        (ih.MismatchError, "does not match"),
        (ih.ModelMismatchError, "does not match"),
        (ih.NotSupportedError, "is not supported"),
        (ih.NotInstalledError, "is not installed"),
        (ih.InvalidInputError, "is invalid"),
    ],
)
def test_error_class_has_its_wording(kind, default):
    assert kind.default == default and kind in KINDS


def test_engine_error_codes_become_classes(tmp_path):
    path = tmp_path / "codes.bin"
    codes = np.zeros((1, 1), np.uint8)
    with ih.Database.create(path, bits=8) as database:
        database.add(codes)
        with raises(ih.LockedError, path=path):
            ih.Database.open(path, "r+")
        with pytest.raises(KeyError):
            database.get([7])
        with pytest.raises(ValueError, match=r"^bits"):
            ih.HammingIndex(bits=0)
    content = path.read_bytes()
    header = struct.pack("<8sII", content[:8], 2, 8) + content[16:60]
    path.write_bytes(header + struct.pack("<I", _core.crc32c(header)) + content[64:])
    with raises(ih.NotSupportedError, path=path, found="2", expected="1"):
        ih.Database.open(path)
    path.write_bytes(content[:50])
    with raises(ih.CorruptFileError, path=path, found="50 bytes", expected="at least 64"):
        ih.Database.open(path)
    with pytest.raises(FileNotFoundError) as caught:
        ih.Database.open(tmp_path / "none.bin")
    assert caught.value.filename == str(tmp_path / "none.bin")


def test_engine_error_has_the_parts_of_its_message(tmp_path):
    path = tmp_path / "caf\u00e9 \udcff.bin"
    with ih.Database.create(path, bits=8), pytest.raises(ih.LockedError) as caught:
        ih.Database.open(path, "r+")
    error = caught.value
    assert (error.path, error.problem, error.found, error.expected) == (str(path), error.default, None, None)
    assert error.hint and str(error) == f"{path}: {error.default}; {error.hint}"


def test_engine_error_survives_pickling(tmp_path):
    path = tmp_path / "codes.bin"
    path.write_bytes(b"text")
    with raises(ih.CorruptFileError, path=path) as caught:
        ih.Database.open(path)
    again = pickle.loads(pickle.dumps(caught.value))
    assert vars(again) == vars(caught.value) and str(again) == str(caught.value)
