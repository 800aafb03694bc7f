"""The lister of images: files that are listed once, and files that are left out, by type and number."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest
from PIL import Image

from idcwh_search import datasets
from idcwh_search.cli.inputs import ImageInputs
from idcwh_search.errors import InvalidInputError, NotSupportedError
from idcwh_search.images import tar
from idcwh_search.images.decoding import UnreadableImage
from idcwh_search.images.listing import find_images, list_images
from idcwh_search.images.preprocess import Preprocess, load_image, to_pixels
from idcwh_search.splits import protocols
from idcwh_search.splits.protocols import SplitOptions
from support.errors import raises


def touch(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def keys(source: Path) -> list[str]:
    return [image.key for image in find_images(source).images]


def deny(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Makes folders of this name unreadable, as for a user without permission."""
    scan = os.scandir

    def refuse(path: str = ".") -> object:
        if Path(path).name == name:
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)


# ---------------------------------------------------------------------------------------------------- each file once


def test_link_to_parent_lists_each_file_once(tmp_path: Path) -> None:
    touch(tmp_path, *(f"airplane/{i}.png" for i in range(3)), "bird/0.png")
    (tmp_path / "airplane" / "up").symlink_to("..")
    expected = ["airplane/0.png", "airplane/1.png", "airplane/2.png", "bird/0.png"]
    assert keys(tmp_path) == expected
    listed = datasets.load(str(tmp_path))
    assert listed.keys == expected and listed.labels.tolist() == [0, 0, 0, 1]
    assert listed.left_out.links == [("airplane/up", "")]


def test_linked_folder_keeps_its_own_name(tmp_path: Path) -> None:
    touch(tmp_path, "z/1.png")
    (tmp_path / "a").symlink_to("z")
    assert keys(tmp_path) == ["z/1.png"]


def test_link_to_listed_image_is_left_out(tmp_path: Path) -> None:
    touch(tmp_path, "z/1.png", "../outside.png")
    (tmp_path / "a.png").symlink_to("z/1.png")
    (tmp_path / "b.png").symlink_to(tmp_path.parent / "outside.png")
    (tmp_path / "c.png").symlink_to("b.png")
    (tmp_path / "d.png").symlink_to("nowhere.png")
    assert keys(tmp_path) == ["b.png", "d.png", "z/1.png"], "one to nowhere is reported when it is read"
    assert find_images(tmp_path).left_out.links == [("a.png", "z/1.png"), ("c.png", "b.png")]


def test_image_link_between_classes_raises(tmp_path: Path) -> None:
    touch(tmp_path, "cat/1.png", "dog/2.png")
    (tmp_path / "cat" / "1 again.png").symlink_to("1.png")
    assert datasets.load(str(tmp_path)).keys == ["cat/1.png", "dog/2.png"]
    (tmp_path / "dog" / "1.png").symlink_to("../cat/1.png")
    with raises(InvalidInputError, path=tmp_path / "dog" / "1.png"):
        datasets.load(str(tmp_path))


def test_split_of_links_into_an_ignored_folder(tmp_path: Path) -> None:
    touch(tmp_path, *(f"all/{i}.png" for i in range(4)))
    for i, place in enumerate(("train/cat", "train/dog", "test/cat", "test/dog")):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "x.png").symlink_to(f"../../all/{i}.png")
    listed = datasets.load(str(tmp_path))
    assert listed.keys == ["train/cat/x.png", "train/dog/x.png", "test/cat/x.png", "test/dog/x.png"]


@pytest.mark.parametrize("name", ["bird", "sub"])
def test_unreadable_folder_raises_in_every_lister(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    touch(tmp_path, "airplane/0.png", "bird/1.png", "bird/sub/2.png")
    deny(monkeypatch, name)
    for read in (list_images, lambda path: ImageInputs(str(path), "folder"), lambda path: datasets.load(str(path))):
        with pytest.raises(PermissionError, match=name):
            read(tmp_path)


# ------------------------------------------------------------------------------------------------- folders of classes


@pytest.mark.parametrize(("train", "test"), [("train", "test"), ("Train", "TEST")])
def test_extra_folder_beside_splits_is_ignored(tmp_path: Path, train: str, test: str) -> None:
    names = [f"{part}/{kind}/{i}.png" for part in (train, test) for kind in ("airplane", "bird") for i in range(2)]
    touch(tmp_path, *names, "annotations/bird/mask.png", "__MACOSX/train/bird/x.png", "cover.png")
    listed = datasets.load(str(tmp_path))
    assert listed.keys == names and listed.split == ["train"] * 4 + ["test"] * 4
    assert listed.classes == ["airplane", "bird"]
    assert listed.note == f"ignored beside {train}/ and {test}/: __MACOSX/, annotations/, cover.png"
    assert protocols.split(listed).query.tolist() == [4, 5, 6, 7]
    assert {image.label(inside=True) for image in find_images(tmp_path).images} == {
        "airplane",
        "bird",
        "annotations",
        None,
    }


def test_only_train_beside_empty_folder_is_a_split(tmp_path: Path) -> None:
    touch(tmp_path, "train/cat/1.png", "train/dog/1.png", "annotations/a.xml")
    assert datasets.load(str(tmp_path)).classes == ["cat", "dog"]
    touch(tmp_path, "plane/1.png")
    assert datasets.load(str(tmp_path)).classes == ["plane", "train"], "train is a class among others"


def test_split_without_readable_images_is_no_class(tmp_path: Path) -> None:
    touch(tmp_path, "train/cat/1.jxl", "test/cat/1.png")
    assert datasets.load(str(tmp_path)).split == ["test"]


def test_system_folders_hold_no_images(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.png", "__MACOSX/a/1.png", "a/@eaDir/1.png/thumb.jpg", "lost+found/1.png", "$RECYCLE.BIN/1.png")
    assert keys(tmp_path) == ["a/1.png"]


def test_tar_in_class_folder_is_read(tmp_path: Path) -> None:
    touch(tmp_path, "dog/1.png")
    for name in ("cat/0.tar", "stray.tar"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        with tarfile.open(tmp_path / name, "w") as archive:
            archive.addfile(tarfile.TarInfo("x/1.png"))
    listed = datasets.load(str(tmp_path))
    assert listed.keys == ["cat/0.tar/x/1.png", "dog/1.png"] and listed.classes == ["cat", "dog"]
    assert listed.left_out.others == {".tar": 1}
    touch(tmp_path, "all.tar.gz", "cat/more.tgz")
    left_out = datasets.load(str(tmp_path)).left_out
    assert left_out.others == {".tar": 1, ".tar.gz": 1} and left_out.skipped == [("cat/more.tgz", ".tgz")]


def test_remarks_name_the_classes(tmp_path: Path) -> None:
    touch(tmp_path, *(f"bird/{i}.png" for i in range(12)), "airplane/0.png")
    assert datasets.load(str(tmp_path)).remarks() == ["2 classes: airplane (1), bird (12)"]
    touch(tmp_path, *(f"c{i}/0.png" for i in range(40)))
    first, *rest = datasets.load(str(tmp_path)).remarks()
    assert first.startswith("42 classes: airplane (1), bird (12), c0 (1),") and first.endswith(" and 30 more")
    assert not rest


def test_output_inside_the_dataset_raises(tmp_path: Path) -> None:
    touch(tmp_path, "data/cat/1.png")
    (tmp_path / "link").symlink_to("data")
    for inside in ("data", "data/runs/1", "link/runs"):
        with raises(InvalidInputError, path=tmp_path / inside):
            datasets.check_outside(str(tmp_path / "data"), tmp_path / inside, "--out")
    for spec in (tmp_path / "data", tmp_path / "data.csv", "coco:data"):
        datasets.check_outside(str(spec), tmp_path / "data2", "--out")


# ---------------------------------------------------------------------------------------------------------- left out


def jpeg() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "JPEG")
    return buffer.getvalue()


@pytest.mark.usefixtures("heif_missing")
def test_unsupported_types_are_counted_and_named(tmp_path: Path) -> None:
    touch(
        tmp_path,
        "1.jpg",
        *(f"a/{i}.HEIC" for i in range(3)),
        "b.jxl",
        "c.CR2",
        "d.tgz",
        "notes.txt",
        "Thumbs.db",
        "empty",
    )
    (tmp_path / "photo").write_bytes(jpeg())
    (tmp_path / "README").write_text("no image")
    os.mkfifo(tmp_path / "pipe")
    listed = find_images(tmp_path)
    assert [image.key for image in listed.images] == ["1.jpg"]
    assert listed.left_out.to_dict() == {
        "skipped": {".heic": 3, ".jxl": 1, ".cr2": 1, ".tgz": 1, "JPEG without a suffix": 1},
        "links": 0,
        "others": {".txt": 1, ".db": 1, "without a suffix": 3},
    }
    first, second = listed.left_out.lines()
    assert first.startswith("skipped 7 files of unsupported types: 3 .heic, ") and "(first: a/0.HEIC)" in first
    assert first.endswith("; pip install pillow-heif to read .heic; decompress archives to .tar")
    assert second == "ignored other files: 3 without a suffix, 1 .db, 1 .txt"


@pytest.mark.usefixtures("heif_missing")
def test_unsupported_types_in_a_tar_are_counted(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name in ("1.png", "1.cls", "2.heic", "3", "4.json", ".5.png", "__MACOSX/6.png"):
            member = tarfile.TarInfo(name)
            member.size = len(jpeg())
            archive.addfile(member, io.BytesIO(jpeg()))
    listed = find_images(tmp_path / "a.tar")
    assert [image.key for image in listed.images] == ["a.tar/1.png"]
    assert listed.left_out.skipped == [("a.tar/2.heic", ".heic"), ("a.tar/3", "JPEG without a suffix")]
    assert listed.left_out.others == {".json": 1}


@pytest.mark.usefixtures("heif_missing")
def test_folder_of_only_unsupported_types_names_them(tmp_path: Path) -> None:
    touch(tmp_path, "cat/1.heic", "cat/2.heic")
    for read in (list_images, lambda path: datasets.load(str(path))):
        with raises(InvalidInputError, path=tmp_path) as caught:
            read(tmp_path)
        assert "2 .heic" in caught.value.hint
    with raises(NotSupportedError, path=tmp_path / "cat" / "1.heic"):
        list_images(tmp_path / "cat" / "1.heic")


def test_heic_is_read_with_pillow_heif(tmp_path: Path) -> None:
    heif = pytest.importorskip("pillow_heif")
    heif.register_heif_opener()
    upright = Image.linear_gradient("L").convert("RGB")
    exif = Image.Exif()
    exif[0x0112] = 6
    upright.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "a.HEIC", quality=100, exif=exif.tobytes())
    (path,) = list_images(tmp_path)
    expected = to_pixels(upright, Preprocess(32, 32)).astype(int)
    assert abs(load_image(path, Preprocess(32, 32)) - expected).mean() < 2
    Path(path).write_bytes(Path(path).read_bytes()[:300])
    with raises(UnreadableImage, path=path, problem="HEIC"):
        load_image(path, Preprocess(32, 32))


# -------------------------------------------------------------------------------------------------------------- names


def test_names_that_are_not_utf8_split_and_load(tmp_path: Path) -> None:
    folder, name = os.fsdecode(b"vog\xe9l"), os.fsdecode(b"caf\xe9.png")
    touch(tmp_path, f"{folder}/{name}", f"{folder}/1.png", "cat/1.png", f"cat/{name}")
    listed = datasets.load(str(tmp_path))
    assert listed.classes == ["cat", folder] and f"{folder}/{name}" in listed.keys
    split = protocols.split(listed, SplitOptions(query_per_class=1))
    split.save(tmp_path / "split.json", listed)
    (tmp_path / "split.json").read_text("utf-8")
    loaded = protocols.load(tmp_path / "split.json", listed)
    assert loaded.query.tolist() == split.query.tolist()
    for text in (f"cat/{name},cat\n{folder}/{name},{'vogel'}\n", f'{{"path": "cat/{name}", "label": "cat"}}\n'):
        file = tmp_path / ("set.csv" if text[0] == "c" else "set.jsonl")
        file.write_bytes(os.fsencode(text))
        assert datasets.load(str(file)).keys[0] == f"cat/{name}"


def test_label_file_with_the_full_stem_is_read(tmp_path: Path) -> None:
    texts = {"22.05.cls": b"cat", "22.cls": b"dog", "3.cls": b"eel"}
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, content in {**texts, "22.05.png": b"", "22.06.png": b"", "3.left.png": b""}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    listed = {image.member: image.label(inside=False) for image in find_images(tmp_path / "a.tar").images}
    assert listed == {"22.05.png": "cat", "22.06.png": "dog", "3.left.png": "eel"}
    assert tar.label(f"{tmp_path}/a.tar/22.05.png") == "cat"


def test_label_is_that_of_the_nearest_source(tmp_path: Path) -> None:
    """The order: .cls file, folder in the archive, folder of the archive. Split folders are no labels."""
    for name in ("photos/Train/0.tar", "1.tar"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(tmp_path / name, "w") as archive:
            for member, content in {"a.cls": b"cat", "a.png": b"", "test/dog/b.png": b"", "c.png": b""}.items():
                header = tarfile.TarInfo(member)
                header.size = len(content)
                archive.addfile(header, io.BytesIO(content))
    touch(tmp_path, "Test/eel/d.png", "e.png")
    listed = {image.key: image.label(inside=True) for image in find_images(tmp_path).images}
    assert listed == {
        "1.tar/a.png": "cat",
        "1.tar/test/dog/b.png": "dog",
        "1.tar/c.png": None,
        "Test/eel/d.png": "eel",
        "e.png": None,
        "photos/Train/0.tar/a.png": "cat",
        "photos/Train/0.tar/test/dog/b.png": "dog",
        "photos/Train/0.tar/c.png": "photos",
    }
