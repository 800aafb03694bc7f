"""The merge of several databases into a new one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._util.atomic import CODES_BIN, check_target
from ..errors import InvalidInputError
from .database import Database, check_same_model, part
from .provenance import KeyNames, image_folder, is_outside, placed

BATCH = 65_536  # items in memory at a time
_MAX_ID = int(np.iinfo(np.int64).max)


class MergedSource(NamedTuple):
    """A source of a merge.

    Attributes:
        path: the database.
        items: number of its items in the result.
        skipped: number of its items whose key an earlier source has.
        shift: number that was added to its ids; 0 if they were kept.
    """

    path: Path
    items: int
    skipped: int
    shift: int


def merge_databases(
    path: str | os.PathLike[str],
    sources: Sequence[str | os.PathLike[str]],
    *,
    replace: bool = False,
    skip_duplicates: bool = False,
    progress: Callable[[int], object] | None = None,
) -> list[MergedSource]:
    """Writes the items of several databases to a new one, which appears when it is complete.

    All columns are kept. A source keeps its ids if no earlier source has one of them. Otherwise the next free id is
    added to each, which makes them larger than all earlier ones. Keys become relative to the images folder of the first
    source. Memory is 65,536 items at a time, and about 40 bytes per item for ids and the table of keys.

    Args:
        path: the file to write.
        sources: the databases, all of one code length and one model. Their order is that of the items.
        replace: True to replace an existing database.
        skip_duplicates: True to leave out items whose key an earlier source has, instead of an error.
        progress: called with the number of items of each batch.

    Raises:
        ModelMismatchError, MismatchError: the sources do not have the same model or code length.
        InvalidInputError: a source is the output or is given twice, or a key exists in two sources.
        AlreadyExistsError: the file exists, and `replace` is False or the file is of another kind.
    """
    if isinstance(sources, str | os.PathLike) or not len(sources):
        raise ValueError(f"sources: expected a list of at least one database, not {sources!r}")
    paths = [Path(source) for source in sources]
    check_target(path, CODES_BIN, *paths)
    with ExitStack() as stack:
        opened = [stack.enter_context(Database.open(source)) for source in paths]
        hashed = next((database for database in opened if part(database.manifest, "hashes").get("hasher")), opened[0])
        for number, database in enumerate(opened):
            if any(database.path.samefile(other.path) for other in opened[:number]):
                raise InvalidInputError("is given twice", path=database.path, hint="leave one of them out")
            check_same_model(opened[0], database)
            check_same_model(hashed, database)
        owner = next((database for database in opened if part(database.manifest, "images")), opened[0])
        manifest = placed(opened[0], Path(path))
        if images := placed(owner, Path(path)).get("images"):
            manifest["images"] = images
        with Database.build(path, opened[0].bits, manifest, replace=replace) as target:
            merge = _Merge(target, owner, skip_duplicates, progress)
            return [merge.add(database) for database in opened]


class _Merge:
    """The ids and keys that the result has so far."""

    def __init__(
        self, target: Database, owner: Database, skip_duplicates: bool, progress: Callable[[int], object] | None
    ) -> None:
        self._target, self._owner = target, owner
        self._skip_duplicates, self._progress = skip_duplicates, progress
        self._ids = np.empty(0, np.int64)
        self._next_id = 0

    def add(self, source: Database) -> MergedSource:
        ids = source.ids
        shift = self._shift(source, ids)
        earlier = self._target.snapshot()
        rename = self._renaming(source)
        added = []
        for batch in _pieces(ids):
            read = len(batch)
            keys = [None if key is None else rename(key) for key in source.keys(batch)]
            found = set(earlier.keys(earlier.find([key for key in keys if key is not None])))
            if found and not self._skip_duplicates:
                raise InvalidInputError(
                    f"key {next(key for key in keys if key in found)!r} already exists in an earlier database",
                    path=source.path,
                    hint="remove it from one of them, or skip duplicates (--skip-duplicates)",
                )
            if found:
                kept = np.fromiter((key not in found for key in keys), bool, len(keys))
                batch, keys = batch[kept], [key for key in keys if key not in found]
            columns = source.labels(batch), source.mtime_signatures(batch), source.checksums(batch)
            self._target.add(source.get(batch), batch + shift, keys, *columns)
            added.append(batch + shift)
            if self._progress:
                self._progress(read)
        self._ids = np.concatenate([self._ids, *added])
        self._next_id = max(self._next_id, source.info()["next_id"] + shift)
        items = sum(map(len, added))
        return MergedSource(source.path, items, len(ids) - items, shift)

    def _shift(self, source: Database, ids: np.ndarray) -> int:
        """Returns the number to add to the ids of a source."""
        if not len(ids) or not len(self._ids) or not np.isin(ids, self._ids).any():
            return 0
        if int(ids.max()) + self._next_id > _MAX_ID:
            raise InvalidInputError(
                "has ids that exist in an earlier database and are too large for new ones",
                path=source.path,
                found=int(ids.max()),
                expected=f"at most {_MAX_ID - self._next_id}",
            )
        return self._next_id

    def _renaming(self, source: Database) -> Callable[[str], str]:
        """Returns the function from a key of the source to its key in the result."""
        old, new = image_folder(source), image_folder(self._owner)
        if old is None or new is None or _is_same(source, old, self._owner, new):
            return lambda key: key
        names, folder = KeyNames(new), os.fspath(old)

        def renamed(key: str) -> str:
            path = os.path.join(folder, key)  # noqa: PTH118 (names of tar members are kept as they are)
            return names.key(os.path.normpath(path) if is_outside(key) else path)

        return renamed


def _is_same(source: Database, old: Path, owner: Database, new: Path) -> bool:
    """Returns True if two databases have the same images folder, which need not exist."""
    if source is owner:
        return True
    if old.is_dir() and new.is_dir():
        return old.samefile(new)
    return part(source.manifest, "images").get("absolute") == part(owner.manifest, "images").get("absolute")


def _pieces(ids: np.ndarray) -> Iterator[np.ndarray]:
    return (ids[start : start + BATCH] for start in range(0, len(ids), BATCH))
