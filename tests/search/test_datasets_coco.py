"""COCO's format, on mosaics of CIFAR-10 images whose labels are known."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from idcwh_search import datasets
from idcwh_search.errors import CorruptFileError, InvalidInputError, MismatchError, NotFoundError
from idcwh_search.images.decoding import UnreadableImage
from idcwh_search.images.preprocess import Preprocess
from idcwh_search.splits import protocols
from idcwh_search.splits.protocols import SplitOptions
from support.errors import raises

DEMO = Path(__file__).parents[2] / "demo" / "cifar10" / "train"
IDS = {"airplane": 90, "bird": 4, "cat": 17, "dog": 18, "ship": 9}
"""Category ids in another order than the names, and with gaps, as COCO's."""


def mosaic(names: list[str], path: Path) -> None:
    """Writes a strip with an image of each named class."""
    path.parent.mkdir(parents=True, exist_ok=True)
    strip = Image.new("RGB", (32 * max(1, len(names)), 32))
    for i, name in enumerate(names):
        with Image.open(sorted((DEMO / name).iterdir())[i]) as image:
            strip.paste(image.convert("RGB"), (32 * i, 0))
    strip.save(path)


def annotated(names: list[list[str]], first: int = 1) -> dict:
    """Returns the content of an annotation file for images {id}.png."""
    return {
        "info": {"year": 2014},
        "images": [{"id": first + i, "file_name": f"{first + i}.png", "height": 32} for i in range(len(names))],
        "annotations": [
            {"id": 100 * i + j, "image_id": first + i, "category_id": IDS[name], "iscrowd": 0,
             "segmentation": [[0.5, 1.0, 2.0]], "bbox": [0, 0, 32, 32]}
            for i, some in enumerate(names) for j, name in enumerate(some)
        ],
        "categories": [{"id": IDS[name], "name": name, "supercategory": "x"} for name in sorted(IDS)],
    }  # fmt: skip


TRAIN = [["cat", "dog"], ["ship"], [], ["airplane", "bird", "ship", "ship"]]
VAL = [["dog", "cat"], ["bird"]]


def official(root: Path, year: str = "2014", images: str = "") -> Path:
    for part, names, first in (("train", TRAIN, 1), ("val", VAL, 50)):
        for i, some in enumerate(names):
            mosaic(some, root / images / f"{part}{year}" / f"{first + i}.png")
        file = root / "annotations" / f"instances_{part}{year}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(annotated(names, first)))
    return root


@pytest.mark.parametrize("year", ["2014", "2017"])
@pytest.mark.parametrize("images", ["", "images"])
def test_official_coco_layout_is_read(tmp_path, year, images):
    dataset = datasets.load(f"coco:{official(tmp_path, year, images)}")
    assert dataset.classes == ["bird", "ship", "cat", "dog", "airplane"], "in the order of the category ids"
    below = f"{images}/" if images else ""
    files = [f"train{year}/1.png", f"train{year}/2.png", f"train{year}/4.png", f"val{year}/50.png", f"val{year}/51.png"]
    assert dataset.keys == [below + file for file in files]
    expected = [{"cat", "dog"}, {"ship"}, {"airplane", "bird", "ship"}, {"cat", "dog"}, {"bird"}]
    assert [{dataset.classes[j] for j in np.flatnonzero(row)} for row in dataset.labels] == expected
    assert dataset.multi_label and dataset.split == ["train"] * 3 + ["test"] * 2
    assert dataset.note == "left out: 1 image without an annotation"
    with Image.open(DEMO / "ship" / sorted(p.name for p in (DEMO / "ship").iterdir())[0]) as ship:
        np.testing.assert_array_equal(dataset.image(1, Preprocess(32, 32)), np.asarray(ship.convert("RGB")))


def test_coco_2014_is_read_before_2017(tmp_path):
    official(official(tmp_path, "2017"))
    assert datasets.load(f"coco:{tmp_path}").keys[0] == "train2014/1.png"
    (tmp_path / "annotations" / "instances_train2014.json").unlink()
    dataset = datasets.load(f"coco:{tmp_path}")
    assert dataset.keys == ["val2014/50.png", "val2014/51.png"] and not dataset.has_split and dataset.note == ""


@pytest.mark.parametrize("beside", ["", "images/"])
def test_one_coco_file_beside_the_images_is_read(tmp_path, beside):
    content = annotated(VAL)
    for i, image in enumerate(content["images"]):
        image["file_name"] = f"deep/{i}.png"
        mosaic(VAL[i], tmp_path / f"{beside}deep/{i}.png")
    (tmp_path / "labels.json").write_text(json.dumps(content))
    for spec in (f"coco:{tmp_path}", f"coco:{tmp_path}/labels.json"):
        dataset = datasets.load(spec)
        assert dataset.keys == [f"{beside}deep/0.png", f"{beside}deep/1.png"] and dataset.split == ["", ""]
        assert dataset.path(0) == tmp_path / beside / "deep" / "0.png" and dataset.path(0).is_file()


def with_one(part: str, **change: object):
    """Returns a function that changes the last entry of a part of an annotation file. None removes a key."""

    def edit(content: dict) -> None:
        for name, value in change.items():
            content[part][-1][name] = value
            if value is None:
                del content[part][-1][name]

    return edit


@pytest.mark.parametrize(
    ("edit", "kind", "entry", "found"),
    [
        (with_one("annotations", image_id=99), CorruptFileError, "annotations[6]", 99),
        (with_one("annotations", image_id="4"), CorruptFileError, "annotations[6]", "4"),
        (with_one("annotations", image_id=[4]), CorruptFileError, "annotations[6]", [4]),
        (with_one("annotations", category_id=5), CorruptFileError, "annotations[6]", 5),
        (with_one("annotations", category_id=None), CorruptFileError, "annotations[6]", None),
        (with_one("images", id=1), CorruptFileError, "images[3]", 1),
        (with_one("images", file_name="1.png"), CorruptFileError, "images[3]", "1.png"),
        (with_one("images", file_name=None), CorruptFileError, "images[3]", None),
        (with_one("images", id="4"), CorruptFileError, "images[3]", None),
        (with_one("images", file_name="7.png"), NotFoundError, "1 image", "7.png"),
        (with_one("categories", id=4), CorruptFileError, "categories[4]", 4),
        (with_one("categories", name="cat"), CorruptFileError, "categories[4]", "cat"),
        (lambda content: content.pop("annotations"), CorruptFileError, "", None),
        (lambda content: content.update(images={}), CorruptFileError, "", None),
        (lambda content: content.update(images=[]), InvalidInputError, "", "0 images of 5 categories"),
    ],
)
def test_wrong_annotation_names_the_entry(tmp_path, edit, kind, entry, found):
    file = official(tmp_path) / "annotations" / "instances_train2014.json"
    content = json.loads(file.read_text())
    edit(content)
    file.write_text(json.dumps(content))
    with raises(kind, path=file, found=found, problem=entry):
        datasets.load(f"coco:{tmp_path}")


def test_parts_with_other_categories_do_not_match(tmp_path):
    folder = official(tmp_path) / "annotations"
    content = json.loads((folder / "instances_train2014.json").read_text())
    content["categories"][-1]["name"] = "boat"
    (folder / "instances_train2014.json").write_text(json.dumps(content))
    with raises(MismatchError, path=folder / "instances_val2014.json"):
        datasets.load(f"coco:{tmp_path}")


def test_missing_images_are_counted(tmp_path):
    official(tmp_path)
    for name in ("1", "3", "4"):  # 3 has no annotation and is not listed
        (tmp_path / "train2014" / f"{name}.png").unlink()
    file = tmp_path / "annotations" / "instances_train2014.json"
    with raises(NotFoundError, path=file, found="1.png", problem="2 images"):
        datasets.load(f"coco:{tmp_path}")


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "\xff", '{"images": ['])
def test_annotation_file_that_is_not_json_is_corrupt(tmp_path, text):
    (tmp_path / "x.json").write_bytes(text.encode("latin-1"))
    with raises(CorruptFileError, path=tmp_path / "x.json"):
        datasets.load(f"coco:{tmp_path}")


def test_folder_without_annotations_raises(tmp_path):
    for spec, kind in ((tmp_path / "no", NotFoundError), (tmp_path, InvalidInputError), ("", InvalidInputError)):
        with raises(kind, path=f"coco:{spec}"):
            datasets.load(f"coco:{spec}")
    for name in "ab":
        (tmp_path / f"{name}.json").write_text("{}")
    with raises(InvalidInputError, path=f"coco:{tmp_path}", found="2 .json files in the folder"):
        datasets.load(f"coco:{tmp_path}")


def test_annotation_file_without_annotations_raises(tmp_path):
    mosaic([], tmp_path / "1.png")
    (tmp_path / "x.json").write_text(json.dumps(annotated([[]])))
    with raises(InvalidInputError, path=f"coco:{tmp_path}"):
        datasets.load(f"coco:{tmp_path}")


def test_corrupt_image_is_an_error_when_it_is_read(tmp_path):
    official(tmp_path)
    (tmp_path / "train2014" / "2.png").write_text("hello")
    dataset = datasets.load(f"coco:{tmp_path}")
    with raises(UnreadableImage, path=tmp_path / "train2014" / "2.png"):
        dataset.image(1, Preprocess(8, 8))


def test_coco_protocol_splits_a_small_dataset(tmp_path):
    """2 to 4 images per mosaic, with as many queries and training images as possible. The split is saved and read
    again.
    """
    rng, names = np.random.default_rng(2), sorted(IDS)
    some = [list(rng.choice(names, rng.integers(2, 5), replace=False)) for _ in range(30)] + [[]] * 3
    for i, content in enumerate(some):
        mosaic(content, tmp_path / "images" / f"{i + 1}.png")
    (tmp_path / "annotations.json").write_text(json.dumps(annotated(some)))
    data = datasets.load(f"coco:{tmp_path}")
    assert (
        len(data) == 30
        and data.note.startswith("left out: 3 images")
        and data.labels.sum(axis=1).tolist() == [len(content) for content in some[:30]]
    )
    split = protocols.split(data, SplitOptions("coco", query=5, train=12), seed=1)
    assert (len(split.query), len(split.train), len(split.database)) == (5, 12, 25) and not split.remarks(data)
    split.save(tmp_path / "protocol.json", data)
    assert protocols.load(tmp_path / "protocol.json", data).sha256() == split.sha256()
    literal = protocols.split(data, SplitOptions("coco", query=5, train=12, database_without_train=True), seed=1)
    assert len(literal.database) == 13


def test_coco_folder_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    spec = f"coco:{official(tmp_path)}"
    listdir = os.listdir

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(PermissionError):
        datasets.load(spec)
    monkeypatch.setattr(os, "listdir", listdir)
    assert len(datasets.load(spec))
