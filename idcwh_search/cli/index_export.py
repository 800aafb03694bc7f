"""idcwh-index export, which writes a database in the format of another system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .. import interchange
from .._util import console
from .._util.wording import counted
from ..database.database import Database
from . import common

EPILOG = """examples:
  idcwh-index export codes.bin codes.parquet
  idcwh-index export codes.bin codes.faiss
  idcwh-index export codes.bin codes.npy --ids ids.npy
  idcwh-index export pdq.bin pdq.csv                       (id, key, label and hash in hexadecimal)"""


def add_parser(commands: Any) -> None:
    """Adds the command to those of idcwh-index."""
    help = "write a database as a file of faiss, NumPy, Parquet or Arrow, or of hashes"
    parser = common.add_command(commands, "export", run, help=help, epilog=EPILOG)
    common.add_database(parser.add_argument)
    parser.add_argument("out", type=common.path, metavar="OUT", help="file to write, such as codes.parquet")
    parser.add_argument("--format", choices=interchange.FORMATS, help="format of OUT (default by its suffix)")
    parser.add_argument(
        "--ids", type=common.path, metavar="FILE", help=".npy file for the ids, with formats without ids (npy, raw)"
    )
    parser.add_argument("--force", action="store_true", help="replacement of existing files")


def run(options: Any) -> int:
    with options.parser.checking():
        interchange.format_of(options.out, options.format, options.ids)
    if options.ids is not None and Path(options.ids).resolve() == Path(options.out).resolve():
        options.parser.error(f"argument --ids: {options.ids} is the file of the codes as well")
    for output in (options.out, options.ids):
        if output is not None:
            common.refuse_existing(output, options.force)
    with Database.open(options.db) as database:
        with console.progress_bar(total=len(database), unit="item", desc="exporting") as bar:
            left_out = interchange.export(
                database,
                options.out,
                format=options.format,
                ids=options.ids,
                replace=options.force,
                progress=bar.update,
            )
        console.note(f"{options.out}: {counted(len(database), 'item')}; {Path(options.out).stat().st_size:,} bytes")
    if left_out:
        console.note(f"left out, because the format does not store them: {', '.join(left_out)}")
    return common.DONE
