"""Labelled datasets from folders, manifests and registered sources."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from idcwh_search import datasets
from idcwh_search.errors import InvalidInputError, NotFoundError
from idcwh_search.images.decoding import UnreadableImage
from idcwh_search.images.preprocess import Preprocess, load_image
from idcwh_search.splits import protocols
from idcwh_search.splits.protocols import SplitOptions
from support.errors import raises

PRE = Preprocess(12, 8)


def write_image(path: Path, colour: tuple[int, int, int] = (10, 200, 30)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (20, 16), colour).save(path)
    return path


def manifest(folder: Path, text: str, name: str = "set.csv") -> str:
    for stem in "abc":
        write_image(folder / f"{stem}.png")
    (folder / "b").mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def test_folder_of_classes_includes_sub_folders(tmp_path):
    for name in ("dog/1.png", "cat/2.JPG", "cat/indoor/3.webp", "cat/.hidden.png", ".git/4.png"):
        write_image(tmp_path / name)
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    dataset = datasets.load(str(tmp_path))
    assert dataset.keys == ["cat/2.JPG", "cat/indoor/3.webp", "dog/1.png"]
    assert dataset.classes == ["cat", "dog"]
    assert dataset.labels.dtype == np.int64 and dataset.labels.tolist() == [0, 0, 1]
    assert dataset.split == ["", "", ""] and not dataset.has_split and not dataset.multi_label
    np.testing.assert_array_equal(dataset.image(2, PRE), load_image(tmp_path / "dog/1.png", PRE))
    assert dataset.path(2) == tmp_path / "dog/1.png"


def test_train_and_test_folders_are_a_split(tmp_path):
    for name in ("train/cat/1.png", "train/dog/1.png", "test/cat/9.png", "test/eel/1.png"):
        write_image(tmp_path / name)
    dataset = datasets.load(str(tmp_path))
    assert dataset.keys == ["train/cat/1.png", "train/dog/1.png", "test/cat/9.png", "test/eel/1.png"]
    assert dataset.split == ["train", "train", "test", "test"] and dataset.has_split
    assert dataset.classes == ["cat", "dog", "eel"] and dataset.labels.tolist() == [0, 1, 0, 2]


def test_class_called_train_among_others_is_a_class(tmp_path):
    for name in ("train/1.png", "plane/1.png"):
        write_image(tmp_path / name)
    assert datasets.load(str(tmp_path)).classes == ["plane", "train"]


def test_numbered_classes_are_in_numeric_order(tmp_path):
    for name in ("10/1.png", "2/1.png", "0/1.png"):
        write_image(tmp_path / name)
    assert datasets.load(str(tmp_path)).classes == ["0", "2", "10"]


def test_classes_of_equal_numbers_have_one_order(tmp_path):
    for name in ("1", "01", "001", "0"):
        write_image(tmp_path / name / "1.png")
    assert datasets.load(str(tmp_path)).classes == ["0", "001", "01", "1"]


def test_dataset_of_one_image_cannot_be_split(tmp_path):
    write_image(tmp_path / "cat" / "deep" / "er" / "1.png")
    dataset = datasets.load(str(tmp_path))
    assert dataset.keys == ["cat/deep/er/1.png"] and dataset.labels.tolist() == [0]
    with raises(InvalidInputError, path="protocol per-class", problem="train"):
        protocols.split(dataset, SplitOptions(query_per_class=1))


def test_folders_without_images_are_named(tmp_path):
    for name in ("train/cat/1.png", "test/cat/1.png"):
        write_image(tmp_path / name)
    assert datasets.load(str(tmp_path)).note == ""
    for name in ("train/dog", "test/dog", "train/eel"):
        (tmp_path / name).mkdir()
    (tmp_path / "train/eel/1.jxl").write_text("a type that is not decoded")
    dataset = datasets.load(str(tmp_path))
    assert dataset.classes == ["cat"] and dataset.note == "folders without images, no classes: dog, eel"


def test_folder_named_like_a_manifest_is_a_folder(tmp_path):
    (tmp_path / "set.csv").mkdir()
    with raises(InvalidInputError, path=tmp_path / "set.csv"):
        datasets.load(str(tmp_path / "set.csv"))
    write_image(tmp_path / "set.csv" / "cat" / "1.png")
    assert datasets.load(str(tmp_path / "set.csv")).classes == ["cat"]


def test_folder_with_a_link_to_itself_is_listed_once(tmp_path):
    write_image(tmp_path / "only" / "1.png")
    (tmp_path / "only" / "again").symlink_to(tmp_path / "only", target_is_directory=True)
    dataset = datasets.load(str(tmp_path))
    assert dataset.classes == ["only"] and len(dataset) == 1


@pytest.mark.parametrize(
    ("files", "about", "found"),
    [
        ([], "", None),
        (["cat/notes.txt"], "", None),
        (["1.png"], "1.png", None),
        (["train/cat/1.png", "val/cat/1.png"], "", "val/"),
    ],
)
def test_folder_without_class_folders_raises(tmp_path, files, about, found):
    for name in files:
        result = write_image(tmp_path / f"{name}.png")
        result.rename(tmp_path / name)
    with raises(InvalidInputError, path=tmp_path / about, found=found):
        datasets.load(str(tmp_path))


@pytest.mark.parametrize("header", ["", "path,label\n", "\ufeffpath,label\n"])
def test_csv_is_read_with_and_without_a_header(tmp_path, header):
    dataset = datasets.load(manifest(tmp_path, header + "b.png,dog\n\na.png, cat \n"))
    assert (
        dataset.keys == ["b.png", "a.png"] and dataset.classes == ["cat", "dog"] and dataset.labels.tolist() == [1, 0]
    )
    np.testing.assert_array_equal(dataset.image(0, PRE), load_image(tmp_path / "b.png", PRE))


def test_csv_columns_are_read_in_any_order(tmp_path):
    text = "size,split,path,label\n3,train,a.png,x\n4,query,b.png,y\n5,database,c.png,x\n"
    dataset = datasets.load(manifest(tmp_path, text))
    assert dataset.split == ["train", "test", ""]
    assert dataset.labels.tolist() == [0, 1, 0]


def test_multi_label_images_have_a_matrix(tmp_path):
    expected = [[True, True], [False, False], [False, True]]
    for text, name in (
        ("a.png,x,y\nb.png,\nc.png,y\n", "set.csv"),
        ("path,label\na.png,x,y\nb.png,,\nc.png,y\n", "set2.csv"),
        ('{"path":"a.png","label":["x","y"]}\n{"path":"b.png","label":[]}\n{"path":"c.png","labels":"y"}', "set.jsonl"),
    ):
        dataset = datasets.load(manifest(tmp_path, text, name))
        assert dataset.multi_label and dataset.labels.dtype == np.bool_
        assert dataset.labels.tolist() == expected


def test_repeated_label_is_one_label(tmp_path):
    for text, name in (
        ("a.png,x,x\nb.png,y\n", "set.csv"),
        ('{"path": "a.png", "label": ["x", " x"]}\n{"path": "b.png", "label": ["y", ""]}', "set.jsonl"),
    ):
        dataset = datasets.load(manifest(tmp_path, text, name))
        assert dataset.labels.dtype == np.int64 and dataset.labels.tolist() == [0, 1] and dataset.classes == ["x", "y"]


def test_jsonl_with_numbers_and_split_is_read(tmp_path):
    lines = [{"path": "a.png", "label": 10, "split": "train"}, {"path": "b.png", "labels": [2], "split": "test"}]
    dataset = datasets.load(manifest(tmp_path, "\n".join(map(json.dumps, lines)), "set.jsonl"))
    assert dataset.classes == ["2", "10"] and dataset.labels.tolist() == [1, 0] and dataset.split == ["train", "test"]


@pytest.mark.parametrize(
    ("name", "text", "kind", "line", "found"),
    [
        ("s.csv", "a.png,cat\nnowhere.png,dog\n", NotFoundError, 2, "nowhere.png"),
        ("s.csv", "path,label\na.png,cat\n\nb.png\n", InvalidInputError, 4, None),
        ("s.csv", "path,split\na.png,train\n", InvalidInputError, 1, "path, split"),
        ("s.csv", "a.png,cat\na.png,dog\n", InvalidInputError, 2, "a.png"),
        ("s.csv", "a.png,cat\n./b/../a.png,cat\n", InvalidInputError, 2, "./b/../a.png"),
        ("s.csv", "path,label,split\na.png,cat,train,x\n", InvalidInputError, 2, 4),
        ("s.csv", "path,split,label\na.png,later,cat\n", InvalidInputError, 2, "later"),
        ("s.csv", 'a.png,"cat\n', InvalidInputError, 1, None),
        ("s.csv", ",cat\n", InvalidInputError, 1, None),
        ("s.csv", "", InvalidInputError, None, None),
        ("s.csv", "path,label\n", InvalidInputError, None, None),
        ("s.csv", "a.png,cat\nb,dog\n", InvalidInputError, 2, "b"),
        ("s.csv", 'a.png,"cat\nor dog"\nnowhere.png,eel\n', NotFoundError, 3, "nowhere.png"),
        ("s.jsonl", '\n{"path": "a.png", "label": 1}\n\n{"path": "x.png", "label": 1}', NotFoundError, 4, "x.png"),
        ("s.jsonl", '{"path": "a.png", "label": null}\n', InvalidInputError, 1, None),
        ("s.jsonl", '{"path": "a.png", "label": true}\n', InvalidInputError, 1, "true"),
        ("s.jsonl", '{"path": "a.png", "label": 1, "split": "val"}\n', InvalidInputError, 1, "val"),
        ("s.jsonl", '{"path": "a.png", "label": ""}\n', InvalidInputError, None, None),
        ("s.csv", "a.png,\nb.png,\n", InvalidInputError, None, None),
        ("s.jsonl", '{"path": "a.png", "label": 1}\n{"path": \n', InvalidInputError, 2, None),
        ("s.jsonl", '["a.png", 1]\n', InvalidInputError, 1, None),
        ("s.jsonl", '{"path": "a.png"}\n', InvalidInputError, 1, None),
        ("s.jsonl", '{"path": "a.png", "label": 1.5}\n', InvalidInputError, 1, "1.5"),
        ("s.txt", "a.png cat\n", InvalidInputError, None, None),
    ],
)
def test_manifest_error_names_file_and_line(tmp_path, name, text, kind, line, found):
    path = manifest(tmp_path, text, name)
    with raises(kind, path=path if line is None else f"{path}:{line}", found=found):
        datasets.load(path)


def test_csv_label_that_is_not_utf8_names_the_line(tmp_path):
    path = manifest(tmp_path, "a.png,cat\n")
    Path(path).write_bytes(b"a.png,cat\nb.png,\xff\xfe\n")
    with raises(InvalidInputError, path=f"{path}:2"):
        datasets.load(path)


@pytest.mark.parametrize(("encoding", "found"), [("utf-16", "UTF-16 text"), ("utf-16-be", "a NUL byte")])
def test_manifest_in_utf16_names_the_encoding(tmp_path, encoding, found):
    for text, name in (("path,label\na.png,cat\n", "s.csv"), ('{"path": "a.png", "label": "cat"}\n', "s.jsonl")):
        path = manifest(tmp_path, "", name)
        Path(path).write_bytes(text.encode(encoding))
        with raises(InvalidInputError, path=path, found=found):
            datasets.load(path)


def test_corrupt_or_missing_image_raises_when_it_is_read(tmp_path):
    write_image(tmp_path / "cat" / "1.png")
    (tmp_path / "cat" / "2.png").write_text("hello")
    dataset = datasets.load(str(tmp_path))
    assert len(dataset) == 2
    with raises(UnreadableImage, path=tmp_path / "cat" / "2.png"):
        dataset.image(1, PRE)
    (tmp_path / "cat" / "1.png").unlink()
    with raises(UnreadableImage, path=tmp_path / "cat" / "1.png"):
        dataset.image(0, PRE)


def test_arrays_have_the_same_pixels_as_files(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    held = datasets.LabelledImages(["a", "b"], np.array([0, 1]), ["x", "y"], pixels, ["", ""])
    for i in range(2):
        Image.fromarray(pixels[i]).save(tmp_path / f"{i}.png")
        np.testing.assert_array_equal(held.image(i, PRE), load_image(tmp_path / f"{i}.png", PRE))
    assert held.path(0) is None


@pytest.mark.parametrize(
    "labels", [np.array([0, 2]), np.array([-1, 0]), np.array([0.0, 1.0]), np.zeros((2, 3), bool), np.array([0])]
)
def test_labels_of_another_shape_or_range_raise(labels):
    with pytest.raises(ValueError, match=r"^labels:"):
        datasets.LabelledImages(["a", "b"], labels, ["x", "y"], [Path("a"), Path("b")], ["", ""])


@pytest.mark.parametrize(
    ("spec", "kind", "path"),
    [
        ("nowhere", NotFoundError, "nowhere"),
        ("nope:dir", NotFoundError, "nope:dir"),
        ("", InvalidInputError, None),
    ],
)
def test_spec_of_no_dataset_raises(spec, kind, path):
    with raises(kind, path=path, problem="" if spec else "missing"):
        datasets.load(spec)


def test_registered_source_is_loaded(monkeypatch):
    class Entry:
        name = "mine"

        @staticmethod
        def load():
            return lambda directory: directory.upper()

    monkeypatch.setattr(datasets, "entry_points", lambda group: [Entry] if group == "idcwh.sources" else [])
    assert datasets.load("mine:some/dir") == "SOME/DIR"
    with raises(NotFoundError, path="other:x", expected="a source of coco, mine"):
        datasets.load("other:x")


def test_sha256_depends_on_keys_labels_and_classes(tmp_path):
    for name in ("a/1.png", "a/2.png", "b/1.png"):
        write_image(tmp_path / "one" / name)
        write_image(tmp_path / "two" / name, (0, 0, 0))
    one, two = datasets.load(str(tmp_path / "one")), datasets.load(str(tmp_path / "two"))
    assert one.sha256() == two.sha256(), "row numbers do not depend on the folder or the pixels"
    write_image(tmp_path / "two" / "b" / "3.png")
    assert datasets.load(str(tmp_path / "two")).sha256() != one.sha256()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.csv", "a.png;cat\nb.png;dog\n"),
        ("s.csv", "\ufefffile;class\na.png;cat\nb.png;dog\n"),
        ("s.tsv", "a.png\tcat\nb.png\tdog\n"),
        ("s.csv", "id\timage\tlabel\n1\ta.png\tcat\n2\tb.png\tdog\n"),
        ("s.csv", "filename,class\na.png,cat\nb.png,dog\n"),
        ("s.csv", "class_id,class,Image\n0,cat,a.png\n1,dog,b.png\n"),
        ("s.csv", 'filename,label\n"a.png","cat"\n"b.png","dog"\n'),
        ("s.jsonl", '{"file_name": "a.png", "label": "cat"}\n{"image": "b.png", "class": "dog"}\n'),
    ],
)
def test_manifest_delimiters_and_headers_are_read(tmp_path, name, text):
    dataset = datasets.load(manifest(tmp_path, text, name))
    assert (
        dataset.keys == ["a.png", "b.png"] and dataset.classes == ["cat", "dog"] and dataset.labels.tolist() == [0, 1]
    )


@pytest.mark.parametrize(
    ("text", "kind", "found", "hint"),
    [
        ("id,label\na.png,cat\n", InvalidInputError, "id, label", False),
        ("id,breed\na.png,cat\n", NotFoundError, "id", True),
        ("photo.png,breed\na.png,cat\n", NotFoundError, "photo.png", False),
        ("image,breed\na.png,cat\n", InvalidInputError, "image, breed", False),
    ],
)
def test_manifest_header_error_names_the_columns(tmp_path, text, kind, found, hint):
    path = manifest(tmp_path, text, "s.csv")
    with raises(kind, path=f"{path}:1", found=found) as caught:
        datasets.load(path)
    assert (caught.value.hint is not None) == hint


@pytest.mark.parametrize("kind", ["absolute", "link", "folder link"])
def test_manifest_image_listed_twice_raises(tmp_path, kind):
    path = manifest(tmp_path, "")
    (tmp_path / "link.png").symlink_to("a.png")
    (tmp_path / "here").symlink_to(".")
    again = {"absolute": tmp_path / "a.png", "link": "link.png", "folder link": "here/a.png"}[kind]
    Path(path).write_text(f"a.png,cat\nb.png,cat\n{again},dog\n")
    with raises(InvalidInputError, path=f"{path}:3", found=str(again), problem="line 1"):
        datasets.load(path)


def test_manifest_of_queries_and_database_trains_on_it(tmp_path):
    dataset = datasets.load(manifest(tmp_path, "path,label,split\na.png,x,database\nb.png,y,database\nc.png,x,query\n"))
    split = protocols.split(dataset)
    assert split.query.tolist() == [2] and split.train.tolist() == split.database.tolist() == [0, 1]


def test_manifest_may_list_images_in_a_tar(tmp_path):
    path = manifest(tmp_path, "a.tar/a.png,cat\nb.png,dog\n")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(tmp_path / "a.png", "a.png")
    dataset = datasets.load(path)
    np.testing.assert_array_equal(dataset.image(0, PRE), load_image(tmp_path / "a.png", PRE))
    Path(path).write_text("a.tar/a.png,cat\na.tar/./a.png,dog\n")
    with raises(InvalidInputError, path=f"{path}:2", found="a.tar/./a.png", problem="line 1"):
        datasets.load(path)
