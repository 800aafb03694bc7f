"""idcwh-index remove, which removes items from a database by id or by key."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import Any

from .._util import console
from .._util.wording import counted
from ..database.database import Database
from ..errors import NotFoundError
from . import common

_COMPARED = 10_000  # keys among which a similar one is searched

EPILOG = """examples:
  idcwh-index remove codes.bin --keys cats/tom.jpg shards/000.tar/tom.jpg
  idcwh-index remove codes.bin --ids 17 18
  grep cats/ keys.txt | idcwh-index remove codes.bin --keys-from -

A key is the path of an image relative to the indexed folder, as idcwh-search prints it.
If one of the keys or ids is missing, nothing is removed."""


def add_parser(commands: Any) -> None:
    """Adds the command to those of idcwh-index."""
    parser = common.add_command(commands, "remove", run, help="remove items from a database", epilog=EPILOG)
    common.add_database(parser.add_argument)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--ids", nargs="+", type=common.identifier, metavar="ID", help="ids, as idcwh-search --json prints them"
    )
    which.add_argument("--keys", nargs="+", metavar="KEY", help="keys, such as cats/tom.jpg")
    which.add_argument("--keys-from", type=common.path, metavar="FILE", help="list of keys, one per line; - for stdin")


def run(options: Any) -> int:
    keys = options.keys if options.keys_from is None else _lines(options.keys_from)
    with Database.open(options.db, "r+") as database:
        if options.ids is None:
            _check_keys(database, keys)
        try:
            removed = database.remove(options.ids) if options.ids is not None else database.remove(keys=keys)
        except KeyError as error:
            raise NotFoundError(f"{error.args[0]}; nothing was removed", path=options.db) from error
        console.note(f"{options.db}: removed {counted(removed, 'item')}, {len(database):,} left")
    return common.DONE


def _check_keys(database: Database, keys: list[str]) -> None:
    """Raises NotFoundError for a missing key, with the most similar key of an item as a hint."""
    keys_of_items = database.keys()
    stored = [key for key in keys_of_items if key is not None]
    missing = set(keys).difference(stored)
    if not missing:
        return
    key = next(key for key in keys if key in missing)
    others = f" (and {len(missing) - 1:,} more)" if len(missing) > 1 else ""
    name = key.rpartition("/")[2]
    named = [other for other in stored if other.rpartition("/")[2] == name]  # with the same file name
    if not stored:
        hint = "pass --ids, because its items have no keys"
    elif similar := difflib.get_close_matches(key, named or stored[:_COMPARED], n=1, cutoff=0 if named else 0.6):
        hint = f"did you mean {similar[0]}?"
    else:
        hint = f"its keys look like {stored[0]}"
    raise NotFoundError(f"key {key}{others} is missing; nothing was removed", path=database.path, hint=hint)


def _lines(source: str) -> list[str]:
    if source == "-":
        sys.stdin.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]
        text = sys.stdin.read()
    else:
        text = Path(source).read_text(errors="surrogateescape")
    return [line for line in text.splitlines() if line]
