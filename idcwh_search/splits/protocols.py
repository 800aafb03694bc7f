"""Splits of a labelled dataset into queries, training images and database, by the rules of a protocol.

The images are sorted by SHA-256(seed, key), and the first ones are selected, per class or over all classes. The
selection is the same on every machine, with every NumPy version, and for every order of the files. A query is never in
the training or the database part. options.py has the table of protocols, split.py the result and its file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from .._util.wording import counted
from ..datasets import LabelledImages
from ..errors import InvalidInputError, MismatchError
from .options import NAMES, OPTIONS, PRESETS, UNSEEN, Preset, SplitOptions
from .split import Split, check_unseen, load

__all__ = ["NAMES", "OPTIONS", "Split", "SplitOptions", "load", "seeded_order", "split", "variants"]


def split(dataset: LabelledImages, options: SplitOptions = SplitOptions(), *, seed: int = 0) -> Split:  # noqa: B008
    """Returns the split of a dataset by a protocol. Raises IdcwhError if the dataset does not fit the protocol."""
    if options.protocol in UNSEEN:
        result = _with_unseen_classes(dataset, options, seed)
    else:
        result = _plain(dataset, options, seed)
    if options.database_without_train:
        rest = np.setdiff1d(result.database, result.train, assume_unique=True)
        if not len(rest):
            raise InvalidInputError("leaves no image in the database", path="--database-without-train")
        result = replace(result, database=rest, options={**result.options, "database_without_train": 1})
    check_unseen(result, dataset)
    return result


def variants(dataset: LabelledImages, made: Split) -> dict[str, Split]:
    """Returns the splits on which a model trained on `made.train` is evaluated: title in reports -> split.

    For a protocol in UNSEEN they are the splits of all three protocols, otherwise only `made`. Raises MismatchError if
    their training images differ.
    """
    if made.name not in UNSEEN:
        return {made.name: made}
    found: dict[str, Split] = {}
    given: dict[str, Any] = dict(made.options)
    for name, title in UNSEEN.items():
        found[title] = split(dataset, SplitOptions(name, **given), seed=made.seed)
        if not np.array_equal(found[title].train, made.train):
            raise MismatchError(
                f"does not match {title}",
                path=f"protocol {made.name}",
                found="other training images",
                hint="split the dataset again with this version",
            )
    return found


def seeded_order(seed: int, keys: Iterable[str]) -> np.ndarray:
    """Returns the positions of the keys sorted by SHA-256(seed, key), int64 [n]: a shuffle equal on every machine."""
    digests = [hashlib.sha256(f"{seed}/{key}".encode(errors="surrogateescape")).digest() for key in keys]
    return np.array(sorted(range(len(digests)), key=digests.__getitem__), np.int64)


# -------------------------------------------------------------------------------------------------------- the rules


def _plain(dataset: LabelledImages, options: SplitOptions, seed: int) -> Split:
    """Returns the split of a protocol without unseen classes."""
    name, counts = options.protocol, options.counts()
    if name == "auto":
        name = "per-class" if "query_per_class" in counts else "overall" if "query" in counts else "own"
    preset = PRESETS[name]
    if preset.images and not counts:
        _check_dataset(dataset, name, preset)
    rule = _own if preset.own_split else _drawn
    return rule(dataset, name, {**preset.counts, **counts}, seed)


def _own(dataset: LabelledImages, name: str, counts: Mapping[str, int], seed: int) -> Split:
    """Returns the dataset's own split. The test images are the queries, and all other images are the database."""
    if not dataset.has_split:
        raise InvalidInputError(
            "has no test images",
            path=dataset.spec,
            expected="train/ and test/ folders, or a split column",
            hint="take queries from each class (--query-per-class)",
        )
    marks = np.array(dataset.split)
    database = np.flatnonzero(marks != "test")
    trains = np.flatnonzero(marks == "train")
    if not len(trains):  # the source marks queries only
        trains = database
    query = _take(dataset, np.flatnonzero(marks == "test"), seed, counts, "query", "test images")
    train = _take(dataset, trains, seed, counts, "train", "training images")
    return Split(query, train, database, name, seed, dict(counts))


def _drawn(dataset: LabelledImages, name: str, counts: Mapping[str, int], seed: int) -> Split:
    """Returns a split by seed: queries from all images, the other images as database, training images from these."""
    rows = np.arange(len(dataset))
    if PRESETS[name].images:
        rows = _labelled(dataset, rows)
    query = _take(dataset, rows, seed, counts, "query", "images")
    database = np.setdiff1d(rows, query, assume_unique=True)
    train = _take(dataset, database, seed, counts, "train", "images beside the queries")
    return Split(query, train, database, name, seed, dict(counts))


def _with_unseen_classes(dataset: LabelledImages, options: SplitOptions, seed: int) -> Split:
    """Returns the split of a protocol in UNSEEN: the split of `auto`, without the unseen classes in training."""
    name, classes = options.protocol, len(dataset.classes)
    number = options.unseen_classes or max(1, classes // 4)
    if number >= classes:
        raise InvalidInputError("is invalid", path="--unseen-classes", found=number, expected=f"fewer than {classes}")
    hidden = np.zeros(classes, bool)
    hidden[seeded_order(seed, [f"unseen/{one}" for one in dataset.classes])[:number]] = True
    whole = _plain(dataset, replace(options, protocol="auto", unseen_classes=None), seed)
    return Split(
        whole.query[_only(dataset, whole.query, ~hidden if name == "seen-all" else hidden)],
        whole.train[_only(dataset, whole.train, ~hidden)],
        whole.database[_only(dataset, whole.database, hidden)] if name == "unseen" else whole.database,
        name,
        seed,
        {**whole.options, "unseen_classes": number},
        tuple(dataset.classes[c] for c in np.flatnonzero(hidden)),
    )


# ---------------------------------------------------------------------------------------------------------- drawing


def _take(
    dataset: LabelledImages, rows: np.ndarray, seed: int, counts: Mapping[str, int], part: str, what: str
) -> np.ndarray:
    """Returns drawn rows of one part, ascending.

    The number is that of `counts`, per class or over all classes. Without one, all rows are returned.
    """
    per_class = f"{part}_per_class" in counts
    count = counts.get(f"{part}_per_class" if per_class else part)
    if count is None:
        return rows
    if per_class and dataset.multi_label:
        raise InvalidInputError(
            "does not match numbers per class",
            path=dataset.spec,
            found="a multi-label dataset",
            expected="one label per image",
            hint="give numbers over all classes instead (--query, --train)",
        )
    if not per_class:
        rows = _labelled(dataset, rows)
    order = rows[seeded_order(seed, (dataset.keys[i] for i in rows))]
    if not per_class:
        if len(order) < count:
            kind = f"{what} with a label" if dataset.multi_label else what
            raise InvalidInputError(f"has too few {kind}", path=dataset.spec, found=len(order), expected=count)
        return np.sort(order[:count])
    by_class = order[np.argsort(dataset.labels[order], kind="stable")]
    sizes = np.bincount(dataset.labels[rows], minlength=len(dataset.classes))
    if sizes.min() < count:
        short = int(sizes.argmin())
        others = int(np.count_nonzero(sizes < count)) - 1
        more = f", {counted(others, 'more class')} too" if others else ""
        raise InvalidInputError(
            f"class {dataset.classes[short]} has too few {what}{more}",
            path=dataset.spec,
            found=int(sizes[short]),
            expected=count,
            hint="lower the number, or remove these classes",
        )
    starts = np.cumsum(sizes) - sizes
    return np.sort(by_class[(starts[:, None] + np.arange(count)).ravel()])


def _labelled(dataset: LabelledImages, rows: np.ndarray) -> np.ndarray:
    """Returns the rows that have a label."""
    return rows[dataset.labels[rows].any(axis=1)] if dataset.multi_label else rows


def _only(dataset: LabelledImages, rows: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Returns bool [m]: True for rows with at least one label and no label outside `classes`, bool [C]."""
    labels = dataset.labels[rows]
    if not dataset.multi_label:
        return np.asarray(classes[labels])
    return np.asarray(labels.any(axis=1) & ~labels[:, ~classes].any(axis=1))


def _check_dataset(dataset: LabelledImages, name: str, preset: Preset) -> None:
    """Raises InvalidInputError for a dataset whose size is not the one that the protocol is defined on."""
    images = len(_labelled(dataset, np.arange(len(dataset))))
    tests = dataset.split.count("test") if preset.tests else 0
    sizes, expected = ((images, len(dataset.classes), tests), (preset.images, preset.classes, preset.tests))
    if sizes != expected:
        other = "give coco other numbers (--query, --train)" if name == "coco" else "use per-class"
        raise InvalidInputError(
            f"does not match the dataset of {name}",
            path=dataset.spec,
            found=_size(*sizes),
            expected=_size(*expected),
            hint=f"use the protocol own, or {other}",
        )


def _size(images: int, classes: int, tests: int) -> str:
    for_testing = f", {tests:,} of them test images" if tests else ""
    return f"{counted(images, 'image')} of {counted(classes, 'class')}{for_testing}"
