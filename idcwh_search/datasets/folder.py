"""Datasets as folders of images: `train/<class>/*` and `test/<class>/*`, or `<class>/*`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..errors import InvalidInputError
from ..images import tar
from ..images.listing import SPLIT_FOLDERS, SYSTEM_FOLDERS, ImageList, ImageRef, expanded, suffixes, walk
from .labelled import LabelledImages, in_label_order, named


def load(root: Path, spec: str) -> LabelledImages:
    """Returns the images below a folder, sorted by path, labelled by their class folder.

    All images and tar files below a class folder belong to the class. Folders beside train/ and test/ are ignored and
    listed in `note`.

    Raises:
        InvalidInputError: the layout is another one, or a link puts an image into two classes.
        OSError: a folder cannot be read.
    """
    parts = _parts(root)
    found = _in_class_folders(root, walk(str(root), sorted(parts)), parts)
    images = sorted(found.images, key=lambda image: _place(image.key, parts)[0] == "test")  # images of train/ first
    places = [_place(image.key, parts) for image in images]
    if not places:
        raise InvalidInputError(
            "has no images",
            path=root,
            expected="train/<class>/* and test/<class>/*, or <class>/*",
            hint="; ".join(found.left_out.lines()) or None,
        )
    classes = in_label_order({name for _, name in places})
    number = {name: i for i, name in enumerate(classes)}
    return LabelledImages(
        keys=[image.key for image in images],
        labels=np.array([number[name] for _, name in places], np.int64),
        classes=classes,
        images=[Path(image.path) for image in images],
        split=[part for part, _ in places],
        spec=spec,
        note=_note(root, parts, set(classes)),
        left_out=found.left_out,
    )


def _parts(root: Path) -> dict[str, str]:
    """Returns the folders in `root` that are parts of the dataset: name -> "train" or "test".

    The result is empty if the folders in `root` are classes. Folders named train, test or val, in any case, are parts
    under two conditions. The folder train has class folders, and there is a second such folder or no other folder with
    images.
    """
    folders = _subfolders(root)
    parts = {name: name.lower() for name in folders if name.lower() in SPLIT_FOLDERS}
    if not any(part == "train" and _subfolders(root / name) for name, part in parts.items()):
        return {}
    others = sorted(set(folders) - set(parts) - SYSTEM_FOLDERS)
    if len(set(parts.values())) == 1 and others and walk(str(root), others).images:
        return {}
    if extra := sorted(name for name, part in parts.items() if part not in ("train", "test")):
        raise InvalidInputError(
            "has another part beside train/", path=root, found=f"{extra[0]}/", expected="test/ only, or a manifest"
        )
    return parts


def _subfolders(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def _place(key: str, parts: dict[str, str]) -> tuple[str, str]:
    """Returns part and class of the file with this key. The class is "" outside any class folder."""
    folders = key.split("/")[:-1]
    part = parts[folders.pop(0)] if parts and folders else ""
    return part, folders[0] if folders else ""


def _in_class_folders(root: Path, found: ImageList, parts: dict[str, str]) -> ImageList:
    """Returns the images in class folders, with tar files expanded.

    Archives outside class folders are ignored. Raises InvalidInputError for an image there.
    """
    images: list[ImageRef] = []
    left_out = found.left_out
    for image in found.images:
        if _place(image.key, parts)[1]:
            images.append(image)
        elif tar.is_shard(image.path):
            left_out.others[tar.SUFFIX] += 1
        else:
            folder = Path(image.path).parent
            raise InvalidInputError("is outside the class folders", path=image.path, expected=f"{folder}/<class>/*")
    beside = [one for one in left_out.skipped if tar.compressed_suffix(one[0]) and not _place(one[0], parts)[1]]
    left_out.skipped = [one for one in left_out.skipped if one not in beside]
    left_out.others.update(kind for _, kind in beside)
    for link, key in left_out.links:
        if (root / link).is_file() and _place(link, parts) != _place(key, parts):
            raise InvalidInputError(
                f"is a link to {key} in another class or part",
                path=root / link,
                expected="one class and part per image",
            )
    return expanded(ImageList(found.root, images, left_out))


def _note(root: Path, parts: dict[str, str], classes: set[str]) -> str:
    """Returns a line about the files ignored beside the parts and the folders without images, or ""."""
    lines = []
    if parts:
        ignored = [f"{name}/" for name in _subfolders(root) if name not in parts]
        ignored += sorted(path.name for path in root.iterdir() if path.suffix.lower() in suffixes() and path.is_file())
        if ignored:
            lines.append(f"ignored beside {'/ and '.join(sorted(parts, reverse=True))}/: {named(ignored)}")
    inside = [root / name for name in parts] or [root]
    empty = dict.fromkeys(name for folder in inside for name in _subfolders(folder) if name not in classes)
    if empty:
        lines.append(f"folders without images, no classes: {named(list(empty))}")
    return "; ".join(lines)
