"""Labelled pictures from a folder, a manifest, arrays, COCO, or a source that another package registers.

A set is listed without opening a picture; one that cannot be read shows when it is read. How it is split into query,
training and database is `protocols`' business.
"""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ..errors import InvalidInputError, NotFoundError, not_installed
from ..images.listing import SPLIT_FOLDERS
from . import arrays, coco, folder, manifest
from .labelled import SPLITS, LabelledImages

__all__ = ["SOURCES", "SPLITS", "SPLIT_FOLDERS", "LabelledImages", "check_outside", "is_manifest", "load"]

SOURCES = "idcwh.sources"
"""Entry point group: name -> function(directory: str) -> LabelledImages, reached as `name:directory`."""


def load(spec: str) -> LabelledImages:
    """A labelled set by its name: a folder, a .csv, .tsv or .jsonl manifest, an .npz archive, or `source:directory`
    (`coco:data`, `cifar10:data`).

    A folder holds `train/<class>/*` and `test/<class>/*`, or `<class>/*`; sub-folders inside a class belong to it.
    Raises IdcwhError, naming file and line where there is one.
    """
    path = Path(spec)
    source, colon, directory = spec.partition(":")
    if colon and len(source) > 1 and not path.exists():
        return coco.load(directory) if source == "coco" else _registered(source)(directory)
    if path.is_dir():
        return folder.load(path, spec)
    if not path.exists():
        raise NotFoundError("no such folder, manifest or .npz archive", path=spec)
    suffix = path.suffix.lower()
    if suffix in manifest.SUFFIXES:
        return manifest.load(path, spec)
    if suffix == ".npz":
        return arrays.load(path, spec)
    raise InvalidInputError(
        "expected a folder, a .csv or .jsonl manifest, an .npz archive, or source:directory", path=spec
    )


def is_manifest(spec: str) -> bool:
    """Returns whether `spec` is a file that `load` reads as a manifest."""
    path = Path(spec)
    return path.suffix.lower() in manifest.SUFFIXES and path.is_file()


def check_outside(spec: str, output: str | os.PathLike[str], option: str) -> None:
    """Raises IdcwhError if `output`, the folder of `option`, is in the folder `spec`: its images would be listed."""
    root, folder = Path(spec).resolve(), Path(output).resolve()
    if root.is_dir() and folder.is_relative_to(root):
        raise InvalidInputError(
            f"is inside the dataset {spec}, whose images it would add to; expected {option} outside of it", path=output
        )


def _registered(name: str) -> Any:
    found = {entry.name: entry for entry in entry_points(group=SOURCES)}
    if name not in found:
        known = ", ".join(sorted({"coco", *found}))
        raise NotFoundError(f"{name}: no such folder, and no such source of pictures (sources: {known})")
    try:
        return found[name].load()
    except ImportError as error:
        raise not_installed(error) from None
