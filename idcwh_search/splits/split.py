"""The split of a dataset into queries, training images and database, and the file that stores it."""

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
from .options import OPTIONS

if TYPE_CHECKING:
    from ..datasets import LabelledImages

FORMAT, VERSION = "idcwh-protocol", 1
KIND = begins_with("saved protocol", rb'\s*\{\s*"format":\s*"idcwh-protocol"')

_EXPECTED = f"a saved split of format {FORMAT}"
_PARTS = ("query", "train", "database")
_NAMED = 5  # class names per line of text


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of a LabelledImages per part.

    Attributes:
        query, train, database: int64 [m] each, ascending, without repetition.
        name: protocol.
        seed: seed of the draw.
        options: options of OPTIONS that were given or that the protocol fixes.
        unseen: names of the classes without training images.

    Raises:
        InvalidInputError: a query is in the database or in the training part, or a part is empty.
        ValueError: row numbers are not int64, ascending and different.
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
                hint = None if part == "query" else "give more images or fewer queries"
                raise InvalidInputError(f"the {part} part has no images", path=self._title, hint=hint)
        for part in ("database", "train"):
            if common := len(np.intersect1d(self.query, getattr(self, part), assume_unique=True)):
                raise InvalidInputError(f"{counted(common, 'query')} also in the {part} part", path=self._title)

    @property
    def _title(self) -> str:
        return f"protocol {self.name}"

    @property
    def without_queries(self) -> bool:
        """True if no queries were requested, so that nothing can be evaluated."""
        return 0 in (self.options.get("query_per_class"), self.options.get("query"))

    def describe(self) -> str:
        """Returns one line of text: the sizes, the training images in the database, the unseen classes."""
        overlap = len(np.intersect1d(self.train, self.database, assume_unique=True))
        unseen = f"; {counted(len(self.unseen), 'class')} unseen: {_some(self.unseen)}" if self.unseen else ""
        return (
            f"{self.name} (seed {self.seed}): {counted(len(self.query), 'query')}, {len(self.train):,} training, "
            f"{len(self.database):,} database, of which {overlap:,} are also training{unseen}"
        )

    def remarks(self, dataset: LabelledImages) -> list[str]:
        """Returns warnings about the split, one line each.

        They count queries without a relevant database image, classes without a training image, and training images
        without a label.
        """
        trained, stored = (_classes(dataset, rows) for rows in (self.train, self.database))
        found = []
        if lost := len(self.query) - int(np.count_nonzero(_of_classes(dataset, self.query, stored))):
            found.append(f"{counted(lost, 'query')} without a relevant database image: left out of every mean")
        never = [name for name, ok in zip(dataset.classes, trained, strict=True) if not ok and name not in self.unseen]
        if never:
            found.append(f"{counted(len(never), 'class')} without a training image: {_some(never)}")
        if dataset.multi_label and (bare := int(np.count_nonzero(~dataset.labels[self.train].any(axis=1)))):
            found.append(f"{counted(bare, 'training image')} without a label: skipped in training")
        return found

    def sha256(self) -> dict[str, str]:
        """Returns the SHA-256 of each part's row numbers as little-endian int64."""
        return {part: hashlib.sha256(getattr(self, part).astype("<i8").tobytes()).hexdigest() for part in _PARTS}

    def save(self, path: str | os.PathLike[str], dataset: LabelledImages) -> None:
        """Writes the split as JSON, with image keys and checksums. The file appears only when it is complete."""
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
            # File names that are not UTF-8 contain lone surrogates, which JSON writes as \udcXX.
            file.write(json.dumps(content, ensure_ascii=False).encode(errors="backslashreplace"))


def load(path: str | os.PathLike[str], dataset: LabelledImages) -> Split:
    """Returns a saved split.

    Raises:
        NotFoundError: there is no file.
        CorruptFileError: the file is not a saved split, or is corrupt.
        NotSupportedError: the file has another version or an unknown option.
        MismatchError: the split was made from other keys, labels or classes.
    """
    try:
        content: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        if content.get("format") != FORMAT:
            raise CorruptFileError(path=path, found=f"format {content.get('format')}", expected=_EXPECTED)
        if content["version"] != VERSION:
            raise NotSupportedError("version is not supported", path=path, found=content["version"], expected=VERSION)
        spec, images, sha256 = (content["dataset"][key] for key in ("spec", "images", "sha256"))
        hashes = content["sha256"]
        query, train, database = (np.array(content[part]["rows"], np.int64) for part in _PARTS)
        name, seed, unseen = content["protocol"], content["seed"], tuple(map(str, content.get("unseen", ())))
        options = {str(key): int(value) for key, value in content["options"].items()}
        if unknown := sorted(set(options) - set(OPTIONS)):
            raise NotSupportedError(
                f"option {unknown[0]!r} is not supported", path=path, hint="it was saved by a newer version"
            )
    except FileNotFoundError:
        raise NotFoundError(path=path) from None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise CorruptFileError(f"is corrupt: {type(error).__name__}: {error}", path=path, expected=_EXPECTED) from None
    if sha256 != dataset.sha256():
        raise MismatchError(
            "does not match the dataset",
            path=path,
            found=f"{spec}, {images} images, sha256 {str(sha256)[:12]}",
            expected=f"{dataset.spec}, {len(dataset)} images, sha256 {dataset.sha256()[:12]}",
        )
    try:
        result = Split(query, train, database, name, seed, options, unseen)
        last = max(rows[-1] for rows in (query, train, database) if len(rows))
        if result.sha256() != hashes or last >= len(dataset):
            raise ValueError("row numbers that do not match their SHA-256")
        check_unseen(result, dataset)
    except (IdcwhError, ValueError) as error:
        raise CorruptFileError(f"is corrupt: {error}", path=path) from None
    return result


def check_unseen(split: Split, dataset: LabelledImages) -> None:
    """Raises InvalidInputError if a training image has an unseen class."""
    names = set(split.unseen)
    unseen = np.array([name in names for name in dataset.classes])
    if leaked := int(np.count_nonzero(_of_classes(dataset, split.train, unseen))):
        raise InvalidInputError(
            f"is invalid: {counted(leaked, 'training image')} of unseen classes", path=f"protocol {split.name}"
        )


def _classes(dataset: LabelledImages, rows: np.ndarray) -> np.ndarray:
    """Returns bool [C]: True for the classes that occur in the rows."""
    if dataset.multi_label:
        return np.asarray(dataset.labels[rows].any(axis=0))
    return np.bincount(dataset.labels[rows], minlength=len(dataset.classes)) > 0


def _of_classes(dataset: LabelledImages, rows: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Returns bool [m]: True for the rows with at least one label among `classes`, bool [C]."""
    if dataset.multi_label:
        return np.asarray(dataset.labels[rows][:, classes].any(axis=1))
    return np.asarray(classes[dataset.labels[rows]])


def _some(names: list[str] | tuple[str, ...]) -> str:
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
