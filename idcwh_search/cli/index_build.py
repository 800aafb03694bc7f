"""idcwh-index build: a new database of the codes of images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..database import Database
from ..files import check_target
from . import common, encoding
from .listing import Listing, stamp


def add_parser(commands: Any) -> None:
    """Add the command to those of idcwh-index."""
    parser = commands.add_parser("build", help="encode images into a new database")
    parser.add_argument("--model", required=True, metavar="FILE", help="the model.onnx, made by idcwh-export")
    parser.add_argument("--db", required=True, metavar="FILE", help="the database to write, such as codes.bin")
    parser.add_argument("--force", action="store_true", help="replace an existing database")
    encoding.add_options(parser)
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    from ..encoder import Encoder
    from ..manifest import describe

    target = Path(options.db)
    check_target(target, options.model, None if options.images == "-" else options.images)
    common.refuse_existing(options.db, options.force)
    listing = Listing(options.images, options.labels)
    encoder = Encoder(options.model, device=options.device, threads=options.threads, batch_size=options.batch_size)
    common.note(f"{len(listing.paths)} images, {encoder.bits}-bit codes, model on {encoder.device} ({encoder.why})")
    writer = Database.build(target, encoder.bits, describe(target, encoder, listing.root), replace=options.force)
    stamps = [stamp(path) for path in listing.paths]  # before: a picture that changes meanwhile is encoded again later
    with writer:
        work = encoding.Encoding(encoder, listing.paths)
        for rows, codes in work:
            writer.add(
                codes,
                keys=[listing.keys[i] for i in rows],
                labels=[listing.labels[i] for i in rows],
                stamps=[stamps[i] for i in rows],
            )
    return work.summarise(target, options.json)
