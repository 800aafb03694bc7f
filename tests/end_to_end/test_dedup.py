"""`idcwh-dedup` on real images: an exact duplicate, a near duplicate and strangers, with brute force as the oracle."""

from __future__ import annotations

import csv
import html
import json
import os
import resource
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse.csgraph
from PIL import Image

import idcwh_search as ih
from idcwh_search.cli import dedup, gallery, index, not_duplicates
from support.commands import Runner, program


@pytest.fixture
def first(images: Path) -> str:
    """The key of an image with an exact copy z/copy.png and a near duplicate z/near.bmp, in a larger file."""
    (images / "z").mkdir()
    source = sorted((images / "cat").glob("*.png"))[0]
    shutil.copy(source, images / "z" / "copy.png")
    pixels = np.asarray(Image.open(source).convert("RGB")).copy()
    pixels[0, 0] ^= 1
    Image.fromarray(pixels).resize((256, 256), Image.Resampling.NEAREST).save(images / "z" / "near.bmp")
    return str(source.relative_to(images))


@pytest.fixture
def doubled(first: str, database: Path) -> Path:
    return database


def brute_force(codes: np.ndarray, radius: int) -> list[list[int]]:
    """Returns greedy groups of at least two rows, keeper first, members by (distance, row)."""
    far = np.unpackbits(codes[:, None] ^ codes[None], axis=2).sum(axis=2)
    members: dict[int, list[int]] = {}
    for row in range(len(codes)):
        keeper = next((k for k in members if far[k, row] <= radius), row)
        members.setdefault(keeper, []).append(row)
    return [sorted(rows, key=lambda r: (r != k, far[k, r], r)) for k, rows in members.items() if len(rows) > 1]


@pytest.mark.parametrize("radius", [0, 2, 5, 9, 20])
def test_groups_equal_brute_force(doubled: Path, commands: Runner, radius: int) -> None:
    found = commands.json(dedup.main, "--db", doubled, "--radius", radius)
    with ih.Database.open(doubled) as db:
        expected, ids = brute_force(db.codes, radius), db.ids
    groups = [[g["keep"]["id"], *(i["id"] for i in g["duplicates"])] for g in found["groups"]]
    assert groups == [[int(ids[row]) for row in rows] for rows in expected]
    assert found["items"] == 8 and found["duplicates"] == sum(len(rows) - 1 for rows in expected)


def test_copy_and_near_image_form_a_group(doubled: Path, first: str, tmp_path: Path, commands: Runner) -> None:
    table = tmp_path / "groups.csv"
    for _ in range(2):  # the second run replaces the file of the first
        out, err = commands(dedup.main, "--db", doubled, "--radius", 2, "--csv", table)
    rows = [line.split(maxsplit=3) for line in out.splitlines()]
    assert rows[0] == ["group", "action", "distance", "key"]
    (group,) = [row[0] for row in rows if row[3] == first]
    members = [row[1:] for row in rows if row[0] == group]
    assert ["duplicate", "0", "z/copy.png"] in members and {m[2] for m in members} >= {first, "z/near.bmp"}
    assert [m[0] for m in members] == ["keep"] + ["duplicate"] * (len(members) - 1)
    assert "8 items, " in err
    with table.open(encoding="utf-8") as file:
        lines = [*csv.DictReader(file)]
    assert [[line[name] for name in rows[0]] for line in lines] == rows[1:]


def test_keep_largest_and_oldest_choose_the_file(doubled: Path, images: Path, commands: Runner) -> None:
    os.utime(images / "z" / "copy.png", (1, 1))
    for keep, key in (("largest", "z/near.bmp"), ("oldest", "z/copy.png")):
        for mode in ("greedy", "components"):
            options = ("--db", doubled, "--radius", 2, "--keep", keep, "--mode", mode)
            assert key in [g["keep"]["key"] for g in commands.json(dedup.main, *options)["groups"]]
    shutil.rmtree(images / "z")
    _, err = commands(dedup.main, "--db", doubled, "--radius", 2, "--keep", "oldest", status=3)
    assert "missing" in err and "--root" in err


def test_remove_list_leaves_one_item_per_group(doubled: Path, tmp_path: Path, commands: Runner) -> None:
    keys = tmp_path / "keys.txt"
    found = commands.json(dedup.main, "--db", doubled, "--radius", 5, "--remove-list", keys)
    assert sorted(keys.read_text().splitlines()) == sorted(i["key"] for g in found["groups"] for i in g["duplicates"])
    commands(index.main, "remove", doubled, "--keys-from", keys)
    out, err = commands(dedup.main, "--db", doubled, "--radius", 5)
    assert out == "" and "0 groups" in err
    assert str(keys) in commands.fails(dedup.main, "--db", doubled, "--radius", 5, "--remove-list", keys)


def test_remove_list_spares_keys_of_kept_items(tmp_path: Path, commands: Runner) -> None:
    db, keys = tmp_path / "same.bin", tmp_path / "keys.txt"
    with ih.Database.create(db, 8) as new:
        new.add(np.array([[0], [0], [0], [0], [255]], np.uint8), keys=["a", "a", "b", None, "c"])
    _, err = commands(dedup.main, "--db", db, "--radius", 0, "--remove-list", keys)
    assert keys.read_text() == "b\n" and "left out 2 duplicates" in err


def test_reference_keeps_its_items(
    doubled: Path, images: Path, first: str, model: Path, tmp_path: Path, commands: Runner
) -> None:
    incoming = tmp_path / "incoming.bin"
    commands.build(model, images / "z", incoming)
    found = commands.json(dedup.main, "--db", incoming, "--reference", doubled, "--radius", 0, "--key-prefix", "copy")
    (group,) = found["groups"]
    assert group["keep"]["key"] == first and [i["key"] for i in group["duplicates"]] == ["copy.png"]
    with ih.Database.open(doubled) as a, ih.Database.open(incoming) as b:
        far = np.unpackbits(b.codes[:, None] ^ a.codes[None], axis=2).sum(axis=2)
    found = commands.json(dedup.main, "--db", incoming, "--reference", doubled, "--radius", 20)
    pairs = {(i["id"], g["keep"]["id"], i["distance"]) for g in found["groups"] for i in g["duplicates"]}
    assert pairs == {(i, int(row.argmin()), int(row.min())) for i, row in enumerate(far)}


def test_reference_of_another_model_or_bits_fails(
    doubled: Path, images: Path, make_model: Callable[..., Path], tmp_path: Path, commands: Runner
) -> None:
    for name, options in (("seed", {"seed": 1}), ("bits", {"bits": 24})):
        other = tmp_path / f"{name}.bin"
        commands.build(make_model(tmp_path / f"{name}.onnx", **options), images, other)
        line = commands.fails(dedup.main, "--db", doubled, "--reference", other, "--radius", 2)
        assert str(other) in line and "does not match" in line
    assert "itself" in commands.fails(dedup.main, "--db", doubled, "--reference", doubled, "--radius", 2)
    assert "0 to 20" in commands.fails(dedup.main, "--db", doubled, "--radius", 21, status=2)


def test_html_pages_show_groups(doubled: Path, first: str, tmp_path: Path, commands: Runner) -> None:
    page = tmp_path / "groups.html"
    for _ in range(2):
        found = json.loads(commands(dedup.main, "--db", doubled, "--radius", 2, "--html", page, "--json").out)
    text = page.read_text()
    assert text.count("<section>") == len(found["groups"]) and "no image" not in text and "z/near.bmp" in text
    many = tmp_path / "many.bin"
    with ih.Database.create(many, 16) as db:
        db.add(np.repeat(np.arange(101, dtype=np.uint16), 2).view(np.uint8).reshape(-1, 2))
    commands(dedup.main, "--db", many, "--radius", 0, "--html", page)
    second = tmp_path / "groups-2.html"
    assert page.read_text().count("<section>") == 100 and second.read_text().count("<section>") == 1
    assert 'href="groups-2.html"' in page.read_text() and 'href="groups.html"' in second.read_text()


def labelled(groups: list[dict[str, object]], ids: np.ndarray) -> list[int]:
    """Returns the id of the kept item per id, -1 for an item in no group."""
    found = dict.fromkeys(ids.tolist(), -1)
    for group in groups:
        for item in (group["keep"], *group["duplicates"]):
            found[item["id"]] = group["keep"]["id"]
    return list(found.values())


@pytest.mark.parametrize("mode", ["greedy", "components"])
@pytest.mark.parametrize("seed", range(4))
def test_not_duplicates_equal_brute_force(mode: str, seed: int, tmp_path: Path, commands: Runner) -> None:
    random, radius = np.random.default_rng(seed), 2 if mode == "greedy" else 1
    codes = random.integers(0, 256, (120, 2), np.uint8) & np.uint8([[255, 7]])
    names = [f"k{number}" for number in random.integers(0, 100, 120)]  # some items share a key
    apart = {frozenset((f"k{a}", f"k{b}")) for a, b in random.integers(0, 100, (600, 2)) if a != b}
    listed, db = tmp_path / "apart.tsv", tmp_path / "codes.bin"
    listed.write_text("".join("\t".join(pair) + "\n" for pair in map(sorted, apart)) + "k1\tgone\n\n")
    with listed.open("a") as file:  # items with one key are never a pair
        file.writelines(f"k{number}\tk{number}\n" for number in range(100))
    with ih.Database.create(db, 11) as new:
        ids = new.add(codes, ids=random.permutation(120), keys=names)
    near = np.unpackbits(codes[:, None] ^ codes[None], axis=2).sum(axis=2) <= radius
    near &= np.array([[frozenset((a, b)) not in apart for b in names] for a in names])
    keeper = np.arange(120)
    if mode == "greedy":
        for row in range(120):
            keeper[row] = next((k for k in range(row) if keeper[k] == k and near[k, row]), row)
    else:
        _, number = scipy.sparse.csgraph.connected_components(near)
        keeper = np.array([np.flatnonzero(number == n)[0] for n in number])
    single = np.bincount(keeper, minlength=120)[keeper] == 1
    expected = np.where(single, -1, ids[keeper])
    options = ("--db", db, "--radius", radius, "--mode", mode)
    groups = commands.json(dedup.main, *options, "--not-duplicates", listed)["groups"]
    assert labelled(groups, ids) == expected.tolist()
    assert groups != commands.json(dedup.main, *options)["groups"]


def test_not_duplicates_apply_to_a_reference(tmp_path: Path, commands: Runner) -> None:
    for name, values in (("new", [0, 255]), ("old", [1, 3, 254])):
        with ih.Database.create(tmp_path / name, 8) as db:
            db.add(np.uint8(values)[:, None], keys=[f"{name}\t{value}" for value in values])
    listed = tmp_path / "apart.tsv"
    listed.write_bytes(b"\xef\xbb\xbfold\\t1\tnew\\t0\r\nnew\\t255\told\\t254")
    options = ("--db", tmp_path / "new", "--reference", tmp_path / "old", "--radius", 2, "--not-duplicates", listed)
    (group,) = commands.json(dedup.main, *options)["groups"]
    assert (group["keep"]["key"], group["duplicates"][0]["key"]) == ("old\t3", "new\t0")


@pytest.mark.parametrize("line", [b"a", b"a\t", b"\tb", b"a\tb\tc", b"a\\x\tb", b"a\\\tb\\", b"a\t\0"])
def test_not_duplicates_names_the_wrong_line(line: bytes, doubled: Path, tmp_path: Path, commands: Runner) -> None:
    listed = tmp_path / "apart.tsv"
    listed.write_bytes(b"a\tb\n\n" + line + b"\n")
    options = ("--db", doubled, "--radius", 2, "--not-duplicates")
    assert str(listed) + ("" if b"\0" in line else ":3: ") in commands.fails(dedup.main, *options, listed)
    assert "is missing" in commands.fails(dedup.main, *options, tmp_path / "none.tsv")


@pytest.mark.parametrize("mode", ["greedy", "components"])
def test_few_or_equal_items_with_large_ids(mode: str, tmp_path: Path, commands: Runner) -> None:
    for count in (0, 1, 2, 50_000):
        ids = 2**32 + 7 * np.arange(count)[::-1]
        with ih.Database.create(tmp_path / f"{count}.bin", 8) as db:
            db.add(np.ones((count, 1), np.uint8), ids=ids)
        options = ("--db", tmp_path / f"{count}.bin", "--radius", 1, "--mode", mode)
        groups = commands.json(dedup.main, *options)["groups"]
        assert labelled(groups, ids) == ([ids[0]] * count if count > 1 else [-1] * count)


def test_database_that_changes_meanwhile_has_its_first_groups(
    doubled: Path, commands: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--db", doubled, "--radius", 5)
    expected = commands.json(dedup.main, *options)
    before = dedup.groups_within

    def changed(*arguments: object) -> object:
        with ih.Database.open(doubled, "r+") as db:
            db.remove(db.ids[1:])
            db.compact()
        return before(*arguments)

    monkeypatch.setattr(dedup, "groups_within", changed)
    assert commands.json(dedup.main, *options) == expected


OUTPUTS = {"--csv": "groups.csv", "--html": "groups.html", "--script": "move.sh", "--remove-list": "keys.txt"}


@pytest.mark.parametrize("option", OUTPUTS)
def test_full_disk_keeps_the_file_of_the_last_run(option: str, doubled: Path, tmp_path: Path, commands: Runner) -> None:
    (folder := tmp_path / "out").mkdir()
    path, options = folder / OUTPUTS[option], ("--db", doubled, "--radius", 20, option, folder / OUTPUTS[option])
    commands(dedup.main, *options)
    before = path.read_bytes() if option != "--remove-list" else b""
    path.write_bytes(before)  # only an empty list is replaced
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
    try:
        assert str(path) in commands.fails(dedup.main, *options)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [*folder.iterdir()] == [path] and path.read_bytes() == before


def test_interrupt_while_a_page_is_written_leaves_nothing(
    doubled: Path, tmp_path: Path, commands: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(gallery, "_thumbnail", interrupted)
    (tmp_path / "out").mkdir()
    commands(dedup.main, "--db", doubled, "--radius", 5, "--html", tmp_path / "out" / "x.html", status=130)
    assert not [*(tmp_path / "out").iterdir()]


@pytest.mark.slow
def test_groups_into_a_closed_pipe_succeed(tmp_path: Path) -> None:
    with ih.Database.create(tmp_path / "many.bin", 8) as db:
        db.add(np.zeros((50_000, 1), np.uint8))
    command = shlex.join([*program("idcwh-dedup"), "--db", str(tmp_path / "many.bin"), "--radius", "0"])
    for more in ("", " --json"):
        run = subprocess.run(
            ["/bin/bash", "-c", f"{command}{more} | head -n 2; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True
        )
        assert run.returncode == 0 and run.stdout.count("\n") == 2 and "Traceback" not in run.stderr


def test_pages_are_small_for_large_groups(tmp_path: Path, commands: Runner) -> None:
    db, page = tmp_path / "many.bin", tmp_path / "g.html"
    with ih.Database.create(db, 16) as new:
        codes = np.repeat(np.arange(12, dtype=np.uint16), 3000).view(np.uint8).reshape(-1, 2)
        new.add(codes, keys=[f"<{n}>\t{n}" for n in range(len(codes))])
    commands(dedup.main, "--db", db, "--radius", 0, "--html", page)
    pages = [page, *(tmp_path / f"g-{number}.html" for number in (2, 3))]
    assert [one.read_text().count("<section>") for one in pages] == [4, 4, 4]
    text = pages[1].read_text()
    assert text.count('<figure class="hit"') == 400 and text.count("and 2,899 more") == 4
    assert [f'href="{name}"' in text for name in ("g.html", "g-2.html", "g-3.html")] == [True, False, True]
    assert "http" not in text and "<script" not in text
    lines = html.unescape(text).split("<pre>")[1:]
    listed = tmp_path / "apart.tsv"
    listed.write_text("".join(line.partition("</pre>")[0] for line in lines))
    assert len(not_duplicates.read(listed)) == 400
    assert lines[0].startswith("<12000>\\t12000\t<12001>\\t12001\n")
    (tmp_path / "g-3.html").write_text("a page of another program")
    first = page.stat().st_mtime_ns
    assert "g-3.html" in commands.fails(dedup.main, "--db", db, "--radius", 0, "--html", page)
    assert page.stat().st_mtime_ns == first


def test_empty_database_has_no_groups(tmp_path: Path, commands: Runner) -> None:
    ih.Database.create(tmp_path / "empty.bin", 8).close()
    outputs = [value for option, name in OUTPUTS.items() for value in (option, tmp_path / name)]
    assert commands.json(dedup.main, "--db", tmp_path / "empty.bin", "--radius", 1, *outputs)["groups"] == []
    assert subprocess.run(["sh", tmp_path / "move.sh", tmp_path / "to"]).returncode == 0
