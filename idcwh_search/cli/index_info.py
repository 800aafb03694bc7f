"""idcwh-index info, which prints the properties of a database."""

from __future__ import annotations

import json
import sys
from typing import Any

from .._core import count_distinct
from .._util import console
from ..database.database import Database, part
from . import common

EPILOG = """examples:
  idcwh-index info codes.bin
  idcwh-index info codes.bin --json"""


def add_parser(commands: Any) -> None:
    """Adds the command to those of idcwh-index."""
    parser = common.add_command(commands, "info", run, help="print the properties of a database", epilog=EPILOG)
    common.add_database(parser.add_argument)
    parser.add_argument("--json", action="store_true", help="properties as JSON, with all labels")


def run(options: Any) -> int:
    with Database.open(options.db) as database:
        found = database.info()
        found["distinct"] = count_distinct(database.codes, database.bits)
        labels = database.label_names()
    if options.json:
        json.dump({**found, "labels": labels}, sys.stdout, indent=1)
        print()
        return common.DONE
    model, hashes = part(found["manifest"], "model"), part(found["manifest"], "hashes")
    segments = f"{found['segments']} segment{'s' if found['segments'] != 1 else ''}"
    removed = f" (and {found['removed']:,} removed ones, still in the file)" if found["removed"] else ""
    unused = f", {found['unused']:,} of them unused (idcwh-index compact frees them)" if found["unused"] else ""
    lines = {
        "items": f"{found['items']:,}{removed}",
        "bits": found["bits"],
        "distinct": f"{found['distinct']:,} codes",
        "labels": f"{len(labels)}"
        + (f" ({', '.join(labels[:8])}{', ...' if len(labels) > 8 else ''})" if labels else ""),
        "size": f"{found['bytes']:,} bytes in {segments}{unused}, format {found['format']}",
        "model": model.get("path", "-"),
        "fingerprint": model.get("sha256", "-"),
        "hash order": hashes.get("order", "-"),
        "hasher": hashes.get("hasher", "-"),
        "images": part(found["manifest"], "images").get("absolute", "-"),
    }
    for name, value in lines.items():
        print(f"{name:<12} {console.one_line(str(value))}")
    return common.DONE
