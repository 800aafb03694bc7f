"""Error classes: fields, wording, pickling, and the classes that errors of the C++ engine become."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search import errors

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
        (ih.LockedError, "is locked by another process"),
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
        with pytest.raises(ih.LockedError):
            ih.Database.open(path, "r+")
        with pytest.raises(KeyError):
            database.get([7])
        with pytest.raises(ValueError, match="bits"):
            ih.HammingIndex(bits=0)
    path.write_bytes(b"x" * 100)
    with pytest.raises(ih.CorruptFileError):
        ih.Database.open(path)
    with pytest.raises(FileNotFoundError):
        ih.Database.open(tmp_path / "none.bin")
