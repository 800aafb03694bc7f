"""idcwh-index merge, which writes the items of several databases to a new one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from .._util import console
from .._util.atomic import CODES_BIN, check_target
from .._util.wording import counted
from ..database.database import Database
from ..database.merge import merge_databases
from . import common

EPILOG = """examples:
  idcwh-index merge all.bin a.bin b.bin
  idcwh-index merge all.bin 2023.bin 2024.bin --skip-duplicates

The databases have one model. Keys become relative to the images folder of the first one. Ids are
kept, unless an earlier database has one of them. The output then names the number that is added."""


def add_parser(commands: Any) -> None:
    """Adds the command to those of idcwh-index."""
    help = "write the items of several databases to a new one"
    parser = common.add_command(commands, "merge", run, help=help, epilog=EPILOG)
    parser.add_argument("out", type=common.path, metavar="OUT", help="database to write, such as all.bin")
    parser.add_argument("sources", type=common.path, nargs="+", metavar="DB", help="databases, two or more")
    parser.add_argument(
        "--skip-duplicates",
        action="store_true",
        help="omission of items whose key an earlier database has (default an error)",
    )
    parser.add_argument("--force", action="store_true", help="replacement of an existing database")
    parser.add_argument("--json", action="store_true", help="counts per database as JSON")


def run(options: Any) -> int:
    if len(options.sources) < 2:
        options.parser.error("argument DB: expected two or more databases after OUT")
    check_target(options.out, CODES_BIN, *options.sources)
    common.refuse_existing(options.out, options.force)
    total = 0
    for source in options.sources:
        with Database.open(source) as database:
            total += len(database)
    with console.progress_bar(total=total, unit="item", desc="merging") as bar:
        merged = merge_databases(
            options.out,
            options.sources,
            replace=options.force,
            skip_duplicates=options.skip_duplicates,
            progress=bar.update,
        )
    items = sum(source.items for source in merged)
    if options.json:
        parts = [{**source._asdict(), "path": str(source.path)} for source in merged]
        json.dump({"database": options.out, "items": items, "sources": parts}, sys.stdout, indent=1)
        print()
    for source in merged:
        if source.shift:
            console.note(f"{source.path}: ids + {source.shift:,}, because an earlier database has some of them")
        if source.skipped:
            console.note(f"{source.path}: {counted(source.skipped, 'item')} with the key of an earlier one skipped")
    console.note(f"{options.out}: {counted(items, 'item')}; {Path(options.out).stat().st_size:,} bytes")
    return common.DONE
