"""idcwh-index add: brings a database up to date with its images; only what is new or has changed is encoded."""

# ruff: noqa: PTH118
from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from .._util import console
from .._util.wording import counted
from ..database.database import Database
from ..database.provenance import (
    KeyNames,
    images_root,
    is_outside,
    keys_below,
    move_images,
    open_encoder,
    rename_items,
)
from ..errors import InvalidInputError, NotFoundError
from . import common, encoding
from .changes import Changes
from .inputs import ImageInputs

MOST_PRUNED = 1 / 4  # of the items of a database
FEW = 10  # items that are encoded again in a moment
NAMED = 20  # removed items that are listed

EPILOG = """examples:
  idcwh-index add codes.bin --images photos/
  idcwh-index add codes.bin --images photos/ --prune
  idcwh-index add codes.bin --images /mnt/disk/photos --root /mnt/disk/photos    (after the folder was moved)

An image whose bytes are those of an item is not encoded again, whatever its name and time. A renamed or moved image
keeps its id. The database records --root."""


def add_parser(commands: Any) -> None:
    """Adds the command to those of idcwh-index."""
    parser = common.add_command(commands, "add", run, help="add new and changed images to a database", epilog=EPILOG)
    common.add_database(parser.add_argument)
    common.add_database_files(parser.add_argument)
    parser.add_argument(
        "--prune",
        action="store_true",
        help="also remove images whose file is gone; refused for all images, and from "
        f"{FEW} images on for more than a quarter of them and for all images of a folder directly below the root",
    )
    parser.add_argument("--prune-all", action="store_true", help="the same, however many images are gone")
    parser.add_argument("--recode", action="store_true", help="encode every image again, unchanged ones as well")
    encoding.add_options(parser)


def run(options: Any) -> int:
    with Database.open(options.db, "r+") as database:
        listing = ImageInputs(options.images, options.labels)
        console.note_all(listing.left_out.lines())
        root = images_root(database, options.root, listing.root)
        item_keys = database.keys() if options.root is None else keys_below(database, root)
        changes = Changes(
            database,
            listing,
            _listed_keys(root, listing),
            root,
            item_keys=item_keys,
            recode=options.recode,
            threads=options.threads,
        )
        if options.root is None and (place := changes.moved_out()) is not None:
            raise NotFoundError(
                f"no longer holds the images of {options.db}", path=root, hint=f"if they moved, pass --root {place}"
            )
        gone = {}
        if options.prune or options.prune_all:
            gone = changes.gone()
        elif os.path.realpath(listing.root) == os.path.realpath(root) and (lost := len(changes.gone())):
            console.note(f"{counted(lost, 'item')} without a file (--prune removes them)")
        if not options.prune_all:
            _check_pruned(options.db, root, item_keys, list(gone.values()))
        encoder = open_encoder(database, options.model, **common.encoder_options(options))
        if options.root is not None:
            if repeated := rename_items(database, item_keys):
                console.note(f"removed {counted(repeated, 'item')} of a file that another item names")
            move_images(database, root)
        work = changes.write(encoder)
        removed = list(gone.values())
        if gone:
            database.remove(list(gone))
            more = [f"pruned {len(removed) - NAMED:,} more"] if len(removed) > NAMED else []
            console.note_all([*(f"pruned {key}" for key in removed[:NAMED]), *more])
        counts = {**changes.counts, "pruned": len(removed), "removed": removed}
        return work.summarise(Path(options.db), options.json, listing.left_out, **counts)


def _listed_keys(root: Path, listing: ImageInputs) -> list[str]:
    """Returns the keys of a listing relative to the root of a database."""
    top = KeyNames(root)
    here = top.prefix(os.fspath(listing.root))
    return [
        top.key(os.path.join(listing.root, key)) if is_outside(key) or is_outside(here) else here + key
        for key in listing.keys
    ]


def _check_pruned(db: str, root: Path, keys: list[str | None], lost: list[str]) -> None:
    """Raises InvalidInputError where the missing files may be those of a disk that is not mounted."""
    if not lost:
        return
    there = [key for key in keys if key is not None]
    left, gone = Counter(map(_folder, there)), Counter(map(_folder, lost))
    whole = [name for name, number in gone.items() if name and number >= FEW and number == left[name]]
    if len(lost) == len(there):
        what = f"all {counted(len(there), 'item')}"
    elif whole:
        what = f"all {gone[whole[0]]:,} items of the folder {whole[0]}"
    elif len(lost) >= FEW and len(lost) > MOST_PRUNED * len(there):
        what = f"{len(lost):,} of {len(there):,} items"
    else:
        return
    raise InvalidInputError(
        f"the files of {what} are missing in {root} (the first: {lost[0]}); nothing was changed",
        path=db,
        hint="check that the disk is mounted, or remove the items with --prune-all",
    )


def _folder(key: str) -> str:
    """Returns the folder of a key directly below the root or outside it; "" for files of the root and for tar files."""
    parts = key.split("/")
    first = next((n for n, part in enumerate(parts) if part != ".."), 0)
    folder = "/".join(parts[: first + 1])
    return "" if first + 1 >= len(parts) or folder.lower().endswith(".tar") else folder
