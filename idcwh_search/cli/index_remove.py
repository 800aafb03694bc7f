"""idcwh-index remove: takes items out of a database, by id or by key."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ..database import Database
from ..errors import IdcwhError
from . import common


def add_parser(commands: Any) -> None:
    """Add the command to those of idcwh-index."""
    parser = commands.add_parser("remove", help="remove items from a database")
    parser.add_argument("db", metavar="FILE", help="the database")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--ids", nargs="+", type=common.identifier, metavar="ID")
    which.add_argument("--keys", nargs="+", metavar="KEY", help="image paths, as the database names them")
    which.add_argument("--keys-from", metavar="FILE", help="a list of keys, one a line; - for stdin")
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    keys = options.keys if options.keys_from is None else _lines(options.keys_from)
    with Database.open(options.db, "r+") as database:
        try:
            removed = database.remove(options.ids) if options.ids is not None else database.remove(keys=keys)
        except KeyError as error:
            raise IdcwhError(f"{error.args[0]}; nothing was removed") from error
        common.note(f"{options.db}: removed {removed:,} items, {len(database):,} are left")
    return common.DONE


def _lines(source: str) -> list[str]:
    if source == "-":
        sys.stdin.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]
        text = sys.stdin.read()
    else:
        text = Path(source).read_text(errors="surrogateescape")
    return [line for line in text.splitlines() if line]
