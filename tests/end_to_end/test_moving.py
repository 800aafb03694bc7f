"""`idcwh-index add` with images that were moved, touched, renamed, copied or lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import idcwh_search as ih
from idcwh_search.cli import content, index, search
from support.commands import Runner

Codes = Callable[[list[Path]], np.ndarray]
COUNTS = ("images", "new", "changed", "moved", "unchanged", "pruned")


class Adding:
    """Runs of `idcwh-index add` on a database. Compares the counts and the database with the expected ones."""

    def __init__(self, database: Path, folder: Path, codes_by_hand: Codes, commands: Runner) -> None:
        self.database, self.folder, self._codes, self._commands = database, folder, codes_by_hand, commands

    def __call__(self, *more: object, source: Path | None = None, status: int = 0, **counts: int) -> dict:
        """Expects these counts, and 0 for all others."""
        arguments = ("add", self.database, "--images", source or self.folder, "--json", *more)
        out, self.err = self._commands(index.main, *arguments, status=status)
        done = json.loads(out)
        assert {name: done[name] for name in COUNTS} == {**dict.fromkeys(COUNTS, 0), **counts}
        return done

    def refused(self, *more: object) -> str:
        """Returns the error of an add that changes nothing."""
        before = self.database.read_bytes()
        line = self._commands.fails(index.main, "add", self.database, "--images", self.folder, *more)
        assert self.database.read_bytes() == before
        return line

    def ids(self) -> dict[str, int]:
        with ih.Database.open(self.database) as db:
            db.verify()
            assert len(set(db.keys())) == len(db)
            return dict(zip(db.keys(), db.ids.tolist(), strict=True))

    def check(self, folder: Path | None = None) -> None:
        """Asserts that the database holds exactly the images of the folder, each with the code of its pixels and its
        label.
        """
        folder = folder or self.folder
        files = sorted(folder.rglob("*.png"))
        ids = self.ids()
        assert set(ids) == {str(path.relative_to(folder)) for path in files}
        with ih.Database.open(self.database) as db:
            for path, code in zip(files, self._codes(files), strict=True):
                number = ids[str(path.relative_to(folder))]
                assert db.get(number).tolist() == code.tolist() and db.labels([number]) == [path.parent.name]
                assert db.checksums([number])[0, 0] == path.stat().st_size


@pytest.fixture
def add(database: Path, images: Path, codes_by_hand: Codes, commands: Runner) -> Adding:
    return Adding(database, images, codes_by_hand, commands)


@pytest.fixture
def files(images: Path) -> list[Path]:
    return sorted(images.rglob("*.png"))


def fat_time(nanoseconds: int) -> int:
    """Returns the time that a FAT file system in another time zone stores."""
    return (nanoseconds // 2_000_000_000 * 2 + 3600) * 1_000_000_000


@pytest.mark.parametrize("change", [lambda old: old + 1, fat_time, lambda _: 0])
def test_add_other_times_encodes_nothing(
    add: Adding, files: list[Path], change: Callable[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = add.ids()
    for path in files:
        os.utime(path, ns=(0, change(path.stat().st_mtime_ns)))
    add(unchanged=6)
    assert add.ids() == ids
    add.check()
    before = add.database.read_bytes()
    monkeypatch.setattr(content, "checksum", lambda path: pytest.fail(f"{path}: read again"))
    add(unchanged=6)
    assert add.database.read_bytes() == before


def test_add_renamed_file_keeps_id_and_code(add: Adding, files: list[Path]) -> None:
    ids = add.ids()
    files[0].rename(files[0].with_name("new name.png"))
    files[4].rename(files[0].parent / files[4].name)  # to another class
    add(moved=2, unchanged=4)
    ids["cat/new name.png"] = ids.pop(f"cat/{files[0].name}")
    ids[f"cat/{files[4].name}"] = ids.pop(f"dog/{files[4].name}")
    assert add.ids() == ids
    add.check()
    add(unchanged=6)


def test_add_renamed_folder_keeps_ids(add: Adding, images: Path) -> None:
    ids = add.ids()
    (images / "cat").rename(images / "tiger")
    add("--prune", moved=3, unchanged=3)
    assert add.ids() == {key.replace("cat/", "tiger/"): number for key, number in ids.items()}
    add.check()


def test_add_swapped_names_swap_keys(add: Adding, files: list[Path], tmp_path: Path) -> None:
    ids = add.ids()
    for one, other in ((files[0], files[1]), (files[2], files[3])):  # within a class and between two
        one.rename(tmp_path / "between")
        other.rename(one)
        (tmp_path / "between").rename(other)
    add(moved=4, unchanged=2)
    key = [str(path.relative_to(add.folder)) for path in files]
    swapped = {key[1]: ids[key[0]], key[0]: ids[key[1]], key[3]: ids[key[2]], key[2]: ids[key[3]]}
    assert add.ids() == {**ids, **swapped}
    add.check()


def test_add_rotated_names_and_new_file_in_the_gap(add: Adding, files: list[Path]) -> None:
    """a becomes b, b becomes c, c gets a new name, and another image becomes a, as in log rotation."""
    ids = add.ids()
    a, b, c = files[:3]
    d = c.with_name("d.png")
    for source, target in ((c, d), (b, c), (a, b)):
        source.rename(target)
    Image.new("RGB", (9, 9), "red").save(a)
    add(images=1, new=1, moved=3, unchanged=3)
    key = [str(path.relative_to(add.folder)) for path in (a, b, c, d)]
    assert {**ids, key[0]: 6, key[1]: ids[key[0]], key[2]: ids[key[1]], key[3]: ids[key[2]]} == add.ids()
    add.check()


def test_add_overwritten_by_known_image_takes_its_code(add: Adding, files: list[Path]) -> None:
    ids = add.ids()
    lost = str(files[1].relative_to(add.folder))
    files[1].rename(files[0])
    add(changed=1, unchanged=4)
    assert add.ids() == ids
    done = add("--prune", unchanged=5, pruned=1)
    assert done["removed"] == [lost] and f"pruned {lost}\n" in add.err
    del ids[lost]
    assert add.ids() == ids
    add.check()


def test_add_copy_is_an_item_of_its_own(add: Adding, files: list[Path]) -> None:
    ids = add.ids()
    shutil.copy(files[0], files[5].with_name("copy.png"))
    add(new=1, unchanged=6)
    assert add.ids() == {**ids, "dog/copy.png": 6}
    add.check()
    files[0].unlink()  # after one of two identical files is removed, the other is unchanged
    add("--prune", unchanged=6, pruned=1)
    add.check()


def test_add_truncated_file_of_the_same_time_is_encoded(add: Adding, files: list[Path]) -> None:
    """A file of the same size with other bytes and another time is found too."""
    status, whole = files[0].stat(), files[0].read_bytes()
    files[0].write_bytes(whole[: len(whole) // 2])
    os.utime(files[0], ns=(status.st_atime_ns, status.st_mtime_ns))
    done = add(unchanged=5, status=3)
    assert [entry["path"] for entry in done["skipped"]] == [str(files[0])]
    files[0].write_bytes(whole)
    os.utime(files[0], ns=(status.st_atime_ns, status.st_mtime_ns))
    add(unchanged=6)
    image = np.asarray(Image.open(files[1]).convert("RGB"))
    for path, pixels in ((files[4], image), (files[5], 255 - image)):
        Image.fromarray(pixels).save(path, format="BMP")
    add(images=2, changed=2, unchanged=4)
    Image.fromarray(image[::-1].copy()).save(files[4], format="BMP")
    os.utime(files[4], ns=(7, 7))
    add(images=1, changed=1, unchanged=5)
    add.check()


def test_add_recode_finds_changes_of_equal_size_and_time(add: Adding, files: list[Path]) -> None:
    image = np.asarray(Image.open(files[1]).convert("RGB"))
    Image.fromarray(image).save(files[1], format="BMP")
    os.utime(files[1], ns=(7, 7))
    add(images=1, changed=1, unchanged=5)
    Image.fromarray(255 - image).save(files[1], format="BMP")
    os.utime(files[1], ns=(7, 7))
    files[2].rename(files[2].with_name("moved.png"))
    shutil.copy(files[3], files[3].with_name("copy.png"))
    ids = add.ids()
    ids["cat/moved.png"] = ids.pop(str(files[2].relative_to(add.folder)))
    add("--recode", images=7, new=1, moved=1, unchanged=5)
    assert add.ids() == {**ids, "dog/copy.png": 6}
    add.check()


def test_database_without_checksums_gets_them(add: Adding, files: list[Path]) -> None:
    with ih.Database.open(add.database, "r+") as db:
        db.replace(db.ids, db.codes, db.keys(), db.labels(), db.mtime_signatures())
        assert not db.checksums().any()
    os.utime(files[0], ns=(7, 7))  # nothing shows if this file has changed
    add(images=1, changed=1, unchanged=5)
    add.check()
    assert "5 images" in add.err and "checksum" in add.err
    for path in files:
        os.utime(path, ns=(9, 9))
    add(unchanged=6)
    assert "5 images" not in add.err


def test_add_unpacked_archive_with_root_keeps_ids(add: Adding, images: Path, tmp_path: Path, commands: Runner) -> None:
    subprocess.run(["tar", "-cf", tmp_path / "all.tar", "-C", images, "."], check=True)
    shutil.rmtree(images)
    elsewhere = tmp_path / "far" / "elsewhere"
    elsewhere.mkdir(parents=True)
    subprocess.run(["tar", "-xmf", tmp_path / "all.tar", "-C", elsewhere], check=True)  # -m: with the current time
    ids = add.ids()
    line = add.refused("--images", elsewhere)
    assert line.count(str(images)) == 1 and "--root" in line  # both paths of the manifest are the same
    page = tmp_path / "hits.html"
    query = ["--db", add.database, "--query", elsewhere / "cat", "--html", page]
    for more, shown in ([], False), (["--root", elsewhere], True):
        err = commands(search.main, *query, *more).err
        assert ("no image" not in page.read_text()) == shown
        assert ("--root" in err) != shown
    for more, left in ([], 6), (["--root", elsewhere], 5):  # a read-only database finds its images below the root
        arguments = [*query[:2], "--query", elsewhere / min(ids), "--exclude-self", *more]
        (answer,) = commands.json(search.main, *arguments)["queries"]
        assert len(answer["hits"]) == left
    missing = tmp_path / "none"
    assert commands.fails(search.main, *query, "--root", missing).startswith(f"error: {missing}: ")
    add("--root", elsewhere, source=elsewhere, unchanged=6)
    add("--prune", source=elsewhere / "dog", unchanged=3)
    assert add.ids() == ids
    add.check(elsewhere)
    commands(search.main, *query)
    assert "no image" not in page.read_text()


def test_image_root_through_a_link_gives_the_same_keys(
    add: Adding, files: list[Path], images: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(images)
    add(source=tmp_path / "link", unchanged=6)
    add(source=tmp_path / "link" / "cat", unchanged=3)
    (tmp_path / "list.txt").write_text("".join(f"link/cat/../{path.relative_to(images)}\n" for path in files))
    add(source=tmp_path / "list.txt", unchanged=6)
    (tmp_path / "more").mkdir()
    files[0].rename(tmp_path / "more" / "a.png")
    (images / "fox").symlink_to(tmp_path / "more")
    for source, counts in (
        (images, {"moved": 1, "unchanged": 5}),
        (tmp_path / "link" / "fox", {"unchanged": 1}),
        (tmp_path / "more", {"new": 1}),  # outside of the folder
        (tmp_path / "more", {"unchanged": 1}),
    ):
        add(source=source, **counts)
    assert {"fox/a.png", "../more/a.png"} < set(add.ids())


def unmounted(add: Adding) -> Path:
    """Moves the folder of the images and leaves an empty one in its place, like a disk that is not mounted."""
    place = add.folder.with_name("place")
    add.folder.rename(place)
    add.folder.mkdir()
    return place


def outside_keys(add: Adding, place: Path) -> None:
    """Turns every key into one outside the folder, as an explicit --root of the empty folder does."""
    add("--root", add.folder, source=place, moved=6)
    assert all(key.startswith("../place/") for key in add.ids())


def test_add_with_empty_root_stops(add: Adding) -> None:
    ids = add.ids()
    place = unmounted(add)
    for source in (place, place / "cat"):
        line = add.refused("--images", source)
        assert str(add.folder) in line and f"--root {place}" in line
    add("--root", place, "--prune", source=place, unchanged=6)
    assert add.ids() == ids
    add.check(place)


def test_add_some_images_moved_outside_keep_ids(add: Adding, files: list[Path], tmp_path: Path) -> None:
    ids = add.ids()
    (tmp_path / "out" / "dog").mkdir(parents=True)
    for path in files[3:]:
        path.rename(tmp_path / "out" / "dog" / path.name)
    add(source=tmp_path / "out", moved=3)
    add("--prune", unchanged=3)
    assert add.ids() == {key.replace("dog/", "../out/dog/"): number for key, number in ids.items()}


def test_add_root_renames_keys_outside_the_old_root(add: Adding) -> None:
    ids = add.ids()
    place = unmounted(add)
    outside_keys(add, place)
    add("--root", place, "--prune", source=place / "dog", unchanged=3)  # images that are not listed too
    assert add.ids() == ids
    add("--prune", source=place, unchanged=6)
    add.check(place)
    add.folder.rmdir()
    place.rename(add.folder)
    add("--root", add.folder, "--prune", unchanged=6)
    add("--prune", unchanged=6)
    assert add.ids() == ids
    add.check()


def test_add_root_with_old_root_gone_renames_keys(add: Adding) -> None:
    ids = add.ids()
    place = unmounted(add)
    outside_keys(add, place)
    add.folder.rmdir()
    add("--root", place, "--prune", source=place, unchanged=6)
    assert add.ids() == ids
    add.check(place)


def test_add_root_above_the_old_one_renames_keys(add: Adding, tmp_path: Path) -> None:
    ids = add.ids()
    shutil.copytree(add.folder / "cat", tmp_path / "out" / "cat")
    add(source=tmp_path / "out", new=3)
    add("--root", tmp_path, source=add.folder / "cat", unchanged=3)
    result = add.ids()
    assert {key: number for key, number in result.items() if number < 6} == {f"images/{k}": n for k, n in ids.items()}
    assert {key.rpartition("/")[0] for key, number in result.items() if number >= 6} == {"out/cat"}
    add("--prune", source=tmp_path, unchanged=9)


def test_add_root_removes_items_of_one_file(add: Adding) -> None:
    """Older versions could write a database with every image twice."""
    ids = add.ids()
    place = unmounted(add)
    outside_keys(add, place)
    with ih.Database.open(add.database, "r+") as db:
        keys = [key.removeprefix("../place/") for key in db.keys()]  # noqa: SIM118
        db.add(db.codes, None, keys, db.labels(), db.mtime_signatures(), db.checksums())
    add("--root", place, source=place, unchanged=6)
    assert "removed 6 items" in add.err
    assert add.ids() == ids
    add.check(place)


def test_add_root_of_outside_folder_far_away(add: Adding, tmp_path: Path) -> None:
    """Keys of images outside the folder name the same files after the folder moves to another depth."""
    shutil.copytree(add.folder / "cat", tmp_path / "out" / "cat")
    add(source=tmp_path / "out", new=3)
    far = tmp_path / "far" / "away"
    far.parent.mkdir()
    add.folder.rename(far)
    add("--root", far, "--prune", source=far, unchanged=6)
    assert sum(key.startswith("../../out/cat/") for key in add.ids()) == 3
    add("--prune", source=tmp_path / "out", unchanged=3)


def test_add_tar_members_are_recognised(
    model: Path, images: Path, tmp_path: Path, codes_by_hand: Codes, commands: Runner
) -> None:
    shards, database = tmp_path / "shards", tmp_path / "tar.bin"
    shards.mkdir()
    files = sorted(images.rglob("*.png"))

    def pack(name: str, order: list[Path]) -> None:
        with tarfile.open(shards / name, "w") as archive:
            for path in order:
                archive.add(path, path.relative_to(images))

    pack("a.tar", files)
    commands.build(model, shards, database)
    add = Adding(database, shards, codes_by_hand, commands)
    ids = add.ids()
    pack("a.tar", files[::-1])  # other offsets, another time
    add(unchanged=6)
    (shards / "a.tar").rename(shards / "b.tar")
    add("--prune", moved=6)
    assert add.ids() == {key.replace("a.tar/", "b.tar/"): number for key, number in ids.items()}
    (shards / "b.tar").unlink()
    shutil.copytree(images, shards, dirs_exist_ok=True)  # unpacked
    add("--prune", moved=6)
    assert add.ids() == {key.removeprefix("a.tar/"): number for key, number in ids.items()}
    add.check()


# pruning


@pytest.fixture
def disks(model: Path, tmp_path: Path, codes_by_hand: Codes, commands: Runner) -> Adding:
    """A database of 100 images: 12 on one disk, 60 on another, 28 in folders of 2."""
    folder, database = tmp_path / "disks", tmp_path / "disks.bin"
    rng = np.random.default_rng(0)
    for name, number in {"one": 12, "two": 60, **{f"few{i}": 2 for i in range(14)}}.items():
        (folder / name).mkdir(parents=True)
        for i in range(number):
            Image.fromarray(rng.integers(0, 256, (9, 9, 3), np.uint8)).save(folder / name / f"{i}.png")
    commands.build(model, folder, database)
    return Adding(database, folder, codes_by_hand, commands)


def test_prune_refuses_a_disk_that_is_not_mounted(disks: Adding) -> None:
    for path in (disks.folder / "one").iterdir():
        path.unlink()
    line = disks.refused("--prune")
    assert f"error: {disks.database}: " in line and "12 items of the folder one" in line and str(disks.folder) in line
    assert "one/0.png" in line and "--prune-all" in line
    disks(unchanged=88)
    done = disks("--prune-all", unchanged=88, pruned=12)
    assert len(done["removed"]) == 12 and disks.err.count("pruned one/") == 12
    disks.check()


def test_prune_refuses_more_than_a_quarter(disks: Adding) -> None:
    for i in range(26):
        (disks.folder / "two" / f"{i}.png").unlink()
    assert "26 of 100 items" in disks.refused("--prune")
    Image.new("RGB", (9, 9), "red").save(disks.folder / "two" / "new.png")
    disks("--prune-all", images=1, new=1, unchanged=74, pruned=26)
    assert disks.err.count("pruned two/") == 20 and "pruned 6 more" in disks.err
    disks.check()


def test_prune_removes_items_of_deleted_files(disks: Adding) -> None:
    shutil.rmtree(disks.folder / "few3")
    for i in range(11):
        (disks.folder / "one" / f"{i}.png").unlink()
    disks("--prune", unchanged=87, pruned=13)
    disks.check()


def test_add_names_items_without_a_file(add: Adding, images: Path) -> None:
    min(images.rglob("*.png")).unlink()
    add(unchanged=len(add.ids()) - 1)
    assert "1 item " in add.err and "--prune" in add.err
    add("--prune", unchanged=len(add.ids()) - 1, pruned=1)
    add(unchanged=len(add.ids()))
    assert "--prune" not in add.err


def test_prune_refuses_to_empty_a_small_database(add: Adding, images: Path, tmp_path: Path) -> None:
    shutil.copytree(images, tmp_path / "other")
    Image.new("RGB", (9, 9), "red").save(tmp_path / "other.png")
    shutil.rmtree(images)
    images.mkdir()
    add.folder = tmp_path / "other.png"
    line = add.refused("--prune")
    assert "6 items" in line and str(images) in line
    add("--prune-all", images=1, new=1, pruned=6)


def test_prune_stops_at_a_file_system_that_fails(add: Adding, images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = min((images / "cat").iterdir())
    victim.unlink()
    stat = os.stat

    def failing(path: object, *more: object, **named: object) -> os.stat_result:
        if str(path) == str(victim):
            raise OSError(5, "Input/output error", str(path))
        return stat(path, *more, **named)

    monkeypatch.setattr(content.os, "stat", failing)
    assert add.refused("--prune").startswith(f"error: {victim}: ")
    assert len(add.ids()) == 6
