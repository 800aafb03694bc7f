"""Handles that are pickled or copied, which reopen by path or raise in one line. The oracle is a spawned process."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search.images.decoding import UnreadableImage
from support.errors import raises

COPIES: list[Callable[[Any], Any]] = [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy]
copies = pytest.mark.parametrize("duplicate", COPIES, ids=["pickle", "copy", "deepcopy"])


@copies
def test_database_open_for_reading_reopens_by_path(
    duplicate: Callable[[Any], Any], small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small.parent)
    with ih.Database.open(small.name) as database, duplicate(database) as other:
        np.testing.assert_array_equal(other.codes, database.codes)
        database.close()
        assert other.keys()[0] == "a/0.png" and other.path == small


@copies
def test_database_open_for_changing_is_not_copied(duplicate: Callable[[Any], Any], small: Path) -> None:
    with ih.Database.open(small, "r+") as database, pytest.raises(TypeError, match=r"codes\.bin: "):
        duplicate(database)


@copies
def test_closed_database_is_not_copied(duplicate: Callable[[Any], Any], small: Path) -> None:
    database = ih.Database.open(small)
    database.close()
    with pytest.raises(ValueError, match="closed"):
        duplicate(database)


@copies
def test_codes_in_memory_and_snapshots_are_not_copied(duplicate: Callable[[Any], Any], small: Path) -> None:
    index = ih.HammingIndex(8)
    for handle in (index, index.snapshot(), ih.Database.open(small).snapshot()):
        with pytest.raises(TypeError, match=rf"^{type(handle).__name__}: "):
            duplicate(handle)
    with pytest.raises(TypeError, match="open for changing"):
        duplicate(ih.Database.build(small.parent / "new.bin", 8))


@copies
def test_encoder_reopens_its_model(duplicate: Callable[[Any], Any], linear: Any) -> None:
    encoder = ih.Encoder(linear.write(12), threads=1, batch_size=3)
    other = duplicate(encoder)
    pixels = linear.images(5)
    np.testing.assert_array_equal(other.encode(pixels), linear.codes(pixels, 12))
    assert (other.threads, other.batch_size, other.fingerprint) == (1, 3, encoder.fingerprint)


def test_encoder_whose_file_was_replaced_is_refused(linear: Any) -> None:
    content = pickle.dumps(ih.Encoder(linear.write(12)))
    linear.write(16)
    with raises(ih.MismatchError, path=linear.path):
        pickle.loads(content)


def _search(database: ih.Database, encoder: ih.Encoder, pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return database.search(encoder.encode(pixels), 2)


def _fail(path: str) -> None:
    raise UnreadableImage(path, "an empty file")


def test_spawned_process_searches_with_both_handles(linear: Any, tmp_path: Path) -> None:
    pixels = linear.images(6)
    with ih.Database.create(tmp_path / "codes.bin", 12) as result:
        result.add(linear.codes(pixels, 12))
    encoder = ih.Encoder(linear.write(12))
    with ih.Database.open(tmp_path / "codes.bin") as database:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            results = pool.apply(_search, (database, encoder, pixels))
            with pytest.raises(UnreadableImage) as caught:
                pool.apply(_fail, ("a.png",))
        np.testing.assert_array_equal(results, database.search(linear.codes(pixels, 12), 2))
    assert (caught.value.path, caught.value.reason) == ("a.png", "an empty file")
