"""What a protocol makes of a set: the rows that are queries, training and database, and the file that keeps them."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._util.atomic import begins_with, replacing
from .._util.wording import counted
from ..errors import CorruptFileError, IdcwhError, InvalidInputError, MismatchError, NotFoundError, NotSupportedError

if TYPE_CHECKING:
    from ..datasets import LabelledImages

FORMAT, VERSION = "idcwh-protocol", 1
KIND = begins_with("saved protocol", rb'\s*\{\s*"format":\s*"idcwh-protocol"')
OPTIONS = ("query_per_class", "train_per_class", "query", "train", "database_without_train", "unseen_classes")
"""What a protocol can be told beside its seed; `protocols.split` explains them."""

_PARTS = ("query", "train", "database")
_NAMED = 5  # classes that a line of text names


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of a LabelledImages, each int64, ascending, without repetition.

    options: those of OPTIONS that were given or that the protocol fixes; unseen: names of classes that must not train.
    IdcwhError when a query is in the database or in the training part, or when a part is empty.
    """

    query: np.ndarray
    train: np.ndarray
    database: np.ndarray
    name: str = ""
    seed: int = 0
    options: dict[str, int] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for part in _PARTS:
            rows = getattr(self, part)
            if rows.dtype != np.int64 or rows.ndim != 1 or (len(rows) and rows[0] < 0) or np.any(np.diff(rows) <= 0):
                raise ValueError(f"{part}: expected ascending int64 row numbers, each once")
            if not len(rows) and not (part == "query" and self.without_queries):
                hint = "none of the pictures fits" if part == "query" else "give more pictures, or take fewer queries"
                raise InvalidInputError(f"protocol {self.name}: the {part} part is empty; {hint}")
        for part in ("database", "train"):
            if common := len(np.intersect1d(self.query, getattr(self, part), assume_unique=True)):
                raise InvalidInputError(f"protocol {self.name}: {counted(common, 'query')} also in the {part} part")

    @property
    def without_queries(self) -> bool:
        """Whether no queries were asked for: there is nothing to evaluate."""
        return 0 in (self.options.get("query_per_class"), self.options.get("query"))

    def describe(self) -> str:
        """One line for people: the sizes, how many training pictures the database holds, the unseen classes."""
        overlap = len(np.intersect1d(self.train, self.database, assume_unique=True))
        unseen = f"; {counted(len(self.unseen), 'class')} unseen: {_some(self.unseen)}" if self.unseen else ""
        return (
            f"{self.name} (seed {self.seed}): {counted(len(self.query), 'query')}, {len(self.train):,} training, "
            f"{len(self.database):,} database, of which {overlap:,} are also training{unseen}"
        )

    def remarks(self, dataset: LabelledImages) -> list[str]:
        """What people should know before they trust a number, a line each: queries that nothing in the database is
        relevant to, classes that do not train, training pictures without a label."""
        trained, stored = (_classes(dataset, rows) for rows in (self.train, self.database))
        found = []
        if lost := len(self.query) - int(np.count_nonzero(_of_classes(dataset, self.query, stored))):
            found.append(f"{counted(lost, 'query')} with nothing relevant in the database: left out of every mean")
        never = [name for name, ok in zip(dataset.classes, trained, strict=True) if not ok and name not in self.unseen]
        if never:
            found.append(f"{counted(len(never), 'class')} without a training picture: {_some(never)}")
        if dataset.multi_label and (bare := int(np.count_nonzero(~dataset.labels[self.train].any(axis=1)))):
            found.append(f"{counted(bare, 'training picture')} without a label: skipped in training")
        return found

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
            **({"unseen": list(self.unseen)} if self.unseen else {}),
            "sha256": self.sha256(),
            **{
                part: {"rows": rows.tolist(), "keys": [dataset.keys[i] for i in rows]}
                for part, rows in ((part, getattr(self, part)) for part in _PARTS)
            },
        }
        with replacing(path, KIND) as file:
            # A name of a file that is not UTF-8 holds half surrogates, which JSON writes as \udcXX.
            file.write(json.dumps(content, ensure_ascii=False).encode(errors="backslashreplace"))


def load(path: str | os.PathLike[str], dataset: LabelledImages) -> Split:
    """Read a saved split. IdcwhError when it is damaged, or made from other keys, labels or classes."""
    try:
        content: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        if content.get("format") != FORMAT:
            raise CorruptFileError("not a saved protocol", path=path)
        if content["version"] != VERSION:
            raise NotSupportedError(f"version {content['version']}, this program reads {VERSION}", path=path)
        spec, images, sha256 = (content["dataset"][key] for key in ("spec", "images", "sha256"))
        hashes = content["sha256"]
        query, train, database = (np.array(content[part]["rows"], np.int64) for part in _PARTS)
        name, seed, unseen = content["protocol"], content["seed"], tuple(content.get("unseen", ()))
        options = {str(key): int(value) for key, value in content["options"].items()}
        if unknown := sorted(set(options) - set(OPTIONS)):
            raise NotSupportedError(f"option {unknown[0]!r} is of a newer program, or the file is damaged", path=path)
    except FileNotFoundError:
        raise NotFoundError("no such file", path=path) from None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise CorruptFileError(
            f"not a saved protocol, or damaged ({type(error).__name__}: {error})", path=path
        ) from None
    if sha256 != dataset.sha256():
        raise MismatchError(
            f"made from another set: {spec}, {images} pictures, sha256 {str(sha256)[:12]}; "
            f"this is {dataset.spec}, {len(dataset)} pictures, sha256 {dataset.sha256()[:12]}",
            path=path,
        )
    try:
        result = Split(query, train, database, name, seed, options, unseen)
        last = max(rows[-1] for rows in (query, train, database) if len(rows))
        if result.sha256() != hashes or last >= len(dataset):
            raise CorruptFileError("damaged, the lists do not have the saved SHA-256")
        check_unseen(result, dataset)
    except IdcwhError as error:
        raise error.about(path) from None
    except ValueError as error:
        raise CorruptFileError(str(error), path=path) from None
    return result


def check_unseen(split: Split, dataset: LabelledImages) -> None:
    """IdcwhError when a training picture is of a class that must not train."""
    names = set(split.unseen)
    unseen = np.array([name in names for name in dataset.classes])
    if leaked := int(np.count_nonzero(_of_classes(dataset, split.train, unseen))):
        raise InvalidInputError(
            f"protocol {split.name}: {counted(leaked, 'training picture')} of classes that must be unseen"
        )


def _classes(dataset: LabelledImages, rows: np.ndarray) -> np.ndarray:
    """bool [C]: the classes that some of the rows are of."""
    if dataset.multi_label:
        return np.asarray(dataset.labels[rows].any(axis=0))
    return np.bincount(dataset.labels[rows], minlength=len(dataset.classes)) > 0


def _of_classes(dataset: LabelledImages, rows: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """bool [m]: the rows that are of at least one of the `classes`, bool [C]."""
    if dataset.multi_label:
        return np.asarray(dataset.labels[rows][:, classes].any(axis=1))
    return np.asarray(classes[dataset.labels[rows]])


def _some(names: list[str] | tuple[str, ...]) -> str:
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
