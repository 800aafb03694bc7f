"""idcwh-index build: a new database of the codes of images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._util import console
from .._util.atomic import CODES_BIN, beside, check_target, locked, move_into_place
from .._util.wording import counted
from ..database.database import Database
from ..errors import IdcwhError, MismatchError
from . import common, encoding
from .changes import Changes
from .content import signature
from .inputs import ImageInputs

if TYPE_CHECKING:
    from ..encoder.encoder import Encoder

EPILOG = """examples:
  idcwh-index build --model model.onnx --images photos/ --db codes.bin
  idcwh-index build --model model.onnx --images labels.csv --db codes.bin         (with columns path and label)
  idcwh-index build --model model.onnx --images shards/ --db codes.bin --resume   (the same again after a stop)

The database names its images by their path below DIR, such as cats/tom.jpg, in a tar file 000.tar/tom.jpg."""


def add_parser(commands: Any) -> None:
    """Adds the command to those of idcwh-index."""
    parser = common.add_command(commands, "build", run, help="encode images into a new database", epilog=EPILOG)
    parser.add_argument(
        "--model", required=True, type=common.path, metavar="FILE", help="the model.onnx, made by idcwh-export"
    )
    parser.add_argument(
        "--db", required=True, type=common.path, metavar="FILE", help="the database to write, such as codes.bin"
    )
    parser.add_argument("--force", action="store_true", help="replace an existing database")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="keep what is done in FILE.part, so that the same command goes on after an interruption",
    )
    encoding.add_options(parser)


def run(options: Any) -> int:
    from ..database.provenance import describe
    from ..encoder.encoder import Encoder

    target = Path(options.db)
    check_target(target, CODES_BIN, options.model, None if options.images == "-" else options.images)
    common.refuse_existing(options.db, options.force)
    listing = ImageInputs(options.images, options.labels)
    console.note_all(listing.left_out.lines())
    encoder = Encoder(options.model, **common.encoder_options(options))
    count = counted(len(listing.paths), "image")
    console.note(f"{count}, {encoder.bits}-bit codes, model on {encoder.device} ({encoder.why})")
    manifest = describe(target, encoder, listing.root)
    if options.resume:
        return _resumable(target, manifest, listing, encoder, options)
    writer = Database.build(target, encoder.bits, manifest, replace=options.force)
    # Before encoding: an image that changes meanwhile has another signature in the next `add`.
    signatures = [signature(path)[0] for path in listing.paths]
    with writer:
        work = encoding.EncodeProgress(encoder, listing.paths)
        for rows, codes in work:
            writer.add(
                codes,
                keys=[listing.keys[i] for i in rows],
                labels=[listing.labels[i] for i in rows],
                mtime_signatures=[signatures[i] for i in rows],
                checksums=work.sums[rows],
            )
    return work.summarise(target, options.json, listing.left_out)


def _resumable(target: Path, manifest: dict[str, Any], listing: ImageInputs, encoder: Encoder, options: Any) -> int:
    """Writes TARGET.part batch by batch, and renames it to TARGET when it has all images."""
    with locked(target):  # before encoding, and again when it is replaced
        pass
    part = beside(target, ".part")
    if not part.exists():
        Database.create(part, encoder.bits, manifest).close()
    try:
        Database.open(part).close()  # for reading: what fails is the file, not that another process writes to it
    except IdcwhError as error:
        raise error.about(part, hint="--resume would continue it; delete it to start again") from error
    with Database.open(part, "r+") as database:
        if database.manifest != manifest:
            raise MismatchError(
                "was started with another model or other images", path=part, hint="delete it, or pass the same ones"
            )
        changes = Changes(database, listing, listing.keys, listing.root, exactly=True, threads=options.threads)
        work = changes.write(encoder)
        wanted = set(listing.keys)
        there = database.keys()
        if gone := [key for key in there if key is not None and key not in wanted]:  # since the first run
            database.remove(keys=gone)
        database.compact()
    common.refuse_existing(target, options.force)
    with locked(target):  # whose writer must not go on in a file without a name
        move_into_place(part, target, CODES_BIN)
    return work.summarise(target, options.json, listing.left_out, **changes.counts)
