"""`idcwh-index build` from tar files, and builds that are killed and resumed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import idcwh_search as ih
from idcwh_search.cli import changes, index, search
from support.commands import Runner


def tar(folder: Path, path: Path, *, labels: bool = False) -> Path:
    """Writes a WebDataset shard of a folder of classes: 0000.png, 0000.cls, ..., or the files with their folders."""
    with tarfile.open(path, "w") as archive:
        for i, image in enumerate(sorted(folder.rglob("*.png"))):
            if labels:
                (folder / "label").write_text(image.parent.name)
                archive.add(image, f"{i:04d}.png")
                archive.add(folder / "label", f"{i:04d}.cls")
                (folder / "label").unlink()
            else:
                archive.add(image, str(image.relative_to(folder)))
    return path


@pytest.mark.parametrize("labels", [False, True])
def test_build_of_a_tar_file_equals_its_images(
    model: Path, images: Path, tmp_path: Path, codes_by_hand: Callable[..., np.ndarray], labels: bool,
    commands: Runner,
) -> None:  # fmt: skip
    (tmp_path / "shards").mkdir()
    archive = tar(images, tmp_path / "shards" / "000.tar", labels=labels)
    database = tmp_path / "codes.bin"
    commands.build(model, tmp_path / "shards", database)
    files = sorted(images.rglob("*.png"))
    with ih.Database.open(database) as db:
        assert [db.get(i).tolist() for i in range(len(db))] == codes_by_hand(files).tolist()
        assert db.labels() == [path.parent.name for path in files]
        names = [f"{i:04d}.png" if labels else str(path.relative_to(images)) for i, path in enumerate(files)]
        assert db.keys() == [f"000.tar/{name}" for name in names]

    page = tmp_path / "page.html"
    query = f"{archive}/{names[2]}"
    (answer,) = commands.json(search.main, "--db", database, "--query", query, "--html", page)["queries"]
    assert f"000.tar/{names[2]}" in [hit["key"] for hit in answer["hits"]]
    assert "no image" not in page.read_text(), "thumbnails of images in the archive"

    with tarfile.open(archive, "a") as more:  # in a shard that grows, all images count as changed
        more.add(files[0], "new.png")
    commands(index.main, "add", database, "--images", tmp_path / "shards", "--prune")
    with ih.Database.open(database) as db:
        assert len(db) == len(files) + 1 and db.find(["000.tar/new.png"]).tolist() == [len(files)]
    archive.unlink()
    tar(images / "cat", tmp_path / "shards" / "001.tar")
    commands(index.main, "add", database, "--images", tmp_path / "shards", "--prune")
    with ih.Database.open(database) as db:
        assert {key.split("/")[0] for key in db.keys()} == {"001.tar"}  # noqa: SIM118


def test_prune_keeps_tar_members_under_any_name(model: Path, images: Path, tmp_path: Path, commands: Runner) -> None:
    """`tar -C dir .` names its members ./cat/1.png."""
    (tmp_path / "shards").mkdir()
    archive, database = tmp_path / "shards" / "dot.tar", tmp_path / "codes.bin"
    subprocess.run(["tar", "-cf", archive, "-C", images, "."], check=True)
    commands.build(model, archive, database)
    for source in (archive, archive.parent):
        more = [] if source == archive else ["--root", archive.parent]
        done = commands.json(index.main, "add", database, "--images", source, "--prune", *more)
        assert (done["images"], done["unchanged"], done["pruned"]) == (0, 6, 0)
    files = sorted(str(path.relative_to(images)) for path in images.rglob("*.png"))
    with ih.Database.open(database) as db:
        assert sorted(db.keys()) == [f"dot.tar/{name}" for name in files]
    page = tmp_path / "page.html"
    commands(search.main, "--db", database, "--query", f"{archive}/./{files[0]}", "--html", page)
    assert "no image" not in page.read_text() and page.read_text().count("data:image/") == 6

    subprocess.run(["tar", "-cf", archive, "-C", images, f"./{files[0]}"], check=True)  # without the other images
    commands(index.main, "add", database, "--images", archive, "--prune")
    with ih.Database.open(database) as db:
        assert db.keys() == [f"dot.tar/{files[0]}"]


def test_build_reports_unreadable_tar_members(model: Path, images: Path, tmp_path: Path, commands: Runner) -> None:
    folder, database = tmp_path / "mixed", tmp_path / "codes.bin"
    folder.mkdir()
    good = next((images / "cat").iterdir())
    with tarfile.open(folder / "a.tar", "w") as archive:
        archive.add(good, "x.png")
        archive.add(good, "../y.png")
        link = tarfile.TarInfo("z.png")
        link.type, link.linkname = tarfile.SYMTYPE, "gone.png"
        archive.addfile(link)
    shutil.copy(good, folder / "y.png")
    shutil.copy(good, folder / "z.png")
    out, err = commands.build(model, folder, database, "--json", status=3)
    skipped = {entry["path"]: entry["reason"] for entry in json.loads(out)["skipped"]}
    assert set(skipped) == {f"{folder}/a.tar/../y.png", f"{folder}/a.tar/z.png"}
    assert all(f"skipped {path}: {reason}" in err for path, reason in skipped.items())
    with ih.Database.open(database) as db:
        assert sorted(db.keys()) == ["a.tar/x.png", "y.png", "z.png"]
    commands(index.main, "add", database, "--images", folder, "--prune", status=3)
    with ih.Database.open(database) as db:
        assert len(db) == 3


KILLED = """
import os, signal, sys
from idcwh_search.cli import changes, index
changes.BATCH = 8
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is started with it ignored
write, writes = changes.Changes._put, 0

def counted(self, *given):
    global writes
    write(self, *given)
    writes += 1
    if writes == 3:
        os.kill(os.getpid(), signal.{signal})

changes.Changes._put = counted
sys.exit(index.main(sys.argv[1:]))
"""


@pytest.fixture
def many(tmp_path: Path) -> Path:
    folder = tmp_path / "many"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(100):
        Image.fromarray(rng.integers(0, 256, (9, 9, 3), np.uint8)).save(folder / f"{i:03d}.png")
    (folder / "050.png").write_bytes(b"no image")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGKILL", "SIGINT", "SIGTERM"])
def test_build_killed_continues_with_resume(
    model: Path, many: Path, tmp_path: Path, how: str, commands: Runner
) -> None:
    database, whole = tmp_path / "codes.bin", tmp_path / "whole.bin"
    command = ["build", "--model", str(model), "--images", str(many), "--db", str(database), "--batch-size", "4"]
    script = KILLED.replace("{signal}", how)
    done = subprocess.run([sys.executable, "-c", script, *command, "--resume"], capture_output=True, text=True)
    assert done.returncode == {"SIGKILL": -signal.SIGKILL, "SIGINT": 130, "SIGTERM": 143}[how], done.stderr
    assert not database.exists()
    with ih.Database.open(f"{database}.part") as db:
        assert 24 <= len(db) < 99

    (many / "000.png").unlink()  # a change since the killed build is found
    Image.new("RGB", (9, 9), "red").save(many / "001.png")
    os.utime(many / "002.png", ns=(1, 1))  # an unchanged image is not encoded again
    done = json.loads(commands.build(model, many, database, "--resume", "--json", status=3).out)
    assert done["images"] + done["unchanged"] == 98 and done["changed"] == 1 and len(done["skipped"]) == 1
    assert not Path(f"{database}.part").exists()
    commands.build(model, many, whole, status=3)
    with ih.Database.open(database) as one, ih.Database.open(whole) as two:
        one.verify()
        assert (one.info()["removed"], one.info()["unused"], one.info()["segments"]) == (0, 0, 1), "compact"
        assert one.manifest == two.manifest and sorted(one.keys()) == sorted(two.keys())
        order = [key for key in one.keys() if key not in ("001.png", "002.png")]  # noqa: SIM118
        assert order == two.keys()[2:], "in the order of the list, but for those that were written again"
        for key in two.keys():  # noqa: SIM118
            assert one.get(one.find([key])[0]).tolist() == two.get(two.find([key])[0]).tolist()


def test_build_writes_after_every_512_images(
    model: Path, images: Path, tmp_path: Path, commands: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, database = tmp_path / "links", tmp_path / "codes.bin"
    folder.mkdir()
    for i in range(600):
        (folder / f"{i:03d}.png").hardlink_to(next((images / "dog").iterdir()))
    there: list[int] = []
    write = changes.Changes._put

    def watched(*given: object) -> None:
        with ih.Database.open(f"{database}.part") as other:  # as by another process
            there.append(len(other))
        write(*given)

    monkeypatch.setattr(changes.Changes, "_put", watched)
    commands.build(model, folder, database, "--batch-size", "8", "--resume")
    assert there == [0, 512] and len(ih.Database.open(database)) == 600


def test_build_resumed_over_a_locked_database_is_refused(
    model: Path, images: Path, tmp_path: Path, commands: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, part = tmp_path / "codes.bin", tmp_path / "codes.bin.part"
    arguments = ("build", "--model", model, "--images", images, "--db", database, "--force", "--resume")
    with ih.Database.create(database, 20) as other:  # as by another process
        assert commands.fails(index.main, *arguments).startswith(f"error: {database}: is locked")
        assert not part.exists(), "refused before images are encoded"
        other.set_manifest({"its": "own"})
    others: list[ih.Database] = []
    write = changes.Changes._put

    def locking(*given: object) -> None:
        others.append(ih.Database.open(database, "r+"))
        write(*given)

    monkeypatch.setattr(changes.Changes, "_put", locking)
    assert commands.fails(index.main, *arguments).startswith(f"error: {database}: is locked")
    others.pop().close()
    with ih.Database.open(database) as db:
        assert db.manifest == {"its": "own"} and len(db) == 0
    commands(index.main, *arguments)
    with ih.Database.open(database) as db:
        assert len(db) == 6 and not part.exists()


def test_build_resumes_only_with_its_own_model(
    model: Path, make_model: Callable[..., Path], images: Path, tmp_path: Path, commands: Runner
) -> None:
    database = tmp_path / "codes.bin"
    commands.build(model, images, database, "--resume")
    shutil.move(database, f"{database}.part")
    other = make_model(tmp_path / "other.onnx", seed=1)
    arguments = ("build", "--images", images, "--db", database, "--resume", "--model")
    assert commands.fails(index.main, *arguments, other).startswith(f"error: {database}.part: ")
    commands.build(model, images, database, "--resume")
    with ih.Database.open(database) as db:
        assert len(db) == 6
    Path(f"{database}.part").write_bytes(b"junk")
    line = commands.fails(index.main, *arguments, model, "--force")
    assert line.startswith(f"error: {database}.part: ") and "--resume" in line
