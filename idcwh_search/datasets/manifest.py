"""Datasets as manifests, .csv, .tsv or .jsonl, with one image and its labels per line.

The path of an error is `file:line`.
"""

# ruff: noqa: PTH114, PTH118
from __future__ import annotations

import codecs
import csv
import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .._util.text_files import check_text, delimiter
from ..errors import InvalidInputError, NotFoundError
from ..images import tar
from .labelled import LabelledImages, in_label_order

_HEAD = 8192  # bytes in which a check looks for binary content
SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")
_PATH_NAMES = ("path", "filename", "file", "image", "file_name", "filepath", "file_path", "image_path", "image_name")
_LABEL_NAMES = ("label", "labels", "class", "class_name", "classes", "category")
_SPLIT_NAMES = {"train": "train", "test": "test", "query": "test", "database": "", "": ""}

Row = tuple[int, str, list[str], str]
"""Line number, path as written, labels, split."""


def load(manifest: Path, spec: str, *, unlabelled: bool = False) -> LabelledImages:
    """Returns the images of a manifest, in its order. Keys are the paths as written, relative to the manifest.

    Args:
        manifest: the file.
        spec: the dataset's name for messages.
        unlabelled: True if the manifest may have no labels.

    Raises:
        NotFoundError: an image is missing.
        InvalidInputError: the manifest or one of its lines is invalid.
    """
    with manifest.open("rb") as file:
        check_text(file.read(_HEAD), manifest, "UTF-8 text")
    rows = _jsonl_rows if manifest.suffix.lower() in (".jsonl", ".ndjson") else _csv_rows
    found = _listed(manifest, spec, rows(manifest, unlabelled))
    if not found.classes and not unlabelled:
        raise InvalidInputError("has no labels", path=manifest)
    return found


def _csv_rows(manifest: Path, unlabelled: bool) -> Iterator[Row]:
    """Yields the rows `path,label[,label...]`, separated by commas, semicolons or tabs. The header is optional."""
    with manifest.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(file, strict=True, delimiter=delimiter(manifest))
        header: list[str] | None = None
        try:
            for cells in reader:
                if not any(cell.strip() for cell in cells):
                    continue
                if header is None:
                    header = _header(manifest, reader.line_num, [cell.strip() for cell in cells], unlabelled)
                    if header is not None:
                        continue
                    header = ["path"] if unlabelled and len(cells) == 1 else ["path", "label"]
                yield _csv_row(manifest, reader.line_num, header, [cell.strip() for cell in cells])
        except csv.Error as error:
            raise _at(manifest, reader.line_num, f"is invalid: {error}", expected="CSV") from None


def _header(manifest: Path, line: int, cells: list[str], unlabelled: bool) -> list[str] | None:
    """Returns the columns of a header, "path", "label", "split" or "other <name>"; None if the line is not a header.

    The first name of _PATH_NAMES that occurs is the path, and the first of _LABEL_NAMES the label.
    """
    names = [cell.lower() for cell in cells]
    path = next((name for name in _PATH_NAMES if name in names), None)
    label = next((name for name in _LABEL_NAMES if name in names), None)
    if path is None and (label is None or (manifest.parent / cells[0]).is_file()):
        return None
    if path is None:
        raise _at(manifest, line, "path column is missing", ", ".join(names), f"one of {', '.join(_PATH_NAMES)}")
    if label is None and not unlabelled:
        raise _at(manifest, line, "label column is missing", ", ".join(names), f"one of {', '.join(_LABEL_NAMES)}")
    known = {path: "path", label: "label", "split": "split"}
    return [known.get(name, f"other {name}") for name in names]


def _csv_row(manifest: Path, line: int, header: list[str], cells: list[str]) -> Row:
    if len(cells) < len(header) and header[len(cells)] == "label" and "label" not in header[: len(cells)]:
        raise _at(manifest, line, "label is missing", expected=",".join(header))
    if len(cells) > len(header) and header[-1] != "label":
        raise _at(manifest, line, "has too many columns", len(cells), f"{len(header)}, {','.join(header)}")
    # a label column at the end may repeat
    names = header + ["label"] * (len(cells) - len(header))
    columns: dict[str, list[str]] = {"path": [], "label": [], "split": []}
    for name, cell in zip(names, cells, strict=False):
        columns.setdefault(name, []).append(cell)
    if not all(_encodes(cell, "strict") for cell in (*columns["label"], *columns["split"])):
        raise _at(manifest, line, "label is invalid", expected="UTF-8 text")
    return line, "".join(columns["path"][:1]), [x for x in columns["label"] if x], "".join(columns["split"][:1])


def _jsonl_rows(manifest: Path, unlabelled: bool) -> Iterator[Row]:
    """Yields the rows of a file with one object per line.

    An object is {"path": ..., "label": ..., "split": "test"}, with a label such as "cat", 3 or ["cat", "indoor"].
    """
    with manifest.open("rb") as file:
        for line, raw in enumerate(file, 1):
            if not raw.strip():
                continue
            try:
                item = json.loads(raw.removeprefix(codecs.BOM_UTF8).decode(errors="surrogateescape"))
            except (ValueError, RecursionError) as error:  # RecursionError: deeply nested lists
                raise _at(manifest, line, f"is invalid: {error}", expected="JSON") from None
            path = _first(item, _PATH_NAMES) if isinstance(item, dict) else None
            if not isinstance(path, str):
                raise _at(manifest, line, "path is missing", expected='an object with a "path"')
            found = _first(item, ("labels", *_LABEL_NAMES))
            if found is None and not unlabelled:
                raise _at(manifest, line, "label is missing", expected='an object with a "label"')
            found = [] if found is None else found
            labels = found if isinstance(found, list) else [found]
            if not all(isinstance(x, str | int) and not isinstance(x, bool) for x in labels):
                raise _at(manifest, line, "label is invalid", json.dumps(found)[:80], "a string or an integer")
            names = [name for x in labels if (name := str(x).strip())]
            yield line, path, names, str(item.get("split") or "")


def _first(item: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((item[name] for name in names if name in item), None)


def _listed(manifest: Path, spec: str, rows: Iterator[Row]) -> LabelledImages:
    keys: list[str] = []
    paths: list[Path] = []
    labels: list[list[str]] = []
    split: list[str] = []
    first: dict[str, int] = {}
    realpath = cache(os.path.realpath)
    for line, key, names, part in rows:
        if not key:
            raise _at(manifest, line, "path is missing")
        for text in (key, *names):
            if "\0" in text or not _encodes(text, "surrogateescape"):  # file names may be invalid UTF-8
                raise _at(manifest, line, "path or label is invalid", f"{text!a}", "UTF-8 text")
        path = manifest.parent / key
        if not path.is_file() and not tar.exists(path):
            if path.is_dir():
                raise _at(manifest, line, "path is a folder", key, "an image")
            hint = f"name a column of a header {' or '.join(_PATH_NAMES[:3])}" if not keys and "." not in key else None
            raise NotFoundError("image is missing", path=f"{manifest}:{line}", found=key, hint=hint)
        same = _real(path, realpath)  # a repeated image could be both query and database
        if same in first:
            hint = "give all labels of an image on one line"
            raise _at(manifest, line, f"repeats the image of line {first[same]}", key, hint=hint)
        if part.lower() not in _SPLIT_NAMES:
            raise _at(manifest, line, "split is invalid", part, "train, test, query, database or nothing")
        first[same] = line
        keys.append(key)
        paths.append(path)
        labels.append(list(dict.fromkeys(names)))  # a label that is repeated is one label
        split.append(_SPLIT_NAMES[part.lower()])
    if not keys:
        raise InvalidInputError("has no images", path=manifest, expected="lines of path,label")
    classes = in_label_order({name for names in labels for name in names})
    return LabelledImages(keys, _numbers(labels, classes), classes, paths, split, spec)


def _real(path: Path, realpath: Callable[[str], str]) -> str:
    """Returns the absolute path of a file with links resolved. `realpath` resolves its folder."""
    folder, name = os.path.split(path)
    place = os.path.join(realpath(folder), name)
    return os.path.realpath(place) if os.path.islink(place) else place


def _encodes(text: str, errors: str) -> bool:
    """Returns True if a text can be encoded as UTF-8. A lone surrogate, which JSON can write, cannot."""
    try:
        text.encode(errors=errors)
    except UnicodeEncodeError:
        return False
    return True


def _numbers(labels: list[list[str]], classes: list[str]) -> np.ndarray:
    """Returns int64 [n] if every image has one label, otherwise bool [n, C]. A row without a label is all False."""
    number = {name: i for i, name in enumerate(classes)}
    if all(len(names) == 1 for names in labels):  # avoids a matrix, which is large for many classes
        return np.array([number[names[0]] for names in labels], np.int64)
    matrix = np.zeros((len(labels), len(classes)), bool)
    for row, names in zip(matrix, labels, strict=True):
        row[[number[name] for name in names]] = True
    return matrix


def _at(
    manifest: Path, line: int, problem: str, found: object = None, expected: object = None, hint: str | None = None
) -> InvalidInputError:
    return InvalidInputError(problem, path=f"{manifest}:{line}", found=found, expected=expected, hint=hint)
