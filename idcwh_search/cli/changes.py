"""The differences between a listing of images and a database, and the update of the database."""

# ruff: noqa: PTH118
from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._util import console
from .._util.hardware import available_cores
from .._util.wording import counted
from ..database.database import Database
from ..database.provenance import is_outside
from . import encoding
from .content import checksums, is_gone, signature

if TYPE_CHECKING:
    from ..encoder.encoder import Encoder
    from .inputs import ImageInputs

BATCH = 512  # images per write, which is the most work that a crash loses


class Changes:
    """The new, changed, moved and unchanged images of a listing, compared with a database.

    An image with the key, size and mtime of an item is unchanged. Any other image with the size of some item is
    compared by checksum:

    - An image with the bytes of the item with its key is unchanged as well. Only the mtime signature is written.
    - An image with the bytes of another item is moved, if the file of that item is missing or has other bytes. The item
      keeps its id and code and gets the new key. An item that has the new key and does not move gets the code instead.
    - An image with the bytes of an item whose file still exists is a copy. It becomes a new item with the same code.

    These images are not encoded, unless `recode` is set. An item without a label gets the label of the listing. A label
    of the item is replaced by a label of a manifest, and with `exactly` by any label or none.

    Args:
        database: the database, open for changing.
        listing: the images.
        keys: keys of the images in the database.
        root: folder to which keys are relative.
        item_keys: keys of the items after the update, None for an item to be removed; by default the current ones.
        exactly: True to make labels equal to those of the listing.
        recode: True to encode all images.
        threads: number of threads for checksums; None for one per core.
    """

    def __init__(
        self,
        database: Database,
        listing: ImageInputs,
        keys: list[str],
        root: Path,
        *,
        item_keys: list[str | None] | None = None,
        exactly: bool = False,
        recode: bool = False,
        threads: int | None = None,
    ) -> None:
        self._database, self._listing, self._keys, self._root = database, listing, keys, root
        self._before = database.snapshot()
        self._had_labels = self._before.labels()
        self._item_keys, self._ids = database.keys() if item_keys is None else item_keys, database.ids
        row_of = {key: row for row, key in enumerate(self._item_keys) if key is not None}
        self._place = {key: i for i, key in enumerate(keys)}
        # Computed before the files are read, so that a file which changes meanwhile has another signature next time.
        signatures = np.array([signature(path) for path in listing.paths], np.int64).reshape(-1, 2)
        self._mtime_signatures, self._sizes = signatures[:, 0].astype(np.uint32), signatures[:, 1].astype(np.uint64)
        self._rows = np.fromiter((row_of.get(key, -1) for key in keys), np.int64, len(keys))
        self._item_sums, self._item_mtime_signatures = database.checksums(), database.mtime_signatures()
        self._exactly, self._recode, self._threads = exactly, recode, threads
        known = self._rows >= 0
        self._same = known.copy()  # True for an image with the bytes of the item with its key
        self._same[known] = self._item_mtime_signatures[self._rows[known]] == self._mtime_signatures[known]
        self._same &= self._mtime_signatures != 0
        self._sums = np.zeros((len(keys), 2), np.uint64)
        self._read()
        self._donors: dict[int, int] = {}  # image that need not be encoded -> row with its code
        self._moves: dict[int, int] = {}  # image -> row of the item that gets its key
        self._moving: set[int] = set()  # rows of the items in _moves
        self._match()
        unchanged, moved = int(self._same.sum()), len(self._moves)
        others = np.flatnonzero(~self._same).tolist()
        new = sum(self._row_of(i) < 0 for i in others)
        self._todo = list(range(len(keys))) if recode else [i for i in others if i not in self._donors]
        self._relabel = self._relabelled()
        self.counts = {"new": 0, "changed": 0, "moved": moved, "unchanged": unchanged}
        labels = f" ({len(self._relabel)} of them with a new label)" if self._relabel else ""
        changed = len(keys) - new - moved - unchanged
        console.note(
            f"{counted(len(keys), 'image')}: {new} new, {changed} changed, {moved} moved, "
            f"{unchanged} unchanged{labels}; {len(self._todo)} to encode"
        )

    def _read(self) -> None:
        """Computes checksums of the files that mtime signatures do not decide, and marks unchanged files."""
        known = np.flatnonzero(self._rows >= 0)
        without = np.zeros(len(self._keys), bool)  # items of older versions have no checksum
        without[known] = ~self._item_sums[self._rows[known]].any(axis=1)
        sizes = np.unique(self._item_sums[:, 0])
        wanted = np.flatnonzero(np.where(self._same, without, (self._sizes > 0) & np.isin(self._sizes, sizes)))
        if not len(wanted):
            return
        if count := int((self._same & without).sum()):
            console.note(f"{self._database.path}: computing checksums of {counted(count, 'image')} without one")
        paths = [self._listing.paths[i] for i in wanted.tolist()]
        with console.progress_bar(total=len(paths), unit="image", desc="comparing", leave=False) as bar:
            self._sums[wanted] = checksums(paths, self._threads or available_cores(), bar.update)
        for i, path in zip(wanted.tolist(), paths, strict=True):
            if self._same[i] and signature(path)[0] != self._mtime_signatures[i]:  # it changed while it was read
                self._sums[i] = 0
        read = self._sums.any(axis=1) & ~self._same & (self._rows >= 0)
        self._same[read] = (self._item_sums[self._rows[read]] == self._sums[read]).all(axis=1)

    def _match(self) -> None:
        """Finds items with the bytes of changed and new images, and sets _donors, _moves and _moving."""
        read = np.flatnonzero(self._sums.any(axis=1) & ~self._same)
        rows_of: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for row in np.flatnonzero(np.isin(self._item_sums[:, 1], self._sums[read, 1])).tolist():
            rows_of[self._pair(self._item_sums[row])].append(row)
        free = {row for rows in rows_of.values() for row in rows if self._has_left(row)}
        for i in sorted(read.tolist(), key=lambda i: self._rows[i] >= 0):  # images with new keys come first
            rows = rows_of.get(self._pair(self._sums[i]))
            if not rows:
                continue
            self._donors[i] = rows[0]
            row = next((row for row in rows if row in free), None)
            if row is not None:
                free.remove(row)
                self._moves[i] = row
        self._moving = set(self._moves.values())
        while stays := [i for i in self._moves if self._rows[i] >= 0 and int(self._rows[i]) not in self._moving]:
            for i in stays:
                self._moving.remove(self._moves.pop(i))

    @staticmethod
    def _pair(values: np.ndarray) -> tuple[int, int]:
        return int(values[0]), int(values[1])

    def _has_left(self, row: int) -> bool:
        """Returns True if the file of an item is missing or has other bytes now."""
        key = self._item_keys[row]
        if key is None:
            return False
        i = self._place.get(key)
        if i is not None and self._mtime_signatures[i]:
            return not self._same[i] and (bool(self._sums[i].any()) or self._sizes[i] != self._item_sums[row, 0])
        try:
            return is_gone(os.path.join(self._root, key))
        except OSError:
            return False

    def _relabelled(self) -> set[int]:
        """Returns the unchanged images with a changed label."""
        had, labels, given = self._had_labels, self._listing.labels, self._listing.labels_are_given
        return {
            i
            for i, row in zip(np.flatnonzero(self._same).tolist(), self._rows[self._same].tolist(), strict=True)
            if labels[i] != had[row] and (self._exactly or (labels[i] is not None and (given or had[row] is None)))
        }

    # ------------------------------------------------------------------------------------------------------ pruning

    def moved_out(self) -> str | None:
        """Returns the new folder of the images if all of them were moved out of the root, otherwise None."""
        inside = [key for key in self._item_keys if key is not None and not is_outside(key)]
        left = {i: key for i, row in self._moves.items() if (key := self._item_keys[row]) and not is_outside(key)}
        if not left or not all(is_outside(self._keys[i]) for i in self._moves):
            return None
        if not all(is_gone(os.path.join(self._root, key)) for key in inside):
            return None
        moved = ((self._listing.paths[i], f"/{key}") for i, key in left.items())
        folders = (path.removesuffix(key) for path, key in moved if path.endswith(key))
        return next(folders, os.fspath(self._listing.root))

    def gone(self) -> dict[int, str]:
        """Returns the items whose file is missing and was not moved within the listing: id -> key."""
        seen = {self._keys[i] for i in np.flatnonzero(self._mtime_signatures).tolist()}
        return {
            int(self._ids[row]): key
            for row, key in enumerate(self._item_keys)
            if key is not None and key not in seen and row not in self._moving
            if is_gone(os.path.join(self._root, key))
        }

    # ------------------------------------------------------------------------------------------------------ writing

    def write(self, encoder: Encoder) -> encoding.EncodeProgress:
        """Updates the database and returns the progress. Changes that need no encoding are written first."""
        self._write_known()
        work = encoding.EncodeProgress(
            encoder, [self._listing.paths[i] for i in self._todo], len(self._keys) - len(self._todo)
        )
        codes: list[np.ndarray] = []
        images: list[int] = []
        sums: list[np.ndarray] = []
        for places, part in work:
            codes.append(part)
            images += [self._todo[place] for place in places.tolist()]
            sums.append(work.sums[places])
            if len(images) >= BATCH:
                self._put(images, np.concatenate(codes), np.concatenate(sums))
                codes, images, sums = [], [], []
        if images:
            self._put(images, np.concatenate(codes), np.concatenate(sums))
        return work

    def _write_known(self) -> None:
        """Writes all changes that need no encoding: keys, signatures, checksums, labels, and copies of codes."""
        same = np.flatnonzero(self._same)
        rows = self._rows[same]
        renewed = self._item_mtime_signatures[rows] != self._mtime_signatures[same]
        renewed |= self._sums[same].any(axis=1) & ~self._item_sums[rows].any(axis=1)
        images = {*same[renewed].tolist(), *self._relabel, *self._moves}
        if not self._recode:
            images |= set(self._donors)
        if not images:
            return
        here = sorted(images)
        source = [self._moves.get(i, self._donors.get(i, int(self._rows[i]))) for i in here]
        sums = np.where(self._sums[here].any(axis=1, keepdims=True), self._sums[here], self._item_sums[source])
        self._put(here, self._before.codes[source], sums)

    def _put(self, images: list[int], codes: np.ndarray, sums: np.ndarray) -> None:
        """Writes the items of these images. Known items keep their id."""
        rows = [self._row_of(i) for i in images]
        for known in (True, False):
            chosen = [n for n, row in enumerate(rows) if (row >= 0) == known]
            if not chosen:
                continue
            some = [images[n] for n in chosen]
            columns = (
                [self._keys[i] for i in some],
                [self._label(i) for i in some],
                self._mtime_signatures[some],
                sums[chosen],
            )
            if known:
                self._database.replace(self._ids[[rows[n] for n in chosen]], codes[chosen], *columns)
            else:
                self._database.add(codes[chosen], None, *columns)
            self.counts["changed" if known else "new"] += sum(not self._same[i] and i not in self._moves for i in some)

    def _row_of(self, i: int) -> int:
        """Returns the row of the item of an image, or -1 for a new one."""
        row = int(self._rows[i])
        return self._moves.get(i, -1 if row in self._moving else row)

    def _label(self, i: int) -> str | None:
        """Returns the label to write for an image: that of the listing, or the item's if that is not replaced."""
        new, row = self._listing.labels[i], self._row_of(i)
        if row < 0:
            return new
        replaced = i in self._relabel if self._same[i] else self._exactly or new is not None
        return new if replaced else self._had_labels[row]
