"""Files of faiss: faiss reads ours, we read its files, searches are equal, and a corrupt file is one error."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search import interchange
from idcwh_search.errors import CorruptFileError, InvalidInputError, MismatchError
from idcwh_search.interchange import source
from support.errors import raises

faiss = pytest.importorskip("faiss")


def make_database(path: Path, codes: np.ndarray, bits: int, ids: np.ndarray | None = None) -> Path:
    with ih.Database.create(path, bits) as db:
        db.add(codes, ids=ids)
    return path


def write_faiss(path: Path, codes: np.ndarray, ids: np.ndarray | None = None, kind: str = "IDMap") -> Path:
    index = faiss.IndexBinaryFlat(8 * codes.shape[1])
    if ids is None:
        index.add(codes)
    else:
        index = getattr(faiss, f"IndexBinary{kind}")(index)
        index.add_with_ids(codes, ids)
    faiss.write_index_binary(index, str(path))
    return path


def export(database: Path, target: Path) -> Path:
    with ih.Database.open(database) as db:
        interchange.export(db, target)
    return target


@pytest.mark.parametrize("bits", [1, 8, 20, 64, 77, 512])
@pytest.mark.parametrize("mapped", [False, True])
def test_export_faiss_is_searched_by_faiss(bits, mapped, rng, code_maker, tmp_path, monkeypatch):
    monkeypatch.setattr(source, "BATCH", 100)
    codes, queries = code_maker.random(rng, 450, bits), code_maker.random(rng, 5, bits)
    ids = rng.choice(2**62, 450, replace=False) if mapped else None
    path = export(make_database(tmp_path / "codes.bin", codes, bits, ids), tmp_path / "codes.faiss")
    index = faiss.read_index_binary(str(path))
    assert isinstance(index, faiss.IndexBinaryIDMap if mapped else faiss.IndexBinaryFlat)
    assert (index.ntotal, index.d) == (450, 8 * codes.shape[1])
    names = np.arange(450) if ids is None else ids
    if mapped:
        np.testing.assert_array_equal(faiss.vector_to_array(index.id_map), ids)
    distances, result = index.search(queries, 450)
    expected = code_maker.distances(queries, codes)
    np.testing.assert_array_equal(distances, np.sort(expected, axis=1))
    rows = np.argsort(names)[np.searchsorted(np.sort(names), result)]
    np.testing.assert_array_equal(names[rows], result)
    np.testing.assert_array_equal(np.take_along_axis(expected, rows, axis=1), distances)
    assert all(len(set(row)) == 450 for row in result.tolist())


@pytest.mark.parametrize("n", [0, 1, 33])
def test_export_faiss_equals_the_bytes_of_faiss(n, rng, code_maker, tmp_path):
    codes, ids = code_maker.random(rng, n, 48), np.arange(n)[::-1] * 7 + 3
    for names in (None, ids):
        ours = export(make_database(tmp_path / f"{names is None}.bin", codes, 48, names), tmp_path / "a.faiss")
        theirs = write_faiss(tmp_path / "b.faiss", codes, None if n == 0 else names)
        assert ours.read_bytes() == theirs.read_bytes()
        ours.unlink()


@pytest.mark.parametrize("kind", [None, "IDMap", "IDMap2"])
@pytest.mark.parametrize("bits", [8, 20, 77, 128])
def test_read_faiss_index_equals_searches_of_faiss(kind, bits, rng, code_maker, tmp_path, monkeypatch):
    monkeypatch.setattr(source, "BATCH", 100)
    codes, queries = code_maker.random(rng, 333, bits), code_maker.random(rng, 4, bits)
    ids = None if kind is None else rng.permutation(10**6)[:333]
    path = write_faiss(tmp_path / "codes.index", codes, ids, kind or "")
    read = interchange.read(path, bits=bits)
    assert (read.bits, read.count, read.model) == (bits, 333, {})
    assert read.save(tmp_path / "codes.bin") == 333
    peer = faiss.read_index_binary(str(path))
    with ih.Database.open(tmp_path / "codes.bin") as db:
        distances, result = db.search(queries, 333)
        np.testing.assert_array_equal(distances, peer.search(queries, 333)[0])
        expected = code_maker.ranking(queries, codes, ids)
        np.testing.assert_array_equal(result, expected[1])
        np.testing.assert_array_equal(db.ids, np.arange(333) if ids is None else ids)


def test_read_faiss_empty_map_has_no_items(tmp_path):
    for kind in ("IDMap", "IDMap2"):
        write_faiss(tmp_path / "empty.faiss", np.empty((0, 6), np.uint8), np.empty(0, np.int64), kind)
        items = interchange.read(tmp_path / "empty.faiss", bits=43).items()
        assert items.codes.shape == (0, 6)


def edited(path: Path, at: int, packing: str, *values: int) -> Path:
    content = bytearray(path.read_bytes())
    struct.pack_into(packing, content, at, *values)
    path.write_bytes(content)
    return path


def test_read_faiss_of_another_size_raises(rng, code_maker, tmp_path):
    codes = code_maker.random(rng, 5, 16)
    for ids in (None, np.arange(5) + 9):
        whole = write_faiss(tmp_path / "whole.faiss", codes, ids).read_bytes()
        broken = tmp_path / "broken.faiss"
        for content in [*(whole[:length] for length in range(len(whole))), whole + b"\0"]:
            broken.write_bytes(content)
            with raises(CorruptFileError, path=broken):
                interchange.read(broken)


# Byte 4: d, 8: code bytes, 12: count, 25: bytes of codes. A map has 25 bytes in front.
@pytest.mark.parametrize(
    ("at", "packing", "values", "found"),
    [
        (0, "4s", (b"IxF2",), "'IxF2'"),
        (0, "4s", (b"\xff\n\0\x80",), r"'\xff\n\x00\x80'"),
        (4, "<i", (12,), "5 codes of 12 bits, 2 bytes each, in 10 bytes"),
        (4, "<ii", (0, 0), "5 codes of 0 bits, 0 bytes each, in 10 bytes"),
        (4, "<ii", (-16, -2), "5 codes of -16 bits, -2 bytes each, in 10 bytes"),
        (4, "<ii", (8, 2), "5 codes of 8 bits, 2 bytes each, in 10 bytes"),
        (12, "<q", (2**61,), f"{2**61} codes of 16 bits, 2 bytes each, in 10 bytes"),
        (12, "<q", (-1,), "-1 codes of 16 bits, 2 bytes each, in 10 bytes"),
        (25, "<Q", (2**64 - 2,), "5 codes of 16 bits, 2 bytes each, in 18446744073709551614 bytes"),
    ],
)
def test_read_faiss_with_an_impossible_header_raises(at, packing, values, found, rng, code_maker, tmp_path):
    path = edited(write_faiss(tmp_path / "codes.faiss", code_maker.random(rng, 5, 16)), at, packing, *values)
    with raises(CorruptFileError, path=path, found=found):
        interchange.read(path)


def test_read_faiss_with_a_huge_count_allocates_nothing(tmp_path):
    path = tmp_path / "codes.faiss"
    path.write_bytes(struct.pack("<4siiq?iQ", b"IBxF", 8, 1, 2**61, True, 1, 2**61) + b"abc")
    with raises(CorruptFileError, path=path, found=36, expected=2**61 + 33):
        interchange.read(path)


@pytest.mark.parametrize(
    ("at", "packing", "value", "found"),
    [(4, "<i", 24, (5, 24, 2, 5)), (12, "<q", 4, (5, 16, 2, 4)), (25 + 33 + 10, "<Q", 6, (6, 16, 2, 5))],
)
def test_read_faiss_map_unlike_its_index_raises(at, packing, value, found, rng, code_maker, tmp_path):
    path = write_faiss(tmp_path / "codes.faiss", code_maker.random(rng, 5, 16), np.arange(5) + 1)
    with raises(CorruptFileError, path=path, found=found, expected=(5, 16, 2, 5)):
        interchange.read(edited(path, at, packing, value))


@pytest.mark.parametrize("ids", [[1, 2, 1], [1, -2, 3]])
def test_save_with_invalid_ids_writes_no_database(ids, rng, code_maker, tmp_path):
    path = write_faiss(tmp_path / "codes.faiss", code_maker.random(rng, 3, 16), np.array(ids))
    with raises(InvalidInputError, path=path, problem="from item 0: ids"):
        interchange.read(path).save(tmp_path / "codes.bin")
    assert [file.name for file in tmp_path.iterdir()] == ["codes.faiss"]


def test_save_with_an_id_in_two_batches_raises(rng, code_maker, tmp_path, monkeypatch):
    monkeypatch.setattr(source, "BATCH", 2)
    path = write_faiss(tmp_path / "codes.faiss", code_maker.random(rng, 3, 16), np.array([5, 6, 5]))
    with raises(InvalidInputError, path=path, problem="from item 2: ids"):
        interchange.read(path).save(tmp_path / "codes.bin")
    assert not (tmp_path / "codes.bin").exists()


@pytest.mark.parametrize("bits", [8, 16, 25])
def test_read_faiss_with_other_bits_raises(bits, rng, code_maker, tmp_path):
    path = write_faiss(tmp_path / "codes.faiss", code_maker.random(rng, 3, 24))
    with raises(MismatchError, path=path, found="17 to 24", expected=bits):
        interchange.read(path, bits=bits)


def test_save_with_padding_bits_names_the_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "BATCH", 2)
    path = write_faiss(tmp_path / "codes.faiss", np.array([[1, 0], [2, 15], [3, 15], [4, 16]], np.uint8))
    with raises(InvalidInputError, path=path, problem="from item 2: codes"):
        interchange.read(path, bits=12).save(tmp_path / "codes.bin")
    assert interchange.read(path).items().codes.shape == (4, 2)
