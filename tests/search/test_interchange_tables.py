"""Parquet and Arrow files: pyarrow reads ours, we read those of pyarrow and other programs."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search import interchange
from idcwh_search.errors import CorruptFileError, IdcwhError, InvalidInputError, MismatchError
from idcwh_search.interchange import source
from support.errors import raises

pa = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")
parquet = pytest.importorskip("pyarrow.parquet")

SUFFIXES = [".parquet", ".arrow", ".feather"]
MODEL = {"model": {"sha256": "ab", "path": "modèle.onnx"}, "images": {}}


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(source, "BATCH", 100)


def load(path: Path) -> pa.Table:
    """Reads a table by pyarrow alone."""
    if path.suffix == ".parquet":
        return parquet.read_table(path)
    with pa.ipc.open_file(str(path)) as file:
        return file.read_all()


def write(table: pa.Table, path: Path) -> Path:
    """Writes a table by pyarrow alone."""
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
    else:
        feather.write_feather(table, str(path), compression="uncompressed")
    return path


def columns(n: int) -> dict[str, list]:
    ids = (np.random.default_rng(5).permutation(10 * n)[:n] + 2**40).tolist()
    keys = [None if i % 7 == 3 else f"ü/{i}\n.png" for i in range(n)]
    return {"ids": ids, "keys": keys, "labels": [("cat", "dog|cow", None, "")[i % 4] for i in range(n)]}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_export_table_keeps_checksums(suffix, rng, code_maker, tmp_path):
    sums = [(5, 2**64 - 1), (0, 0), (2**40, 1)] * 80
    path, flat = tmp_path / f"codes{suffix}", tmp_path / "codes.faiss"
    with ih.Database.create(tmp_path / "codes.bin", 24) as db:
        db.add(code_maker.random(rng, 240, 24), checksums=sums)
        assert interchange.export(db, path) == []
        assert interchange.export(db, flat) == ["checksums"]
    assert load(path)["checksum"].to_pylist() == [struct.pack("<QQ", *pair) for pair in sums]
    read = interchange.read(path)
    assert read.items().checksums.tolist() == [list(pair) for pair in sums]
    read.save(tmp_path / "again.bin")
    with ih.Database.open(tmp_path / "again.bin") as db:
        assert db.checksums().tolist() == [list(pair) for pair in sums]

    foreign = pa.table({"code": [b"ab", b"cd"], "checksum": ["Monday", None]})
    assert interchange.read(write(foreign, path)).items().checksums is None
    changed = foreign.replace_schema_metadata({"idcwh": json.dumps({"bits": 16, "model": {}})})
    with raises(InvalidInputError, path=path, found="string with 1 nulls", problem="'checksum'"):
        interchange.read(write(changed, path)).items()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_export_table_keeps_mtime_signatures(suffix, rng, code_maker, tmp_path):
    signatures = [0, 7, 2**32 - 1] * 80
    path, flat = tmp_path / f"codes{suffix}", tmp_path / "codes.faiss"
    with ih.Database.create(tmp_path / "codes.bin", 24) as db:
        db.add(code_maker.random(rng, 240, 24), mtime_signatures=signatures)
        assert interchange.export(db, path) == []
        assert interchange.export(db, flat) == ["mtime signatures"]
    written = load(path)["mtime_signature"]
    assert str(written.type) == "uint32" and written.to_pylist() == signatures
    read = interchange.read(path)
    assert read.items().mtime_signatures.tolist() == signatures
    read.save(tmp_path / "again.bin")
    with ih.Database.open(tmp_path / "again.bin") as db:
        assert db.mtime_signatures().tolist() == signatures

    # Other programs may use this column name. A changed column of ours is an error that names the file.
    foreign = pa.table({"code": [b"ab", b"cd"], "mtime_signature": ["Monday", None]})
    assert interchange.read(write(foreign, path)).items().mtime_signatures is None
    changed = foreign.replace_schema_metadata({"idcwh": json.dumps({"bits": 16, "model": {}})})
    with raises(InvalidInputError, path=path, problem="'mtime_signature'"):
        interchange.read(write(changed, path)).items()


def test_table_column_stamp_is_read_with_a_warning(tmp_path: Path) -> None:
    """The column's name until 0.1."""
    table = pa.table({"code": pa.array([b"ab", b"cd"], pa.binary(2)), "stamp": pa.array([7, 0], pa.uint32())})
    ours = table.replace_schema_metadata({"idcwh": json.dumps({"bits": 16, "model": {}})})
    with pytest.warns(DeprecationWarning, match="mtime_signature") as caught:
        read = interchange.read(write(ours, tmp_path / "old.parquet"))
    assert [warning.filename for warning in caught] == [__file__]
    items = read.items()
    assert items.mtime_signatures.tolist() == [7, 0]
    with pytest.warns(DeprecationWarning, match="mtime_signatures"):
        assert items.stamps is items.mtime_signatures


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(("n", "bits"), [(0, 20), (1, 64), (250, 20), (250, 77)])
def test_export_table_is_read_by_pyarrow_and_read(suffix, n, bits, rng, code_maker, tmp_path):
    codes, given = code_maker.random(rng, n, bits), columns(n)
    with ih.Database.create(tmp_path / "codes.bin", bits, MODEL) as db:
        db.add(codes, **given)
    path = tmp_path / f"codes{suffix}"
    with ih.Database.open(tmp_path / "codes.bin") as db:
        assert interchange.export(db, path) == []
    table = load(path)
    assert table.schema.names == ["id", "key", "label", "code"]
    assert [str(kind) for kind in table.schema.types] == [
        "int64",
        "string",
        "string",
        f"fixed_size_binary[{codes.shape[1]}]",
    ]
    assert json.loads(table.schema.metadata[b"idcwh"]) == {"bits": bits, "model": MODEL}
    assert table["id"].to_pylist() == given["ids"]
    assert table["key"].to_pylist() == given["keys"]
    assert table["label"].to_pylist() == given["labels"]
    assert table["code"].to_pylist() == [code.tobytes() for code in codes]

    read = interchange.read(path)
    assert (read.bits, read.model) == (bits, MODEL)
    assert read.save(tmp_path / "again.bin") == n
    with ih.Database.open(tmp_path / "again.bin") as db:
        assert (len(db), db.bits, db.manifest) == (n, bits, MODEL)
        np.testing.assert_array_equal(db.codes, codes)
        assert (db.ids.tolist(), db.keys(), db.labels()) == tuple(given.values())
    items = interchange.read(path, bits=bits).items()
    np.testing.assert_array_equal(items.codes, codes)
    if n:
        assert (items.ids.tolist(), items.keys, items.labels) == tuple(given.values())


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_export_table_with_keys_not_utf8_has_binary_keys(suffix, tmp_path):
    keys = [None if i % 2 else f"{i}.png" for i in range(250)]
    keys[248] = b"caf\xe9.png".decode(errors="surrogateescape")
    with ih.Database.create(tmp_path / "codes.bin", 8) as db:
        db.add(np.arange(250, dtype=np.uint8).reshape(-1, 1), keys=keys)
    with ih.Database.open(tmp_path / "codes.bin") as db:
        interchange.export(db, tmp_path / f"codes{suffix}")
    column = load(tmp_path / f"codes{suffix}")["key"]
    assert str(column.type) == "binary"
    assert column.to_pylist()[246:] == [b"246.png", None, b"caf\xe9.png", None]
    assert interchange.read(tmp_path / f"codes{suffix}").items().keys == keys


def code_column(codes: np.ndarray, kind: pa.DataType) -> pa.Array:
    rows = codes.tolist() if pa.types.is_nested(kind) else [row.tobytes() for row in codes]
    return pa.array(rows, kind)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(3),
        pa.binary(),
        pa.large_binary(),
        pa.list_(pa.uint8()),
        pa.large_list(pa.uint8()),
        pa.list_(pa.uint8(), 3),
        pa.list_(pa.int64()),
    ],
    ids=str,
)
def test_read_table_of_other_programs_has_their_items(suffix, kind, rng, code_maker, tmp_path):
    codes = code_maker.random(rng, 250, 20)
    more = {"code": code_column(codes, kind), "price": pa.array(np.arange(250.0))}
    path = write(pa.table(more), tmp_path / f"codes{suffix}")
    items = interchange.read(path, bits=20).items()
    np.testing.assert_array_equal(items.codes, codes)
    assert items[1:] == (None, None, None, None)
    more |= {
        "label": pa.array(np.arange(250) % 3),
        "key": pa.array(["a", "b"] * 125).dictionary_encode(),
        "id": pa.array(np.arange(250)[::-1], pa.uint16()),
    }
    read = interchange.read(write(pa.table(more), path))
    assert read.bits == 24 and read.save(tmp_path / "codes.bin") == 250
    with ih.Database.open(tmp_path / "codes.bin") as db:
        np.testing.assert_array_equal(db.codes, codes)
        assert db.ids.tolist() == list(range(249, -1, -1))
        assert db.keys()[:3] == ["a", "b", "a"]
        assert db.labels()[:4] == ["0", "1", "2", "0"]


def test_read_arrow_stream_in_a_file(tmp_path):
    table = pa.table({"code": pa.array([b"ab", b"cd"])})
    with pa.OSFile(str(tmp_path / "codes.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    assert interchange.read(tmp_path / "codes.arrow").items().codes.tobytes() == b"abcd"


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("table", "found"),
    [
        ({"codes": [b"ab"]}, "codes"),
        ({"code": [b"ab", b"abc"]}, "a code of 3 bytes"),
        ({"code": [[1, 2], [1]]}, "a code of 1 bytes"),
        ({"code": [b"ab", None]}, "rows without a value"),
        ({"code": [None, b"ab"]}, None),
        ({"code": [[1, 2], [1, None]]}, "bytes without a value"),
        ({"code": [[1, 2], [1, 256]]}, None),
        # the name of the type depends on the version
        ({"code": pa.array([[1.5, 2.5]], pa.large_list(pa.float64()))}, ...),
        ({"code": [7, 8]}, "int64"),
        ({"code": ["ab"]}, "string"),
        ({"code": [b""]}, "codes of 0 bytes"),
        ({"code": pa.array([], pa.binary())}, None),
        ({"code": [b"ab"], "id": [None]}, "null with 1 nulls"),
        ({"code": [b"ab", b"cd"], "id": [1, None]}, "int64 with 1 nulls"),
        ({"code": [b"ab"], "id": [1.0]}, "double with 0 nulls"),
        ({"code": [b"ab"], "id": [-1]}, None),
        ({"code": [b"ab", b"cd"], "id": [4, 4]}, None),
        ({"code": [b"ab"], "id": pa.array([2**63], pa.uint64())}, None),
        ({"code": [b"ab"], "label": [["cat"]]}, None),
    ],
)
def test_read_table_without_codes_raises(suffix, table, found, tmp_path):
    path = write(pa.table(table), tmp_path / f"given{suffix}")
    with raises(IdcwhError, path=path, found=found) as caught:
        interchange.read(path).save(tmp_path / "codes.bin")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "codes.bin").exists()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_read_table_with_other_bits_raises(suffix, rng, code_maker, tmp_path):
    codes = code_maker.random(rng, 5, 20)
    plain = write(pa.table({"code": code_column(codes, pa.binary(3))}), tmp_path / f"plain{suffix}")
    with raises(MismatchError, path=plain, found="17 to 24", expected=16):
        interchange.read(plain, bits=16)
    with raises(InvalidInputError, path=plain, problem="from item 0: codes"):
        interchange.read(plain, bits=17).items()
    loose = write(pa.table({"code": code_column(codes, pa.binary())}), tmp_path / f"loose{suffix}")
    with raises(InvalidInputError, path=loose, found="a code of 3 bytes", expected="codes of 2 bytes"):
        interchange.read(loose, bits=16).items()
    for about, kind, result in [
        ('{"bits": 20, "model": {}}', MismatchError, 20),
        ('{"bits": 30, "model": {}}', MismatchError, 30),
        ('{"bits": "20", "model": {}}', CorruptFileError, None),
        ('{"bits": 20}', CorruptFileError, None),
        ('{"bits": 20, "model": []}', CorruptFileError, None),
        ("[]", CorruptFileError, None),
        ("{", CorruptFileError, None),
        (b"\xff", CorruptFileError, None),
    ]:
        table = pa.table({"code": code_column(codes, pa.binary(3))}).replace_schema_metadata({"idcwh": about})
        path = write(table, tmp_path / f"with_metadata{suffix}")
        with raises(kind, path=path, found=result):
            interchange.read(path, bits=24)


def test_read_table_of_width_0_raises(tmp_path):
    path = write(pa.table({"code": pa.array([b""], pa.binary(0))}), tmp_path / "codes.arrow")
    with raises(InvalidInputError, path=path, found="codes of 0 bytes"):
        interchange.read(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_read_table_of_unpacked_bits_needs_bits(suffix, rng, tmp_path):
    bits = rng.integers(0, 2, (70, 24)).tolist()
    path = write(pa.table({"code": pa.array(bits, pa.list_(pa.int64()))}), tmp_path / f"bits{suffix}")
    with raises(InvalidInputError, path=path, expected="packed codes") as caught:
        interchange.read(path)
    assert "--bits 192" in caught.value.hint
    assert interchange.read(path, bits=192).items().codes.tolist() == bits


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_read_table_with_two_columns_of_a_name_raises(suffix, tmp_path):
    given = pa.table([pa.array([b"a"]), pa.array([1]), pa.array([2])], names=["code", "id", "id"])
    if suffix == ".arrow":
        with pa.OSFile(str(tmp_path / "codes.arrow"), "wb") as file, pa.ipc.new_file(file, given.schema) as writer:
            writer.write_table(given)
    else:
        parquet.write_table(given, tmp_path / "codes.parquet")
    with raises(InvalidInputError, path=tmp_path / f"codes{suffix}", found="code, id, id", problem="repeated"):
        interchange.read(tmp_path / f"codes{suffix}").items()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_read_table_cut_off_raises(suffix, rng, code_maker, tmp_path):
    table = pa.table({"code": code_column(code_maker.random(rng, 50, 64), pa.binary(8))})
    whole = write(table, tmp_path / f"whole{suffix}").read_bytes()
    broken = tmp_path / f"broken{suffix}"
    for content in [b"", b"a text, as there are many", *(whole[:length] for length in range(1, len(whole), 37))]:
        broken.write_bytes(content)
        with raises(CorruptFileError, path=broken) as caught:
            interchange.read(broken).items()
        assert "\n" not in str(caught.value)


def test_read_arrow_with_a_flipped_byte_raises_or_differs(rng, code_maker, tmp_path):
    """No flipped byte of an Arrow file leads beyond its buffers or to another error, offsets and metadata included."""
    codes = code_maker.random(rng, 6, 16)
    table = pa.table({"code": code_column(codes, pa.binary()), "key": ["a", "bc", None] * 2, "id": range(6)})
    whole = write(table, tmp_path / "whole.arrow").read_bytes()
    refused = 0
    for at in range(len(whole)):
        (tmp_path / "broken.arrow").write_bytes(whole[:at] + bytes([whole[at] ^ 0x95]) + whole[at + 1 :])
        try:
            assert interchange.read(tmp_path / "broken.arrow").items().codes.dtype == np.uint8
        except IdcwhError:
            refused += 1
    assert refused > len(whole) // 10


def test_import_without_pyarrow_names_the_extra(tmp_path):
    (tmp_path / "codes.parquet").write_bytes(b"PAR1")
    code = (
        "import sys; sys.modules['pyarrow'] = None; from idcwh_search.cli.index import main; "
        f"sys.exit(main(['import', {str(tmp_path / 'codes.parquet')!r}, '--db', {str(tmp_path / 'codes.bin')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("error: pyarrow: ") and "idcwh[arrow]" in done.stderr


@pytest.mark.skipif(not hasattr(pa, "string_view"), reason="this pyarrow has no views")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("codes", ["binary_view", "dictionary", "list_view"])
def test_read_arrow_views_and_dictionaries_of_polars(codes, stream, tmp_path):
    rows = [bytes([i, 255 - i]) for i in range(250)]
    code = {
        "binary_view": lambda: pa.array(rows, pa.binary_view()),
        "dictionary": lambda: pa.array(rows).dictionary_encode(),
        "list_view": lambda: pa.array([list(row) for row in rows], pa.list_view(pa.uint8())),
    }[codes]()
    keys = [None if i % 7 == 3 else f"\u00fc/{i}.png" for i in range(250)]
    names = pa.array(["cat", "dog", "a name that is longer than the twelve bytes of a view"], pa.string_view())
    numbers = [None if i % 5 == 2 else i % 3 for i in range(250)]
    label = pa.DictionaryArray.from_arrays(pa.array(numbers, pa.uint32()), names)  # a Categorical
    table = pa.table({"code": code, "key": pa.array(keys, pa.string_view()), "label": label})
    path = tmp_path / "polars.arrow"
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(str(path), table.schema) as file:
        file.write_table(table, max_chunksize=90)
    result = interchange.read(path)
    assert result.bits == 16
    items = result.items()
    assert [bytes(row) for row in items.codes] == rows
    assert items.keys == keys
    assert items.labels == [None if i is None else names[i].as_py() for i in numbers]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_export_table_keeps_labels_not_utf8(suffix, tmp_path):
    keys, labels = ["a", None, "c"], ["caf\udce9", None, "d\u00e9j\u00e0"]
    with ih.Database.create(tmp_path / "codes.bin", 16) as db:
        db.add(np.arange(6, dtype=np.uint8).reshape(3, 2), keys=keys, labels=labels)
        interchange.export(db, tmp_path / f"codes{suffix}")
    table = load(tmp_path / f"codes{suffix}")
    assert (
        table["label"].to_pylist() == [b"caf\xe9", None, "d\u00e9j\u00e0".encode()] and table["key"].to_pylist() == keys
    )
    interchange.read(tmp_path / f"codes{suffix}").save(tmp_path / "back.bin")
    with ih.Database.open(tmp_path / "back.bin") as db:
        assert (db.keys(), db.labels()) == (keys, labels)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("depth", [3_000, 100_000])
def test_read_table_with_deeply_nested_metadata_raises(depth, suffix, tmp_path):
    deep = '{"bits": 16, "model": {"a": ' + "[" * depth + "]" * depth + "}}"
    table = pa.table({"code": pa.array([b"ab"])}).replace_schema_metadata({b"idcwh": deep.encode()})
    path = write(table, tmp_path / f"deep{suffix}")
    with raises(CorruptFileError, path=path, problem="metadata"):
        interchange.read(path)
