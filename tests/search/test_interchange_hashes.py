"""Hashes of other programs in text, CSV, Parquet and Arrow files. The hashers computed the hashes and distances."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search import interchange
from idcwh_search.errors import AlreadyExistsError, InvalidInputError, ModelMismatchError
from idcwh_search.interchange import source
from support.errors import raises

VECTORS = json.loads((Path(__file__).parent / "data" / "hashes.json").read_text("utf-8"))["vectors"]
PDQ = next(vector["hex"] for vector in VECTORS if vector["order"] == "pdq")
PHASH = next(vector for vector in VECTORS if vector["hasher"].startswith("imagehash.phash"))
TABLES = [".parquet", ".arrow"]
KEYS = [f"ü/{i}, {i}.jpg" for i in range(6)]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(source, "BATCH", 4)


@pytest.fixture(params=VECTORS, ids=lambda vector: vector["hasher"].split("(image")[0])
def vector(request):
    return request.param


def write(path: Path, columns: dict[str, list]) -> Path:
    """Writes columns by the csv module or by pyarrow."""
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])
        return path
    pa = pytest.importorskip("pyarrow")
    table = pa.table(columns)
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow.parquet").write_table(table, path)
    else:
        pytest.importorskip("pyarrow.feather").write_feather(table, str(path))
    return path


def read_distances(path: Path, vector, **options) -> None:
    """Imports a file with the hashes of a vector, and checks code length, order and distances."""
    database = path.with_suffix(".bin")
    found = interchange.read(path, hash_order=vector["order"], **options)
    assert found.save(database, replace=True) == 6
    with ih.Database.open(database) as db:
        assert db.hash_order == db.snapshot().hash_order == vector["order"]
        codes, bits = db.codes, db.bits
        distances, ids = db.search(codes, 6)
    assert bits == options.get("bits", bits)
    np.testing.assert_array_equal(distances, np.take_along_axis(np.array(vector["distances"]), ids, axis=1))


@pytest.mark.parametrize("suffix", [".csv", *TABLES])
def test_import_has_the_distances_of_the_hasher(suffix, vector, tmp_path):
    path = write(tmp_path / f"h{suffix}", {"path": KEYS, "h": vector["hex"], "other": ["x"] * 6})
    read_distances(path, vector, bits=vector["bits"], column="h", key_column="path")
    with ih.Database.open(tmp_path / "h.bin") as db:
        assert db.keys() == KEYS and db.labels() == [None] * 6 and db.ids.tolist() == list(range(6))


def test_import_text_has_the_distances_of_the_hasher(vector, tmp_path):
    path = tmp_path / "h.txt"
    for lines in (vector["hex"], [text.upper() for text in vector["hex"]], ["", *("0x" + x for x in vector["hex"])]):
        path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(f" {line}" for line in [*lines, "", ""]).encode())
        read_distances(path, vector, bits=vector["bits"])


@pytest.mark.parametrize("dtype", ["uint64", "int64"])
@pytest.mark.parametrize("suffix", [".csv", *TABLES])
def test_import_integers_has_the_distances_of_the_hasher(suffix, dtype, tmp_path):
    numbers = np.array(PHASH["integers"], np.uint64).astype(dtype)
    values = numbers.tolist() if suffix == ".csv" else numbers
    path = write(tmp_path / f"h{suffix}", {"id": range(5, 11), "hash": values})
    found = interchange.read(path, hash_order="imagehash", integers=suffix == ".csv").items()
    assert found.ids.tolist() == list(range(5, 11))
    np.testing.assert_array_equal(found.codes, ih.from_hex(PHASH["hex"], order="imagehash"))


def test_import_integers_as_strings_of_a_table(tmp_path):
    path = write(tmp_path / "h.parquet", {"hash": [str(number) for number in PHASH["integers"]]})
    found = interchange.read(path, hash_order="imagehash", integers=True)
    np.testing.assert_array_equal(found.items().codes, ih.from_hex(PHASH["hex"], order="imagehash"))


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("hash,key,label\n{0},a.jpg,cat\n{1},b.jpg,\n", {}),
        ('"key";"label";"hash"\r\n\r\na.jpg;cat;{0}\r\nb.jpg;;{1}', {}),
        ("\ufeffkey\tlabel\thash\na.jpg\tcat\t {0} \nb.jpg\t\t{1}\n\n", {}),
        ("{0},88,a.jpg,cat\n{1},88,b.jpg,\n", {"column": 1, "key_column": 3, "label_column": 4}),
        ("key,a,b\ncat,a.jpg,{0}\n,b.jpg,{1}\n", {"column": "b", "key_column": "a", "label_column": "key"}),
    ],
)
def test_import_csv_variants_give_the_same_items(text, options, tmp_path):
    path = tmp_path / "h.csv"
    path.write_text(text.format(*PDQ), "utf-8", newline="")
    items = interchange.read(path, hash_order="pdq", **options).items()
    np.testing.assert_array_equal(items.codes, ih.from_hex(PDQ[:2], order="pdq"))
    assert (items.keys, items.labels) == (["a.jpg", "b.jpg"], ["cat", None])


def test_import_csv_with_ids_as_keys(tmp_path):
    path = write(tmp_path / "h.csv", {"id": ["c0ffee", "7"], "hash": ["ab", "cd"]})
    items = interchange.read(path, hash_order="imagehash", key_column="id").items()
    assert items.ids is None and items.keys == ["c0ffee", "7"]


def test_import_csv_keeps_keys_that_are_not_utf8(tmp_path):
    (tmp_path / "h.csv").write_bytes(b"key,hash\n\xe9.jpg,ab\n")
    interchange.read(tmp_path / "h.csv", hash_order="imagehash").save(tmp_path / "h.bin")
    with ih.Database.open(tmp_path / "h.bin") as db:
        assert db.keys() == [b"\xe9.jpg".decode(errors="surrogateescape")]
        interchange.export(db, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == b"id,key,label,hash\n0,\xe9.jpg,,ab\n"


@pytest.mark.parametrize(
    ("text", "line", "found", "problem"),
    [
        ("hash\nab\nab\n\nab\nab\nabc\n", 7, "3 digits", "'abc'"),  # in the second batch
        ("hash\nab\n\nag\n", 4, "'g'", "'ag'"),
        ("hash\nab\n\xff\n", 3, "1 digit", "udcff"),
        ("hash\n\nabcdefg\n", 3, "'g'", "'abcdefg'"),
        ('hash,key\n"ab","a\nb"\n,c\n', 4, "0 digits", "''"),
        ("hash,key\nab,a,b\n", 2, 3, "number of fields"),
        ("hash,key\nab\n", 2, 1, "number of fields"),
        ('hash,key\nab,"a\nab,b\n', 2, None, "unexpected end"),
        ("other,key\nab,a\n", 1, "other, key", "'hash'"),
        ("hash,key,hash\nab,a,ab\n", 1, "hash, key, hash", "repeated"),
        ("", 1, "no columns", "'hash'"),
        ("id,hash\n-1,ab\n", 2, None, "id '-1'"),
        ("id,hash\n7,ab\n1.5,ab\n", 3, None, "id '1.5'"),
        (f"id,hash\n{2**63},ab\n", 2, None, "id '9223372036854775808'"),
    ],
)
def test_import_csv_errors_name_the_line(text, line, found, problem, tmp_path):
    path = tmp_path / "h.csv"
    path.write_bytes(text.encode("latin-1"))
    with raises(InvalidInputError, path=f"{path}:{line}", found=found, problem=problem):
        interchange.read(path, hash_order="imagehash").items()


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("7\n1.5e19\n", 2, "another text"),
        (f"7\n\n{2**64}\n", 3, "more than 64 bits"),
        ("-5\n0xff\n", 2, "another text"),
        ("+5\n1_000\n", 2, "another text"),
    ],
)
def test_import_integers_errors_name_the_line(text, line, found, tmp_path):
    path = tmp_path / "h.txt"
    path.write_text(text)
    with raises(InvalidInputError, path=f"{path}:{line}", found=found):
        interchange.read(path, hash_order="imagehash", integers=True).items()


@pytest.mark.parametrize(
    ("text", "problem"),
    [(b"", "code length is missing"), ("ab".encode("utf-16"), "is invalid"), (b"a\0b", "is invalid")],
)
def test_import_text_without_hashes_fails(text, problem, tmp_path):
    path = tmp_path / "h.txt"
    path.write_bytes(text)
    with raises(InvalidInputError, path=path, problem=problem):
        interchange.read(path, hash_order="imagehash")


def test_import_empty_text_with_a_code_length(tmp_path):
    (tmp_path / "h.txt").touch()
    for order, bits in (("pdq", None), ("imagehash", 64)):
        found = interchange.read(tmp_path / "h.txt", hash_order=order, bits=bits)
        assert (found.bits, len(found.items().codes)) == (bits or 256, 0)


@pytest.mark.parametrize("suffix", TABLES)
@pytest.mark.parametrize(
    ("values", "problem", "found"),
    [
        (["ab", "cd", "ab", "cd", "ab", "abc"], "row 5: hash 'abc'", "3 digits"),  # in the second batch
        (["ab", "ag"], "row 1: hash 'ag'", "'g'"),
        (["x"], "row 0: hash 'x'", "'x'"),
        (["ab", "cd", "ab", "cd", "ab", None], "row 5: column 'hash' is null", None),
        ([None, "ab"], "row 0: column 'hash' is null", None),
        ([1.5], "column 'hash' is invalid", "double"),
        ([b"ab"], "column 'hash' is invalid", "binary"),
    ],
)
def test_import_table_of_hashes_errors_name_the_row(suffix, values, problem, found, tmp_path):
    path = write(tmp_path / f"h{suffix}", {"hash": values})
    with raises(InvalidInputError, path=path, problem=problem, found=found):
        interchange.read(path, hash_order="imagehash").items()


@pytest.mark.parametrize("suffix", [".csv", *TABLES])
def test_import_with_a_missing_column_fails(suffix, tmp_path):
    path = write(tmp_path / f"h{suffix}", {"pdq": PDQ})
    for options in ({}, {"column": "pdq", "key_column": "path"}, {"column": "pdq", "label_column": "class"}):
        with raises(InvalidInputError, found="pdq", problem="is missing"):
            interchange.read(path, hash_order="pdq", **options)


@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        ("h.csv", {}, "hash_order"),
        ("h.txt", {}, "hash_order"),
        ("h.txt", {"hash_order": "phash"}, "imagehash, pdq"),
        ("h.txt", {"hash_order": "pdq", "bits": 64}, "expected 256"),
        ("h.txt", {"hash_order": "pdq", "integers": True}, "PDQ has 256 bits"),
        ("h.txt", {"hash_order": "pdq", "column": "a"}, "no columns"),
        ("h.csv", {"hash_order": "pdq", "column": 1, "key_column": "a"}, "numbers from 1"),
        ("h.csv", {"hash_order": "pdq", "column": 0}, "numbers from 1"),
        ("h.csv", {"hash_order": "pdq", "key_column": 1}, "numbers from 1"),
        ("h.parquet", {"hash_order": "pdq", "column": 1}, "names of columns"),
        ("h.parquet", {"integers": True}, "hash order"),
        ("h.npy", {"hash_order": "pdq"}, "expected none for npy"),
        ("h.faiss", {"column": "a"}, "expected none for faiss"),
    ],
)
def test_import_arguments_that_do_not_fit_raise(name, options, match, tmp_path):
    (tmp_path / name).write_text("ab\n")
    with pytest.raises(ValueError, match=match):
        interchange.read(tmp_path / name, **options)


@pytest.mark.parametrize("suffix", TABLES)
def test_import_table_of_codes_from_named_columns(suffix, tmp_path):
    path = write(tmp_path / f"c{suffix}", {"c": [b"ab", b"cd"], "file": ["x", "y"], "key": ["p", "q"]})
    items = interchange.read(path, column="c", key_column="file", label_column="key").items()
    assert (items.codes.tobytes(), items.keys, items.labels) == (b"abcd", ["x", "y"], ["p", "q"])


@pytest.mark.parametrize("name", ["h.csv", "h.txt", "h.parquet", "h.arrow"])
def test_export_of_hashes_has_the_texts_of_the_hasher(name, vector, tmp_path):
    path, keys, labels = tmp_path / name, ["a,b", 'q"', "\n", None, "ü", "é"], ["cat", None, "a|b", "x", "y", "z"]
    codes = ih.from_hex(vector["hex"], vector["bits"], order=vector["order"])
    with ih.Database.create(tmp_path / "h.bin", vector["bits"], {"hashes": {"order": vector["order"]}}) as db:
        db.add(codes, ids=range(7, 13), keys=keys, labels=labels)
        left_out = interchange.export(db, path)
    texts, ids = vector["hex"], list(range(7, 13))
    if name == "h.txt":
        assert path.read_text() == "".join(f"{text}\n" for text in texts)
        assert {"ids", "keys", "labels", "the manifest"} <= set(left_out)
    elif name == "h.csv":
        with path.open(newline="", encoding="utf-8") as file:
            rows = [["id", "key", "label", "hash"], *map(list, zip(map(str, ids), keys, labels, texts, strict=True))]
            assert list(csv.reader(file)) == [[text or "" for text in row] for row in rows]
    else:
        assert left_out == []
        table = pytest.importorskip("pyarrow.dataset").dataset(path, format=name[2:]).to_table()
        assert table["hash"].to_pylist() == texts
        assert interchange.read(path).model == {"hashes": {"order": vector["order"]}}
    found = interchange.read(path, hash_order=vector["order"], bits=vector["bits"]).items()
    np.testing.assert_array_equal(found.codes, codes)
    if name != "h.txt":
        assert (found.ids.tolist(), found.keys, found.labels) == (ids, keys, labels)


def test_export_csv_of_a_model_has_the_bytes(rng, code_maker, tmp_path):
    codes = code_maker.random(rng, 9, 20)
    with ih.Database.create(tmp_path / "c.bin", 20, {"model": {"sha256": "ab"}}) as db:
        db.add(codes)
        assert interchange.export(db, tmp_path / "c.csv") == ["the code length", "the manifest"]
    lines = (tmp_path / "c.csv").read_text().splitlines()[1:]
    assert lines == [f"{i},,,{code.tobytes().hex()}" for i, code in enumerate(codes)]


def test_export_replaces_only_its_own_csv_files(tmp_path):
    path = write(tmp_path / "h.csv", {"hash": PDQ})
    interchange.read(path, hash_order="pdq").save(tmp_path / "h.bin")
    with ih.Database.open(tmp_path / "h.bin") as db:
        interchange.export(db, tmp_path / "again.csv")
        interchange.export(db, tmp_path / "again.csv", replace=True)
        for kept in (path, write(tmp_path / "other.csv", {"id": [1]})):
            with raises(AlreadyExistsError, path=kept):
                interchange.export(db, kept, replace=True)


def test_hashers_that_columns_name_do_not_meet(tmp_path):
    names = ("phash", "dhash", "other", "AHash", "average_hash")
    table = write(tmp_path / "h.csv", {name: PHASH["hex"] for name in names})
    databases = {}
    for name in names:
        path = tmp_path / f"{name}.bin"
        interchange.read(table, hash_order="imagehash", column=name).save(path)
        databases[name] = ih.Database.open(path)
    assert databases["phash"].manifest == {"hashes": {"order": "imagehash", "hasher": "phash"}}
    with raises(ModelMismatchError, path=databases["dhash"].path, found="dhash", expected="phash", problem="hasher"):
        databases["phash"].join(databases["dhash"], 3)
    databases["phash"].join(databases["other"], 3)
    databases["other"].join(databases["dhash"], 3)
    databases["AHash"].join(databases["average_hash"], 3)
    with raises(ModelMismatchError, path=databases["dhash"].path, found="dhash", expected="phash", problem="hasher"):
        ih.merge_databases(tmp_path / "all.bin", [databases[name].path for name in ("other", "phash", "dhash")])


def test_hash_orders_and_models_do_not_meet(tmp_path):
    manifests = {
        "imagehash": {"hashes": {"order": "imagehash"}},
        "img_hash": {"hashes": {"order": "img_hash"}},
        "model": {"model": {"sha256": "ab"}},
        "none": {},
    }
    databases = {}
    for name, manifest in manifests.items():
        databases[name] = ih.Database.create(tmp_path / f"{name}.bin", 64, manifest)
        databases[name].add(ih.from_hex(PHASH["hex"], order="imagehash"))
    for one, a in databases.items():
        for other, b in databases.items():
            if one == other:
                assert sum(len(block[0]) for block in a.join(b.snapshot(), 0)) == 6
                continue
            for right in (b, b.snapshot()):
                with raises(ModelMismatchError):
                    a.join(right, 0)
    with raises(ModelMismatchError, found="imagehash", expected="img_hash", problem="hash order"):
        databases["img_hash"].join(databases["imagehash"], 0)
    with raises(ModelMismatchError, found="no hash order", expected="imagehash", problem="hash order"):
        databases["imagehash"].join(databases["model"], 0)
