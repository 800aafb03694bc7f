"""Datasets in COCO's annotation format. The labels of an image are the categories annotated in it.

Three layouts of `coco:DIR` are read:

- DIR/annotations/instances_{train,val}2014.json (or 2017), with images in DIR/{train,val}2014, also below DIR/images
- one .json file in DIR, with images in DIR/images or in DIR
- DIR itself is an annotation file

If both years exist, 2014 is read, as in the paper. Both have the same images. Images without an annotation are left out
and counted. Boxes, outlines and the crowd flag are ignored.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from .._util.wording import counted
from ..errors import CorruptFileError, InvalidInputError, MismatchError, NotFoundError
from .labelled import LabelledImages, first_repeat, single_labels

YEARS = ("2014", "2017")
_PARTS = {"train": "train", "val": "test"}
"""Name of an official part of COCO -> its split in LabelledImages."""

_OUTLINE = re.compile(rb'"segmentation":\s*\[[\[\]\d\s.,eE+-]*\]')
"""Outlines are not used, but make up three quarters of a file. Without them the file is parsed in a third of the time.
"""


@dataclass(frozen=True, eq=False)
class _Annotated:
    """The content of one annotation file.

    Attributes:
        file: its path.
        names: n file names of images in the file's order, including images without a label.
        labels: bool [n, C].
        categories: C pairs (id, name), sorted by id.
    """

    file: Path
    names: list[str]
    labels: np.ndarray
    categories: list[tuple[int, str]]


def load(directory: str) -> LabelledImages:
    """Returns the labelled images of `coco:directory`, labels bool [n, C] in the order of the category ids.

    Keys are paths relative to the folder. If both official parts exist, their images are marked train and test (COCO's
    val). Raises IdcwhError with the annotation file and the invalid entry.
    """
    spec = f"coco:{directory}"
    if not directory:
        raise InvalidInputError(
            "folder is missing", path=spec, expected="coco:DIR with DIR/annotations/instances_train2014.json"
        )
    root = Path(directory)
    parts = _find(root)
    if root.is_file():
        root = root.parent
    keys: list[str] = []
    labels: list[np.ndarray] = []
    split: list[str] = []
    left_out = 0
    categories: list[tuple[int, str]] | None = None
    for part, file in parts:
        found = _read(file)
        if categories not in (None, found.categories):
            raise MismatchError(f"does not match {parts[0][1]}", path=file, found="other categories")
        categories = found.categories
        labelled = np.flatnonzero(found.labels.any(axis=1))
        left_out += len(found.names) - len(labelled)
        folder = _image_folder(root, file)
        keys += _present(root, folder, file, [found.names[i] for i in labelled])
        labels.append(found.labels[labelled])
        split += [part] * len(labelled)
    assert categories is not None
    if (i := first_repeat(keys)) is not None:
        raise InvalidInputError("image is repeated", path=spec, found=keys[i])
    note = f"left out: {counted(left_out, 'image')} without an annotation" if left_out else ""
    names = [name for _, name in categories]
    paths = [root / key for key in keys]
    return LabelledImages(keys, single_labels(np.concatenate(labels)), names, paths, split, spec, note)


def _find(root: Path) -> list[tuple[str, Path]]:
    """Returns (split, annotation file) of each part."""
    if root.is_file():
        return [("", root)]
    if not root.is_dir():
        raise NotFoundError(path=f"coco:{root}", expected="a folder or an annotation file")
    for year in YEARS:
        files = [(mark, root / "annotations" / f"instances_{part}{year}.json") for part, mark in _PARTS.items()]
        found = [(mark, file) for mark, file in files if file.is_file()]
        if found:
            return found if len(found) == len(files) else [("", found[0][1])]
    beside = sorted(root.glob("*.json"))
    if len(beside) == 1:
        return [("", beside[0])]
    raise InvalidInputError(
        "has no annotations",
        path=f"coco:{root}",
        found=f"{len(beside)} .json files in the folder",
        expected="annotations/instances_train2014.json and instances_val2014.json (or 2017), or one .json file",
    )


# ------------------------------------------------------------------------------------------------- annotation files


def _read(file: Path) -> _Annotated:
    content = _parsed(file)
    categories = sorted(_unique(file, content, "categories", "name"))
    images = _unique(file, content, "images", "file_name")
    if not categories or not images:
        raise InvalidInputError(
            "is invalid",
            path=file,
            found=f"{len(images)} images of {len(categories)} categories",
            expected="at least one of each",
        )
    column = {number: j for j, (number, _) in enumerate(categories)}
    row = {number: i for i, (number, _) in enumerate(images)}
    labels = np.zeros((len(images), len(categories)), bool)
    for i, annotation in enumerate(content["annotations"]):
        try:
            image, category = annotation["image_id"], annotation["category_id"]
            labels[row[image], column[category]] = True
        except (KeyError, TypeError):
            raise _wrong_annotation(file, i, annotation, row) from None
    return _Annotated(file, [name for _, name in images], labels, categories)


def _parsed(file: Path) -> dict[str, list[Any]]:
    try:
        content = json.loads(_OUTLINE.sub(b'"segmentation":0', file.read_bytes()))
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"is corrupt: {error}", path=file, expected="JSON") from None
    for part in ("images", "annotations", "categories"):
        if not isinstance(content, dict) or not isinstance(content.get(part), list):
            raise CorruptFileError(f"list {part!r} is missing", path=file, expected="COCO's format")
    return content


def _unique(file: Path, content: dict[str, list[Any]], part: str, name: str) -> list[tuple[int, str]]:
    """Returns (id, name) of each image or category. Raises CorruptFileError for a repeated id or name."""
    found: list[tuple[int, str]] = []
    for i, item in enumerate(content[part]):
        if not isinstance(item, dict) or type(item.get("id")) is not int or not isinstance(item.get(name), str):
            raise CorruptFileError(
                f"{part}[{i}] is invalid", path=file, expected=f"an object with a whole number as id, and a {name}"
            )
        found.append((item["id"], item[name]))
    for which, what in ((0, "id"), (1, name)):
        if (twice := first_repeat(item[which] for item in found)) is not None:
            raise CorruptFileError(f"{what} of {part}[{twice}] is repeated", path=file, found=found[twice][which])
    return found


def _wrong_annotation(file: Path, i: int, annotation: Any, row: dict[int, int]) -> CorruptFileError:
    entry = f"annotations[{i}]"
    if not isinstance(annotation, dict) or not {"image_id", "category_id"} <= set(annotation):
        return CorruptFileError(f"{entry} is invalid", path=file, expected="an object with image_id and category_id")
    image, category = annotation["image_id"], annotation["category_id"]
    known = isinstance(image, int) and image in row
    kind, value = ("category", category) if known else ("image", image)
    return CorruptFileError(f"{kind} of {entry} is missing", path=file, found=value)


# ----------------------------------------------------------------------------------------------------------- images


def _image_folder(root: Path, file: Path) -> Path:
    """Returns the folder to which the file names of an annotation file are relative."""
    candidates = [root / "images", root]
    if file.parent.name == "annotations" and file.stem.startswith("instances_"):
        part = file.stem.removeprefix("instances_")
        candidates = [root / part, root / "images" / part, *candidates]
    return next(folder for folder in candidates if folder.is_dir())


def _present(root: Path, folder: Path, file: Path, names: list[str]) -> list[str]:
    """Returns the keys of the images. Raises NotFoundError if one is missing.

    Each folder is listed once, which is much faster than 100,000 calls that test one file each.
    """

    @cache
    def listed(parent: PurePosixPath) -> set[str]:
        try:
            return set(os.listdir(folder / parent))  # noqa: PTH208 (names only)
        except (FileNotFoundError, NotADirectoryError):
            return set()

    paths = [PurePosixPath(name) for name in names]
    if missing := [path for path in paths if path.name not in listed(path.parent)]:
        raise NotFoundError(
            f"does not match {folder}, {counted(len(missing), 'image')} missing",
            path=file,
            found=str(missing[0]),
        )
    inside = PurePosixPath(folder.relative_to(root).as_posix())
    return [str(inside / path) for path in paths]
