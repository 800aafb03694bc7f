"""idcwh-index import, which creates a database from a file of another system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .. import interchange
from .._util import console
from .._util.atomic import CODES_BIN, check_target
from .._util.wording import counted
from ..hexadecimal import ORDERS
from . import common

EPILOG = """examples:
  idcwh-index import codes.faiss --db codes.bin
  idcwh-index import codes.npy --db codes.bin --bits 60 --ids ids.npy
  idcwh-index import codes.parquet --db codes.bin --force
  idcwh-index import hashes.csv --db pdq.bin --hash-order pdq --column pdq --key-column path
  idcwh-index import hashes.csv --db pdq.bin --hash-order pdq --column 1 --key-column 3    (no column names)
  idcwh-index import hashes.txt --db phash.bin --hash-order imagehash                      (one hash per line)

--hash-order is imagehash, pdq or img_hash. It defines the bits of the hashes of another program, which are
hexadecimal texts, or 64-bit integers. The database stores it, and does not mix with other orders or models."""


def add_parser(commands: Any) -> None:
    """Adds the command to those of idcwh-index."""
    help = "create a database from a file of faiss, NumPy, Parquet or Arrow, or of hashes"
    parser = common.add_command(commands, "import", run, help=help, epilog=EPILOG)
    parser.add_argument("source", type=common.path, metavar="IN", help="file of codes, such as codes.faiss")
    parser.add_argument(
        "--db", required=True, type=common.path, metavar="FILE", help="database to write, such as codes.bin"
    )
    parser.add_argument("--format", choices=interchange.FORMATS, help="format of IN (default by its suffix)")
    parser.add_argument(
        "--bits",
        type=common.bits,
        metavar="N",
        help="code length (default 8 times the bytes of a code, or 4 times the digits of a hash)",
    )
    parser.add_argument(
        "--ids", type=common.path, metavar="FILE", help=".npy file with the ids, for formats without ids (npy, raw)"
    )
    parser.add_argument("--force", action="store_true", help="replacement of an existing database")
    add = parser.add_argument_group("hashes and columns").add_argument
    add("--hash-order", choices=ORDERS, help="order of the bits of hashes; required for csv and text")
    add("--integers", action="store_true", help="hashes as decimal numbers in texts (default hexadecimal)")
    help = "column of the hashes, by name or by number from 1 (default hash, or code without --hash-order)"
    add("--column", type=_column, metavar="COLUMN", help=help)
    add("--key-column", type=_column, metavar="COLUMN", help="column of the keys (default key, if it exists)")
    add("--label-column", type=_column, metavar="COLUMN", help="column of the labels (default label, if it exists)")


def _column(text: str) -> str | int:
    return int(text) if text.isascii() and text.isdecimal() else text


def run(options: Any) -> int:
    check_target(options.db, CODES_BIN, options.source, options.ids)
    common.refuse_existing(options.db, options.force)
    names = ("format", "bits", "ids", "hash_order", "integers", "column", "key_column", "label_column")
    with options.parser.checking():
        source = interchange.read(options.source, **{name: getattr(options, name) for name in names})
    with console.progress_bar(total=source.count, unit="item", desc="importing") as bar:
        count = source.save(options.db, replace=options.force, progress=bar.update)
    size = Path(options.db).stat().st_size
    order = f", hash order {options.hash_order}" if options.hash_order else ""
    console.note(f"{options.db}: {counted(count, 'item')}, {source.bits}-bit codes{order}; {size:,} bytes")
    return common.DONE
