"""idcwh-index verify: compares every byte of a database with its checksums."""

from __future__ import annotations

from typing import Any

from .._util import console
from .._util.wording import counted
from ..database.database import Database
from ..errors import CorruptFileError
from . import common

SHOWN = 20  # corrupt ranges that are listed

EPILOG = """examples:
  idcwh-index verify codes.bin

Exit codes: 0 every byte is as it was written, 1 the file is corrupt (the ranges are named) or cannot be read."""


def add_parser(commands: Any) -> None:
    """Adds the command to those of idcwh-index."""
    parser = common.add_command(commands, "verify", run, help="check every byte of a database", epilog=EPILOG)
    common.add_database(parser.add_argument)


def run(options: Any) -> int:
    with Database.open(options.db) as database:
        found = database.check()
    if found.torn:
        console.note(
            f"{options.db}: {found.torn:,} bytes at its end are of a write that never ended; "
            "the next writer removes them"
        )
    if not found.corrupt:
        print(f"{console.one_line(options.db)}: good ({counted(found.items, 'item')})")
        return common.DONE
    for span in found.corrupt[:SHOWN]:
        console.note(f"corrupt: {span.what} (bytes {span.offset} to {span.offset + span.length})")
    more = len(found.corrupt) - SHOWN
    lost = found.good_items != found.items
    raise CorruptFileError(
        f"is corrupt in {counted(len(found.corrupt), 'range')}" + (f", {more:,} of them not shown" if more > 0 else ""),
        path=options.db,
        found=f"{counted(found.good_items, 'item')} in good segments" if lost else None,
        expected=f"{found.items:,}" if lost else None,
        hint="restore a copy or build it again",
    )
