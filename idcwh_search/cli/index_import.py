"""idcwh-index import, which creates a database from a file of another system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .. import interchange
from .._util import console
from .._util.atomic import CODES_BIN, check_target
from .._util.wording import counted
from . import common

EPILOG = """examples:
  idcwh-index import codes.faiss --db codes.bin
  idcwh-index import codes.npy --db codes.bin --bits 60 --ids ids.npy
  idcwh-index import codes.parquet --db codes.bin --force"""


def add_parser(commands: Any) -> None:
    """Adds the command to those of idcwh-index."""
    help = "create a database from a file of faiss, NumPy, Parquet or Arrow"
    parser = common.add_command(commands, "import", run, help=help, epilog=EPILOG)
    parser.add_argument("source", type=common.path, metavar="IN", help="file of codes, such as codes.faiss")
    parser.add_argument(
        "--db", required=True, type=common.path, metavar="FILE", help="database to write, such as codes.bin"
    )
    parser.add_argument("--format", choices=interchange.FORMATS, help="format of IN (default by its suffix)")
    parser.add_argument(
        "--bits", type=common.bits, metavar="N", help="code length (default 8 times the bytes per code)"
    )
    parser.add_argument(
        "--ids", type=common.path, metavar="FILE", help=".npy file with the ids, for formats without ids (npy, raw)"
    )
    parser.add_argument("--force", action="store_true", help="replacement of an existing database")


def run(options: Any) -> int:
    with options.parser.checking():
        kind = interchange.format_of(options.source, options.format, options.ids)
    if kind == "raw" and options.bits is None:
        options.parser.error(f"{options.source}: code length is missing in raw codes; pass --bits")
    check_target(options.db, CODES_BIN, options.source, options.ids)
    common.refuse_existing(options.db, options.force)
    source = interchange.read(options.source, format=options.format, bits=options.bits, ids=options.ids)
    with console.progress_bar(total=source.count, unit="item", desc="importing") as bar:
        count = source.save(options.db, replace=options.force, progress=bar.update)
    size = Path(options.db).stat().st_size
    console.note(f"{options.db}: {counted(count, 'item')}, {source.bits}-bit codes; {size:,} bytes")
    return common.DONE
