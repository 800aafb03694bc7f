"""`idcwh-dedup` on folders of images without a database: by a model, by PDQ, and the script that moves duplicates."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pdqhash
import pytest
from PIL import Image

import idcwh_search as ih
from idcwh_search.cli import dedup
from idcwh_search.encoder.pdq import Pdq
from support.commands import IMAGES, Runner

PDQ = ("--hash", "pdq", "--radius", 31)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Four photographs of 600 x 450 pixels. The first one has three smaller copies, and the second one has one."""
    folder = tmp_path / "photos"
    (folder / "small").mkdir(parents=True)
    for number, source in enumerate(sorted((IMAGES / "test").rglob("*.png"))[::50][:4]):
        image = Image.open(source).convert("RGB").resize((600, 450), Image.Resampling.BICUBIC)
        image.save(folder / f"{number}.png", compress_level=1)
        for copy in range({0: 3, 1: 1}.get(number, 0)):
            image.resize((480, 360)).save(folder / "small" / f"{number} {copy}.jpg", quality=70 + copy)
    return folder


def oracle(path: Path) -> np.ndarray:
    """Returns the code of an image by pdqhash alone, without scaling."""
    bits, quality = pdqhash.compute(np.asarray(Image.open(path).convert("RGB")))
    assert quality >= 50
    text = f"{int(''.join(map(str, bits)), 2):064x}"
    return ih.from_hex([text], order="pdq")[0]


def distance(a: np.ndarray, b: np.ndarray) -> int:
    return int(np.unpackbits(a ^ b).sum())


def test_pdq_equals_pdqhash(photos: Path) -> None:
    hasher = Pdq()
    for path in photos.glob("small/*.jpg"):
        assert np.array_equal(hasher.pixels(path)[:-1], oracle(path))
    for path in photos.glob("*.png"):  # scaled to 512 x 512; the project of PDQ accepts 10 bits
        assert distance(hasher.pixels(path)[:-1], oracle(path)) <= 10


def test_pdq_of_a_large_jpeg_is_near_that_of_all_pixels(photos: Path, tmp_path: Path) -> None:
    with Image.open(photos / "2.png") as image:
        turned = image.resize((2400, 1800), Image.Resampling.BICUBIC).transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    turned.save(tmp_path / "large.jpg", quality=95, exif=exif)
    assert distance(Pdq().pixels(tmp_path / "large.jpg")[:-1], oracle(photos / "2.png")) <= 10


def test_folder_by_pdq_finds_the_copies(photos: Path, tmp_path: Path, commands: Runner) -> None:
    Image.new("RGB", (200, 200), (7, 7, 7)).save(photos / "plain.png")
    page = tmp_path / "groups.html"
    found = commands.json(dedup.main, photos, *PDQ, "--html", page)
    copies = {"0.png": ["small/0 0.jpg", "small/0 1.jpg", "small/0 2.jpg"], "1.png": ["small/1 0.jpg"]}
    assert {g["keep"]["key"]: sorted(i["key"] for i in g["duplicates"]) for g in found["groups"]} == copies
    assert (found["items"], found["bits"], found["database"], found["images"]) == (8, 256, None, str(photos))
    assert page.read_text().count("data:image/jpeg") == 6
    (photos / "small" / "text.jpg").write_text("no image")
    out, err = commands(dedup.main, photos, *PDQ, status=3)
    assert "text.jpg" in err and "left out 1 image with too little detail" in err and "plain.png" not in out
    found = commands.json(dedup.main, photos, *PDQ, status=3)
    assert [skipped["path"] for skipped in found["skipped"]] == [str(photos / "small" / "text.jpg")]


def test_folder_by_model_equals_its_database(database: Path, model: Path, images: Path, commands: Runner) -> None:
    for radius in (0, 6, 20):
        for mode in ("greedy", "components"):
            options = ("--radius", radius, "--mode", mode, "--keep", "largest")
            stored = commands.json(dedup.main, "--db", database, *options)["groups"]
            for group in stored:
                for item in (group["keep"], *group["duplicates"]):
                    item["label"] = None  # labels are those of a database
            assert commands.json(dedup.main, images, "--model", model, *options)["groups"] == stored


def test_folder_against_reference_takes_its_model(
    database: Path, images: Path, make_model: Callable[..., Path], tmp_path: Path, commands: Runner
) -> None:
    incoming = tmp_path / "incoming"
    shutil.copytree(images / "dog", incoming)
    found = commands.json(dedup.main, incoming, "--reference", database, "--radius", 0)
    assert found["items"] == 3 and found["duplicates"] == 3
    other = make_model(tmp_path / "other.onnx", seed=1)
    options = (incoming, "--reference", database, "--radius", 0)
    assert str(other) in commands.fails(dedup.main, *options, "--model", other)
    assert "does not match" in commands.fails(dedup.main, *options, "--hash", "pdq")


def test_folder_against_reference_of_pdq_hashes(photos: Path, tmp_path: Path, commands: Runner) -> None:
    for order in ("pdq", "imagehash"):
        with ih.Database.create(tmp_path / order, 256, {"hashes": {"order": order}}) as db:
            db.add(oracle(photos / "1.png")[None], keys=["known"])
    found = commands.json(dedup.main, photos, *PDQ, "--reference", tmp_path / "pdq")
    assert commands.json(dedup.main, photos, *PDQ[2:], "--reference", tmp_path / "pdq") == found
    (group,) = found["groups"]
    assert {item["key"] for item in group["duplicates"]} == {"1.png", "small/1 0.jpg"}
    assert group["keep"]["key"] == "known"
    line = commands.fails(dedup.main, photos, *PDQ, "--reference", tmp_path / "imagehash")
    assert str(tmp_path / "imagehash") in line and "does not match" in line


def test_folder_with_a_wrong_radius_fails_before_the_work(
    photos: Path, model: Path, database: Path, commands: Runner
) -> None:
    (photos / "text.jpg").write_text("no image")
    for options in (("--hash", "pdq", "--radius", 257), ("--model", model, "--radius", 257)):
        assert "skipped" not in commands(dedup.main, photos, *options, status=2).err
    assert "skipped" not in commands(dedup.main, photos, *PDQ, "--reference", database, status=1).err


def test_images_in_tar_and_list_have_groups(photos: Path, tmp_path: Path, commands: Runner) -> None:
    archive, listed = tmp_path / "photos.tar", tmp_path / "list.txt"
    subprocess.run(["tar", "-cf", archive, "-C", photos, "."], check=True)
    listed.write_text("".join(f"{path}\n" for path in sorted(photos.rglob("*.*"))))
    script, paths = tmp_path / "move.sh", tmp_path / "paths.txt"
    for source, moved in ((archive, 0), (listed, 4)):
        out, err = commands(dedup.main, source, *PDQ, "--script", script, "--remove-list", paths)
        assert out.count("duplicate ") == 4 and script.read_text().count("\nmove ") == moved
        assert paths.read_text().count("\n") == moved and ("left out 4 duplicates" in err) == (moved == 0)
        paths.unlink()


ODD = [
    b"a b.jpg",
    b"a'b.jpg",
    b'"$HOME`id`.jpg',
    b"new\nline.jpg",
    b"\n.jpg",
    b"-rf.jpg",
    b"caf\xe9.jpg",
    b"*.jpg",
    b"\\n.jpg",
]


@pytest.mark.parametrize("interpreter", ["sh", "bash"])
def test_script_moves_files_with_any_name(
    interpreter: str, photos: Path, tmp_path: Path, commands: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (photos / "small" / "1 0.jpg").read_bytes()
    shutil.rmtree(photos / "small")
    for folder in (b"-x", b"a\n"):
        os.mkdir(os.path.join(os.fsencode(photos), folder))  # noqa: PTH102, PTH118
    names = [*ODD, b"-x/y.jpg", b"a\n/y.jpg"]
    for name in names:
        with open(os.path.join(os.fsencode(photos), name), "wb") as file:  # noqa: PTH118, PTH123
            file.write(source)
    monkeypatch.chdir(photos)
    script, paths = tmp_path / "-move it.sh", tmp_path / "paths.txt"
    for _ in range(2):  # the second run replaces the script of the first
        found = commands.json(dedup.main, ".", *PDQ, "--keep", "largest", "--script", script)
        _, err = commands(dedup.main, ".", *PDQ, "--keep", "largest", "--remove-list", paths, "--json")
        (group,) = found["groups"]
        assert group["keep"]["key"] == "1.png" and len(group["duplicates"]) == len(names)
        assert "left out 3 duplicates" in err  # a list has a path per line
        paths.unlink()
    before = sorted(Path().iterdir())
    assert subprocess.run([interpreter, script], capture_output=True).returncode == 2
    assert sorted(Path().iterdir()) == before  # no DIR, nothing moved
    (tmp_path / "cwd").mkdir()
    run = [interpreter, script, "-to here"]
    done = subprocess.run(run, cwd=tmp_path / "cwd", capture_output=True, check=True)
    assert done.stderr == f"moved {len(names)} files\n".encode()
    target = os.fsencode(tmp_path / "cwd" / "-to here")
    assert all(open(os.path.join(target, name), "rb").read() == source for name in names)  # noqa: PTH118, PTH123, SIM115
    assert sorted(path.name for path in photos.rglob("*.*")) == [f"{n}.png" for n in range(4)]
    done = subprocess.run(run, cwd=tmp_path / "cwd", capture_output=True)
    assert done.returncode == 1 and b"moved 0 files" in done.stderr


def test_script_keeps_what_it_should(photos: Path, tmp_path: Path, commands: Runner) -> None:
    script, target = tmp_path / "move.sh", tmp_path / "to"
    commands(dedup.main, photos, *PDQ, "--script", script)
    (photos / "1.png").unlink()  # the kept file of a group is gone, and one file exists already at the target
    (target / "small").mkdir(parents=True)
    (target / "small" / "0 1.jpg").write_text("mine")
    (target / "small" / "0 2.jpg").symlink_to("nowhere")
    done = subprocess.run(["sh", script, target], capture_output=True, text=True)
    assert done.returncode == 1 and "1.png: is missing" in done.stderr and "already exists" in done.stderr
    assert {path.name for path in (photos / "small").iterdir()} == {"0 1.jpg", "0 2.jpg", "1 0.jpg"}
    assert (target / "small" / "0 1.jpg").read_text() == "mine"


def test_script_never_moves_the_kept_file(images: Path, database: Path, tmp_path: Path, commands: Runner) -> None:
    (tmp_path / "links").mkdir()
    first = min((images / "dog").iterdir())
    (tmp_path / "links" / "link.png").symlink_to(first)
    script = tmp_path / "move.sh"
    for folder in (images, tmp_path / "links"):  # the files of the reference themselves
        options = (folder, "--reference", database, "--radius", 0, "--script", script)
        assert "left out" in commands(dedup.main, *options).err and "\nmove " not in script.read_text()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "IMAGES"),
        (["photos"], "--hash --model --reference"),
        (["photos", "--hash", "pdq", "--db", "codes.bin"], "--db"),
        (["photos", "--hash", "pdq", "--model", "model.onnx"], "--model"),
        (["photos", "--hash", "pdq", "--label", "cat"], "--label"),
        (["photos", "--hash", "phash"], "--hash"),
        (["--db", "codes.bin", "--hash", "pdq"], "--hash"),
        (["photos", "--reference", "codes.bin", "--keep", "oldest"], "--keep"),
        (["photos", "--hash", "pdq", "--csv", "x", "--script", "x"], "--script"),
    ],
)
def test_options_that_contradict_are_wrong_usage(arguments: list[str], named: str, commands: Runner) -> None:
    assert named in commands.fails(dedup.main, *arguments, "--radius", 3, status=2)


def test_folder_with_wrong_input_fails(photos: Path, tmp_path: Path, commands: Runner) -> None:
    assert "0 to 256" in commands.fails(dedup.main, photos, "--hash", "pdq", "--radius", 257, status=2)
    assert str(tmp_path / "no") in commands.fails(dedup.main, tmp_path / "no", *PDQ)
    (tmp_path / "empty").mkdir()
    assert "has no images" in commands.fails(dedup.main, tmp_path / "empty", *PDQ)
    (tmp_path / "empty" / "a.jpg").write_text("no image")
    assert str(tmp_path / "empty") in commands.fails(dedup.main, tmp_path / "empty", *PDQ)
