"""Datasets as arrays in an .npz archive: x_train, y_train, x_test and y_test, or x and y without a split.

    x        uint8 [n, h, w, 3] RGB
    y        integers [n] (or [n, 1]); or bool [n, C], multi-label. A bool row may be all False. If each row has exactly
             one True, the dataset is the same as with integers.
    classes  optional: C names, in label order

Without `classes`, each integer is its own class name. The classes are the integers that occur, so labels may start at 1
and may leave numbers out. Archives with Python objects are refused.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .._util import npz
from ..errors import InvalidInputError
from .labelled import LabelledImages, first_repeat, single_labels

_SPLIT = ("x_train", "y_train", "x_test", "y_test")
_WHOLE = ("x", "y")


def load(path: Path, spec: str) -> LabelledImages:
    """Returns the images of an archive, in its order. Raises IdcwhError with the file and the array.

    Keys are "train/00000", ... and "test/00000", ..., or "00000", ... without a split.
    """
    content, _ = npz.read(path, (*_SPLIT, *_WHOLE, "classes"), f"{', '.join(_SPLIT)}, or x and y")
    parts = [(part, *_checked(path, content, part)) for part in _parts(path, content)]
    images, labels = [x for _, x, _ in parts], [y for _, _, y in parts]
    if len({x.shape[1:] for x in images}) > 1:
        raise _wrong(path, "x_test", _shape(images[1]), f"{_shape(images[0])} as x_train")
    if len({(y.dtype == bool, y.shape[1:]) for y in labels}) > 1:
        raise _wrong(path, "y_test", _kind(labels[1]), f"{_kind(labels[0])} as y_train")
    names = _names(path, content)
    if names is not None:
        _check_range(path, parts, len(names))
    numbers, classes = _numbered(path, np.concatenate(labels), names)
    return LabelledImages(
        keys=[f"{part}/{i:05d}" if part else f"{i:05d}" for part, x, _ in parts for i in range(len(x))],
        labels=numbers,
        classes=classes,
        images=np.ascontiguousarray(images[0]) if len(images) == 1 else np.concatenate(images),
        split=[part for part, x, _ in parts for _ in range(len(x))],
        spec=spec,
    )


def _parts(path: Path, content: dict[str, np.ndarray]) -> tuple[str, ...]:
    """Returns the splits of the archive: ("train", "test"), or ("",)."""
    halves, whole = [n for n in _SPLIT if n in content], [n for n in _WHOLE if n in content]
    if halves and whole:
        raise InvalidInputError(
            "is invalid",
            path=path,
            found=f"{halves[0]} and {whole[0]}",
            expected=f"{', '.join(_SPLIT)}, or x and y",
        )
    wanted, found = (_WHOLE, whole) if whole else (_SPLIT, halves)
    if missing := [name for name in wanted if name not in found]:
        alternative = "" if found else ", or x and y"
        raise InvalidInputError(
            f"{', '.join(missing)} is missing",
            path=path,
            found=", ".join(content) or "none",
            expected=", ".join(wanted) + alternative,
        )
    return ("",) if whole else ("train", "test")


def _checked(path: Path, content: dict[str, np.ndarray], part: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns x and y of a part, after a check of dtypes, shapes and values. Raises InvalidInputError."""
    x_name, y_name = (f"x_{part}", f"y_{part}") if part else _WHOLE
    x, y = content[x_name], content[y_name]
    if x.dtype != np.uint8:
        raise _wrong(path, x_name, x.dtype, "uint8, 0 to 255")
    if x.ndim != 4 or x.shape[3] != 3 or 0 in x.shape[1:3]:
        hint = "move the channels to the end" if x.ndim == 4 and x.shape[1] == 3 else None
        raise _wrong(path, x_name, list(x.shape), "images [n, h, w, 3]", hint)
    if y.dtype.kind in "iu" and y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if not ((y.dtype.kind in "iu" and y.ndim == 1) or (y.dtype == bool and y.ndim == 2)):
        raise _wrong(path, y_name, _kind(y), "integers [n] or bool [n, C]")
    if len(x) != len(y):
        raise _wrong(path, y_name, f"{len(y)} labels", f"{len(x)}, one per image")
    if y.ndim == 1 and len(y) and y.min() < 0:
        raise _wrong(path, f"{y_name}[{y.argmin()}]", y.min(), "at least 0")
    return x, y


def _names(path: Path, content: dict[str, np.ndarray]) -> list[str] | None:
    if "classes" not in content:
        return None
    names = content["classes"]
    if names.dtype.kind != "U" or names.ndim != 1:
        raise _wrong(path, "classes", _kind(names), "a list of names")
    found: list[str] = names.tolist()
    if (i := first_repeat(found)) is not None:
        raise _wrong(path, f"classes[{i}]", f"{found[i]!r} again", "different names")
    return found


def _check_range(path: Path, parts: list[tuple[str, np.ndarray, np.ndarray]], classes: int) -> None:
    for part, _, y in parts:
        if y.ndim == 1 and len(y) and y.max() >= classes:
            where = f"y_{part}[{y.argmax()}]" if part else f"y[{y.argmax()}]"
            raise _wrong(path, where, y.max(), f"0 to {classes - 1}, for {classes} classes")


def _numbered(path: Path, labels: np.ndarray, names: list[str] | None) -> tuple[np.ndarray, list[str]]:
    """Returns labels in the form of LabelledImages, and the class names."""
    if labels.ndim == 2:
        classes = [str(i) for i in range(labels.shape[1])] if names is None else names
        if len(classes) != labels.shape[1]:
            raise _wrong(path, "classes", f"{len(classes)} names", f"{labels.shape[1]}, as in the labels")
        return single_labels(labels), classes
    if names is None:
        values, numbers = np.unique(labels, return_inverse=True)
        return numbers.astype(np.int64), [str(value) for value in values]
    return labels.astype(np.int64), names


def _wrong(path: Path, array: str, found: object, expected: str, hint: str | None = None) -> InvalidInputError:
    return InvalidInputError(f"{array} is invalid", path=path, found=found, expected=expected, hint=hint)


def _shape(x: np.ndarray) -> str:
    return " x ".join(map(str, x.shape[1:]))


def _kind(y: np.ndarray) -> str:
    return f"{y.dtype} {list(y.shape)}"
