"""`idcwh-search` with real images and a real model: a query's own file, ties, filters, standard input and combined
queries.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from PIL import Image

import idcwh_search as ih
from idcwh_search.cli import search
from support.commands import IMAGES, Runner, program


@pytest.fixture
def album(tmp_path: Path, model: Path, commands: Runner) -> Path:
    """A database of 12 copies of one photograph and 5 others: c/00.png to c/11.png, holiday/a.png to e.png."""
    folder = tmp_path / "album"
    for name in ("c", "holiday"):
        (folder / name).mkdir(parents=True)
    cat, *others = sorted((IMAGES / "train" / "cat").iterdir())[:6]
    for i in range(12):
        shutil.copy(cat, folder / "c" / f"{i:02}.png")
    for name, other in zip("abcde", others, strict=True):
        shutil.copy(other, folder / "holiday" / f"{name}.png")
    commands.build(model, folder, tmp_path / "a.bin")
    return tmp_path / "a.bin"


def answers(commands: Runner, *arguments: object, status: int = 0) -> list[dict]:
    """Returns the results of each query."""
    return commands.json(search.main, *arguments, status=status)["queries"]


def keys(answer: dict) -> list[str]:
    return [hit["key"] for hit in answer["hits"]]


# own files and ties


def test_search_own_file_is_first_among_ties(album: Path, commands: Runner) -> None:
    own_file = album.parent / "album" / "c" / "11.png"  # its id is the largest of the 12, beyond the first ten
    (answer,) = answers(commands, "--db", album, "--query", own_file)
    assert keys(answer) == ["c/11.png", *(f"c/{i:02}.png" for i in range(9))]
    assert [hit["distance"] for hit in answer["hits"]] == [0] * 10
    assert answer["self_ids"] == [11] and answer["ties"] == {"distance": 0, "items": 12, "shown": 10}

    out, err = commands(search.main, "--db", album, "--query", own_file)
    assert out.splitlines()[1].split() == ["1", "0", "c/11.png", "c"]
    assert "12 items tie at distance 0" in err and "first 9 others" in err


def test_search_ties_without_own_file_are_first_by_id(album: Path, commands: Runner) -> None:
    copy = album.parent / "elsewhere.png"
    shutil.copy(album.parent / "album" / "c" / "00.png", copy)
    common = ("--db", album, "--query", copy)
    err = commands(search.main, *common).err
    assert "12 items tie at distance 0" in err and "first 10 by id" in err
    assert "tie" not in commands(search.main, *common, "--top", "12").err
    assert "2 of 2 queries" in commands(search.main, *common, copy).err


@pytest.mark.parametrize("way", ["relative", "link", "dots"])
def test_search_own_file_by_any_name_is_first(
    way: str, album: Path, commands: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = album.parent / "album"
    monkeypatch.chdir(folder)
    (album.parent / "link").symlink_to(folder)
    name = {"relative": "c/11.png", "link": album.parent / "link/c/11.png", "dots": "holiday/../c/11.png"}[way]
    (answer,) = answers(commands, "--db", album, "--query", name)
    assert answer["self_ids"] == [11] and keys(answer)[0] == "c/11.png"


def test_search_root_of_moved_images_finds_them(album: Path, commands: Runner) -> None:
    moved = album.parent / "moved"
    (album.parent / "album").rename(moved)
    page = album.parent / "page.html"
    common = ["--db", album, "--query", moved / "c" / "11.png"]
    (answer,) = answers(commands, *common)
    assert answer["self_ids"] == []
    (answer,) = answers(commands, *common, "--root", moved, "--html", page)
    assert answer["self_ids"] == [11] and "no image" not in page.read_text()
    missing = album.parent / "none"
    assert commands.fails(search.main, *common, "--root", missing).startswith(f"error: {missing}: ")


def test_exclude_self_leaves_one_item_out(album: Path, commands: Runner) -> None:
    own_file = album.parent / "album" / "c" / "00.png"
    (answer,) = answers(commands, "--db", album, "--query", own_file, "--exclude-self")
    assert keys(answer) == [f"c/{i:02}.png" for i in range(1, 11)]
    assert answer["self_ids"] == [] and answer["ties"] == {"distance": 0, "items": 11, "shown": 10}
    with ih.Database.open(album, "r+") as db:  # the file a second time
        db.add(db.get(db.find(["c/00.png"])), keys=["c/00.png"])
    assert answers(commands, "--db", album, "--query", own_file, "--exclude-self") == [answer]


# filters


def test_search_label_and_key_prefix_equal_where(album: Path, commands: Runner) -> None:
    query = album.parent / "album" / "c" / "00.png"
    with ih.Database.open(album) as db:
        rows = list(zip(db.ids.tolist(), db.keys(), strict=True))
        code = db.codes[:1]
        for arguments, prefixes in (
            (["--label", "holiday"], ["holiday/"]),
            (["--label", "holiday", "c"], [""]),
            (["--key-prefix", "c/0", "holiday/a"], ["c/0", "holiday/a"]),
            (["--label", "c", "--key-prefix", "c/1"], ["c/1"]),
        ):
            (answer,) = answers(commands, "--db", album, "--query", query, "--top", 20, *arguments)
            ids = [i for i, key in rows if key.startswith(tuple(prefixes))]
            distances, result = db.search(code, 20, where=ids)
            assert [hit["id"] for hit in answer["hits"]] == result[0].tolist()
            assert [hit["distance"] for hit in answer["hits"]] == distances[0].tolist()


def test_search_filter_reports_the_items_left(album: Path, commands: Runner) -> None:
    query = album.parent / "album" / "c" / "00.png"
    assert "5 of 17 items" in commands(search.main, "--db", album, "--query", query, "--label", "holiday").err


def test_search_filter_without_items_names_the_values(album: Path, commands: Runner) -> None:
    common = ["--db", album, "--query", album.parent / "album" / "c" / "00.png"]
    line = commands.fails(search.main, *common, "--label", "c", "brd")
    assert "brd" in line and "c, holiday" in line
    line = commands.fails(search.main, *common, "--key-prefix", "x/")
    assert "x/" in line and "c/00.png" in line
    line = commands.fails(search.main, *common, "--label", "c", "--key-prefix", "holiday/")
    assert str(album) in line and "--label" in line and "--key-prefix" in line


def test_search_label_of_multi_label_item_is_each_class(
    images: Path, model: Path, tmp_path: Path, commands: Runner
) -> None:
    names = sorted(str(path.relative_to(tmp_path)) for path in images.rglob("*.png"))
    lines = [f"{name},{labels}" for name, labels in zip(names, ["x", "x,y", "y", "y,z", "z", "x,z"], strict=True)]
    (tmp_path / "several.csv").write_text("\n".join(lines))
    database = tmp_path / "several.bin"
    commands.build(model, tmp_path / "several.csv", database)
    for wanted in ("x", "y", "y|z"):
        (answer,) = answers(commands, "--db", database, "--query", tmp_path / names[0], "--label", wanted)
        labels = {hit["label"] for hit in answer["hits"]}
        assert labels == {"x": {"x", "x|y", "x|z"}, "y": {"x|y", "y", "y|z"}, "y|z": {"y|z"}}[wanted]


# queries that are not files


def piped(content: bytes, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    command = [*program("idcwh-search"), *map(str, arguments)]
    return subprocess.run(command, input=content, capture_output=True, check=False)


@pytest.mark.parametrize("suffix", ["png", "jpg", "ppm"])
def test_search_stdin_image_equals_its_file(suffix: str, album: Path, commands: Runner) -> None:
    query = album.parent / f"query.{suffix}"
    Image.open(album.parent / "album" / "holiday" / "b.png").convert("RGB").save(query)
    (expected,) = answers(commands, "--db", album, "--query", query)
    done = piped(query.read_bytes(), "--db", album, "--query", "-", "--json", "--html", album.parent / "page.html")
    (answer,) = json.loads(done.stdout)["queries"]
    assert done.returncode == 0 and answer["hits"] == expected["hits"] and answer["query"] == "standard input"
    assert "no image" not in (album.parent / "page.html").read_text()


def test_search_stdin_list_is_read(album: Path) -> None:
    names = [str(album.parent / "album" / "holiday" / f"{name}.png") for name in "ab"]
    done = piped("\n".join(names).encode(), "--db", album, "--query", "-", "--json")
    assert [query["query"] for query in json.loads(done.stdout)["queries"]] == names


def test_search_stdin_without_an_image_fails(album: Path) -> None:
    whole = (album.parent / "album" / "holiday" / "a.png").read_bytes()
    for content in (whole[:200], b"<svg/>"):
        done = piped(content, "--db", album, "--query", "-")
        assert done.returncode == 1 and done.stdout == b""
        assert done.stderr.startswith(b"error: standard input: ") and done.stderr.count(b"\n") == 1


def test_combined_query_is_the_sign_of_the_mean_logits(album: Path, model: Path, commands: Runner) -> None:
    images = [album.parent / "album" / "holiday" / f"{name}.png" for name in "abc"]
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    pixels = [np.asarray(Image.open(p).convert("RGB").resize((8, 8), Image.Resampling.BILINEAR)) for p in images]
    logits = [session.run(["logits"], {"image": image[None]})[0][0].astype(np.float64) for image in pixels]
    code = np.packbits(np.mean(logits, axis=0) >= 0, bitorder="little")
    (answer,) = answers(commands, "--db", album, "--query", *images, "--combine", "--top", 3)
    with ih.Database.open(album) as db:
        distances = np.unpackbits(db.codes ^ code, axis=1).sum(axis=1)
    assert [hit["distance"] for hit in answer["hits"]] == sorted(distances.tolist())[:3]
    assert answer["query"] == " + ".join(map(str, images))
    assert set(answer["self_ids"]) <= {12, 13, 14}


def test_combined_query_skips_an_unreadable_image(album: Path, commands: Runner) -> None:
    good = album.parent / "album" / "holiday" / "a.png"
    (album.parent / "bad.png").write_text("no image")
    (answer,) = answers(commands, "--db", album, "--query", good, album.parent / "bad.png", "--combine", status=3)
    (alone,) = answers(commands, "--db", album, "--query", good)
    assert answer["hits"] == alone["hits"] and answer["query"] == str(good)


def test_search_query_without_a_suffix_is_an_image(album: Path, commands: Runner) -> None:
    bare = album.parent / "photo"
    shutil.copy(album.parent / "album" / "holiday" / "a.png", bare)
    (answer,) = answers(commands, "--db", album, "--query", bare)
    assert (keys(answer)[0], answer["hits"][0]["distance"]) == ("holiday/a.png", 0)


@pytest.mark.parametrize("name", ["query.svg", "query", "query.png", "query.txt"])
def test_search_svg_query_names_the_type(name: str, album: Path, commands: Runner) -> None:
    query = album.parent / name
    query.write_text('<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>')
    assert commands.fails(search.main, "--db", album, "--query", query).startswith(f"error: {query}: SVG ")
    good = album.parent / "album" / "holiday" / "a.png"
    assert [answer["query"] for answer in answers(commands, "--db", album, "--query", query, good, status=3)] == [
        str(good)
    ]


@pytest.mark.parametrize("name", ["query.heic", "query", "query.jpg"])
def test_search_heic_query_names_the_package(name: str, album: Path, commands: Runner, heif_missing: None) -> None:
    query = album.parent / name
    query.write_bytes(b"\0\0\0\x1cftypheic\0\0\0\0mif1heicmiaf" + bytes(64))
    line = commands.fails(search.main, "--db", album, "--query", query)
    assert line.startswith(f"error: {query}: HEIC ") and "pillow-heif" in line


# output


def test_search_json_equals_json_dumps(album: Path, tmp_path: Path, commands: Runner) -> None:
    with ih.Database.open(album, "r+") as db:
        db.add(db.codes[:1], keys=['é\n"\\\udcff.png'], labels=[None])
    code = tmp_path / "q.npy"
    with ih.Database.open(album) as db:
        np.save(code, db.codes[[0, 15]])
    for more in (["--top", "20"], ["--radius", "0"], ["--radius", "0", "--key-prefix", "holiday/a"]):
        out = commands(search.main, "--db", album, "--query-codes", code, *more, "--json").out
        assert out == json.dumps(json.loads(out), indent=1) + "\n"
        assert list(json.loads(out)) == ["database", "bits", "queries", "skipped", "left_out"]


def test_search_prints_more_hits_than_a_buffer(tmp_path: Path, commands: Runner) -> None:
    n = 10_001
    with ih.Database.create(tmp_path / "many.bin", 16) as db:
        db.add(np.arange(n, dtype="<u2").view(np.uint8).reshape(n, 2), keys=[f"{i}.png" for i in range(n)])
    np.save(tmp_path / "q.npy", np.zeros((1, 2), np.uint8))
    common = ["--db", str(tmp_path / "many.bin"), "--query-codes", str(tmp_path / "q.npy"), "--top", str(n)]
    expected = sorted(range(n), key=lambda i: (i.bit_count(), i))
    (answer,) = answers(commands, *common)
    assert [hit["id"] for hit in answer["hits"]] == expected
    table = commands(search.main, *common).out.splitlines()[1:]
    assert [line.split()[1:] for line in table] == [[str(i.bit_count()), f"{i}.png"] for i in expected]
