"""idcwh-index compact: a database without what was removed from it."""

from __future__ import annotations

from typing import Any

from .._util import console
from ..database.database import Database
from . import common

EPILOG = """examples:
  idcwh-index compact codes.bin"""


def add_parser(commands: Any) -> None:
    """Add the command to those of idcwh-index."""
    parser = commands.add_parser("compact", help="write a database anew, without what was removed", epilog=EPILOG)
    parser.add_argument("db", metavar="FILE", help="the database")
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    with Database.open(options.db, "r+") as database:
        before = database.info()["bytes"]
        database.compact()
        after = database.info()["bytes"]
    console.note(f"{options.db}: {after:,} bytes, {before:,} before")
    return common.DONE
