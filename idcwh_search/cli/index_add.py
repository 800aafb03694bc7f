"""idcwh-index add, which updates a database. Only new and changed images are encoded."""

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
    refuse_hashes,
    rename_items,
)
from ..errors import InvalidInputError, NotFoundError
from . import common, encoding
from .changes import Changes
from .inputs import ImageInputs

MOST_PRUNED = 1 / 4  # largest share of the items that --prune removes
FEW = 10  # smaller numbers of items are always pruned, because they are soon encoded again
NAMED = 20  # removed items that are listed

EPILOG = f"""examples:
  idcwh-index add codes.bin --images photos/
  idcwh-index add codes.bin --images photos/ --prune
  idcwh-index add codes.bin --images /mnt/disk/photos --root /mnt/disk/photos    (after the folder was moved)

An image with the bytes of a stored item is not encoded again. A renamed or moved image keeps its
id. The database stores --root.

--prune fails and removes nothing if the files of all items are missing. It also fails if {FEW} or more
files are missing, and they are over a quarter of all, or all of a folder directly below the root. A
disk may not be mounted in these cases.

{encoding.LABELS}"""


def add_parser(commands: Any) -> None:
    """Adds the command to those of idcwh-index."""
    help, codes = "add new and changed images to a database", common.EXIT_CODES_SKIPPED
    parser = common.add_command(commands, "add", run, help=help, epilog=EPILOG, exit_codes=codes)
    common.add_database(parser.add_argument)
    common.add_root(encoding.add_images(parser))
    add = parser.add_argument_group("update").add_argument
    add("--prune", action="store_true", help="removal of items whose file is missing, see below")
    add("--prune-all", action="store_true", help="removal of all items whose file is missing, without a limit")
    add("--recode", action="store_true", help="new codes for unchanged images as well")
    encoding.add_encoder(parser)
    encoding.add_output(parser)


def run(options: Any) -> int:
    with Database.open(options.db, "r+") as database:
        refuse_hashes(database)
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
                f"images of {options.db} are missing", path=root, hint=f"if they were moved, pass --root {place}"
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
                console.note(f"removed {counted(repeated, 'item')} whose file another item has")
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
    """Raises InvalidInputError if so many files are missing that a disk may not be mounted."""
    if not lost:
        return
    stored = [key for key in keys if key is not None]
    total, gone = Counter(map(_folder, stored)), Counter(map(_folder, lost))
    whole = [name for name, number in gone.items() if name and number >= FEW and number == total[name]]
    if len(lost) == len(stored):
        what = f"all {counted(len(stored), 'item')}"
    elif whole:
        what = f"all {gone[whole[0]]:,} items of the folder {whole[0]}"
    elif len(lost) >= FEW and len(lost) > MOST_PRUNED * len(stored):
        what = f"{len(lost):,} of {len(stored):,} items"
    else:
        return
    raise InvalidInputError(
        f"files of {what} are missing in {root} (first: {lost[0]}); nothing was changed",
        path=db,
        hint="check that the disk is mounted, or remove the items with --prune-all",
    )


def _folder(key: str) -> str:
    """Returns the first folder of a key, below or outside the root; "" for files in the root and for tar files."""
    parts = key.split("/")
    first = next((n for n, part in enumerate(parts) if part != ".."), 0)
    folder = "/".join(parts[: first + 1])
    return "" if first + 1 >= len(parts) or folder.lower().endswith(".tar") else folder
