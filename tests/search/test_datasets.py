"""Labelled sets from folders, manifests and registered sources."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from idcwh_search import datasets
from idcwh_search.errors import IdcwhError, InvalidInputError
from idcwh_search.images.decoding import UnreadableImage
from idcwh_search.images.preprocess import Preprocess, load_image
from idcwh_search.splits import protocols
from idcwh_search.splits.protocols import SplitOptions
from tests.support.errors import raises

PRE = Preprocess(12, 8)


def picture(path: Path, colour: tuple[int, int, int] = (10, 200, 30)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (20, 16), colour).save(path)
    return path


def manifest(folder: Path, text: str, name: str = "set.csv") -> str:
    for stem in "abc":
        picture(folder / f"{stem}.png")
    (folder / "b").mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def test_folder_of_classes_with_sub_folders(tmp_path):
    for name in ("dog/1.png", "cat/2.JPG", "cat/indoor/3.webp", "cat/.hidden.png", ".git/4.png"):
        picture(tmp_path / name)
    (tmp_path / "cat" / "notes.txt").write_text("not a picture")
    found = datasets.load(str(tmp_path))
    assert found.keys == ["cat/2.JPG", "cat/indoor/3.webp", "dog/1.png"]
    assert found.classes == ["cat", "dog"]
    assert found.labels.dtype == np.int64 and found.labels.tolist() == [0, 0, 1]
    assert found.split == ["", "", ""] and not found.has_split and not found.multi_label
    np.testing.assert_array_equal(found.image(2, PRE), load_image(tmp_path / "dog/1.png", PRE))
    assert found.path(2) == tmp_path / "dog/1.png"


def test_train_and_test_folders(tmp_path):
    for name in ("train/cat/1.png", "train/dog/1.png", "test/cat/9.png", "test/eel/1.png"):
        picture(tmp_path / name)
    found = datasets.load(str(tmp_path))
    assert found.keys == ["train/cat/1.png", "train/dog/1.png", "test/cat/9.png", "test/eel/1.png"]
    assert found.split == ["train", "train", "test", "test"] and found.has_split
    assert found.classes == ["cat", "dog", "eel"] and found.labels.tolist() == [0, 1, 0, 2]


def test_a_class_called_train_among_others(tmp_path):
    for name in ("train/1.png", "plane/1.png"):
        picture(tmp_path / name)
    assert datasets.load(str(tmp_path)).classes == ["plane", "train"]


def test_numbered_classes_in_order_of_number(tmp_path):
    for name in ("10/1.png", "2/1.png", "0/1.png"):
        picture(tmp_path / name)
    assert datasets.load(str(tmp_path)).classes == ["0", "2", "10"]


def test_numbers_that_are_equal_have_one_order(tmp_path):
    for name in ("1", "01", "001", "0"):
        picture(tmp_path / name / "1.png")
    assert datasets.load(str(tmp_path)).classes == ["0", "001", "01", "1"]


def test_one_picture(tmp_path):
    picture(tmp_path / "cat" / "deep" / "er" / "1.png")
    found = datasets.load(str(tmp_path))
    assert found.keys == ["cat/deep/er/1.png"] and found.labels.tolist() == [0]
    with raises(InvalidInputError, path="protocol per-class", problem="train"):
        protocols.split(found, SplitOptions(query_per_class=1))


def test_folders_without_pictures_are_named(tmp_path):
    for name in ("train/cat/1.png", "test/cat/1.png"):
        picture(tmp_path / name)
    assert datasets.load(str(tmp_path)).note == ""
    for name in ("train/dog", "test/dog", "train/eel"):
        (tmp_path / name).mkdir()
    (tmp_path / "train/eel/1.jxl").write_text("of a kind that is not decoded")
    found = datasets.load(str(tmp_path))
    assert found.classes == ["cat"] and found.note == "not classes, since they hold no images that are read: dog, eel"


def test_a_folder_named_as_a_manifest(tmp_path):
    (tmp_path / "set.csv").mkdir()
    with pytest.raises(IdcwhError, match=r"set\.csv: no images found in this folder; expected"):
        datasets.load(str(tmp_path / "set.csv"))
    picture(tmp_path / "set.csv" / "cat" / "1.png")
    assert datasets.load(str(tmp_path / "set.csv")).classes == ["cat"]


def test_one_class_is_fine_and_links_in_circles_end(tmp_path):
    picture(tmp_path / "only" / "1.png")
    (tmp_path / "only" / "again").symlink_to(tmp_path / "only", target_is_directory=True)
    found = datasets.load(str(tmp_path))
    assert found.classes == ["only"] and len(found) == 1


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "no images found in this folder; expected train/<class>"),
        (["cat/notes.txt"], "no images found"),
        (["1.png"], "an image outside any class folder"),
        (["train/cat/1.png", "val/cat/1.png"], "has val/ beside train/"),
    ],
)
def test_folders_that_are_no_sets(tmp_path, files, message):
    for name in files:
        made = picture(tmp_path / f"{name}.png")
        made.rename(tmp_path / name)
    with pytest.raises(IdcwhError, match=message):
        datasets.load(str(tmp_path))


@pytest.mark.parametrize("header", ["", "path,label\n", "\ufeffpath,label\n"])
def test_csv_with_and_without_header(tmp_path, header):
    found = datasets.load(manifest(tmp_path, header + "b.png,dog\n\na.png, cat \n"))
    assert found.keys == ["b.png", "a.png"] and found.classes == ["cat", "dog"] and found.labels.tolist() == [1, 0]
    np.testing.assert_array_equal(found.image(0, PRE), load_image(tmp_path / "b.png", PRE))


def test_csv_columns_in_any_order_and_a_split(tmp_path):
    text = "size,split,path,label\n3,train,a.png,x\n4,query,b.png,y\n5,database,c.png,x\n"
    found = datasets.load(manifest(tmp_path, text))
    assert found.split == ["train", "test", ""]
    assert found.labels.tolist() == [0, 1, 0]


def test_several_labels_make_a_matrix(tmp_path):
    expected = [[True, True], [False, False], [False, True]]
    for text, name in (
        ("a.png,x,y\nb.png,\nc.png,y\n", "set.csv"),
        ("path,label\na.png,x,y\nb.png,,\nc.png,y\n", "set2.csv"),
        ('{"path":"a.png","label":["x","y"]}\n{"path":"b.png","label":[]}\n{"path":"c.png","labels":"y"}', "set.jsonl"),
    ):
        found = datasets.load(manifest(tmp_path, text, name))
        assert found.multi_label and found.labels.dtype == np.bool_
        assert found.labels.tolist() == expected
        assert found.label_matrix() is found.labels


def test_a_repeated_label_is_one_label(tmp_path):
    for text, name in (
        ("a.png,x,x\nb.png,y\n", "set.csv"),
        ('{"path": "a.png", "label": ["x", " x"]}\n{"path": "b.png", "label": ["y", ""]}', "set.jsonl"),
    ):
        found = datasets.load(manifest(tmp_path, text, name))
        assert found.labels.dtype == np.int64 and found.labels.tolist() == [0, 1] and found.classes == ["x", "y"]


def test_label_matrix_of_single_labels(tmp_path):
    found = datasets.load(manifest(tmp_path, "a.png,x\nb.png,y\nc.png,x\n"))
    assert found.label_matrix().tolist() == [[True, False], [False, True], [True, False]]


def test_jsonl_with_numbers_and_split(tmp_path):
    lines = [{"path": "a.png", "label": 10, "split": "train"}, {"path": "b.png", "labels": [2], "split": "test"}]
    found = datasets.load(manifest(tmp_path, "\n".join(map(json.dumps, lines)), "set.jsonl"))
    assert found.classes == ["2", "10"] and found.labels.tolist() == [1, 0] and found.split == ["train", "test"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("s.csv", "a.png,cat\nnowhere.png,dog\n", r"s\.csv:2: nowhere\.png: no such file"),
        ("s.csv", "path,label\na.png,cat\n\nb.png\n", r"s\.csv:4: no label \(expected path,label\)"),
        ("s.csv", "path,split\na.png,train\n", r"s\.csv:1: no label column \(found path, split; expected one"),
        ("s.csv", "a.png,cat\na.png,dog\n", r"s\.csv:2: a\.png: already on line 1"),
        ("s.csv", "a.png,cat\n./b/../a.png,cat\n", r"s\.csv:2: \./b/\.\./a\.png: already on line 1"),
        ("s.csv", "path,label,split\na.png,cat,train,x\n", r"s\.csv:2: 4 cells, expected 3"),
        ("s.csv", "path,split,label\na.png,later,cat\n", r"s\.csv:2: split 'later': expected train, test, query"),
        ("s.csv", 'a.png,"cat\n', r"s\.csv:\d: not CSV"),
        ("s.csv", ",cat\n", r"s\.csv:1: no path"),
        ("s.csv", "", r"s\.csv: no pictures"),
        ("s.csv", "path,label\n", r"s\.csv: no pictures"),
        ("s.csv", "a.png,cat\nb,dog\n", r"s\.csv:2: b: is a folder; expected an image"),
        ("s.csv", 'a.png,"cat\nor dog"\nnowhere.png,eel\n', r"s\.csv:3: nowhere\.png: no such file"),
        (
            "s.jsonl",
            '\n{"path": "a.png", "label": 1}\n\n{"path": "x.png", "label": 1}',
            r"s\.jsonl:4: x\.png: no such f",
        ),
        ("s.jsonl", '{"path": "a.png", "label": null}\n', r's\.jsonl:1: no "label"'),
        ("s.jsonl", '{"path": "a.png", "label": true}\n', r"s\.jsonl:1: a label is a string or an integer"),
        ("s.jsonl", '{"path": "a.png", "label": 1, "split": "val"}\n', r"s\.jsonl:1: split 'val': expected train"),
        ("s.jsonl", '{"path": "a.png", "label": ""}\n', r"s\.jsonl: no line has a label"),
        ("s.csv", "a.png,\nb.png,\n", r"s\.csv: no line has a label"),
        ("s.jsonl", '{"path": "a.png", "label": 1}\n{"path": \n', r"s\.jsonl:2: not JSON"),
        ("s.jsonl", '["a.png", 1]\n', r's\.jsonl:1: expected an object with a "path"'),
        ("s.jsonl", '{"path": "a.png"}\n', r's\.jsonl:1: no "label"'),
        ("s.jsonl", '{"path": "a.png", "label": 1.5}\n', r"s\.jsonl:1: a label is a string or an integer"),
        ("s.txt", "a.png cat\n", r"s\.txt: expected a folder"),
    ],
)
def test_manifest_errors_name_file_and_line(tmp_path, name, text, message):
    with pytest.raises(IdcwhError, match=message):
        datasets.load(manifest(tmp_path, text, name))


def test_csv_that_is_not_utf8(tmp_path):
    path = manifest(tmp_path, "a.png,cat\n")
    Path(path).write_bytes(b"a.png,cat\nb.png,\xff\xfe\n")
    with pytest.raises(IdcwhError, match=r"set\.csv:\d: not UTF-8"):
        datasets.load(path)


def test_bad_pictures_show_when_they_are_read(tmp_path):
    picture(tmp_path / "cat" / "1.png")
    (tmp_path / "cat" / "2.png").write_text("hello")
    found = datasets.load(str(tmp_path))
    assert len(found) == 2
    with pytest.raises(UnreadableImage, match=r"2\.png"):
        found.image(1, PRE)
    (tmp_path / "cat" / "1.png").unlink()
    with pytest.raises(UnreadableImage, match=r"1\.png"):
        found.image(0, PRE)


def test_arrays_go_through_the_same_preprocessing_as_files(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    held = datasets.LabelledImages(["a", "b"], np.array([0, 1]), ["x", "y"], pixels, ["", ""])
    for i in range(2):
        Image.fromarray(pixels[i]).save(tmp_path / f"{i}.png")
        np.testing.assert_array_equal(held.image(i, PRE), load_image(tmp_path / f"{i}.png", PRE))
    assert held.path(0) is None


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([0, 2]), "expected 0 to 1, found 0 to 2"),
        (np.array([-1, 0]), "found -1 to 0"),
        (np.array([0.0, 1.0]), "expected int64"),
        (np.zeros((2, 3), bool), r"bool \[2, 2\]"),
        (np.array([0]), r"int64 \[2\]"),
    ],
)
def test_labels_that_do_not_exist(labels, message):
    with pytest.raises(ValueError, match=message):
        datasets.LabelledImages(["a", "b"], labels, ["x", "y"], [Path("a"), Path("b")], ["", ""])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nowhere", "nowhere: no such folder, manifest or .npz archive"),
        ("nope:dir", "nope: no such folder, and no such source"),
    ],
)
def test_unknown_specs(spec, message):
    with pytest.raises(IdcwhError, match=message):
        datasets.load(spec)


def test_registered_source(monkeypatch):
    class Entry:
        name = "mine"

        @staticmethod
        def load():
            return lambda directory: directory.upper()

    monkeypatch.setattr(datasets, "entry_points", lambda group: [Entry] if group == "idcwh.sources" else [])
    assert datasets.load("mine:some/dir") == "SOME/DIR"
    with pytest.raises(IdcwhError, match=r"sources: coco, mine"):
        datasets.load("other:x")


def test_identity_follows_keys_labels_and_classes(tmp_path):
    for name in ("a/1.png", "a/2.png", "b/1.png"):
        picture(tmp_path / "one" / name)
        picture(tmp_path / "two" / name, (0, 0, 0))
    one, two = datasets.load(str(tmp_path / "one")), datasets.load(str(tmp_path / "two"))
    assert one.sha256() == two.sha256(), "where a set lies and its pixels do not matter to row numbers"
    picture(tmp_path / "two" / "b" / "3.png")
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
    found = datasets.load(manifest(tmp_path, text, name))
    assert found.keys == ["a.png", "b.png"] and found.classes == ["cat", "dog"] and found.labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,label\na.png,cat\n", r"s\.csv:1: no path column \(found id, label; expected one named path, filename"),
        ("id,breed\na.png,cat\n", r"s\.csv:1: id: no such file; a header has a column path or filename"),
        ("photo.png,breed\na.png,cat\n", r"s\.csv:1: photo\.png: no such file$"),
        ("image,breed\na.png,cat\n", r"s\.csv:1: no label column \(found image, breed; expected one named label"),
    ],
)
def test_manifest_header_errors_name_the_columns(tmp_path, text, message):
    with pytest.raises(IdcwhError, match=message):
        datasets.load(manifest(tmp_path, text, "s.csv"))


@pytest.mark.parametrize("kind", ["absolute", "link", "folder link"])
def test_manifest_image_listed_twice_raises(tmp_path, kind):
    path = manifest(tmp_path, "")
    (tmp_path / "link.png").symlink_to("a.png")
    (tmp_path / "here").symlink_to(".")
    again = {"absolute": tmp_path / "a.png", "link": "link.png", "folder link": "here/a.png"}[kind]
    Path(path).write_text(f"a.png,cat\nb.png,cat\n{again},dog\n")
    with pytest.raises(IdcwhError, match=r"set\.csv:3: .*: already on line 1"):
        datasets.load(path)


def test_manifest_of_queries_and_database_trains_on_it(tmp_path):
    found = datasets.load(manifest(tmp_path, "path,label,split\na.png,x,database\nb.png,y,database\nc.png,x,query\n"))
    split = protocols.split(found)
    assert split.query.tolist() == [2] and split.train.tolist() == split.database.tolist() == [0, 1]


def test_manifest_may_list_images_in_a_tar(tmp_path):
    path = manifest(tmp_path, "a.tar/a.png,cat\nb.png,dog\n")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(tmp_path / "a.png", "a.png")
    found = datasets.load(path)
    np.testing.assert_array_equal(found.image(0, PRE), load_image(tmp_path / "a.png", PRE))
    Path(path).write_text("a.tar/a.png,cat\na.tar/./a.png,dog\n")
    with pytest.raises(IdcwhError, match=r"set\.csv:2: a\.tar/\./a\.png: already on line 1"):
        datasets.load(path)
