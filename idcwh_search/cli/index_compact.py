"""idcwh-index compact, which rewrites a database without removed items."""

from __future__ import annotations

from typing import Any

from .._util import console
from ..database.database import Database
from . import common

EPILOG = """examples:
  idcwh-index compact codes.bin"""


def add_parser(commands: Any) -> None:
    """Adds the command to those of idcwh-index."""
    parser = common.add_command(commands, "compact", run, help="free the space of removed items", epilog=EPILOG)
    common.add_database(parser.add_argument)


def run(options: Any) -> int:
    with Database.open(options.db, "r+") as database:
        before = database.info()["bytes"]
        database.compact()
        after = database.info()["bytes"]
    console.note(f"{options.db}: {after:,} bytes, {before:,} before")
    return common.DONE
