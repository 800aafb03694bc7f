"""Protocols: rules that split a labelled set into query, training and database.

The pictures a seed picks are the first (of their class, or of all) in the order of SHA-256(seed, key): the same on
every machine, for every version of numpy, and whatever order the files were listed in. A query is never in training or
the database. The result, and its file, are `splits`' business.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..datasets import LabelledImages
from ..errors import InvalidInputError, MismatchError
from .split import OPTIONS, Split, check_unseen, load

__all__ = ["NAMES", "OPTIONS", "UNSEEN", "Split", "check", "draw", "load", "split", "variants"]

NAMES = {
    "cifar10-mini": "100 queries and 500 training images a class, the rest (59,000) is the database",
    "cifar10-full": "queries: the official test images; training and database: the official training images",
    "cifar100": "queries: the official test images; training and database: the official training images",
    "coco": "of the 122,218 labelled images 5,000 queries, the rest is the database, 10,000 of it training",
    "own": "the set's own split: test pictures are queries, train pictures train, all but the queries are the database",
    "per-class": "query_per_class and train_per_class of each class, all but the queries are the database",
    "overall": "query and train of all pictures with a label, all but the queries are the database",
    "unseen": "some classes never train; queries of those classes, searched in the database's pictures of them",
    "unseen-all": "the same training images and queries, searched in the whole database",
    "seen-all": "the same training images, queries of the classes that train, searched in the whole database",
    "auto": "per-class or overall when a number of queries is given, else the set's own split",
}
"""Every protocol `split` knows, and what it does."""

UNSEEN = {"unseen": "unseen@unseen", "unseen-all": "unseen@all", "seen-all": "seen@all"}
"""The protocols of one family (a model trained for one of them is right for all), and what a report calls each."""


@dataclass(frozen=True)
class _Definition:
    """A set that a protocol is defined on: labelled pictures, classes, test pictures (0: they make no difference)."""

    pictures: int
    classes: int
    tests: int = 0


_DEFINED_ON = {
    "cifar10-mini": _Definition(60_000, 10),
    "cifar10-full": _Definition(60_000, 10, 10_000),
    "cifar100": _Definition(60_000, 100, 10_000),
    "coco": _Definition(122_218, 80),
}


@dataclass(frozen=True)
class _Counts:
    """How many queries and training pictures: `each` of every class, or `of all`; None takes every one there is."""

    query: int | None
    train: int | None
    each: bool

    def options(self) -> dict[str, int]:
        suffix = "_per_class" if self.each else ""
        return {f"{k}{suffix}": v for k, v in (("query", self.query), ("train", self.train)) if v is not None}


def split(
    dataset: LabelledImages,
    name: str = "auto",
    *,
    seed: int = 0,
    query_per_class: int | None = None,
    train_per_class: int | None = None,
    query: int | None = None,
    train: int | None = None,
    database_without_train: bool = False,
    unseen_classes: int | None = None,
) -> Split:
    """Split a set by a protocol of `NAMES`.

    query_per_class or query 0         no queries: all images train and are the database, and nothing can be evaluated
    query_per_class, train_per_class   belong to `per-class`; without the second, all but the queries train. With `own`
                                       they take that many of each class's test and training pictures.
    query, train                       the same over all classes, of pictures that have a label: for `overall`, `own`,
                                       and for `coco` on a set of another size
    database_without_train             leaves the training pictures out of the database
    unseen_classes                     of the protocols in `UNSEEN`: how many classes do not train, by default a
                                       quarter, at least one. Otherwise they split as `auto` does. A picture that is of
                                       seen and unseen classes neither trains nor asks; it is in the whole database.

    IdcwhError when the set does not fit the protocol; ValueError as `check` says.
    """
    check(name, query_per_class, train_per_class, query, train, unseen_classes)
    counts = _counts(query_per_class, train_per_class, query, train)
    if name in UNSEEN:
        result = _unseen(dataset, name, seed, counts, unseen_classes)
    else:
        result = _plain(dataset, name, seed, counts)
    if database_without_train:
        rest = np.setdiff1d(result.database, result.train, assume_unique=True)
        if not len(rest):
            raise InvalidInputError(f"protocol {result.name}: without the training pictures the database is empty")
        options = {**result.options, "database_without_train": 1}
        result = Split(result.query, result.train, rest, result.name, seed, options, result.unseen)
    check_unseen(result, dataset)
    return result


def check(
    name: str,
    query_per_class: int | None = None,
    train_per_class: int | None = None,
    query: int | None = None,
    train: int | None = None,
    unseen_classes: int | None = None,
) -> None:
    """ValueError for an unknown protocol, and for options of `split` that contradict it or each other."""
    if name not in NAMES:
        raise ValueError(f"unknown protocol {name!r}; expected one of {', '.join(NAMES)}")
    if (query_per_class, train_per_class) != (None, None) and (query, train) != (None, None):
        raise ValueError("numbers of pictures: give them a class (query and train per class) or over all, not both")
    if unseen_classes and name not in UNSEEN:
        raise ValueError(f"protocol {name}: the number of unseen classes belongs to {', '.join(UNSEEN)}")
    counts = _counts(query_per_class, train_per_class, query, train)
    if name == "coco":
        if counts is not None and counts.each:
            raise ValueError("coco: pictures have several labels; give numbers over all classes (--query, --train)")
    elif name in _DEFINED_ON:
        if counts is not None:
            raise ValueError(f"{name} fixes the number of images a class; use the protocol per-class for others")
    elif (name == "per-class" and query_per_class is None) or (name == "overall" and query is None):
        flag = "queries a class (--query-per-class)" if name == "per-class" else "queries (--query)"
        raise ValueError(f"protocol {name}: say how many {flag}")


def variants(dataset: LabelledImages, made: Split) -> dict[str, Split]:
    """Every split that a model trained on `made.train` is measured on, by what a report calls it: of `UNSEEN` the
    three, of another protocol itself. IdcwhError when they would not have the same training pictures."""
    if made.name not in UNSEEN:
        return {made.name: made}
    found: dict[str, Split] = {}
    for name, title in UNSEEN.items():
        options: dict[str, Any] = dict(made.options)
        found[title] = split(dataset, name, seed=made.seed, **options)
        if not np.array_equal(found[title].train, made.train):
            raise MismatchError(
                f"protocol {made.name}: {title} has other training pictures; was it made by another version?"
            )
    return found


def draw(seed: int, key: str) -> bytes:
    """The lot of a picture: sorting by it shuffles the pictures, in the same way everywhere."""
    return hashlib.sha256(f"{seed}/{key}".encode(errors="surrogateescape")).digest()


def _counts(query_each: int | None, train_each: int | None, query: int | None, train: int | None) -> _Counts | None:
    if (query_each, train_each) != (None, None):
        return _Counts(query_each, train_each, True)
    return None if (query, train) == (None, None) else _Counts(query, train, False)


# -------------------------------------------------------------------------------------------------------- the rules


def _plain(dataset: LabelledImages, name: str, seed: int, counts: _Counts | None) -> Split:
    """Any protocol without unseen classes."""
    if name == "auto":
        asks = counts is not None and counts.query is not None
        name = "own" if counts is None or not asks else "per-class" if counts.each else "overall"
    if name == "coco":
        return _coco(dataset, seed, counts)
    if name in _DEFINED_ON:
        _require(dataset, name)
        return (
            _drawn(dataset, name, seed, _Counts(100, 500, True))
            if name == "cifar10-mini"
            else _own(dataset, name, seed, _Counts(None, None, True))
        )
    counts = counts or _Counts(None, None, True)
    return (_own if name == "own" else _drawn)(dataset, name, seed, counts)


def _own(dataset: LabelledImages, name: str, seed: int, counts: _Counts) -> Split:
    marks = np.array(dataset.split)
    if not dataset.has_split:
        raise InvalidInputError(
            "has no test pictures of its own; give it train/ and test/ folders or a split column, "
            "or take queries from each class (--query-per-class)",
            path=dataset.spec,
        )
    database = np.flatnonzero(marks != "test")
    trains = np.flatnonzero(marks == "train")
    if not len(trains):  # the source only says which images are queries
        trains = database
    query = _take(dataset, np.flatnonzero(marks == "test"), seed, counts.query, counts.each, "test pictures")
    train = _take(dataset, trains, seed, counts.train, counts.each, "training pictures")
    return Split(query, train, database, name, seed, counts.options())


def _drawn(dataset: LabelledImages, name: str, seed: int, counts: _Counts, rows: np.ndarray | None = None) -> Split:
    """Queries drawn from `rows` (all), the rest is the database, the training pictures drawn from that."""
    rows = np.arange(len(dataset)) if rows is None else rows
    query = _take(dataset, rows, seed, counts.query, counts.each, "pictures")
    database = np.setdiff1d(rows, query, assume_unique=True)
    beside = f"pictures beside {counts.query} queries"
    train = _take(dataset, database, seed, counts.train, counts.each, beside)
    return Split(query, train, database, name, seed, counts.options())


def _coco(dataset: LabelledImages, seed: int, counts: _Counts | None) -> Split:
    if counts is None:
        _require(dataset, "coco")
    given = counts or _Counts(None, None, False)
    numbers = _Counts(5_000 if given.query is None else given.query, given.train or 10_000, False)
    return _drawn(dataset, "coco", seed, numbers, _labelled(dataset, np.arange(len(dataset))))


def _unseen(dataset: LabelledImages, name: str, seed: int, counts: _Counts | None, wanted: int | None) -> Split:
    classes = len(dataset.classes)
    number = wanted or max(1, classes // 4)
    if number >= classes:
        raise InvalidInputError(f"protocol {name}: {number} unseen of {classes} classes leave none to train on")
    order = sorted(range(classes), key=lambda c: draw(seed, f"unseen/{dataset.classes[c]}"))
    hidden = np.zeros(classes, bool)
    hidden[order[:number]] = True
    whole = _plain(dataset, "auto", seed, counts)
    asking = hidden if name != "seen-all" else ~hidden
    unseen = tuple(dataset.classes[c] for c in np.flatnonzero(hidden))
    return Split(
        whole.query[_only(dataset, whole.query, asking)],
        whole.train[_only(dataset, whole.train, ~hidden)],
        whole.database[_only(dataset, whole.database, hidden)] if name == "unseen" else whole.database,
        name,
        seed,
        {**whole.options, "unseen_classes": number},
        unseen,
    )


# ---------------------------------------------------------------------------------------------------------- drawing


def _take(dataset: LabelledImages, rows: np.ndarray, seed: int, count: int | None, each: bool, what: str) -> np.ndarray:
    """`count` of `rows`, of each class or over all, ascending; all of them when there is no count."""
    if count is None:
        return rows
    if each and dataset.multi_label:
        raise InvalidInputError(
            "pictures have several labels or none; numbers a class need one each. "
            "Give numbers over all classes instead (--query, --train)",
            path=dataset.spec,
        )
    if not each:
        rows = _labelled(dataset, rows)
    order = rows[np.argsort(np.array([draw(seed, dataset.keys[i]) for i in rows]), kind="stable")]
    if not each:
        if len(order) < count:
            kind = f"{what} with a label" if dataset.multi_label else what
            raise InvalidInputError(f"has {len(order)} {kind}, the protocol wants {count}", path=dataset.spec)
        return np.sort(order[:count])
    by_class = order[np.argsort(dataset.labels[order], kind="stable")]
    sizes = np.bincount(dataset.labels[rows], minlength=len(dataset.classes))
    if sizes.min() < count:
        short = int(sizes.argmin())
        others = int(np.count_nonzero(sizes < count)) - 1
        more = f" (and {others} more classes have too few)" if others else ""
        raise InvalidInputError(
            f"class {dataset.classes[short]} has {sizes[short]} {what}, the protocol wants {count}"
            f"{more}; lower the number, or leave such classes out",
            path=dataset.spec,
        )
    starts = np.cumsum(sizes) - sizes
    return np.sort(by_class[(starts[:, None] + np.arange(count)).ravel()])


def _labelled(dataset: LabelledImages, rows: np.ndarray) -> np.ndarray:
    """Those of the rows that have a label."""
    return rows[dataset.labels[rows].any(axis=1)] if dataset.multi_label else rows


def _only(dataset: LabelledImages, rows: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """bool [m]: the rows with a label whose labels are all among the `classes`, bool [C]."""
    if not dataset.multi_label:
        return np.asarray(classes[dataset.labels[rows]])
    labels = dataset.labels[rows]
    return np.asarray(labels.any(axis=1) & ~labels[:, ~classes].any(axis=1))


def _require(dataset: LabelledImages, name: str) -> None:
    wanted = _DEFINED_ON[name]
    pictures, tests = len(_labelled(dataset, np.arange(len(dataset)))), dataset.split.count("test")
    if (pictures, len(dataset.classes)) != (wanted.pictures, wanted.classes) or (
        wanted.tests and tests != wanted.tests
    ):
        for_testing = f", {wanted.tests} of them for testing" if wanted.tests else ""
        others = "or give coco other numbers (--query, --train)" if name == "coco" else "or per-class"
        raise InvalidInputError(
            f"{name} is defined on {wanted.pictures} pictures of {wanted.classes} classes{for_testing}; "
            f"{dataset.spec} has {pictures} of {len(dataset.classes)}, {tests} for testing. "
            f"Use the protocol own {others}"
        )
