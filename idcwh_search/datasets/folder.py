"""A folder of pictures: `train/<class>/*` and `test/<class>/*`, or `<class>/*`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..errors import IdcwhError
from ..image_lists import SUFFIXES
from .labelled import LabelledImages, in_label_order

SPLIT_FOLDERS = frozenset({"train", "test", "val", "valid", "validation"})
"""Folders of these names are parts of a set, not classes."""


def load(root: Path, spec: str) -> LabelledImages:
    """The pictures below a folder, sorted. IdcwhError when it is laid out in another way."""
    tops = _subfolders(root)
    if "train" in tops and set(tops) <= SPLIT_FOLDERS and _subfolders(root / "train"):
        if extra := sorted(set(tops) - {"train", "test"}):
            raise IdcwhError(f"{root}: has {extra[0]}/ beside train/; expected train/ and test/ only, or a manifest")
        parts = [str(part) for part in ("train", "test") if part in tops]
    else:
        parts = [""]
    listed = [(part, name, path) for part in parts for name, path in _classes(root / part)]
    if not listed:
        expected = "train/<class>/* and test/<class>/*, or <class>/*"
        raise IdcwhError(f"{root}: no pictures found in this folder; expected {expected}")
    classes = in_label_order({c for _, c, _ in listed})
    number = {name: i for i, name in enumerate(classes)}
    empty = [name for part in parts for name in _subfolders(root / part) if name not in number]
    return LabelledImages(
        keys=[p.relative_to(root).as_posix() for _, _, p in listed],
        labels=np.array([number[c] for _, c, _ in listed], np.int64),
        classes=classes,
        pictures=[p for _, _, p in listed],
        split=[s for s, _, _ in listed],
        spec=spec,
        note=f"no pictures in {', '.join(dict.fromkeys(empty))}: not taken for classes" if empty else "",
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
