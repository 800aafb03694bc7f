"""Files of faiss, against faiss itself: it reads ours, we read its, searches are equal; damage is one clear error."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search import interchange
from idcwh_search.errors import IdcwhError
from idcwh_search.interchange import source

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
def test_faiss_finds_in_our_file_what_numpy_finds(bits, mapped, rng, code_maker, tmp_path, monkeypatch):
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
    distances, found = index.search(queries, 450)
    expected = code_maker.distances(queries, codes)
    np.testing.assert_array_equal(distances, np.sort(expected, axis=1))
    rows = np.argsort(names)[np.searchsorted(np.sort(names), found)]
    np.testing.assert_array_equal(names[rows], found)
    np.testing.assert_array_equal(np.take_along_axis(expected, rows, axis=1), distances)
    assert all(len(set(row)) == 450 for row in found.tolist())


@pytest.mark.parametrize("n", [0, 1, 33])
def test_our_file_is_byte_for_byte_what_faiss_writes(n, rng, code_maker, tmp_path):
    codes, ids = code_maker.random(rng, n, 48), np.arange(n)[::-1] * 7 + 3
    for names in (None, ids):
        ours = export(make_database(tmp_path / f"{names is None}.bin", codes, 48, names), tmp_path / "a.faiss")
        theirs = write_faiss(tmp_path / "b.faiss", codes, None if n == 0 else names)
        assert ours.read_bytes() == theirs.read_bytes()
        ours.unlink()


@pytest.mark.parametrize("kind", [None, "IDMap", "IDMap2"])
@pytest.mark.parametrize("bits", [8, 20, 77, 128])
def test_what_faiss_wrote_is_searched_as_faiss_searches(kind, bits, rng, code_maker, tmp_path, monkeypatch):
    monkeypatch.setattr(source, "BATCH", 100)
    codes, queries = code_maker.random(rng, 333, bits), code_maker.random(rng, 4, bits)
    ids = None if kind is None else rng.permutation(10**6)[:333]
    path = write_faiss(tmp_path / "codes.index", codes, ids, kind or "")
    read = interchange.read(path, bits=bits)
    assert (read.bits, read.count, read.model) == (bits, 333, {})
    assert read.save(tmp_path / "codes.bin") == 333
    peer = faiss.read_index_binary(str(path))
    with ih.Database.open(tmp_path / "codes.bin") as db:
        distances, found = db.search(queries, 333)
        np.testing.assert_array_equal(distances, peer.search(queries, 333)[0])
        expected = code_maker.ranking(queries, codes, ids)
        np.testing.assert_array_equal(found, expected[1])
        np.testing.assert_array_equal(db.ids, np.arange(333) if ids is None else ids)


def test_empty_maps_are_read(tmp_path):
    for kind in ("IDMap", "IDMap2"):
        write_faiss(tmp_path / "empty.faiss", np.empty((0, 6), np.uint8), np.empty(0, np.int64), kind)
        items = interchange.read(tmp_path / "empty.faiss", bits=43).items()
        assert items.codes.shape == (0, 6)


def edited(path: Path, at: int, packing: str, *values: int) -> Path:
    content = bytearray(path.read_bytes())
    struct.pack_into(packing, content, at, *values)
    path.write_bytes(content)
    return path


def test_every_truncation_and_trailing_junk_is_refused(rng, code_maker, tmp_path):
    codes = code_maker.random(rng, 5, 16)
    for ids in (None, np.arange(5) + 9):
        whole = write_faiss(tmp_path / "whole.faiss", codes, ids).read_bytes()
        broken = tmp_path / "broken.faiss"
        for content in [*(whole[:length] for length in range(len(whole))), whole + b"\0"]:
            broken.write_bytes(content)
            with pytest.raises(IdcwhError, match=r"broken.faiss") as caught:
                interchange.read(broken)
            assert "\n" not in str(caught.value)


# Byte 4: d, 8: code bytes, 12: count, 25: bytes of codes; a map has 25 bytes in front.
@pytest.mark.parametrize(
    ("at", "packing", "values", "message"),
    [
        (0, "4s", (b"IxF2",), "no faiss IndexBinaryFlat.*'IxF2'"),
        (0, "4s", (b"\xff\n\0\x80",), "no faiss IndexBinaryFlat"),
        (4, "<i", (12,), "of 12 bits"),
        (4, "<ii", (0, 0), "of 0 bits"),
        (4, "<ii", (-16, -2), "of -16 bits"),
        (4, "<ii", (8, 2), "of 8 bits, 2 bytes each"),
        (12, "<q", (2**61,), str(2**61)),
        (12, "<q", (-1,), "-1 codes"),
        (25, "<Q", (2**64 - 2,), "in 18446744073709551614 bytes"),
    ],
)
def test_headers_that_cannot_be_are_refused(at, packing, values, message, rng, code_maker, tmp_path):
    path = edited(write_faiss(tmp_path / "codes.faiss", code_maker.random(rng, 5, 16)), at, packing, *values)
    with pytest.raises(IdcwhError, match=f"codes.faiss: .*{message}"):
        interchange.read(path)


def test_a_claim_of_two_to_the_61_codes_that_agrees_with_itself_allocates_nothing(tmp_path):
    path = tmp_path / "codes.faiss"
    path.write_bytes(struct.pack("<4siiq?iQ", b"IBxF", 8, 1, 2**61, True, 1, 2**61) + b"abc")
    with pytest.raises(IdcwhError, match=f"has 36 bytes, expected {2**61 + 33}"):
        interchange.read(path)


@pytest.mark.parametrize(("at", "packing", "value"), [(4, "<i", 24), (12, "<q", 4), (25 + 33 + 10, "<Q", 6)])
def test_a_map_that_does_not_fit_its_codes_is_refused(at, packing, value, rng, code_maker, tmp_path):
    path = write_faiss(tmp_path / "codes.faiss", code_maker.random(rng, 5, 16), np.arange(5) + 1)
    with pytest.raises(IdcwhError, match="map of ids does not fit the 5 codes of 16 bits"):
        interchange.read(edited(path, at, packing, value))


@pytest.mark.parametrize(("ids", "message"), [([1, 2, 1], "1 is given twice"), ([1, -2, 3], "-2")])
def test_ids_that_are_none_make_no_database(ids, message, rng, code_maker, tmp_path):
    path = write_faiss(tmp_path / "codes.faiss", code_maker.random(rng, 3, 16), np.array(ids))
    with pytest.raises(IdcwhError, match=f"codes.faiss.*{message}"):
        interchange.read(path).save(tmp_path / "codes.bin")
    assert [file.name for file in tmp_path.iterdir()] == ["codes.faiss"]


def test_an_id_in_two_batches_is_found(rng, code_maker, tmp_path, monkeypatch):
    monkeypatch.setattr(source, "BATCH", 2)
    path = write_faiss(tmp_path / "codes.faiss", code_maker.random(rng, 3, 16), np.array([5, 6, 5]))
    with pytest.raises(IdcwhError, match=r"items from 2 on: .*5"):
        interchange.read(path).save(tmp_path / "codes.bin")
    assert not (tmp_path / "codes.bin").exists()


@pytest.mark.parametrize("bits", [8, 16, 25])
def test_bits_have_to_fit_the_bytes(bits, rng, code_maker, tmp_path):
    path = write_faiss(tmp_path / "codes.faiss", code_maker.random(rng, 3, 24))
    with pytest.raises(IdcwhError, match=f"codes of 3 bytes have 17 to 24 bits, not {bits}"):
        interchange.read(path, bits=bits)


def test_padding_bits_are_refused_with_their_place(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "BATCH", 2)
    path = write_faiss(tmp_path / "codes.faiss", np.array([[1, 0], [2, 15], [3, 15], [4, 16]], np.uint8))
    with pytest.raises(IdcwhError, match=r"codes.faiss, items from 2 on: .*row 1.*beyond bit 11"):
        interchange.read(path, bits=12).save(tmp_path / "codes.bin")
    assert interchange.read(path).items().codes.shape == (4, 2)
