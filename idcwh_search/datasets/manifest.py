"""A manifest, .csv or .jsonl: a picture a line, with its labels. Errors name the file and the line."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..errors import IdcwhError
from .labelled import LabelledImages, in_label_order

_SPLIT_NAMES = {"train": "train", "test": "test", "query": "test", "database": "", "": ""}

Row = tuple[int, str, list[str], str]
"""Line number, path as written, labels, split."""


def load(manifest: Path, spec: str) -> LabelledImages:
    """The pictures that a manifest lists, in its order, named by what it writes; their paths are relative to it."""
    rows = _csv_rows if manifest.suffix.lower() == ".csv" else _jsonl_rows
    return _listed(manifest, spec, rows(manifest))


def _csv_rows(manifest: Path) -> Iterator[Row]:
    """`path,label[,label...]`. A first line with a cell `path` is a header, and may name a `split` column."""
    with manifest.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        header: list[str] | None = None
        try:
            for cells in reader:
                if not any(cell.strip() for cell in cells):
                    continue
                if header is None:
                    names = [cell.strip().lower() for cell in cells]
                    if "path" in names:
                        header = ["label" if name == "labels" else name for name in names]
                        if "label" not in header:
                            raise _at(manifest, reader.line_num, f"no label column (columns: {', '.join(names)})")
                        continue
                    header = ["path", "label"]
                yield _csv_row(manifest, reader.line_num, header, [cell.strip() for cell in cells])
        except csv.Error as error:
            raise _at(manifest, reader.line_num, f"not CSV: {error}") from None
        except UnicodeDecodeError as error:
            raise _at(manifest, reader.line_num + 1, f"not UTF-8 text ({error.reason})") from None


def _csv_row(manifest: Path, line: int, header: list[str], cells: list[str]) -> Row:
    if len(cells) < len(header) and header[len(cells)] == "label" and "label" not in header[: len(cells)]:
        raise _at(manifest, line, f"no label (expected {','.join(header)})")
    if len(cells) > len(header) and header[-1] != "label":
        raise _at(manifest, line, f"{len(cells)} cells, expected {len(header)} ({','.join(header)})")
    # a label column at the end stands for any number of them
    names = header + ["label"] * (len(cells) - len(header))
    columns: dict[str, list[str]] = {"path": [], "label": [], "split": []}
    for name, cell in zip(names, cells, strict=False):
        columns.setdefault(name, []).append(cell)
    return line, "".join(columns["path"][:1]), [x for x in columns["label"] if x], "".join(columns["split"][:1])


def _jsonl_rows(manifest: Path) -> Iterator[Row]:
    """One object a line: {"path": ..., "label": "cat" or 3 or ["cat", "indoor"], "split": "test"}."""
    with manifest.open("rb") as file:
        for line, raw in enumerate(file, 1):
            if not raw.strip():
                continue
            try:
                item = json.loads(raw.decode("utf-8-sig"))
            except (ValueError, RecursionError) as error:  # the last: lists in lists in lists
                raise _at(manifest, line, f"not JSON: {error}") from None
            if not isinstance(item, dict) or not isinstance(item.get("path"), str):
                raise _at(manifest, line, 'expected an object with a "path"')
            found = item["labels"] if "labels" in item else item.get("label")
            if found is None:
                raise _at(manifest, line, 'no "label"')
            labels = found if isinstance(found, list) else [found]
            if not all(isinstance(x, str | int) and not isinstance(x, bool) for x in labels):
                raise _at(manifest, line, f"a label is a string or an integer, not {json.dumps(found)[:80]}")
            names = [name for x in labels if (name := str(x).strip())]
            yield line, item["path"], names, str(item.get("split") or "")


def _listed(manifest: Path, spec: str, rows: Iterator[Row]) -> LabelledImages:
    keys: list[str] = []
    paths: list[Path] = []
    labels: list[list[str]] = []
    split: list[str] = []
    first: dict[str, int] = {}
    for line, key, names, part in rows:
        if not key:
            raise _at(manifest, line, "no path")
        for text in (key, *names):
            if "\0" in text or not _is_text(text):
                raise _at(manifest, line, f"{text!a}: no path or label that can be written")
        path = manifest.parent / key
        if not path.is_file():
            problem = "is a folder; expected a picture" if path.is_dir() else "no such file"
            raise _at(manifest, line, f"{key}: {problem}")
        same = os.path.normpath(key)  # ./a.png is a.png: a picture must not be query and database at once
        if same in first:
            raise _at(manifest, line, f"{key}: already on line {first[same]}; give all its labels on one line")
        if part.lower() not in _SPLIT_NAMES:
            raise _at(manifest, line, f"split {part!r}: expected train, test, query, database or nothing")
        first[same] = line
        keys.append(key)
        paths.append(path)
        labels.append(list(dict.fromkeys(names)))  # a label that is repeated is one label
        split.append(_SPLIT_NAMES[part.lower()])
    if not keys:
        raise IdcwhError(f"{manifest}: no pictures; expected lines of path,label")
    classes = in_label_order({name for names in labels for name in names})
    if not classes:
        raise IdcwhError(f"{manifest}: no line has a label")
    return LabelledImages(keys, _numbers(labels, classes), classes, paths, split, spec)


def _is_text(text: str) -> bool:
    """Half of a surrogate pair, which JSON can write, is none; bytes of a file's name, as Python has them, are."""
    try:
        text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _numbers(labels: list[list[str]], classes: list[str]) -> np.ndarray:
    """int64 [n] when every picture has exactly one label, else bool [n, C]; a picture without any is a row of False."""
    number = {name: i for i, name in enumerate(classes)}
    if all(len(names) == 1 for names in labels):
        return np.array([number[names[0]] for names in labels], np.int64)
    matrix = np.zeros((len(labels), len(classes)), bool)
    for row, names in zip(matrix, labels, strict=True):
        row[[number[name] for name in names]] = True
    return matrix


def _at(manifest: Path, line: int, message: str) -> IdcwhError:
    return IdcwhError(f"{manifest}:{line}: {message}")
