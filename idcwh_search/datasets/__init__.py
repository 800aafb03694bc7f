"""Labelled images from a folder, a manifest, arrays, COCO, or a source that another package registers.

A dataset is listed without opening an image; one that cannot be decoded is reported when it is read. The package splits
divides a dataset into queries, training images and database.
"""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ..errors import InvalidInputError, NotFoundError, not_installed
from . import arrays, coco, folder, manifest
from .labelled import LabelledImages

__all__ = ["SOURCES", "LabelledImages", "check_outside", "is_manifest", "load"]

_EXPECTED = "a folder, a .csv or .jsonl manifest, an .npz archive, or source:directory"

SOURCES = "idcwh.sources"
"""Entry point group: name -> function(directory: str) -> LabelledImages, reached as `name:directory`."""


def load(spec: str) -> LabelledImages:
    """Returns a labelled dataset by its name.

    spec: a folder, a .csv, .tsv or .jsonl manifest, an .npz archive, or `source:directory` (`coco:data`,
    `cifar10:data`). A folder holds `train/<class>/*` and `test/<class>/*`, or `<class>/*`; sub-folders inside a class
    belong to it. Raises IdcwhError, whose path is the file, and the line where there is one.
    """
    if not spec:
        raise InvalidInputError("the path of the dataset is empty", expected=_EXPECTED)
    path = Path(spec)
    source, colon, directory = spec.partition(":")
    if colon and len(source) > 1 and not path.exists():
        return coco.load(directory) if source == "coco" else _registered(spec, source)(directory)
    if path.is_dir():
        return folder.load(path, spec)
    if not path.exists():
        raise NotFoundError(path=spec, expected=_EXPECTED)
    suffix = path.suffix.lower()
    if suffix in manifest.SUFFIXES:
        return manifest.load(path, spec)
    if suffix == ".npz":
        return arrays.load(path, spec)
    raise InvalidInputError("is not a dataset", path=spec, expected=_EXPECTED)


def is_manifest(spec: str) -> bool:
    """Returns whether `spec` is a file that `load` reads as a manifest."""
    path = Path(spec)
    return path.suffix.lower() in manifest.SUFFIXES and path.is_file()


def check_outside(spec: str, output: str | os.PathLike[str], option: str) -> None:
    """Raises IdcwhError if `output`, the folder of `option`, is in the folder `spec`: its images would be listed."""
    root, folder = Path(spec).resolve(), Path(output).resolve()
    if root.is_dir() and folder.is_relative_to(root):
        raise InvalidInputError(
            f"is inside the dataset {spec}, whose images it would add to",
            path=output,
            hint=f"choose {option} outside of it",
        )


def _registered(spec: str, name: str) -> Any:
    found = {entry.name: entry for entry in entry_points(group=SOURCES)}
    if name not in found:
        known = ", ".join(sorted({"coco", *found}))
        raise NotFoundError("is neither a folder nor a source of images", path=spec, expected=f"a source of {known}")
    try:
        return found[name].load()
    except ImportError as error:
        raise not_installed(error) from None
