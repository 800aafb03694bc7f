"""idcwh-dedup, which finds the groups of near-duplicates of a database or of images. It never deletes anything."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._util import console
from .._util.atomic import UNRECOGNIZABLE, Kind, check_target
from .._util.wording import counted
from ..database.database import Database, check_same_model
from ..database.provenance import image_path, image_roots
from ..errors import InvalidInputError, UsageError
from . import common, encoding, gallery, group_files, not_duplicates
from .duplicates import Group, Items, Mode, groups_with, groups_within, largest, oldest, removable
from .filters import add_filters, selected
from .group_pages import GROUPS, write_pages
from .image_codes import ImageCodes, by_model, by_pdq

PREFERENCES = {"largest": largest, "oldest": oldest}

EPILOG = f"""examples:
  idcwh-dedup photos/ --hash pdq --radius 31
  idcwh-dedup photos/ --hash pdq --radius 31 --keep largest --html groups.html --script duplicates.sh
  idcwh-dedup photos/ --model model.onnx --radius 0
  idcwh-dedup --db codes.bin --radius 3 --remove-list keys.txt
  idcwh-dedup --db codes.bin --radius 3 --not-duplicates reviewed.txt
  idcwh-dedup incoming/ --reference codes.bin --radius 3 --json

The output has group, action (keep or duplicate), distance to the kept item in bits, and key.
Nothing is deleted. `idcwh-index remove codes.bin --keys-from keys.txt` removes the listed items,
and `sh duplicates.sh DIR` moves the files into a folder.

exit codes: {common.EXIT_CODES_SKIPPED}"""


def parser() -> common.Parser:
    parser = common.Parser(
        prog="idcwh-dedup",
        description="Find the groups of near-duplicates of a database, or of images, by Hamming distance, exactly.",
        epilog=EPILOG,
    )
    parser.with_version()
    add = parser.add_argument_group("database or images").add_argument
    help = "folder, .tar file, list of paths (one per line, - for stdin), or manifest (.csv, .jsonl)"
    add("images", nargs="?", type=common.path, metavar="IMAGES", help=help)
    add("--db", type=common.path, metavar="FILE", help="database, written by idcwh-index build, instead of IMAGES")
    add(
        "--reference", type=common.path, metavar="FILE", help="database whose items are kept, of the same model or hash"
    )
    help = "perceptual hash of IMAGES, in place of a model; PDQ has 256 bits, and its usual radius is 31"
    add("--hash", choices=("pdq",), help=help)
    common.add_root(add)
    add_filters(add, "items of --db")

    add = parser.add_argument_group("groups").add_argument
    help = "largest Hamming distance of two duplicates in bits"
    add("--radius", required=True, type=common.natural, metavar="R", help=help)
    help = "greedy: within the radius of the kept item; components: chains of near items (default greedy)"
    add("--mode", choices=("components", "greedy"), help=help)
    help = "kept item of a group: first added, or by size or mtime of the image file (default first)"
    add("--keep", choices=("first", *PREFERENCES), help=help)
    help = "list of pairs that are not duplicates, per line two keys with a tab between them"
    add("--not-duplicates", type=common.path, metavar="FILE", help=help)

    add = parser.add_argument_group("output").add_argument
    add("--json", action="store_true", help="groups as JSON, with ids and labels")
    add("--csv", type=common.path, metavar="FILE", help="CSV file with one line per item")
    add("--html", type=common.path, metavar="FILE", help=f"HTML page with the images, {GROUPS} groups per page")
    help = "list of duplicates: keys for idcwh-index remove --keys-from, with IMAGES the paths of the files"
    add("--remove-list", type=common.path, metavar="FILE", help=help)
    help = "shell script that moves the files of the duplicates into a folder"
    add("--script", type=common.path, metavar="FILE", help=help)

    encoding.add_encoder(parser, help="model.onnx that encodes IMAGES (default that of --reference)")
    return parser


@dataclass
class Source:
    """The compared items.

    Attributes:
        items: codes with ids, keys and labels.
        where: ids of the compared items; None for all.
        path: database, or folder or list of images.
        roots: folders to which keys are relative.
        images: the same items if they are images without a database, otherwise None.
    """

    items: Items
    where: np.ndarray | None
    path: Path
    roots: list[Path]
    images: ImageCodes | None = None

    def __len__(self) -> int:
        return len(self.items.ids) if self.where is None else len(self.where)


@common.command
def main(argv: list[str] | None = None) -> int:
    command = parser()
    options = command.parse_args(argv)
    _check(options, command)
    apart = None if options.not_duplicates is None else not_duplicates.read(options.not_duplicates)
    with contextlib.ExitStack() as stack:
        reference = None
        if options.reference is not None:
            reference = stack.enter_context(Database.open(options.reference))
        source = _images(options, reference) if options.db is None else _database(options, reference, stack)
        files = _Files(source.roots)
        kept_roots = source.roots if reference is None else image_roots(reference)
        radius, where, threads = options.radius, source.where, options.threads
        if reference is not None:
            groups = groups_with(source.items, reference.snapshot(), radius, where, threads, apart)
        else:
            choose = PREFERENCES.get(options.keep)
            preference = None if choose is None else lambda keys: choose(files.paths(keys))
            mode: Mode = options.mode or "greedy"
            groups = groups_within(source.items, radius, mode, where, preference, threads, apart)
    duplicates = sum(len(group.duplicates) for group in groups)
    of = "" if options.reference is None else f", reference {options.reference}"
    summary = f"{counted(len(source), 'item')}, {counted(len(groups), 'group')}, {counted(duplicates, 'duplicate')}{of}"
    _write_files(options, source, groups, kept_roots, summary)
    if options.json:
        _print_json(options, source, duplicates, groups)
    else:
        _print_table(groups)
    files.note()
    console.note(f"{source.path}: {summary}")
    images = source.images
    skipped = images is not None and (images.skipped or images.left_out.skipped)
    return common.SKIPPED if files.missing or skipped else common.DONE


def _check(options: Any, command: common.Parser) -> None:
    """Checks the options and the output files before the work."""
    given = {name for name, value in vars(options).items() if value not in (None, False)}
    if options.images is None and options.db is None:
        command.error("one of the arguments IMAGES --db is required")
    if options.images is not None and not given & {"model", "hash", "reference"}:
        command.error("argument IMAGES: one of the arguments --hash --model --reference is required as well")
    for one, others, reason in (
        ("images", ("db", "root", "label", "key_prefix"), ""),
        ("db", ("model", "hash"), ", because it has codes"),
        ("reference", ("mode", "keep"), ", whose items are kept"),
        ("hash", ("model",), ""),
    ):
        for other in others:
            if {one, other} <= given:
                name = "IMAGES" if one == "images" else f"--{one}"
                command.error(f"argument --{other.replace('_', '-')}: not allowed with argument {name}{reason}")
    outputs: list[tuple[str, str | None, Kind]] = [
        ("--csv", options.csv, group_files.CSV),
        ("--html", options.html, gallery.GROUPS),
        ("--remove-list", options.remove_list, UNRECOGNIZABLE),
        ("--script", options.script, group_files.SCRIPT),
    ]
    seen = dict[Path, str]()
    for name, path, _ in outputs:
        if path is not None and (other := seen.setdefault(Path(path).resolve(), name)) != name:
            command.error(f"argument {name}: {path} is the file of {other} as well")
    images = None if options.images == "-" else options.images
    for _, path, kind in outputs:
        if path is not None:
            check_target(path, kind, options.db, options.reference, options.not_duplicates, options.model, images)


def _database(options: Any, reference: Database | None, stack: contextlib.ExitStack) -> Source:
    """Returns the items of --db. Raises an error unless it and the reference are two files of one model."""
    database = stack.enter_context(Database.open(options.db))
    _check_radius(options, database.bits)
    if reference is not None:
        if reference.path.samefile(database.path):
            raise InvalidInputError("is the database itself", path=reference.path, hint="leave --reference out")
        check_same_model(database, reference)
    where = selected(options, database)
    return Source(database.snapshot(), where, database.path, image_roots(database, options.root))


def _images(options: Any, reference: Database | None) -> Source:
    """Returns the codes of IMAGES, by default by the model or hash of the reference."""
    hashed = options.model is None and reference is not None and reference.hash_order == "pdq"
    encode = by_pdq if options.hash or hashed else by_model
    found = encode(options.images, options, reference, lambda bits: _check_radius(options, bits))
    return Source(found, None, found.path, [found.root], found)


def _check_radius(options: Any, bits: int) -> None:
    if options.radius > bits:
        raise UsageError(path="--radius", found=options.radius, expected=f"0 to {bits}")


class _Files:
    """The image files of the items of groups, by which the kept ones are chosen."""

    def __init__(self, roots: list[Path]) -> None:
        self._roots, self.missing = roots, 0

    def paths(self, keys: list[str | None]) -> list[str | None]:
        found = [image_path(self._roots, key) for key in keys]
        self.missing = sum(path is None for path in found)
        return [None if path is None else str(path) for path in found]

    def note(self) -> None:
        if self.missing:
            missing = counted(self.missing, "image file")
            console.note(
                f"{missing} missing, so other items of their groups are preferred (pass their folder as --root)"
            )


def _write_files(options: Any, source: Source, groups: list[Group], kept_roots: list[Path], summary: str) -> None:
    if options.remove_list is not None or options.script is not None:
        keys = removable(groups, source.items.keys(source.items.ids))
        if options.remove_list is not None and source.images is None:
            listed = set(keys)
            left_out = sum(item.key not in listed for group in groups for item in group.duplicates)
            reasons = "without a key, with the key of another item, or with a line break in the key"
            group_files.write_list(options.remove_list, keys, left_out, reasons)
        if options.script is not None or source.images is not None:
            files = group_files.Files(groups, source.roots, kept_roots, set(keys))
            if options.remove_list is not None and source.images is not None:
                reasons = f"{group_files.NOT_MOVABLE}, or with a line break in the name"
                group_files.write_list(options.remove_list, files.paths, files.left_out, reasons)
            if options.script is not None:
                files.write_script(options.script, f"Radius {options.radius}: {summary}")
    if options.csv is not None:
        group_files.write_csv(options.csv, groups)
    if options.html is not None:
        write_pages(Path(options.html), groups, len(source), source.items.bits, source.roots, kept_roots)


def _print_table(groups: list[Group]) -> None:
    if not groups:
        return
    width = max(len("group"), len(str(len(groups))))
    print(f"{'group':>{width}}  action     distance  key")
    for number, action, item in group_files.lines(groups):
        name = f"id {item.id}" if item.key is None else item.key
        sys.stdout.write(f"{number:>{width}}  {action:<9}  {item.distance:>8}  {console.one_line(name)}\n")


def _print_json(options: Any, source: Source, duplicates: int, groups: list[Group]) -> None:
    """Writes one line per group, because the encoder without indents is many times faster."""
    alone, images = options.reference is None, source.images
    head = {
        "database": None if images else str(source.path),
        "images": str(source.path) if images else None,
        "reference": options.reference,
        "bits": source.items.bits,
        "radius": options.radius,
        "mode": (options.mode or "greedy") if alone else None,
        "keep": (options.keep or "first") if alone else None,
        "items": len(source),
        "duplicates": duplicates,
        "skipped": images.skipped if images else [],
        "left_out": images.left_out.to_dict() if images else None,
    }
    sys.stdout.write(f'{json.dumps(head, indent=1)[:-2]},\n "groups": [')
    for number, group in enumerate(groups):
        found = {"keep": group.keeper._asdict(), "duplicates": [item._asdict() for item in group.duplicates]}
        sys.stdout.write(f"{',' if number else ''}\n  {json.dumps(found)}")
    sys.stdout.write("\n ]\n}\n")
