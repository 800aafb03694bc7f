"""Labelled pictures from a folder, a manifest, or a source that another package registers.

A set is listed without opening a picture; one that cannot be read shows when it is read. How it is split into query,
training and database is `protocols.py`'s business.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from .errors import IdcwhError
from .images import SUFFIXES, Preprocess, load_image, to_pixels

SOURCES = "idcwh.sources"
"""Entry point group: name -> function(directory: str) -> LabelledImages, reached as `name:directory`."""

SPLITS = ("train", "test", "")
_SPLIT_NAMES = {"train": "train", "test": "test", "query": "test", "database": "", "": ""}
SPLIT_FOLDERS = frozenset({"train", "test", "val", "valid", "validation"})
"""Folders of these names are parts of a set, not classes."""


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """n pictures with their labels.

    keys     n names, unique, the same on every machine: the path below the folder, or as the manifest has it
    labels   int64 [n], the class of each picture; or, when a picture may have several or none, bool [n, C]
    classes  C names, in label order
    pictures n paths, or the pictures themselves as uint8 [n, h, w, 3] RGB
    split    n of "train", "test" or "" (the source says nothing)
    """

    keys: list[str] = field(repr=False)
    labels: np.ndarray = field(repr=False)
    classes: list[str]
    pictures: Sequence[Path] | np.ndarray = field(repr=False)
    split: list[str] = field(repr=False)
    spec: str = ""

    def __post_init__(self) -> None:
        n, c = len(self.keys), len(self.classes)
        if not n:
            raise IdcwhError(f"{self.spec or 'the set'}: no pictures")
        shape, kind = self.labels.shape, self.labels.dtype
        if not ((kind == np.int64 and shape == (n,)) or (kind == np.bool_ and shape == (n, c))):
            raise ValueError(f"labels: expected int64 [{n}] or bool [{n}, {c}], not {kind} {list(shape)}")
        if kind == np.int64 and (self.labels.min() < 0 or self.labels.max() >= c):
            raise ValueError(f"labels: expected 0 to {c - 1}, found {self.labels.min()} to {self.labels.max()}")
        if len(self.pictures) != n or len(self.split) != n or len(set(self.keys)) != n:
            raise ValueError(f"expected {n} pictures, splits and different keys")
        if not set(self.split) <= set(SPLITS):
            raise ValueError(f"split: expected {SPLITS}, found {sorted(set(self.split) - set(SPLITS))}")

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def multi_label(self) -> bool:
        """True when `labels` is the bool matrix."""
        return self.labels.ndim == 2

    @property
    def has_split(self) -> bool:
        """True when the source itself says which pictures are for testing."""
        return "test" in self.split

    def label_matrix(self) -> np.ndarray:
        """bool [n, C], whichever form `labels` has. For 40,000 classes take it in slices of `labels` instead."""
        if self.multi_label:
            return self.labels
        return self.labels[:, None] == np.arange(len(self.classes))

    def image(self, i: int, preprocess: Preprocess) -> np.ndarray:
        """Picture i as the network sees it, uint8 [crop, crop, 3]. UnreadableImage when its file is no picture."""
        if isinstance(self.pictures, np.ndarray):
            return to_pixels(Image.fromarray(self.pictures[i]), preprocess, self.keys[i])
        return load_image(self.pictures[i], preprocess)

    def path(self, i: int) -> Path | None:
        """The file of picture i; None when the source holds arrays."""
        return None if isinstance(self.pictures, np.ndarray) else self.pictures[i]

    def sha256(self) -> str:
        """Identity of the listing (keys, labels, classes), not of the pixels: equal here means equal indices."""
        digest = hashlib.sha256(json.dumps([self.keys, self.classes], ensure_ascii=False).encode())
        digest.update(np.ascontiguousarray(self.labels).astype("<i8" if not self.multi_label else "?").tobytes())
        return digest.hexdigest()


def load(spec: str) -> LabelledImages:
    """A labelled set by its name: a folder, a .csv or .jsonl manifest, or `source:directory` (`cifar10:data`).

    A folder holds `train/<class>/*` and `test/<class>/*`, or `<class>/*`; sub-folders inside a class belong to it.
    Raises IdcwhError, naming file and line where there is one.
    """
    path = Path(spec)
    source, colon, directory = spec.partition(":")
    if colon and len(source) > 1 and not path.exists():
        return _registered(source)(directory)
    if path.is_dir():
        return _folder(path, spec)
    if not path.exists():
        raise IdcwhError(f"{spec}: no such folder or manifest")
    if path.suffix.lower() == ".csv":
        return _manifest(path, spec, _csv_rows(path))
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return _manifest(path, spec, _jsonl_rows(path))
    raise IdcwhError(f"{spec}: expected a folder, a .csv or .jsonl manifest, or source:directory")


def _registered(name: str) -> Any:
    found = {entry.name: entry for entry in entry_points(group=SOURCES)}
    if name not in found:
        known = ", ".join(sorted(found)) or "none installed"
        raise IdcwhError(f"{name}: no such folder, and no such source of pictures (sources: {known})")
    try:
        return found[name].load()
    except ImportError as error:
        raise IdcwhError(f"source {name} needs a package that is not installed: {error}") from None


# ---------------------------------------------------------------------------------------------------------- folders


def _folder(root: Path, spec: str) -> LabelledImages:
    tops = _subfolders(root)
    if "train" in tops and set(tops) <= SPLIT_FOLDERS and _subfolders(root / "train"):
        if extra := sorted(set(tops) - {"train", "test"}):
            raise IdcwhError(f"{root}: has {extra[0]}/ beside train/; expected train/ and test/ only, or a manifest")
        parts = [str(part) for part in ("train", "test") if part in tops]
    else:
        parts = [""]
    listed = [(part, name, path) for part in parts for name, path in _classes(root / part)]
    if not listed:
        raise IdcwhError(f"{root}: no pictures found; expected train/<class>/* and test/<class>/*, or <class>/*")
    classes = _ordered({c for _, c, _ in listed})
    number = {name: i for i, name in enumerate(classes)}
    return LabelledImages(
        keys=[p.relative_to(root).as_posix() for _, _, p in listed],
        labels=np.array([number[c] for _, c, _ in listed], np.int64),
        classes=classes,
        pictures=[p for _, _, p in listed],
        split=[s for s, _, _ in listed],
        spec=spec,
    )


def _subfolders(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def _classes(folder: Path) -> Iterator[tuple[str, Path]]:
    """(class, file) of every picture below <folder>/<class>/, sorted, so that a listing is the same everywhere."""
    stray = [p for p in folder.iterdir() if p.is_file() and _is_picture(p.name)]
    if stray:
        raise IdcwhError(f"{min(stray)}: a picture outside any class folder; expected {folder}/<class>/*")
    for name in _subfolders(folder):
        yield from ((name, path) for path in sorted(_pictures(folder / name)))


def _pictures(folder: Path) -> Iterator[Path]:
    seen: set[str] = set()  # links may lead back up
    for parent, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(parent)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [f for f in folders if not f.startswith(".")]
        yield from (Path(parent) / n for n in names if _is_picture(n))


def _is_picture(name: str) -> bool:
    return not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES


def _ordered(names: set[str]) -> list[str]:
    """Class names in label order: by number when all are numbers ("2" before "10"), else by name."""
    return sorted(names, key=int) if all(n.isascii() and n.isdigit() for n in names) else sorted(names)


# -------------------------------------------------------------------------------------------------------- manifests

Row = tuple[int, str, list[str], str]
"""Line number, path as written, labels, split."""


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
            except ValueError as error:
                raise _at(manifest, line, f"not JSON: {error}") from None
            if not isinstance(item, dict) or not isinstance(item.get("path"), str):
                raise _at(manifest, line, 'expected an object with a "path"')
            found = item["labels"] if "labels" in item else item.get("label")
            if found is None:
                raise _at(manifest, line, 'no "label"')
            labels = found if isinstance(found, list) else [found]
            if not all(isinstance(x, str | int) and not isinstance(x, bool) for x in labels):
                raise _at(manifest, line, f"a label is a string or an integer, not {json.dumps(found)[:80]}")
            yield line, item["path"], [str(x) for x in labels], str(item.get("split") or "")


def _manifest(manifest: Path, spec: str, rows: Iterator[Row]) -> LabelledImages:
    keys: list[str] = []
    paths: list[Path] = []
    labels: list[list[str]] = []
    split: list[str] = []
    first: dict[str, int] = {}
    for line, key, names, part in rows:
        if not key:
            raise _at(manifest, line, "no path")
        path = manifest.parent / key
        if not path.is_file():
            raise _at(manifest, line, f"{key}: no such file")
        if key in first:
            raise _at(manifest, line, f"{key}: already on line {first[key]}; give all its labels on one line")
        if part.lower() not in _SPLIT_NAMES:
            raise _at(manifest, line, f"split {part!r}: expected train, test, query, database or nothing")
        first[key] = line
        keys.append(key)
        paths.append(path)
        labels.append(names)
        split.append(_SPLIT_NAMES[part.lower()])
    if not keys:
        raise IdcwhError(f"{manifest}: no pictures; expected lines of path,label")
    classes = _ordered({name for names in labels for name in names})
    if not classes:
        raise IdcwhError(f"{manifest}: no line has a label")
    return LabelledImages(keys, _numbers(labels, classes), classes, paths, split, spec)


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
