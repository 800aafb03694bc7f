"""idcwh-index verify, which compares every byte of a database with its checksums."""

from __future__ import annotations

from typing import Any

from .._util import console
from .._util.wording import counted
from ..database.database import Database
from ..errors import CorruptFileError
from . import common

SHOWN = 20  # corrupt ranges that are listed

EPILOG = """examples:
  idcwh-index verify codes.bin"""


def add_parser(commands: Any) -> None:
    """Adds the command to those of idcwh-index."""
    help, codes = "check every byte of a database", "0 all checksums match, 1 corrupt or not readable, 2 wrong usage"
    parser = common.add_command(commands, "verify", run, help=help, epilog=EPILOG, exit_codes=codes)
    common.add_database(parser.add_argument)


def run(options: Any) -> int:
    with Database.open(options.db) as database:
        found = database.check()
    if found.torn:
        console.note(
            f"{options.db}: {found.torn:,} bytes of an unfinished write at its end, which the next writer removes"
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
