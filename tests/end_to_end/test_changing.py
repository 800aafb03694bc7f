"""idcwh-index add, remove, compact, verify: a database that is kept up to date, as a user does it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import idcwh_search as ih
from idcwh_search import datasets
from idcwh_search.cli import index, search

Codes = Callable[[list[Path]], np.ndarray]


def add(capsys: pytest.CaptureFixture[str], database: Path, images: Path, *more: str, status: int = 0) -> dict:
    """The summary of an add."""
    capsys.readouterr()
    assert index.main(["add", str(database), "--images", str(images), "--json", *more]) == status
    return json.loads(capsys.readouterr().out)


def error(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The last line on stderr of a command that fails."""
    capsys.readouterr()
    assert index.main([str(a) for a in arguments]) == 1
    out, err = capsys.readouterr()
    assert out == "" and "Traceback" not in err and err.splitlines()[-1].startswith("error: ")
    return err.splitlines()[-1]


def check(database: Path, pictures: Path, codes_by_hand: Codes) -> None:
    """The database holds exactly the pictures of the folder, each with the code of its pixels now."""
    files = sorted(path for path in pictures.rglob("*.png"))
    with ih.Database.open(database) as db:
        db.verify()
        assert sorted(db.keys()) == [str(path.relative_to(pictures)) for path in files]
        for path, code in zip(files, codes_by_hand(files), strict=True):
            (number,) = db.find([str(path.relative_to(pictures))])
            assert db.get(number).tolist() == code.tolist() and db.labels([number]) == [path.parent.name]


def test_a_picture_has_one_key_however_a_manifest_writes_its_path(
    model: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = [str(path.relative_to(pictures)) for path in sorted(pictures.rglob("*.png"))]
    written = [f"./{keys[0]}", f"{pictures}/{keys[1]}", *keys[2:]]
    listing, database = pictures / "set.csv", tmp_path / "listed.bin"
    listing.write_text("path,label\n" + "\n".join(f"{name},{Path(name).parent.name}" for name in written))
    assert index.main(["build", "--model", str(model), "--images", str(listing), "--db", str(database)]) == 0
    assert ih.Database.open(database).keys() == keys
    assert add(capsys, database, pictures)["unchanged"] == add(capsys, database, listing)["unchanged"] == 6


def test_add_does_only_what_is_new_or_changed(
    database: Path, pictures: Path, codes_by_hand: Codes, capsys: pytest.CaptureFixture[str]
) -> None:
    done = add(capsys, database, pictures)
    assert (done["images"], done["changed"], done["unchanged"]) == (0, 0, 6)
    before = database.read_bytes()
    assert add(capsys, database, pictures)["images"] == 0 and database.read_bytes() == before

    cats, dogs = sorted((pictures / "cat").iterdir()), sorted((pictures / "dog").iterdir())
    with ih.Database.open(database) as db:
        ids = {key: number for key, number in zip(db.keys(), db.ids.tolist(), strict=True)}
    changed = str(cats[0].relative_to(pictures))
    shutil.copyfile(dogs[0], cats[0])  # another picture under the old name
    os.utime(cats[0], ns=(1, 1))
    (pictures / "fox").mkdir()
    shutil.copyfile(dogs[1], pictures / "fox" / "new.png")
    done = add(capsys, database, pictures)
    assert [done[name] for name in ("images", "new", "changed", "unchanged", "pruned")] == [0, 1, 1, 5, 0]  # copies
    check(database, pictures, codes_by_hand)
    with ih.Database.open(database) as db:
        assert {key: number for key, number in zip(db.keys(), db.ids.tolist(), strict=True)} == {
            **ids,
            "fox/new.png": 6,
        }
        assert db.find([changed]).tolist() == [ids[changed]]

    # A folder below the one that was indexed: the same keys.
    shutil.copyfile(dogs[2], pictures / "fox" / "newer.png")
    assert add(capsys, database, pictures / "fox", "--labels", "none")["new"] == 1
    with ih.Database.open(database) as db:
        assert db.keys([7]) == ["fox/newer.png"] and db.labels([7]) == [None]

    cats[1].unlink()
    assert add(capsys, database, pictures)["pruned"] == 0
    assert add(capsys, database, pictures, "--prune")["pruned"] == 1
    with ih.Database.open(database) as db:
        left = db.keys()
    assert str(cats[1].relative_to(pictures)) not in left and len(left) == 7


def labels_of(database: Path) -> dict[str, str | None]:
    with ih.Database.open(database) as db:
        return dict(zip(db.keys(), db.labels(), strict=True))


def test_add_batch_size_reaches_the_encoder(database: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    run = ih.Encoder.__init__

    def noted(self: Any, *arguments: Any, **options: Any) -> None:
        run(self, *arguments, **options)
        sizes.append(self.batch_size)

    monkeypatch.setattr(ih.Encoder, "__init__", noted)
    assert index.main(["add", str(database), "--images", str(pictures), "--batch-size", "3"]) == 0
    assert sizes == [3]


def test_add_labels_items_without_a_label(
    model: Path, database: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(pictures / "cat", out / "cat")
    assert add(capsys, database, out / "cat")["new"] == 3
    assert [label for key, label in labels_of(database).items() if key.startswith("../")] == [None] * 3
    assert add(capsys, database, out, "--labels", "none")["unchanged"] == 3
    assert [label for key, label in labels_of(database).items() if key.startswith("../")] == [None] * 3
    capsys.readouterr()
    assert index.main(["add", str(database), "--images", str(out)]) == 0
    assert "3 unchanged (3 of them with another label)" in capsys.readouterr().err
    assert all(label == Path(key).parent.name for key, label in labels_of(database).items())
    before = labels_of(database)
    (out / "cat").rename(out / "fox")
    assert add(capsys, database, out / "fox")["moved"] == 3  # the listing has no label: the old one stays
    assert sorted(labels_of(database).values()) == sorted(before.values())
    assert add(capsys, database, out)["unchanged"] == 3
    assert sorted(labels_of(database).values()) == sorted(before.values())


@pytest.mark.parametrize("more", [[], ["--recode"]])
def test_add_to_a_database_without_labels_labels_it(
    model: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    database = tmp_path / "plain.bin"
    command = ["build", "--model", str(model), "--images", str(pictures), "--db", str(database), "--labels", "none"]
    assert index.main(command) == 0
    add(capsys, database, pictures, "--labels", "none", *more)
    assert set(labels_of(database).values()) == {None}
    add(capsys, database, pictures, *more)
    assert labels_of(database) == {key: key.split("/")[0] for key in labels_of(database)}


def test_add_changed_image_without_label_keeps_its_own(
    database: Path, pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = labels_of(database)
    for name, more in (("cat", []), ("dog", ["--labels", "none"])):
        path = min((pictures / name).iterdir())
        Image.new("RGB", (9, 9), "red" if more else "blue").save(path)
        assert add(capsys, database, pictures / name, *more)["changed"] == 1
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
    pictures: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    header: str,
    line: str,
) -> None:
    keys = [path.relative_to(pictures).as_posix() for path in sorted(pictures.rglob("*.png"))]
    (pictures / name).write_text(header + "\n".join(line.format(key) for key in keys), encoding="utf-8")
    database = tmp_path / "plain.bin"
    command = ["build", "--model", model, "--images", pictures / name, "--db", database]
    assert "label" in error(capsys, *command)  # a slip, unless it was requested
    with pytest.raises(ih.IdcwhError, match="label"):  # training
        datasets.load(str(pictures / name))
    assert index.main([str(part) for part in (*command, "--labels", "none")]) == 0
    assert labels_of(database) == dict.fromkeys(keys)
    assert add(capsys, database, pictures / name, "--labels", "none")["unchanged"] == 6


def test_add_skips_what_cannot_be_read_and_goes_on(
    database: Path, pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (pictures / "cat" / "bad.png").write_text("no picture")
    shutil.copyfile(next((pictures / "dog").iterdir()), pictures / "cat" / "good.png")
    done = add(capsys, database, pictures, status=3)
    assert done["new"] == 1 and [Path(entry["path"]).name for entry in done["skipped"]] == ["bad.png"]
    (pictures / "cat" / "good.png").touch()
    assert "none of 1 image" not in error(capsys, "add", database, "--images", pictures / "nothing")


def test_add_wants_the_model_that_made_the_codes(
    database: Path, pictures: Path, tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.onnx"
    other.write_bytes(model.read_bytes() + b"\x72\x00")  # another fingerprint
    shutil.copyfile(next((pictures / "dog").iterdir()), pictures / "cat" / "new.png")
    before = database.read_bytes()
    assert "fingerprint" in error(capsys, "add", database, "--images", pictures, "--model", other)
    assert database.read_bytes() == before
    with ih.Database.open(database, "r+"):
        assert "somebody else is writing" in error(capsys, "add", database, "--images", pictures)


def test_remove_and_compact(database: Path, pictures: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with ih.Database.open(database) as db:
        keys = db.keys()
    assert index.main(["remove", str(database), "--keys", keys[0], keys[1]]) == 0
    assert index.main(["remove", str(database), "--ids", "2"]) == 0
    (tmp_path / "list").write_text(f"{keys[3]}\n\n")
    assert index.main(["remove", str(database), "--keys-from", str(tmp_path / "list")]) == 0
    assert keys[0] in error(capsys, "remove", database, "--keys", keys[4], keys[0])
    assert "id 2" in error(capsys, "remove", database, "--ids", 4, 2)
    for given, hint in {
        "nothing/like/it": f"its keys look like {keys[4]}",
        keys[4][:-1]: f"did you mean {keys[4]}?",
        str(pictures / keys[5]): f"did you mean {keys[5]}?",
    }.items():
        line = f"error: {database}: no item has the key {given}; nothing was removed; {hint}"
        assert error(capsys, "remove", database, "--keys", given) == line
    two = error(capsys, "remove", database, "--keys", "one", keys[4], "two")
    assert "the key one (and 1 more); nothing was removed" in two
    with ih.Database.open(database) as db:
        assert db.keys() == keys[4:] and db.ids.tolist() == [4, 5]
    assert index.main(["info", str(database)]) == 0
    out = capsys.readouterr().out
    assert "out of use" in out and "items        2" in out
    before = database.stat().st_size
    assert index.main(["compact", str(database)]) == 0 and database.stat().st_size < before
    assert index.main(["info", str(database), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["items"], found["removed"], found["unused"], found["segments"]) == (2, 0, 0, 1)
    assert found["distinct"] == len({code.tobytes() for code in ih.Database.open(database).codes})
    capsys.readouterr()
    assert search.main(["--db", str(database), "--query", str(pictures / keys[5]), "--json"]) == 0
    hits = json.loads(capsys.readouterr().out)["queries"][0]["hits"]
    assert [hit["key"] for hit in hits][:1] == [keys[5]] and len(hits) == 2


def test_verify_says_which_block_of_which_segment(
    database: Path, pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copyfile(next((pictures / "dog").iterdir()), pictures / "cat" / "new.png")
    add(capsys, database, pictures)
    with ih.Database.open(database) as db:
        code = db.get(6).tobytes()
    content = bytearray(database.read_bytes())
    place = content.rindex(code)
    content[place] ^= 4
    database.write_bytes(content)
    capsys.readouterr()
    assert index.main(["verify", str(database)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and f"codes: block 0 (bytes {place} to {place + 3})" in lines[0]
    assert "damaged (1 places)" in lines[1] and "6 of 7 items are in good segments" in lines[1]
    content[place] ^= 4
    database.write_bytes(content + b"torn")
    assert index.main(["verify", str(database)]) == 0
    out, err = capsys.readouterr()
    assert "good (7 items)" in out and "4 bytes at its end" in err


def test_a_killed_add_keeps_what_it_had_written(
    database: Path, pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = pictures / "many"
    many.mkdir()
    source = next((pictures / "dog").iterdir()).read_bytes()
    for i in range(3000):
        (many / f"{i}.png").write_bytes(source + str(i).encode())  # bytes behind the end of the PNG: no copies
    program = "from idcwh_search.cli.index import main; raise SystemExit(main())"
    arguments = [sys.executable, "-c", program, "add", str(database), "--images", str(pictures)]
    process = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
    size = database.stat().st_size
    while database.stat().st_size == size and process.poll() is None:
        pass
    process.kill()
    process.wait()
    with ih.Database.open(database) as db:
        db.verify()
        assert 6 <= len(db) <= 3006
        there = len(db)
    assert add(capsys, database, pictures)["images"] == 3006 - there


def test_prune_wants_the_folder_that_was_indexed(
    database: Path, pictures: Path, codes_by_hand: Codes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    shutil.copytree(pictures / "cat", other / "cat")
    moved = pictures.rename(tmp_path / "moved")
    before = database.read_bytes()
    assert "--root" in error(capsys, "add", database, "--images", other, "--prune")
    assert "no folder" in error(capsys, "add", database, "--images", other, "--root", tmp_path / "none")
    assert database.read_bytes() == before
    done = add(capsys, database, moved, "--prune", "--root", str(moved))
    assert (done["images"], done["unchanged"], done["pruned"]) == (0, 6, 0)
    check(database, moved, codes_by_hand)


def test_a_picture_that_is_listed_twice(
    model: Path, database: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cat = next((pictures / "cat").iterdir())
    listing = tmp_path / "list.txt"
    listing.write_text(f"{cat}\n{cat.parent / '..' / 'cat' / cat.name}\n{cat}\n")
    os.utime(cat, ns=(5, 5))
    assert add(capsys, database, listing)["unchanged"] == 1
    assert add(capsys, database, listing)["unchanged"] == 1
    new = tmp_path / "new.bin"
    assert index.main(["build", "--model", str(model), "--images", str(listing), "--db", str(new)]) == 0
    assert len(ih.Database.open(new)) == 1


def test_large_ids_and_foreign_manifests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.bin"
    with ih.Database.create(path, 20, {"model": "resnet", "images": {"path": None}}) as db:
        db.add(np.zeros((2, 3), np.uint8), ids=[2**40, 2**63 - 1])
    assert index.main(["remove", str(path), "--ids", str(2**40), str(2**63 - 1)]) == 0
    assert index.main(["info", str(path)]) == 0
    (tmp_path / "pictures").mkdir()
    assert "error" in error(capsys, "add", path, "--images", tmp_path / "pictures")
    np.save(tmp_path / "q.npy", np.zeros((1, 3), np.uint8))
    assert search.main(["--db", str(path), "--query-codes", str(tmp_path / "q.npy")]) == 0
