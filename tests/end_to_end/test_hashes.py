"""Databases of hashes of other programs in every command: import, search, deduplication, and refusal of models."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search.cli import dedup, index, search
from idcwh_search.serve import parsing
from idcwh_search.serve.problems import Problem
from idcwh_search.serve.store import Contents
from support.commands import Runner

VECTORS = json.loads((Path(__file__).parents[1] / "search" / "data" / "hashes.json").read_text("utf-8"))["vectors"]
PDQ = next(vector for vector in VECTORS if vector["order"] == "pdq")
KEYS = [f"photos/{number}.jpg" for number in range(6)]


@pytest.fixture
def hashes(tmp_path: Path) -> Path:
    """A CSV file with the PDQ hashes of six images."""
    path = tmp_path / "hashes.csv"
    path.write_text("path,pdq\n" + "".join(f"{key},{text}\n" for key, text in zip(KEYS, PDQ["hex"], strict=True)))
    return path


@pytest.fixture
def pdq(hashes: Path, tmp_path: Path, commands: Runner) -> Path:
    """Their database."""
    path = tmp_path / "pdq.bin"
    done = commands(
        index.main, "import", hashes, "--db", path, "--hash-order", "pdq", "--column", "pdq", "--key-column", "path"
    )
    assert done.out == "" and "6 items, 256-bit codes, hash order pdq" in done.err
    return path


def test_info_has_the_hash_order(pdq: Path, commands: Runner) -> None:
    assert "hash order   pdq\n" in commands(index.main, "info", pdq).out
    assert commands.json(index.main, "info", pdq)["manifest"] == {"hashes": {"order": "pdq"}}


def test_search_for_hashes_has_the_distances_of_the_hasher(pdq: Path, commands: Runner) -> None:
    texts = [PDQ["hex"][2], f"0x{PDQ['hex'][4].upper()}"]
    found = commands.json(search.main, "--db", pdq, "--code", *texts)
    assert [query["query"] for query in found["queries"]] == texts
    for query, row in zip(found["queries"], (2, 4), strict=True):
        expected = sorted(zip(PDQ["distances"][row], range(6), KEYS, strict=True))
        assert [(hit["distance"], hit["id"], hit["key"]) for hit in query["hits"]] == expected


def test_search_for_a_code_of_a_model_is_byte_by_byte(database: Path, commands: Runner) -> None:
    with ih.Database.open(database) as db:
        code, key = db.codes[3], db.keys()[3]
    np.save(database.with_suffix(".npy"), code[None])
    coded = commands.json(search.main, "--db", database, "--query-codes", database.with_suffix(".npy"))
    found = commands.json(search.main, "--db", database, "--code", code.tobytes().hex())
    assert found["queries"][0]["hits"] == coded["queries"][0]["hits"] != []
    assert key in [hit["key"] for hit in found["queries"][0]["hits"] if hit["distance"] == 0]


def test_search_for_an_invalid_code_is_wrong_usage(pdq: Path, database: Path, commands: Runner) -> None:
    for path, text, found in ((pdq, "abc", "3 digits"), (pdq, "g" * 64, "'g'"), (database, "0000f0", "beyond 20 bits")):
        line = commands.fails(search.main, "--db", path, "--code", text, status=2)
        assert line.startswith(f"error: --code: '{text}' is invalid (found ") and found in line
    for more in (["--combine"], ["--exclude-self"], ["--query", "a.jpg"]):
        commands.fails(search.main, "--db", pdq, "--code", PDQ["hex"][0], *more, status=2)


def test_search_page_for_hashes_is_written(pdq: Path, images: Path, tmp_path: Path, commands: Runner) -> None:
    page = tmp_path / "hits.html"
    commands(search.main, "--db", pdq, "--code", PDQ["hex"][0], "--html", page, "--root", images)
    assert "256-bit pdq codes" in page.read_text("utf-8")


def test_images_and_models_do_not_fit_hashes(pdq: Path, model: Path, images: Path, commands: Runner) -> None:
    before = pdq.read_bytes()
    for main, *arguments in (
        (search.main, "--db", pdq, "--query", images),
        (search.main, "--db", pdq, "--query", images, "--model", model),
        (index.main, "add", pdq, "--images", images),
        (index.main, "add", pdq, "--images", images, "--model", model),
        (index.main, "add", pdq, "--images", images, "--root", images),
    ):
        line = commands.fails(main, *arguments)
        assert line.startswith(f"error: {pdq}: ") and "order pdq" in line and "--code" in line
    assert pdq.read_bytes() == before


def test_service_codes_are_the_texts_of_the_hasher(pdq: Path, database: Path) -> None:
    for path, texts in ((pdq, PDQ["hex"]), (database, None)):
        with ih.Database.open(path) as db:
            contents, codes = Contents(db.snapshot(), 1), [code.tobytes() for code in db.codes]
        texts = texts or [code.hex() for code in codes]
        assert [parsing.code_text(code, contents) for code in codes] == texts
        assert [parsing.code_of(text, contents) for text in texts] == codes
        with pytest.raises(Problem, match="found 3 digits, expected"):
            parsing.code_of("abc", contents)


def test_dedup_of_hashes_has_the_distances_of_the_hasher(pdq: Path, commands: Runner) -> None:
    found = commands.json(dedup.main, "--db", pdq, "--radius", 110)
    near = [(i, j, d) for i, row in enumerate(PDQ["distances"]) for j, d in enumerate(row) if i < j and d <= 110]
    groups = [(g["keep"]["id"], g["duplicates"][0]["id"], g["duplicates"][0]["distance"]) for g in found["groups"]]
    assert groups == near != []


def test_dedup_reference_of_another_order_fails(pdq: Path, hashes: Path, tmp_path: Path, commands: Runner) -> None:
    other = tmp_path / "other.bin"
    options = ["--db", other, "--column", "pdq", "--key-column", "path", "--force"]
    commands(index.main, "import", hashes, *options, "--hash-order", "pdq")
    found = commands.json(dedup.main, "--db", other, "--reference", pdq, "--radius", 0)
    assert found["duplicates"] == 6
    commands(index.main, "import", hashes, *options, "--hash-order", "imagehash")
    line = commands.fails(dedup.main, "--db", other, "--reference", pdq, "--radius", 0)
    assert line.startswith(f"error: {pdq}: hash order does not match (found pdq, expected imagehash)")


def test_import_and_export_as_csv_give_the_same_items(pdq: Path, tmp_path: Path, commands: Runner) -> None:
    for name in ("out.csv", "out.txt"):
        commands(index.main, "export", pdq, tmp_path / name)
        commands(
            index.main, "import", tmp_path / name, "--db", tmp_path / "again.bin", "--hash-order", "pdq", "--force"
        )
        with ih.Database.open(pdq) as before, ih.Database.open(tmp_path / "again.bin") as after:
            np.testing.assert_array_equal(after.codes, before.codes)
            assert after.manifest == before.manifest
            assert after.keys() == (before.keys() if name == "out.csv" else [None] * 6)


@pytest.mark.parametrize(
    ("options", "status", "start"),
    [
        ([], 2, "--hash-order: is missing"),
        (["--hash-order", "pdq"], 1, "{}:1: column 'hash' is missing (found path, pdq)"),
        (["--hash-order", "pdq", "--column", "pdq", "--bits", "64"], 2, "--bits: 64 is invalid"),
        (["--hash-order", "pdq", "--column", "1"], 1, "{}:1: hash 'path' is invalid"),
        (["--hash-order", "pdq", "--column", "1", "--key-column", "path"], 2, "--column: expected numbers"),
        (["--hash-order", "img_hash", "--column", "path"], 1, "{}:2: hash 'photos/0.jpg' is invalid"),
    ],
)
def test_import_of_hashes_with_wrong_options_fails(
    options: list[str], status: int, start: str, hashes: Path, tmp_path: Path, commands: Runner
) -> None:
    line = commands.fails(index.main, "import", hashes, "--db", tmp_path / "x.bin", *options, status=status)
    assert line.startswith(f"error: {start.format(hashes)}")
    assert not (tmp_path / "x.bin").exists()
