"""Arrays in .npy format that are corrupt or foreign: one line from every reader, and nothing is unpickled."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from idcwh_search import datasets, interchange
from idcwh_search._util import hardware, npy, npz
from idcwh_search.cli import index, search
from idcwh_search.database.database import Database
from idcwh_search.errors import CorruptFileError, IdcwhError, InvalidInputError
from idcwh_search.metrics import code_files
from support.errors import raises

CODES = np.arange(12, dtype=np.uint8).reshape(4, 3)


def written(header: str, data: bytes = bytes(12), version: tuple[int, int] = (1, 0)) -> bytes:
    """Returns a .npy file of this header."""
    length = struct.pack("<H" if version == (1, 0) else "<I", len(header))
    return b"\x93NUMPY" + bytes(version) + length + header.encode("latin-1") + data


def header(descr: str = "'|u1'", shape: str = "(4, 3)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"


def of_objects() -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([{}, 1], object), allow_pickle=True)
    return file.getvalue()


CORRUPT = {
    "unclosed": written("{'descr': ("),
    "nested": written("(" * 9000),
    "minus": written("-" * 9000 + "1"),
    "other_language": written("\u00ff\u00fe\u0000"),
    "no_dictionary": written("1\n"),
    "wrong_dtype": written(header("'<x9'")),
    "negative_shape": written(header(shape="(-4, 3)")),
    "huge_shape": written(header(shape="(4000000000000, 3)")),
    "beyond_64_bits": written(header(shape=f"({2**70}, 3)")),
    "cut_header": written(header())[:40],
    "cut_data": written(header(), bytes(11)),
    "longer": written(header(), bytes(13)),
    "version_9": written(header(), version=(9, 0)),
    "objects": of_objects(),
    "fields": written(header("[('a', '|u1')]")),
    "text": b"not an array",
    "empty": b"",
}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with Database.create(tmp_path / "codes.bin", bits=24) as result:
        result.add(CODES)
    return tmp_path / "codes.bin"


@pytest.mark.parametrize("name", CORRUPT)
def test_corrupt_array_is_one_line_from_every_reader(
    name: str, database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, good, archive = tmp_path / "bad.npy", tmp_path / "good.npy", tmp_path / "bad.npz"
    path.write_bytes(CORRUPT[name])
    np.save(good, CODES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with raises(CorruptFileError, path=path, expected="codes, as numpy.save writes them"):
            npy.load(path, "codes")
        with pytest.raises(IdcwhError):
            interchange.read(path)
        with pytest.raises(IdcwhError):
            interchange.read(good, ids=path)
        for member, load in (
            ("query_codes", code_files.load),
            ("x", lambda file: datasets.load(str(file))),
            ("classes", lambda file: datasets.load(str(file))),
        ):
            with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
                target.writestr(f"{member}.npy", CORRUPT[name])
            with raises(IdcwhError, path=archive):
                load(archive)
        assert search.main(["--db", str(database), "--query-codes", str(path)]) == 1
        assert index.main(["import", str(path), "--db", str(tmp_path / "new.bin")]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and all(line.startswith(f"error: {path}: ") for line in lines)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_array_of_every_version_is_read(version: tuple[int, int], order: str, tmp_path: Path) -> None:
    path = tmp_path / "codes.npy"
    with path.open("wb") as file:
        np.lib.format.write_array(file, np.asarray(CODES, order=order), version)  # type: ignore[call-overload]
    np.testing.assert_array_equal(npy.load(path, "codes"), np.load(path))
    if order == "C":
        np.testing.assert_array_equal(interchange.read(path).items().codes, CODES)


@pytest.mark.parametrize(
    "array", [np.array("text"), np.array(["a", "日本"]), np.zeros((0, 3)), np.float32(2.5), CODES[:, ::2]]
)
def test_arrays_of_an_archive_equal_those_of_numpy(array: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    for save in (np.savez, np.savez_compressed):
        save(path, some=array)
        result = npz.read(path, ["some", "other"], "some")[0]
        assert list(result) == ["some"] and result["some"].dtype == np.load(path)["some"].dtype
        np.testing.assert_array_equal(result["some"], np.load(path)["some"])


def test_archive_larger_than_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "bomb.npz", x=np.zeros((100, 64, 64, 3), np.uint8), y=np.zeros(100, np.int64))
    assert (tmp_path / "bomb.npz").stat().st_size < 10_000
    monkeypatch.setattr(hardware, "memory", lambda: 1_000_000)
    with raises(InvalidInputError, path=tmp_path / "bomb.npz", found="1,229,856 bytes"):
        datasets.load(str(tmp_path / "bomb.npz"))


def test_memory_follows_the_limit_of_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hardware.memory() > 1 << 28
    limits = [tmp_path / "memory.max", tmp_path / "memory.limit_in_bytes", tmp_path / "missing"]
    limits[0].write_text("max\n")
    limits[1].write_text("123456789\n")
    monkeypatch.setattr(hardware, "_MEMORY_LIMITS", limits)
    assert hardware.memory() == 123456789
