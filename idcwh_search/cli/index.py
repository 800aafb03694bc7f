"""idcwh-index: make a database of codes from images, look at it, check it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ..database import Database
from ..datasets import SPLIT_FOLDERS
from ..errors import IdcwhError
from ..files import check_target
from . import common

EPILOG = """examples:
  idcwh-index build --model model.onnx --images photos/ --db codes.bin
  find . -name '*.jpg' | idcwh-index build --model model.onnx --images - --db codes.bin
  idcwh-index info codes.bin
  idcwh-index verify codes.bin

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 done but some images could not be read (they are named and counted)."""


def parser() -> common.Parser:
    parser = common.Parser(prog="idcwh-index", description="Make and inspect databases of hash codes.", epilog=EPILOG)
    parser.with_version()
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=common.Parser)

    build = commands.add_parser("build", help="encode images into a new database")
    build.add_argument("--model", required=True, metavar="FILE", help="the model.onnx, made by idcwh-export")
    build.add_argument(
        "--images",
        required=True,
        metavar="DIR_OR_LIST",
        help="a folder, a list of paths (one a line; - for stdin), or a manifest (.csv, .jsonl)",
    )
    build.add_argument("--db", required=True, metavar="FILE", help="the database to write, such as codes.bin")
    build.add_argument(
        "--labels",
        choices=("folder", "none"),
        default="folder",
        help="label images by their first folder below DIR (default); a manifest has its own",
    )
    build.add_argument("--force", action="store_true", help="replace an existing database")
    build.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="where the model runs (default auto)"
    )
    build.add_argument(
        "--threads", type=common.positive, metavar="N", help="threads (default: all cores given to the process)"
    )
    build.add_argument(
        "--batch-size", type=common.positive, metavar="N", help="images a model run (default: by device)"
    )
    build.add_argument("--json", action="store_true", help="print the summary as JSON")

    info = commands.add_parser("info", help="say what is in a database")
    info.add_argument("db", metavar="FILE")
    info.add_argument("--json", action="store_true", help="print JSON")
    verify = commands.add_parser("verify", help="read everything and check it")
    verify.add_argument("db", metavar="FILE")
    return parser


@common.command
def main(argv: list[str] | None = None) -> int:
    options = parser().parse_args(argv)
    if options.command == "build":
        return build(options)
    return info(options) if options.command == "info" else verify(options)


class Listing:
    """The images to index: what to open, and the key and label under which each is stored."""

    def __init__(self, source: str, labels: str) -> None:
        from ..images import list_images

        path = Path(source)
        self.labels: list[str | None]
        if path.suffix.lower() in (".csv", ".jsonl", ".ndjson") and path.is_file():
            self._from_manifest(source)
            return
        self.paths = list_images(source)
        self.root = path if path.is_dir() else Path() if source == "-" else path.parent
        self.keys = [os.path.relpath(name, self.root) for name in self.paths]
        inside = labels == "folder" and path.is_dir()
        self.labels = [_folder_label(key) if inside else None for key in self.keys]

    def _from_manifest(self, source: str) -> None:
        from .. import datasets

        dataset = datasets.load(source)
        self.root = Path(source).parent
        self.keys = list(dataset.keys)
        self.paths = [str(self.root / key) for key in self.keys]
        matrix = dataset.labels
        names = dataset.classes
        if matrix.ndim == 1:
            self.labels = [names[number] for number in matrix.tolist()]
        else:
            self.labels = ["|".join(names[j] for j in np.flatnonzero(row)) or None for row in matrix]


def _folder_label(key: str) -> str | None:
    """The first folder of a relative path that is not the name of a split; None where there is none."""
    return next((part for part in Path(key).parts[:-1] if part not in SPLIT_FOLDERS and part != ".."), None)


def build(options: Any) -> int:
    from ..encoder import Encoder
    from ..manifest import describe
    from ..pipeline import encode_files

    target = Path(options.db)
    check_target(target, options.model, None if options.images == "-" else options.images)
    listing = Listing(options.images, options.labels)
    encoder = Encoder(options.model, device=options.device, threads=options.threads, batch_size=options.batch_size)
    common.note(f"{len(listing.paths)} images, {encoder.bits}-bit codes, model on {encoder.device} ({encoder.why})")
    skipped: list[dict[str, str]] = []

    def skip(path: str, reason: str) -> None:
        skipped.append({"path": path, "reason": reason})
        common.note(f"skipped {path}: {reason}")

    try:
        writer = Database.create(target, encoder.bits, describe(target, encoder, listing.root), replace=options.force)
    except IdcwhError as error:
        raise IdcwhError(str(error).replace("ask to replace it", "pass --force to replace it")) from error
    with writer, common.progress_bar(total=len(listing.paths), unit="image", desc="indexing") as bar:
        run = encode_files(encoder, listing.paths, on_skip=skip, progress=bar.update)
        for rows, codes in run:
            writer.add(codes, keys=[listing.keys[i] for i in rows], labels=[listing.labels[i] for i in rows])
        if run.summary.images == 0:
            raise IdcwhError(f"none of the {len(listing.paths)} images could be read; nothing was written")
    _summarise(options, target, run.summary, skipped)
    return common.SKIPPED if skipped else common.DONE


def _summarise(options: Any, target: Path, summary: Any, skipped: list[dict[str, str]]) -> None:
    size = target.stat().st_size
    common.note(f"{target}: {summary}; {size:,} bytes")
    if options.json:
        numbers = {
            "database": str(target),
            "images": summary.images,
            "skipped": skipped,
            "seconds": round(summary.seconds, 3),
            "images_per_second": round(summary.images_per_second, 1),
            "decode_seconds": round(summary.decode_seconds, 3),
            "inference_seconds": round(summary.inference_seconds, 3),
            "bytes": size,
        }
        json.dump(numbers, sys.stdout, indent=1)
        print()


def info(options: Any) -> int:
    with Database.open(options.db) as database:
        found = database.info()
        labels = database.label_names()
    if options.json:
        json.dump({**found, "labels": labels}, sys.stdout, indent=1)
        print()
        return common.DONE
    model = found["manifest"].get("model", {})
    segments = f"{found['segments']} segment{'s' if found['segments'] != 1 else ''}"
    lines = {
        "items": f"{found['items']:,}",
        "bits": found["bits"],
        "labels": f"{len(labels)}"
        + (f" ({', '.join(labels[:8])}{', ...' if len(labels) > 8 else ''})" if labels else ""),
        "size": f"{found['bytes']:,} bytes in {segments}, format {found['format']}",
        "model": model.get("path", "not named"),
        "fingerprint": model.get("sha256", "-"),
        "images": found["manifest"].get("images", {}).get("absolute", "-"),
    }
    for name, value in lines.items():
        print(f"{name:<12} {value}")
    return common.DONE


def verify(options: Any) -> int:
    with Database.open(options.db) as database:
        database.verify()
        print(f"{options.db}: good ({len(database):,} items)")
    return common.DONE
