"""`idcwh-index add`, remove, compact and verify on a database that is kept up to date."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import idcwh_search as ih
from idcwh_search.cli import index, search
from support.commands import Runner, program

Codes = Callable[[list[Path]], np.ndarray]


def add(commands: Runner, database: Path, images: Path, *more: str, status: int = 0) -> dict:
    """Returns the summary of `idcwh-index add`."""
    return commands.json(index.main, "add", database, "--images", images, *more, status=status)


def check(database: Path, images: Path, codes_by_hand: Codes) -> None:
    """Asserts that the database holds exactly the images of the folder, each with the code of its current pixels."""
    files = sorted(path for path in images.rglob("*.png"))
    with ih.Database.open(database) as db:
        db.verify()
        assert sorted(db.keys()) == [str(path.relative_to(images)) for path in files]
        for path, code in zip(files, codes_by_hand(files), strict=True):
            (number,) = db.find([str(path.relative_to(images))])
            assert db.get(number).tolist() == code.tolist() and db.labels([number]) == [path.parent.name]


def test_image_in_any_spelling_has_one_key(model: Path, images: Path, tmp_path: Path, commands: Runner) -> None:
    keys = [str(path.relative_to(images)) for path in sorted(images.rglob("*.png"))]
    written = [f"./{keys[0]}", f"{images}/{keys[1]}", *keys[2:]]
    listing, database = images / "set.csv", tmp_path / "listed.bin"
    listing.write_text("path,label\n" + "\n".join(f"{name},{Path(name).parent.name}" for name in written))
    commands.build(model, listing, database)
    assert ih.Database.open(database).keys() == keys
    assert add(commands, database, images)["unchanged"] == add(commands, database, listing)["unchanged"] == 6


def test_add_encodes_only_new_and_changed_images(
    database: Path, images: Path, codes_by_hand: Codes, commands: Runner
) -> None:
    done = add(commands, database, images)
    assert (done["images"], done["changed"], done["unchanged"]) == (0, 0, 6)
    before = database.read_bytes()
    assert add(commands, database, images)["images"] == 0 and database.read_bytes() == before

    cats, dogs = sorted((images / "cat").iterdir()), sorted((images / "dog").iterdir())
    with ih.Database.open(database) as db:
        ids = {key: number for key, number in zip(db.keys(), db.ids.tolist(), strict=True)}
    changed = str(cats[0].relative_to(images))
    shutil.copyfile(dogs[0], cats[0])  # another image with the old name
    os.utime(cats[0], ns=(1, 1))
    (images / "fox").mkdir()
    shutil.copyfile(dogs[1], images / "fox" / "new.png")
    done = add(commands, database, images)
    assert [done[name] for name in ("images", "new", "changed", "unchanged", "pruned")] == [0, 1, 1, 5, 0]  # copies
    check(database, images, codes_by_hand)
    with ih.Database.open(database) as db:
        assert {key: number for key, number in zip(db.keys(), db.ids.tolist(), strict=True)} == {
            **ids,
            "fox/new.png": 6,
        }
        assert db.find([changed]).tolist() == [ids[changed]]

    # Images of a folder below the indexed folder have the same keys.
    shutil.copyfile(dogs[2], images / "fox" / "newer.png")
    assert add(commands, database, images / "fox", "--labels", "none")["new"] == 1
    with ih.Database.open(database) as db:
        assert db.keys([7]) == ["fox/newer.png"] and db.labels([7]) == [None]

    cats[1].unlink()
    assert add(commands, database, images)["pruned"] == 0
    assert add(commands, database, images, "--prune")["pruned"] == 1
    with ih.Database.open(database) as db:
        left = db.keys()
    assert str(cats[1].relative_to(images)) not in left and len(left) == 7


def labels_of(database: Path) -> dict[str, str | None]:
    with ih.Database.open(database) as db:
        return dict(zip(db.keys(), db.labels(), strict=True))


def test_add_batch_size_reaches_the_encoder(
    database: Path, images: Path, commands: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    create = ih.Encoder.__init__

    def noted(self: Any, *arguments: Any, **options: Any) -> None:
        create(self, *arguments, **options)
        sizes.append(self.batch_size)

    monkeypatch.setattr(ih.Encoder, "__init__", noted)
    add(commands, database, images, "--batch-size", "3")
    assert sizes == [3]


def test_add_with_labels_labels_unlabelled_items(
    model: Path, database: Path, images: Path, tmp_path: Path, commands: Runner
) -> None:
    out = tmp_path / "out"
    shutil.copytree(images / "cat", out / "cat")
    assert add(commands, database, out / "cat")["new"] == 3
    assert [label for key, label in labels_of(database).items() if key.startswith("../")] == [None] * 3
    assert add(commands, database, out, "--labels", "none")["unchanged"] == 3
    assert [label for key, label in labels_of(database).items() if key.startswith("../")] == [None] * 3
    add(commands, database, out)
    assert all(label == Path(key).parent.name for key, label in labels_of(database).items())
    before = labels_of(database)
    (out / "cat").rename(out / "fox")
    assert add(commands, database, out / "fox")["moved"] == 3  # the listing has no label, so the old one is kept
    assert sorted(labels_of(database).values()) == sorted(before.values())
    assert add(commands, database, out)["unchanged"] == 3
    assert sorted(labels_of(database).values()) == sorted(before.values())


@pytest.mark.parametrize("more", [[], ["--recode"]])
def test_add_to_an_unlabelled_database_labels_it(
    model: Path, images: Path, tmp_path: Path, commands: Runner, more: list[str]
) -> None:
    database = tmp_path / "plain.bin"
    commands.build(model, images, database, "--labels", "none")
    add(commands, database, images, "--labels", "none", *more)
    assert set(labels_of(database).values()) == {None}
    add(commands, database, images, *more)
    assert labels_of(database) == {key: key.split("/")[0] for key in labels_of(database)}


def test_add_changed_image_without_label_keeps_its_own(database: Path, images: Path, commands: Runner) -> None:
    before = labels_of(database)
    for name, more in (("cat", []), ("dog", ["--labels", "none"])):
        path = min((images / name).iterdir())
        Image.new("RGB", (9, 9), "red" if more else "blue").save(path)
        assert add(commands, database, images / name, *more)["changed"] == 1
    assert labels_of(database) == before


@pytest.mark.parametrize(
    ("name", "header", "line"),
    [
        ("a.csv", "", "{},"),
        ("a.csv", "path,label\n", "{},"),
        ("a.csv", "", "{}"),
        ("a.csv", "path\n", "{}"),
        ("a.csv", "path,split\n", "{},test"),
        ("a.tsv", "split\tpath\tlabel\n", "\t{}\t"),
        ("a.jsonl", "", '{{"path": "{}", "label": ""}}'),
        ("a.jsonl", "", '{{"path": "{}"}}'),
    ],
)
def test_manifest_without_labels_is_indexed(
    model: Path,
    images: Path,
    tmp_path: Path,
    commands: Runner,
    name: str,
    header: str,
    line: str,
) -> None:
    keys = [path.relative_to(images).as_posix() for path in sorted(images.rglob("*.png"))]
    (images / name).write_text(header + "\n".join(line.format(key) for key in keys), encoding="utf-8")
    database = tmp_path / "plain.bin"
    build = ("build", "--model", model, "--images", images / name, "--db", database)
    assert str(images / name) in commands.fails(index.main, *build)  # --no-labels is required
    commands(index.main, *build, "--labels", "none")
    assert labels_of(database) == dict.fromkeys(keys)
    assert add(commands, database, images / name, "--labels", "none")["unchanged"] == 6


def test_add_skips_unreadable_images(database: Path, images: Path, commands: Runner) -> None:
    (images / "cat" / "bad.png").write_text("no image")
    shutil.copyfile(next((images / "dog").iterdir()), images / "cat" / "good.png")
    done = add(commands, database, images, status=3)
    assert done["new"] == 1 and [Path(entry["path"]).name for entry in done["skipped"]] == ["bad.png"]


def test_add_with_another_model_or_writer_changes_nothing(
    database: Path, images: Path, tmp_path: Path, model: Path, commands: Runner
) -> None:
    other = tmp_path / "other.onnx"
    other.write_bytes(model.read_bytes() + b"\x72\x00")  # has another fingerprint
    shutil.copyfile(next((images / "dog").iterdir()), images / "cat" / "new.png")
    before = database.read_bytes()
    assert f"error: {other}: " in commands.fails(index.main, "add", database, "--images", images, "--model", other)
    assert database.read_bytes() == before
    with ih.Database.open(database, "r+"):
        assert f"error: {database}: " in commands.fails(index.main, "add", database, "--images", images)


def test_remove_and_compact_delete_items(database: Path, images: Path, commands: Runner, tmp_path: Path) -> None:
    with ih.Database.open(database) as db:
        keys = db.keys()
    commands(index.main, "remove", database, "--keys", keys[0], keys[1])
    commands(index.main, "remove", database, "--ids", "2")
    (tmp_path / "list").write_text(f"{keys[3]}\n\n")
    commands(index.main, "remove", database, "--keys-from", tmp_path / "list")
    assert keys[0] in commands.fails(index.main, "remove", database, "--keys", keys[4], keys[0])
    assert "id 2" in commands.fails(index.main, "remove", database, "--ids", 4, 2)
    for given, similar in {
        "nothing/like/it": keys[4],
        keys[4][:-1]: keys[4],
        str(images / keys[5]): keys[5],
    }.items():
        line = commands.fails(index.main, "remove", database, "--keys", given)
        assert f"error: {database}: key {given} is missing; " in line and similar in line.rpartition("; ")[2]
    assert "one (and 1 more)" in commands.fails(index.main, "remove", database, "--keys", "one", keys[4], "two")
    with ih.Database.open(database) as db:
        assert db.keys() == keys[4:] and db.ids.tolist() == [4, 5]
    before = commands.json(index.main, "info", database)
    assert before["items"] == 2 and before["unused"] > 0
    assert "items        2" in commands(index.main, "info", database).out
    commands(index.main, "compact", database)
    assert database.stat().st_size < before["bytes"]
    result = commands.json(index.main, "info", database)
    assert (result["items"], result["removed"], result["unused"], result["segments"]) == (2, 0, 0, 1)
    assert result["distinct"] == len({code.tobytes() for code in ih.Database.open(database).codes})
    (answer,) = commands.json(search.main, "--db", database, "--query", images / keys[5])["queries"]
    assert answer["hits"][0]["key"] == keys[5] and len(answer["hits"]) == 2


def test_verify_names_the_corrupt_block(database: Path, images: Path, commands: Runner) -> None:
    shutil.copyfile(next((images / "dog").iterdir()), images / "cat" / "new.png")
    add(commands, database, images)
    with ih.Database.open(database) as db:
        code = db.get(6).tobytes()
    content = bytearray(database.read_bytes())
    place = content.rindex(code)
    content[place] ^= 4
    database.write_bytes(content)
    first, last = commands(index.main, "verify", database, status=1).err.splitlines()
    assert f"codes: block 0 (bytes {place} to {place + 3})" in first
    assert last.startswith(f"error: {database}: ") and "found 6 items" in last and "expected 7" in last
    content[place] ^= 4
    place = content.index(b'"model"')
    content[place] ^= 4
    database.write_bytes(content)
    last = commands.fails(index.main, "verify", database)
    assert "is corrupt in 1 range" in last and "found" not in last and "expected" not in last
    content[place] ^= 4
    database.write_bytes(content + b"torn")
    out, err = commands(index.main, "verify", database)
    assert out.startswith(f"{database}: ") and "7 items" in out and "4 bytes" in err


@pytest.mark.slow
def test_add_killed_keeps_written_items(database: Path, images: Path, commands: Runner) -> None:
    many = images / "many"
    many.mkdir()
    source = next((images / "dog").iterdir()).read_bytes()
    for i in range(1200):
        # bytes after the end of the PNG, so that no file is a copy
        (many / f"{i}.png").write_bytes(source + str(i).encode())
    arguments = [*program("idcwh-index"), "add", database, "--images", images]
    process = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
    size = database.stat().st_size
    while database.stat().st_size == size and process.poll() is None:
        pass
    process.kill()
    process.wait()
    with ih.Database.open(database) as db:
        db.verify()
        assert 6 <= len(db) <= 1206
        there = len(db)
    assert add(commands, database, images)["images"] == 1206 - there


def test_prune_requires_the_indexed_folder(
    database: Path, images: Path, codes_by_hand: Codes, tmp_path: Path, commands: Runner
) -> None:
    other = tmp_path / "other"
    shutil.copytree(images / "cat", other / "cat")
    moved = images.rename(tmp_path / "moved")
    before = database.read_bytes()
    assert "--root" in commands.fails(index.main, "add", database, "--images", other, "--prune")
    missing = tmp_path / "none"
    assert str(missing) in commands.fails(index.main, "add", database, "--images", other, "--root", missing)
    assert database.read_bytes() == before
    done = add(commands, database, moved, "--prune", "--root", str(moved))
    assert (done["images"], done["unchanged"], done["pruned"]) == (0, 6, 0)
    check(database, moved, codes_by_hand)


def test_image_listed_twice_is_one_item(
    model: Path, database: Path, images: Path, tmp_path: Path, commands: Runner
) -> None:
    cat = next((images / "cat").iterdir())
    listing = tmp_path / "list.txt"
    listing.write_text(f"{cat}\n{cat.parent / '..' / 'cat' / cat.name}\n{cat}\n")
    os.utime(cat, ns=(5, 5))
    assert add(commands, database, listing)["unchanged"] == 1
    assert add(commands, database, listing)["unchanged"] == 1
    new = tmp_path / "new.bin"
    commands.build(model, listing, new)
    assert len(ih.Database.open(new)) == 1


def test_commands_read_large_ids_and_foreign_manifests(tmp_path: Path, commands: Runner) -> None:
    path = tmp_path / "c.bin"
    with ih.Database.create(path, 20, {"model": "resnet", "images": {"path": None}}) as db:
        db.add(np.zeros((2, 3), np.uint8), ids=[2**40, 2**63 - 1])
    commands(index.main, "remove", path, "--ids", 2**40, 2**63 - 1)
    commands(index.main, "info", path)
    (tmp_path / "images").mkdir()
    commands.fails(index.main, "add", path, "--images", tmp_path / "images")
    np.save(tmp_path / "q.npy", np.zeros((1, 3), np.uint8))
    commands(search.main, "--db", path, "--query-codes", tmp_path / "q.npy")
