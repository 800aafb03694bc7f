"""idcwh-index add: brings a database up to date with its images; only what is new or has changed is encoded."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import shards
from ..database import Database
from . import common, encoding
from .listing import Listing, stamp

if TYPE_CHECKING:
    from ..encoder import Encoder

BATCH = 512  # images a write: what a crash can make us encode again


def add_parser(commands: Any) -> None:
    """Add the command to those of idcwh-index."""
    parser = commands.add_parser("add", help="add new and changed images to a database")
    parser.add_argument("db", metavar="FILE", help="the database")
    parser.add_argument("--model", metavar="FILE", help="the model.onnx (default: the one that the database names)")
    parser.add_argument("--root", metavar="DIR", help="where the folder of the database's images lies now")
    parser.add_argument("--prune", action="store_true", help="also remove images whose file is gone")
    encoding.add_options(parser)
    parser.set_defaults(run=run)


@dataclass
class _Batch:
    """Items on their way into the database: changed ones keep their id, new ones are given one."""

    database: Database
    ids: list[int | None] = field(default_factory=list)
    codes: list[np.ndarray] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    labels: list[str | None] = field(default_factory=list)
    stamps: list[int] = field(default_factory=list)

    def write(self) -> None:
        old = [i for i, number in enumerate(self.ids) if number is not None]
        new = [i for i, number in enumerate(self.ids) if number is None]
        if old:
            self.database.replace([number for number in self.ids if number is not None], *self._columns(old))
        if new:
            codes, keys, labels, stamps = self._columns(new)
            self.database.add(codes, None, keys, labels, stamps)
        for column in (self.ids, self.codes, self.keys, self.labels, self.stamps):
            column.clear()

    def _columns(self, rows: list[int]) -> tuple[np.ndarray, list[str | None], list[str | None], np.ndarray]:
        return (
            np.stack([self.codes[i] for i in rows]),
            [self.keys[i] for i in rows],
            [self.labels[i] for i in rows],
            np.array([self.stamps[i] for i in rows], np.uint32),
        )


def run(options: Any) -> int:
    from ..manifest import images_root, open_encoder

    with Database.open(options.db, "r+") as database:
        listing = Listing(options.images, options.labels)
        common.note_all(listing.left_out.lines())
        root = images_root(database, options.root, listing.root)
        news = News(database, listing, [shards.relative(path, root) for path in listing.paths])
        wanted = {"device": options.device, "threads": options.threads, "preprocess": options.preprocess}
        encoder = open_encoder(database, options.model, **wanted)
        work = news.encode(encoder)
        pruned = _prune(database, root) if options.prune else 0
        counts = {"changed": news.changed, "unchanged": news.unchanged, "pruned": pruned}
        return work.summarise(Path(options.db), options.json, listing.left_out, **counts)


class News:
    """What of a listing is new to a database, or has changed. `keys` are those of the listing in the database.

    A label that a manifest gives, and `exactly` any label or its absence, takes the place of another one of the same
    picture; the picture is not encoded again for that.
    """

    def __init__(self, database: Database, listing: Listing, keys: list[str], *, exactly: bool = False) -> None:
        self._database, self._listing, self._keys = database, listing, keys
        self._row = {key: row for row, key in enumerate(database.keys())}  # as it is now, before anything is written
        self._ids, known, marks = database.ids.tolist(), self._row, database.stamps().tolist()
        self._stamps = [stamp(path) for path in listing.paths]  # before they are read: a later change shows next time
        self._todo = [i for i, key in enumerate(keys) if key not in known or marks[known[key]] != self._stamps[i]]
        self.changed = sum(keys[i] in known for i in self._todo)
        self._relabel = self._relabelled(exactly)
        self.unchanged = len(keys) - len(self._todo)
        labels = f" ({len(self._relabel)} of them with another label)" if self._relabel else ""
        common.note(
            f"{len(keys)} images: {len(self._todo) - self.changed} new, {self.changed} changed, "
            f"{self.unchanged} as they were{labels}"
        )

    def _relabelled(self, exactly: bool) -> list[int]:
        """Of the pictures that did not change, those whose label did."""
        if not exactly and not self._listing.labels_are_given:
            return []
        had, todo = self._database.labels(), set(self._todo)
        return [
            i
            for i, (key, label) in enumerate(zip(self._keys, self._listing.labels, strict=True))
            if i not in todo and label != had[self._row[key]] and (exactly or label is not None)
        ]

    def encode(self, encoder: Encoder) -> encoding.Encoding:
        """Encode it into the database, a batch a write."""
        if self._relabel:
            keys = [self._keys[i] for i in self._relabel]
            places = [self._row[key] for key in keys]
            ids, old = [self._ids[place] for place in places], self._database.codes[places]
            labels = [self._listing.labels[i] for i in self._relabel]
            self._database.replace(ids, old, keys, labels, self._database.stamps(ids))
        work = encoding.Encoding(encoder, [self._listing.paths[i] for i in self._todo], self.unchanged)
        batch = _Batch(self._database)
        for rows, codes in work:
            for row, code in zip(rows, codes, strict=True):
                i = self._todo[row]
                key = self._keys[i]
                batch.ids.append(self._ids[self._row[key]] if key in self._row else None)
                batch.codes.append(code)
                batch.keys.append(key)
                batch.labels.append(self._listing.labels[i])
                batch.stamps.append(self._stamps[i])
            if len(batch.ids) >= BATCH:
                batch.write()
        batch.write()
        return work


def _prune(database: Database, root: Path) -> int:
    """Remove the items whose file is gone; a file in an archive that is there counts as there, readable or not."""
    gone = [
        number
        for number, key in zip(database.ids.tolist(), database.keys(), strict=True)
        if key is not None and not (root / key).exists() and not shards.exists(root / key)
    ]
    return database.remove(gone) if gone else 0
