"""NumPy and raw files, against numpy; bit strings, against a loop over bits; damage is one clear error."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search import interchange
from idcwh_search.errors import IdcwhError
from idcwh_search.interchange import source


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(source, "BATCH", 100)


@pytest.mark.parametrize("bits", [1, 20, 64, 77])
@pytest.mark.parametrize("n", [0, 1, 250])
def test_numpy_reads_what_is_written(bits, n, rng, code_maker, tmp_path):
    codes, ids = code_maker.random(rng, n, bits), rng.choice(2**62, n, replace=False)
    with ih.Database.create(tmp_path / "codes.bin", bits) as db:
        db.add(codes, ids=ids)
    with ih.Database.open(tmp_path / "codes.bin") as db:
        lost = interchange.export(db, tmp_path / "codes.npy", ids=tmp_path / "ids.npy")
        assert lost == (["the code length"] if bits % 8 else [])
        interchange.export(db, tmp_path / "codes.raw")
    found = np.load(tmp_path / "codes.npy")
    assert found.dtype == np.uint8 and found.shape == codes.shape
    np.testing.assert_array_equal(found, codes)
    np.testing.assert_array_equal(np.load(tmp_path / "ids.npy"), ids)
    np.testing.assert_array_equal(np.fromfile(tmp_path / "codes.raw", np.uint8), codes.reshape(-1))


@pytest.mark.parametrize("bits", [1, 20, 64, 77])
@pytest.mark.parametrize("n", [0, 1, 250])
@pytest.mark.parametrize("suffix", [".npy", ".raw", ".bin"])
def test_what_numpy_wrote_is_read(bits, n, suffix, rng, code_maker, tmp_path):
    codes, ids = code_maker.random(rng, n, bits), rng.permutation(n).astype(np.uint16)
    path = tmp_path / f"given{suffix}"
    if suffix == ".npy":
        np.save(path, codes)
    else:
        codes.tofile(path)
    np.save(tmp_path / "ids.npy", ids)
    read = interchange.read(path, bits=bits, ids=tmp_path / "ids.npy")
    assert (read.bits, read.count) == (bits, n)
    assert read.save(tmp_path / "codes.bin") == n
    with ih.Database.open(tmp_path / "codes.bin") as db:
        np.testing.assert_array_equal(db.codes, codes)
        np.testing.assert_array_equal(db.ids, ids)
    items = interchange.read(path, bits=bits).items()
    np.testing.assert_array_equal(items.codes, codes)
    assert items[1:] == (None, None, None, None)


def test_bool_arrays_are_packed(rng, tmp_path):
    ones = rng.integers(0, 2, (250, 77)).astype(bool)
    np.save(tmp_path / "ones.npy", ones)
    read = interchange.read(tmp_path / "ones.npy")
    assert read.bits == 77
    np.testing.assert_array_equal(read.items().codes, np.packbits(ones, axis=1, bitorder="little"))
    with pytest.raises(IdcwhError, match="77 bits a code, not 80"):
        interchange.read(tmp_path / "ones.npy", bits=80)


def test_npy_of_unpacked_bits_is_refused_unless_bits_say_so(tmp_path, rng):
    path = tmp_path / "bits.npy"
    np.save(path, rng.integers(0, 2, (50, 64), dtype=np.uint8))
    for bits in (None, 64):
        with pytest.raises(IdcwhError, match=r"bits.npy: .*only the bytes 0 and 1.*astype\(bool\).*--bits 512"):
            interchange.read(path, bits=bits)
    assert interchange.read(path, bits=512).count == 50


def npy(array: np.ndarray, **options: object) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, **options)
    return file.getvalue()


def npy_header(shape: tuple[int, ...], descr: str = "|u1") -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not an array in .npy format"),
        (b"a text, as there are many", "is not an array in .npy format"),
        (npy(np.zeros((3, 2), np.uint8))[:-1], "expected 134"),
        (npy(np.zeros((3, 2), np.uint8))[:50], "has a corrupt header"),
        (npy(np.zeros((3, 2), np.uint8)) + b"\0", "expected 134"),
        (npy_header((2**61, 1)), f"expected {2**61 + 128}"),
        (npy_header((-1, 1)), "shape .-1, 1."),
        (npy(np.zeros((3, 0), np.uint8)), "codes of 0 bytes"),
        (npy(np.zeros((3, 0), bool)), "codes of 0 bytes"),
        (npy(np.zeros((3, 2), np.int8)), "holds int8"),
        (npy(np.zeros((3, 2), np.uint16)), "holds uint16"),
        (npy(np.zeros((3, 2))), "holds float64"),
        (npy(np.zeros(3, np.uint8)), r"shape \(3,\)"),
        (npy(np.zeros((), np.uint8)), r"shape \(\)"),
        (npy(np.asfortranarray(np.zeros((3, 2), np.uint8))), "column by column"),
        (npy(np.array([[None, {}]]), allow_pickle=True), "holds Python objects"),
        (npy_header((0, 8193)), "codes of 8193 bytes"),
    ],
)
def test_npy_files_that_hold_no_codes_are_refused(content, message, tmp_path):
    (tmp_path / "given.npy").write_bytes(content)
    with pytest.raises(IdcwhError, match=f"given.npy: .*{message}") as caught:
        interchange.read(tmp_path / "given.npy")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.arange(4), "4 ids, expected 3"),
        (np.arange(3.0), "float64"),
        (np.zeros((3, 1), int), "shape"),
        (np.array([1, 2, 1]), "1 is given twice"),
        (np.array([1, -2, 1]), "-2"),
        (np.array([1, 2**63, 3], np.uint64), str(2**63)),
    ],
)
def test_ids_that_are_none_make_no_database(ids, message, tmp_path):
    np.save(tmp_path / "given.npy", np.zeros((3, 2), np.uint8))
    np.save(tmp_path / "ids.npy", ids)
    with pytest.raises(IdcwhError, match=message):
        interchange.read(tmp_path / "given.npy", ids=tmp_path / "ids.npy").save(tmp_path / "codes.bin")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["given.npy", "ids.npy"]


def test_raw_files_need_a_length_that_fits(tmp_path):
    path = tmp_path / "given.raw"
    path.write_bytes(bytes(range(1, 8)))
    with pytest.raises(ValueError, match="give it"):
        interchange.read(path)
    with pytest.raises(IdcwhError, match="has 7 bytes, expected a multiple of 3, one code of 20 bits"):
        interchange.read(path, bits=20)
    with pytest.raises(IdcwhError, match="row 1 has bits set beyond bit 0"):
        interchange.read(path, bits=1).items()
    with pytest.raises(ValueError, match="bits must be 1 to 65535, not 0"):
        interchange.read(path, bits=0)


def test_a_database_is_no_raw_file(tmp_path):
    with ih.Database.create(tmp_path / "codes.bin", 8):
        pass
    with pytest.raises(IdcwhError, match=r"is a codes.bin database already"):
        interchange.read(tmp_path / "codes.bin", bits=8)


def test_a_file_that_shrinks_while_it_is_read_is_an_error(tmp_path):
    np.save(tmp_path / "given.npy", np.zeros((300, 2), np.uint8))
    batches = iter(interchange.read(tmp_path / "given.npy"))
    assert len(next(batches).codes) == 100
    with (tmp_path / "given.npy").open("r+b") as file:
        file.truncate(400)
    with pytest.raises(IdcwhError, match="became shorter"):
        next(batches)


def test_names_that_say_nothing(tmp_path):
    with pytest.raises(ValueError, match="no format has this suffix"):
        interchange.read(tmp_path / "codes.dat")
    with pytest.raises(ValueError, match="format: expected one of"):
        interchange.read(tmp_path / "codes.npy", format="hdf5")
    with pytest.raises(FileNotFoundError):
        interchange.read(tmp_path / "codes.npy")
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(IdcwhError, match=r"folder.npy: is not a file"):
        interchange.read(tmp_path / "folder.npy")
    (tmp_path / "codes.faiss").write_text("no index")
    with pytest.raises(ValueError, match="has ids of its own"):
        interchange.read(tmp_path / "codes.faiss", ids="ids.npy")


def test_an_export_keeps_its_input_and_what_is_there(tmp_path: Path):
    path = tmp_path / "codes.bin"
    with ih.Database.create(path, 8) as db:
        db.add(np.array([[5]], np.uint8))
    before = path.read_bytes()
    np.save(tmp_path / "old.npy", np.arange(3))
    with ih.Database.open(path) as db:
        for replace, refused in ((False, "already exists"), (True, "also an input")):
            with pytest.raises(IdcwhError, match=refused):
                interchange.export(db, path, replace=replace)
            with pytest.raises(IdcwhError, match=refused):
                interchange.export(db, tmp_path / "new.npy", ids=path, replace=replace)
        with pytest.raises(IdcwhError, match=r"old.npy: already exists"):
            interchange.export(db, tmp_path / "old.npy")
        with pytest.raises(IdcwhError, match=r"old.npy: already exists"):
            interchange.export(db, tmp_path / "new.npy", ids=tmp_path / "old.npy")
        with pytest.raises(ValueError, match="the output for the codes as well"):
            interchange.export(db, tmp_path / "new.npy", ids=tmp_path / "new.npy")
        with pytest.raises(ValueError, match="a faiss file has ids of its own"):
            interchange.export(db, tmp_path / "new.faiss", ids=tmp_path / "new.npy")
        assert np.load(tmp_path / "old.npy").tolist() == [0, 1, 2]
        interchange.export(db, tmp_path / "old.npy", replace=True)
    assert np.load(tmp_path / "old.npy").tolist() == [[5]]
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["codes.bin", "old.npy"]


def test_an_export_that_fails_leaves_nothing(tmp_path):
    with ih.Database.create(tmp_path / "codes.bin", 8) as db:
        db.add(np.zeros((300, 1), np.uint8), ids=np.arange(300) + 1)

    def fail(_: int) -> None:
        raise KeyboardInterrupt

    with ih.Database.open(tmp_path / "codes.bin") as db:
        for name in ("a.npy", "a.raw", "a.faiss"):
            with pytest.raises(KeyboardInterrupt):
                interchange.export(db, tmp_path / name, progress=fail)
    assert [file.name for file in tmp_path.iterdir()] == ["codes.bin"]


@pytest.mark.parametrize("bits", [1, 7, 8, 9, 20, 77, 128])
def test_bit_strings_have_bit_0_leftmost(bits, rng, code_maker):
    codes = code_maker.random(rng, 40, bits)
    expected = ["".join(str(int(row[i // 8]) >> i % 8 & 1) for i in range(bits)) for row in codes]
    texts = interchange.to_bit_strings(codes, bits)
    assert texts == expected
    assert interchange.to_bit_strings(codes[:0], bits) == []
    # What SQL's bit_count(a # b) counts: the characters that differ.
    differ = [[sum(a != b for a, b in zip(x, y, strict=True)) for y in texts] for x in texts[:3]]
    np.testing.assert_array_equal(differ, code_maker.distances(codes[:3], codes))
    back = interchange.from_bit_strings(expected, bits)
    assert back.dtype == np.uint8
    np.testing.assert_array_equal(back, codes)
    assert interchange.from_bit_strings([], bits).shape == (0, codes.shape[1])


@pytest.mark.parametrize("text", ["", "010", "01010", "01 1", "0121", "01٠1"])
def test_other_texts_are_no_bit_strings(text):
    with pytest.raises(ValueError, match="text 1: expected 4 characters"):
        interchange.from_bit_strings(["0101", text], 4)
