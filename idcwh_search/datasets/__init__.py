"""Labelled images from a folder, a manifest, arrays, COCO, or a source that another package registers.

Listing a dataset opens no image, so an image that cannot be decoded is reported only when it is read. The package
`splits` divides a dataset into queries, training images and database.
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

_EXPECTED = "a folder, a .csv or .jsonl manifest, an .npz archive, or NAME:DIR such as cifar10:data"

SOURCES = "idcwh.sources"
"""Entry point group of dataset sources. An entry `name` is a function(directory: str) -> LabelledImages, which loads
`name:directory`.
"""


def load(spec: str) -> LabelledImages:
    """Returns a labelled dataset.

    Args:
        spec: a folder, a .csv, .tsv or .jsonl manifest, an .npz archive, or `source:directory` such as `coco:data` or
            `cifar10:data`. A folder holds `train/<class>/*` and `test/<class>/*`, or `<class>/*`. Sub-folders of a
            class folder belong to the class.

    Raises:
        NotFoundError: the path or the source is missing.
        IdcwhError: the dataset is invalid. The path of the error is the file, with the line of a manifest.
    """
    if not spec:
        raise InvalidInputError("path of the dataset is missing", expected=_EXPECTED)
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
    raise InvalidInputError(path=spec, expected=_EXPECTED)


def is_manifest(spec: str) -> bool:
    """Returns True if `spec` is a file that `load` reads as a manifest."""
    path = Path(spec)
    return path.suffix.lower() in manifest.SUFFIXES and path.is_file()


def check_outside(spec: str, output: str | os.PathLike[str], option: str) -> None:
    """Raises InvalidInputError if the folder `output` is inside the folder `spec`, where its images would be listed.

    Args:
        spec: dataset, as in `load`.
        output: folder to write.
        option: option that names `output`, for the message.
    """
    root, folder = Path(spec).resolve(), Path(output).resolve()
    if root.is_dir() and folder.is_relative_to(root):
        raise InvalidInputError(
            "is invalid",
            path=output,
            found=f"a folder inside the dataset {spec}",
            hint=f"choose {option} outside of it",
        )


def _registered(spec: str, name: str) -> Any:
    found = {entry.name: entry for entry in entry_points(group=SOURCES)}
    if name not in found:
        known = ", ".join(sorted({"coco", *found}))
        raise NotFoundError(path=spec, expected=f"a source of {known}")
    try:
        return found[name].load()
    except ImportError as error:
        raise not_installed(error) from None
