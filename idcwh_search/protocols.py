"""Protocols: rules that split a labelled set into query, training and database.

The pictures a seed picks are the first of their class in the order of SHA-256(seed, key): the same on every machine,
for every version of numpy, and whatever order the files were listed in. A query is never in training or the database.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .datasets import LabelledImages
from .errors import IdcwhError
from .files import replacing

FORMAT, VERSION = "idcwh-protocol", 1
_PARTS = ("query", "train", "database")

NAMES = {
    "cifar10-mini": "100 queries and 500 training images a class, the rest (59,000) is the database",
    "cifar10-full": "queries: the official test images; training and database: the official training images",
    "cifar100": "queries: the official test images; training and database: the official training images",
    "own": "the set's own split: test pictures are queries, train pictures train, all but the queries are the database",
    "per-class": "query_per_class and train_per_class of each class, all but the queries are the database",
    "auto": "per-class when a number a class is given, else the set's own split",
}
"""Every protocol `split` knows, and what it does."""

# protocol -> pictures the set must have, classes, of them test pictures
_DEFINED_ON = {"cifar10-mini": (60_000, 10, 0), "cifar10-full": (60_000, 10, 10_000), "cifar100": (60_000, 100, 10_000)}


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of a LabelledImages, each int64, ascending, without repetition.

    IdcwhError when a query is in the database or in the training part, or when a part is empty.
    """

    query: np.ndarray
    train: np.ndarray
    database: np.ndarray
    name: str = ""
    seed: int = 0
    options: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part in _PARTS:
            rows = getattr(self, part)
            if rows.dtype != np.int64 or rows.ndim != 1 or (len(rows) and rows[0] < 0) or np.any(np.diff(rows) <= 0):
                raise ValueError(f"{part}: expected ascending int64 row numbers, each once")
            if not len(rows):
                raise IdcwhError(f"protocol {self.name}: the {part} part is empty")
        for part in ("database", "train"):
            if common := len(np.intersect1d(self.query, getattr(self, part), assume_unique=True)):
                raise IdcwhError(f"protocol {self.name}: {common} queries are also in the {part} part")

    def describe(self) -> str:
        """One line for people: the sizes, and how many training pictures the database holds."""
        overlap = len(np.intersect1d(self.train, self.database, assume_unique=True))
        return (
            f"{self.name} (seed {self.seed}): {len(self.query):,} queries, {len(self.train):,} training, "
            f"{len(self.database):,} database, of which {overlap:,} are also training"
        )

    def sha256(self) -> dict[str, str]:
        """SHA-256 of each part's row numbers as little-endian int64."""
        return {part: hashlib.sha256(getattr(self, part).astype("<i8").tobytes()).hexdigest() for part in _PARTS}

    def save(self, path: str | os.PathLike[str], dataset: LabelledImages) -> None:
        """Write the lists as JSON, with the keys of the pictures and the hashes. Never leaves half a file."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "protocol": self.name,
            "seed": self.seed,
            "options": self.options,
            "dataset": {"spec": dataset.spec, "images": len(dataset), "sha256": dataset.sha256()},
            "sha256": self.sha256(),
            **{
                part: {"rows": rows.tolist(), "keys": [dataset.keys[i] for i in rows]}
                for part, rows in ((part, getattr(self, part)) for part in _PARTS)
            },
        }
        with replacing(path) as file:
            file.write(json.dumps(content, ensure_ascii=False).encode())


def load(path: str | os.PathLike[str], dataset: LabelledImages) -> Split:
    """Read a saved split. IdcwhError when it is damaged, or made from other keys, labels or classes."""
    try:
        content: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        if content.get("format") != FORMAT:
            raise IdcwhError(f"{path}: not a saved protocol")
        if content["version"] != VERSION:
            raise IdcwhError(f"{path}: version {content['version']}, this program reads {VERSION}")
        made_from, hashes = content["dataset"], content["sha256"]
        query, train, database = (np.array(content[part]["rows"], np.int64) for part in _PARTS)
        name, seed, options = content["protocol"], content["seed"], content["options"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise IdcwhError(f"{path}: not a saved protocol, or damaged ({type(error).__name__}: {error})") from None
    if made_from["sha256"] != dataset.sha256():
        raise IdcwhError(
            f"{path}: made from another set: {made_from['spec']}, {made_from['images']} pictures, "
            f"sha256 {made_from['sha256'][:12]}; "
            f"this is {dataset.spec}, {len(dataset)} pictures, sha256 {dataset.sha256()[:12]}"
        )
    result = Split(query, train, database, name, seed, options)
    if result.sha256() != hashes:
        raise IdcwhError(f"{path}: damaged, the lists do not have the saved SHA-256")
    return result


def split(
    dataset: LabelledImages,
    name: str = "auto",
    *,
    seed: int = 0,
    query_per_class: int | None = None,
    train_per_class: int | None = None,
) -> Split:
    """Split a set by a protocol of `NAMES`.

    query_per_class, train_per_class belong to `per-class`; without the second, all but the queries train. With `own`
    they take that many of each class's test and training pictures. IdcwhError when the set does not fit the protocol.
    """
    if name == "auto":
        name = "per-class" if query_per_class else "own"
    if name not in NAMES:
        raise IdcwhError(f"unknown protocol {name!r}; expected one of {', '.join(NAMES)}")
    if name in _DEFINED_ON:
        _require(dataset, name)
        if query_per_class or train_per_class:
            raise IdcwhError(f"{name} fixes the number of images a class; use the protocol per-class for others")
    if name == "cifar10-mini":
        return _per_class(dataset, name, seed, 100, 500)
    if name == "per-class":
        if not query_per_class:
            raise IdcwhError("protocol per-class: say how many queries a class (--query-per-class)")
        return _per_class(dataset, name, seed, query_per_class, train_per_class)
    return _own(dataset, name, seed, query_per_class, train_per_class)


def _own(dataset: LabelledImages, name: str, seed: int, queries: int | None, training: int | None) -> Split:
    marks = np.array(dataset.split)
    if not dataset.has_split:
        raise IdcwhError(
            f"{dataset.spec}: has no test pictures of its own; give it train/ and test/ folders or a split column, "
            "or take queries from each class (--query-per-class)"
        )
    query, train = np.flatnonzero(marks == "test"), np.flatnonzero(marks == "train")
    if queries:
        query = _first(dataset, query, seed, queries, "test pictures")
    if training:
        train = _first(dataset, train, seed, training, "training pictures")
    options = {k: v for k, v in (("query_per_class", queries), ("train_per_class", training)) if v}
    return Split(query, train, np.flatnonzero(marks != "test"), name, seed, options)


def _per_class(dataset: LabelledImages, name: str, seed: int, queries: int, training: int | None) -> Split:
    everything = np.arange(len(dataset))
    query = _first(dataset, everything, seed, queries, "pictures")
    database = np.setdiff1d(everything, query, assume_unique=True)
    options = {"query_per_class": queries}
    train = database
    if training is not None:
        train = _first(dataset, database, seed, training, f"pictures beside {queries} queries")
        options["train_per_class"] = training
    return Split(query, train, database, name, seed, options)


def _first(dataset: LabelledImages, rows: np.ndarray, seed: int, count: int, what: str) -> np.ndarray:
    """`count` of `rows` from each class, ascending."""
    if dataset.multi_label:
        raise IdcwhError(f"{dataset.spec}: pictures have several labels or none; numbers a class need one each")
    order = rows[np.argsort(np.array([draw(seed, dataset.keys[i]) for i in rows]), kind="stable")]
    by_class = order[np.argsort(dataset.labels[order], kind="stable")]
    sizes = np.bincount(dataset.labels[rows], minlength=len(dataset.classes))
    if sizes.min() < count:
        short = int(sizes.argmin())
        name = dataset.classes[short]
        raise IdcwhError(f"{dataset.spec}: class {name} has {sizes[short]} {what}, the protocol wants {count}")
    starts = np.cumsum(sizes) - sizes
    return np.sort(by_class[(starts[:, None] + np.arange(count)).ravel()])


def draw(seed: int, key: str) -> bytes:
    """The lot of a picture: sorting by it shuffles the pictures, in the same way everywhere."""
    return hashlib.sha256(f"{seed}/{key}".encode()).digest()


def _require(dataset: LabelledImages, name: str) -> None:
    images, classes, tests = _DEFINED_ON[name]
    found = (len(dataset), len(dataset.classes), dataset.split.count("test"))
    if found[:2] != (images, classes) or (tests and found[2] != tests):
        for_testing = f", {tests} of them for testing" if tests else ""
        raise IdcwhError(
            f"{name} is defined on {images} pictures of {classes} classes{for_testing}; {dataset.spec} has {found[0]} "
            f"of {found[1]}, {found[2]} for testing. Use the protocol own or per-class"
        )
