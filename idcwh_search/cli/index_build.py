"""idcwh-index build, which encodes images into a new database."""

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

EPILOG = f"""examples:
  idcwh-index build --model model.onnx --images photos/ --db codes.bin
  idcwh-index build --model model.onnx --images labels.csv --db codes.bin         (with columns path and label)
  idcwh-index build --model model.onnx --images shards/ --db codes.bin --resume   (.tar files; can be continued)

The key of an image is its path relative to IMAGES, such as cats/tom.jpg, or 000.tar/tom.jpg in a tar file.

{encoding.LABELS}"""


def add_parser(commands: Any) -> None:
    """Adds the command to those of idcwh-index."""
    help, codes = "encode images into a new database", common.EXIT_CODES_SKIPPED
    parser = common.add_command(commands, "build", run, help=help, epilog=EPILOG, exit_codes=codes)
    add = parser.add_argument_group("database").add_argument
    add("--db", required=True, type=common.path, metavar="FILE", help="database to write, such as codes.bin")
    add("--force", action="store_true", help="replacement of an existing database")
    add("--resume", action="store_true", help="continuation after an interruption, with finished work in FILE.part")
    encoding.add_images(parser)
    encoding.add_encoder(parser, required=True, help="model.onnx, written by idcwh-export")
    encoding.add_output(parser)


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
    # Computed before encoding, so that an image which changes meanwhile has another signature in the next `add`.
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
    """Writes TARGET.part in batches, and renames it to TARGET when it is complete."""
    with locked(target):  # checked before encoding, and again before the replacement
        pass
    part = beside(target, ".part")
    if not part.exists():
        Database.create(part, encoder.bits, manifest).close()
    try:
        Database.open(part).close()  # for reading, so that a lock of another process is reported below
    except IdcwhError as error:
        raise error.about(part, hint="delete it, so that --resume starts again") from error
    with Database.open(part, "r+") as database:
        if database.manifest != manifest:
            raise MismatchError(
                "does not match the model or the images",
                path=part,
                hint="pass those of its first run, or delete it, so that --resume starts again",
            )
        changes = Changes(database, listing, listing.keys, listing.root, exactly=True, threads=options.threads)
        work = changes.write(encoder)
        wanted = set(listing.keys)
        stored = database.keys()
        if gone := [key for key in stored if key is not None and key not in wanted]:  # removed since the first run
            database.remove(keys=gone)
        database.compact()
    common.refuse_existing(target, options.force)
    with locked(target):  # otherwise its writer would continue in a file without a name
        move_into_place(part, target, CODES_BIN)
    return work.summarise(target, options.json, listing.left_out, **changes.counts)
