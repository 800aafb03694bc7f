"""idcwh-search with real images and a real model: own files, ties, filters, standard input, combined queries, types."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from PIL import Image

import idcwh_search as ih
from idcwh_search.cli import index, search

PICTURES = Path(__file__).resolve().parents[2] / "demo" / "cifar10"
SEARCH = [sys.executable, "-c", "from idcwh_search.cli.search import main; raise SystemExit(main())"]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def album(tmp_path: Path, model: Path) -> Path:
    """A database of 12 copies of one photograph among 5 others: c/00.png to c/11.png, holiday/a.png to e.png."""
    folder = tmp_path / "album"
    for name in ("c", "holiday"):
        (folder / name).mkdir(parents=True)
    cat, *others = sorted((PICTURES / "train" / "cat").iterdir())[:6]
    for i in range(12):
        shutil.copy(cat, folder / "c" / f"{i:02}.png")
    for name, other in zip("abcde", others, strict=True):
        shutil.copy(other, folder / "holiday" / f"{name}.png")
    assert index.main(["build", "--model", str(model), "--images", str(folder), "--db", str(tmp_path / "a.bin")]) == 0
    return tmp_path / "a.bin"


def answers(capsys: Capture, *arguments: object, status: int = 0) -> list[dict]:
    capsys.readouterr()
    assert search.main([*map(str, arguments), "--json"]) == status
    return json.loads(capsys.readouterr().out)["queries"]


def keys(answer: dict) -> list[str]:
    return [hit["key"] for hit in answer["hits"]]


def failure(capsys: Capture, *arguments: object) -> str:
    """The only line of a search that fails."""
    capsys.readouterr()
    assert search.main([str(a) for a in arguments]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return err.strip()


# own files and ties


def test_own_file_is_first_among_ties_that_are_counted(album: Path, capsys: Capture) -> None:
    own = album.parent / "album" / "c" / "11.png"  # its id is the largest of the 12, beyond the first ten
    (answer,) = answers(capsys, "--db", album, "--query", own)
    assert keys(answer) == ["c/11.png", *(f"c/{i:02}.png" for i in range(9))]
    assert [hit["distance"] for hit in answer["hits"]] == [0] * 10
    assert answer["self_ids"] == [11] and answer["ties"] == {"distance": 0, "items": 12, "shown": 10}

    assert search.main(["--db", str(album), "--query", str(own)]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[1].split() == ["1", "0", "c/11.png", "c"]
    note = "12 items tie at distance 0; the query's own file and the first 9 others by id are shown"
    assert err.splitlines()[-1] == note


def test_ties_without_an_own_file_are_the_first_by_id(album: Path, capsys: Capture) -> None:
    copy = album.parent / "elsewhere.png"
    shutil.copy(album.parent / "album" / "c" / "00.png", copy)
    assert search.main(["--db", str(album), "--query", str(copy)]) == 0
    err = capsys.readouterr().err
    assert err.splitlines()[-1] == "12 items tie at distance 0; the first 10 by id are shown"
    assert search.main(["--db", str(album), "--query", str(copy), "--top", "12"]) == 0
    assert "tie" not in capsys.readouterr().err
    assert search.main(["--db", str(album), "--query", str(copy), str(copy)]) == 0
    note = "for 2 of 2 queries more items tie with the last hit than are shown; --json counts them"
    assert capsys.readouterr().err.splitlines()[-1] == note


@pytest.mark.parametrize("way", ["relative", "link", "dots"])
def test_own_file_is_known_by_every_name(
    way: str, album: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = album.parent / "album"
    monkeypatch.chdir(folder)
    (album.parent / "link").symlink_to(folder)
    name = {"relative": "c/11.png", "link": album.parent / "link/c/11.png", "dots": "holiday/../c/11.png"}[way]
    (answer,) = answers(capsys, "--db", album, "--query", name)
    assert answer["self_ids"] == [11] and keys(answer)[0] == "c/11.png"


def test_root_names_the_folder_of_images_that_moved(album: Path, capsys: Capture) -> None:
    moved = album.parent / "moved"
    (album.parent / "album").rename(moved)
    page = album.parent / "page.html"
    common = ["--db", album, "--query", moved / "c" / "11.png"]
    (answer,) = answers(capsys, *common)
    assert answer["self_ids"] == []
    (answer,) = answers(capsys, *common, "--root", moved, "--html", page)
    assert answer["self_ids"] == [11] and "no picture" not in page.read_text()
    assert "none: is no folder" in failure(capsys, *common, "--root", album.parent / "none")


def test_exclude_self_leaves_one_item_out(album: Path, capsys: Capture) -> None:
    own = album.parent / "album" / "c" / "00.png"
    (answer,) = answers(capsys, "--db", album, "--query", own, "--exclude-self")
    assert keys(answer) == [f"c/{i:02}.png" for i in range(1, 11)]
    assert answer["self_ids"] == [] and answer["ties"] == {"distance": 0, "items": 11, "shown": 10}


# filters


def test_label_and_key_prefix_filter_as_where_does(album: Path, capsys: Capture) -> None:
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
            (answer,) = answers(capsys, "--db", album, "--query", query, "--top", 20, *arguments)
            ids = [i for i, key in rows if key.startswith(tuple(prefixes))]
            distances, found = db.search(code, 20, where=ids)
            assert [hit["id"] for hit in answer["hits"]] == found[0].tolist()
            assert [hit["distance"] for hit in answer["hits"]] == distances[0].tolist()


def test_filter_notes_how_many_items_it_leaves(album: Path, capsys: Capture) -> None:
    query = album.parent / "album" / "c" / "00.png"
    assert search.main(["--db", str(album), "--query", str(query), "--label", "holiday"]) == 0
    assert "searching 5 of 17 items" in capsys.readouterr().err


def test_filter_that_nothing_passes_names_what_there_is(album: Path, capsys: Capture) -> None:
    common = ["--db", album, "--query", album.parent / "album" / "c" / "00.png"]
    assert "label 'brd' is missing (found c, holiday)" in failure(capsys, *common, "--label", "c", "brd")
    assert "key prefix 'x/' is missing (found keys such as 'c/00.png')" in failure(
        capsys, *common, "--key-prefix", "x/"
    )
    assert "no item has both" in failure(capsys, *common, "--label", "c", "--key-prefix", "holiday/")


def test_label_of_an_item_of_several_classes_is_each_of_them(
    pictures: Path, model: Path, tmp_path: Path, capsys: Capture
) -> None:
    names = sorted(str(path.relative_to(tmp_path)) for path in pictures.rglob("*.png"))
    lines = [f"{name},{labels}" for name, labels in zip(names, ["x", "x,y", "y", "y,z", "z", "x,z"], strict=True)]
    (tmp_path / "several.csv").write_text("\n".join(lines))
    database = tmp_path / "several.bin"
    assert (
        index.main(["build", "--model", str(model), "--images", str(tmp_path / "several.csv"), "--db", str(database)])
        == 0
    )
    for wanted in ("x", "y", "y|z"):
        (answer,) = answers(capsys, "--db", database, "--query", tmp_path / names[0], "--label", wanted)
        labels = {hit["label"] for hit in answer["hits"]}
        assert labels == {"x": {"x", "x|y", "x|z"}, "y": {"x|y", "y", "y|z"}, "y|z": {"y|z"}}[wanted]


# queries that are not files


def piped(content: bytes, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*SEARCH, *map(str, arguments)], input=content, capture_output=True, check=False)


@pytest.mark.parametrize("suffix", ["png", "jpg", "ppm"])
def test_image_on_standard_input_finds_what_its_file_finds(suffix: str, album: Path, capsys: Capture) -> None:
    query = album.parent / f"query.{suffix}"
    Image.open(album.parent / "album" / "holiday" / "b.png").convert("RGB").save(query)
    (expected,) = answers(capsys, "--db", album, "--query", query)
    done = piped(query.read_bytes(), "--db", album, "--query", "-", "--json", "--html", album.parent / "page.html")
    (answer,) = json.loads(done.stdout)["queries"]
    assert done.returncode == 0 and answer["hits"] == expected["hits"] and answer["query"] == "standard input"
    assert "no picture" not in (album.parent / "page.html").read_text()


def test_list_on_standard_input_is_still_a_list(album: Path) -> None:
    names = [str(album.parent / "album" / "holiday" / f"{name}.png") for name in "ab"]
    done = piped("\n".join(names).encode(), "--db", album, "--query", "-", "--json")
    assert [query["query"] for query in json.loads(done.stdout)["queries"]] == names


def test_standard_input_that_is_no_image_is_one_line(album: Path) -> None:
    whole = (album.parent / "album" / "holiday" / "a.png").read_bytes()
    for content, reason in ((whole[:200], b"standard input: damaged"), (b"<svg/>", b"standard input: SVG is not")):
        done = piped(content, "--db", album, "--query", "-")
        assert done.returncode == 1 and done.stdout == b""
        assert done.stderr.startswith(b"error: " + reason) and done.stderr.count(b"\n") == 1


def test_combined_query_is_the_sign_of_the_mean_logits(album: Path, model: Path, capsys: Capture) -> None:
    images = [album.parent / "album" / "holiday" / f"{name}.png" for name in "abc"]
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    pixels = [np.asarray(Image.open(p).convert("RGB").resize((8, 8), Image.Resampling.BILINEAR)) for p in images]
    logits = [session.run(["logits"], {"image": image[None]})[0][0].astype(np.float64) for image in pixels]
    code = np.packbits(np.mean(logits, axis=0) >= 0, bitorder="little")
    (answer,) = answers(capsys, "--db", album, "--query", *images, "--combine", "--top", 3)
    with ih.Database.open(album) as db:
        distances = np.unpackbits(db.codes ^ code, axis=1).sum(axis=1)
    assert [hit["distance"] for hit in answer["hits"]] == sorted(distances.tolist())[:3]
    assert answer["query"] == " + ".join(map(str, images))
    assert set(answer["self_ids"]) <= {12, 13, 14}


def test_combined_query_skips_an_image_that_cannot_be_read(album: Path, capsys: Capture) -> None:
    good = album.parent / "album" / "holiday" / "a.png"
    (album.parent / "bad.png").write_text("no picture")
    (answer,) = answers(capsys, "--db", album, "--query", good, album.parent / "bad.png", "--combine", status=3)
    (alone,) = answers(capsys, "--db", album, "--query", good)
    assert answer["hits"] == alone["hits"] and answer["query"] == str(good)


def test_combine_with_codes_is_wrong_usage(album: Path, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as stopped:
        search.main(["--db", str(album), "--query-codes", "q.npy", "--combine"])
    assert stopped.value.code == 2 and "--combine: not allowed with" in capsys.readouterr().err


def test_query_image_without_a_suffix_is_an_image(album: Path, capsys: Capture) -> None:
    bare = album.parent / "photo"
    shutil.copy(album.parent / "album" / "holiday" / "a.png", bare)
    (answer,) = answers(capsys, "--db", album, "--query", bare)
    assert (keys(answer)[0], answer["hits"][0]["distance"]) == ("holiday/a.png", 0)


@pytest.mark.parametrize("name", ["query.svg", "query", "query.png", "query.txt"])
def test_svg_query_is_one_line_that_names_the_type(name: str, album: Path, capsys: Capture) -> None:
    query = album.parent / name
    query.write_text('<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>')
    line = failure(capsys, "--db", album, "--query", query)
    assert line == f"error: {query}: SVG is not supported; convert it to PNG first"
    good = album.parent / "album" / "holiday" / "a.png"
    assert [answer["query"] for answer in answers(capsys, "--db", album, "--query", query, good, status=3)] == [
        str(good)
    ]


@pytest.mark.parametrize("name", ["query.heic", "query", "query.jpg"])
def test_heic_query_is_one_line_that_names_the_package(
    name: str, album: Path, capsys: Capture, heif_missing: None
) -> None:
    query = album.parent / name
    query.write_bytes(b"\0\0\0\x1cftypheic\0\0\0\0mif1heicmiaf" + bytes(64))
    line = failure(capsys, "--db", album, "--query", query)
    assert line.startswith(f"error: {query}: HEIC is not supported; install pillow-heif")


# output


def test_json_is_what_the_standard_library_writes(album: Path, tmp_path: Path, capsys: Capture) -> None:
    with ih.Database.open(album, "r+") as db:
        db.add(db.codes[:1], keys=['é\n"\\\udcff.png'], labels=[None])
    code = tmp_path / "q.npy"
    with ih.Database.open(album) as db:
        np.save(code, db.codes[[0, 15]])
    for more in (["--top", "20"], ["--radius", "0"], ["--radius", "0", "--key-prefix", "holiday/a"]):
        capsys.readouterr()
        assert search.main(["--db", str(album), "--query-codes", str(code), *more, "--json"]) == 0
        out = capsys.readouterr().out
        assert out == json.dumps(json.loads(out), indent=1) + "\n"
        assert list(json.loads(out)) == ["database", "bits", "queries", "skipped", "left_out"]


def test_more_hits_than_a_write_holds_are_all_printed(tmp_path: Path, capsys: Capture) -> None:
    n = 10_001
    with ih.Database.create(tmp_path / "many.bin", 16) as db:
        db.add(np.arange(n, dtype="<u2").view(np.uint8).reshape(n, 2), keys=[f"{i}.png" for i in range(n)])
    np.save(tmp_path / "q.npy", np.zeros((1, 2), np.uint8))
    common = ["--db", str(tmp_path / "many.bin"), "--query-codes", str(tmp_path / "q.npy"), "--top", str(n)]
    expected = sorted(range(n), key=lambda i: (i.bit_count(), i))
    (answer,) = answers(capsys, *common)
    assert [hit["id"] for hit in answer["hits"]] == expected
    assert search.main(common) == 0
    table = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[1:] for line in table] == [[str(i.bit_count()), f"{i}.png"] for i in expected]
