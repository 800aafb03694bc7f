"""NumPy and raw files compared with numpy, bit strings compared with a loop over bits, and corrupt files."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search import interchange
from idcwh_search.errors import AlreadyExistsError, CorruptFileError, IdcwhError, InvalidInputError, MismatchError
from idcwh_search.interchange import source
from support.errors import raises


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(source, "BATCH", 100)


@pytest.mark.parametrize("bits", [1, 20, 64, 77])
@pytest.mark.parametrize("n", [0, 1, 250])
def test_export_npy_and_raw_are_read_by_numpy(bits, n, rng, code_maker, tmp_path):
    codes, ids = code_maker.random(rng, n, bits), rng.choice(2**62, n, replace=False)
    with ih.Database.create(tmp_path / "codes.bin", bits) as db:
        db.add(codes, ids=ids)
    with ih.Database.open(tmp_path / "codes.bin") as db:
        lost = interchange.export(db, tmp_path / "codes.npy", ids=tmp_path / "ids.npy")
        assert lost == (["the code length"] if bits % 8 else [])
        interchange.export(db, tmp_path / "codes.raw")
    result = np.load(tmp_path / "codes.npy")
    assert result.dtype == np.uint8 and result.shape == codes.shape
    np.testing.assert_array_equal(result, codes)
    np.testing.assert_array_equal(np.load(tmp_path / "ids.npy"), ids)
    np.testing.assert_array_equal(np.fromfile(tmp_path / "codes.raw", np.uint8), codes.reshape(-1))


@pytest.mark.parametrize("bits", [1, 20, 64, 77])
@pytest.mark.parametrize("n", [0, 1, 250])
@pytest.mark.parametrize("suffix", [".npy", ".raw", ".bin"])
def test_read_npy_and_raw_of_numpy_has_its_codes(bits, n, suffix, rng, code_maker, tmp_path):
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


def test_read_npy_of_bool_packs_it(rng, tmp_path):
    ones = rng.integers(0, 2, (250, 77)).astype(bool)
    np.save(tmp_path / "ones.npy", ones)
    read = interchange.read(tmp_path / "ones.npy")
    assert read.bits == 77
    np.testing.assert_array_equal(read.items().codes, np.packbits(ones, axis=1, bitorder="little"))
    with raises(MismatchError, path=tmp_path / "ones.npy", found=77, expected=80):
        interchange.read(tmp_path / "ones.npy", bits=80)


def test_read_npy_of_unpacked_bits_needs_bits(tmp_path, rng):
    path = tmp_path / "bits.npy"
    np.save(path, rng.integers(0, 2, (50, 64), dtype=np.uint8))
    for bits in (None, 64):
        with raises(InvalidInputError, path=path, expected="packed codes") as caught:
            interchange.read(path, bits=bits)
        assert "--bits 512" in caught.value.hint
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
    ("content", "kind", "found"),
    [
        (b"", CorruptFileError, None),
        (b"a text, as there are many", CorruptFileError, None),
        (npy(np.zeros((3, 2), np.uint8))[:-1], CorruptFileError, 133),
        (npy(np.zeros((3, 2), np.uint8))[:50], CorruptFileError, None),
        (npy(np.zeros((3, 2), np.uint8)) + b"\0", CorruptFileError, 135),
        (npy_header((2**61, 1)), CorruptFileError, 128),
        (npy_header((-1, 1)), CorruptFileError, None),
        (npy(np.zeros((3, 0), np.uint8)), InvalidInputError, "codes of 0 bytes"),
        (npy(np.zeros((3, 0), bool)), InvalidInputError, "codes of 0 bytes"),
        (npy(np.zeros((3, 2), np.int8)), InvalidInputError, "int8 of shape (3, 2)"),
        (npy(np.zeros((3, 2), np.uint16)), InvalidInputError, "uint16"),
        (npy(np.zeros((3, 2))), InvalidInputError, "float64 of shape (3, 2)"),
        (npy(np.zeros(3, np.uint8)), InvalidInputError, "uint8 of shape (3,)"),
        (npy(np.zeros((), np.uint8)), InvalidInputError, "uint8 of shape ()"),
        (npy(np.asfortranarray(np.zeros((3, 2), np.uint8))), InvalidInputError, None),
        (npy(np.array([[None, {}]]), allow_pickle=True), CorruptFileError, None),
        (npy_header((0, 8193)), InvalidInputError, "codes of 8193 bytes"),
    ],
)
def test_read_npy_without_codes_raises(content, kind, found, tmp_path):
    (tmp_path / "given.npy").write_bytes(content)
    with raises(kind, path=tmp_path / "given.npy", found=found) as caught:
        interchange.read(tmp_path / "given.npy")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("ids", "kind", "path", "found"),
    [
        (np.arange(4), MismatchError, "ids.npy", 4),
        (np.arange(3.0), InvalidInputError, "ids.npy", "float64 of shape (3,)"),
        (np.zeros((3, 1), int), InvalidInputError, "ids.npy", "int64 of shape (3, 1)"),
        (np.array([1, 2, 1]), InvalidInputError, "given.npy", None),
        (np.array([1, -2, 1]), InvalidInputError, "given.npy", None),
        (np.array([1, 2**63, 3], np.uint64), InvalidInputError, "given.npy", None),
    ],
)
def test_save_with_invalid_ids_writes_no_database(ids, kind, path, found, tmp_path):
    np.save(tmp_path / "given.npy", np.zeros((3, 2), np.uint8))
    np.save(tmp_path / "ids.npy", ids)
    with raises(kind, path=tmp_path / path, found=found):
        interchange.read(tmp_path / "given.npy", ids=tmp_path / "ids.npy").save(tmp_path / "codes.bin")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["given.npy", "ids.npy"]


def test_read_raw_needs_bits_that_fit(tmp_path):
    path = tmp_path / "given.raw"
    path.write_bytes(bytes(range(1, 8)))
    with pytest.raises(ValueError, match=r"^bits"):
        interchange.read(path)
    with raises(CorruptFileError, path=path, found=7):
        interchange.read(path, bits=20)
    with raises(InvalidInputError, path=path, problem="from item 0: codes"):
        interchange.read(path, bits=1).items()
    with pytest.raises(ValueError, match=r"^bits"):
        interchange.read(path, bits=0)


def test_read_raw_of_a_database_raises(tmp_path):
    with ih.Database.create(tmp_path / "codes.bin", 8):
        pass
    with raises(InvalidInputError, path=tmp_path / "codes.bin", expected="raw codes"):
        interchange.read(tmp_path / "codes.bin", bits=8)


def test_read_npy_that_shrinks_raises(tmp_path):
    np.save(tmp_path / "given.npy", np.zeros((300, 2), np.uint8))
    batches = iter(interchange.read(tmp_path / "given.npy"))
    assert len(next(batches).codes) == 100
    with (tmp_path / "given.npy").open("r+b") as file:
        file.truncate(400)
    with raises(CorruptFileError, path=tmp_path / "given.npy"):
        next(batches)


def test_read_with_wrong_format_or_ids_raises(tmp_path):
    with pytest.raises(ValueError, match=r"^format"):
        interchange.read(tmp_path / "codes.dat")
    with pytest.raises(ValueError, match=r"^format.*hdf5"):
        interchange.read(tmp_path / "codes.npy", format="hdf5")
    with pytest.raises(FileNotFoundError):
        interchange.read(tmp_path / "codes.npy")
    (tmp_path / "folder.npy").mkdir()
    with raises(InvalidInputError, path=tmp_path / "folder.npy"):
        interchange.read(tmp_path / "folder.npy")
    (tmp_path / "codes.faiss").write_text("no index")
    with pytest.raises(ValueError, match=r"^ids"):
        interchange.read(tmp_path / "codes.faiss", ids="ids.npy")


def test_export_keeps_its_input_and_existing_files(tmp_path: Path):
    path = tmp_path / "codes.bin"
    with ih.Database.create(path, 8) as db:
        db.add(np.array([[5]], np.uint8))
    before = path.read_bytes()
    np.save(tmp_path / "old.npy", np.arange(3))
    with ih.Database.open(path) as db:
        for replace, kind in ((False, AlreadyExistsError), (True, IdcwhError)):
            with raises(kind, path=path):
                interchange.export(db, path, replace=replace)
            with raises(kind, path=path):
                interchange.export(db, tmp_path / "new.npy", ids=path, replace=replace)
        with raises(AlreadyExistsError, path=tmp_path / "old.npy"):
            interchange.export(db, tmp_path / "old.npy")
        with raises(AlreadyExistsError, path=tmp_path / "old.npy"):
            interchange.export(db, tmp_path / "new.npy", ids=tmp_path / "old.npy")
        with pytest.raises(ValueError, match=r"^ids"):
            interchange.export(db, tmp_path / "new.npy", ids=tmp_path / "new.npy")
        with pytest.raises(ValueError, match=r"^ids"):
            interchange.export(db, tmp_path / "new.faiss", ids=tmp_path / "new.npy")
        assert np.load(tmp_path / "old.npy").tolist() == [0, 1, 2]
        interchange.export(db, tmp_path / "old.npy", replace=True)
    assert np.load(tmp_path / "old.npy").tolist() == [[5]]
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["codes.bin", "old.npy"]


def test_export_that_fails_leaves_no_file(tmp_path):
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
    # SQL's bit_count(a # b) counts the characters that differ.
    differ = [[sum(a != b for a, b in zip(x, y, strict=True)) for y in texts] for x in texts[:3]]
    np.testing.assert_array_equal(differ, code_maker.distances(codes[:3], codes))
    back = interchange.from_bit_strings(expected, bits)
    assert back.dtype == np.uint8
    np.testing.assert_array_equal(back, codes)
    assert interchange.from_bit_strings([], bits).shape == (0, codes.shape[1])


@pytest.mark.parametrize("text", ["", "010", "01010", "01 1", "0121", "01٠1"])
def test_from_bit_strings_of_other_text_raises(text):
    with pytest.raises(ValueError, match=r"^text 1"):
        interchange.from_bit_strings(["0101", text], 4)
