"""idcwh-dedup, which finds the groups of near-duplicates of a database. It never deletes anything."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

from .._util import console
from .._util.atomic import UNRECOGNIZABLE, Kind, begins_with, check_target, replacing
from .._util.wording import counted
from ..database.database import Database, check_same_model
from ..database.provenance import image_path, image_roots
from ..errors import InvalidInputError, UsageError
from . import common, gallery
from .duplicates import Group, Item, groups_with, groups_within, largest, oldest, removable
from .filters import add_filters, selected
from .hits import Hit

COLUMNS = ("group", "action", "distance", "id", "key", "label")
CSV = begins_with("CSV file of groups", ",".join(COLUMNS).encode())
PAGE = 100  # groups per HTML page, and duplicates shown per group
PREFERENCES = {"largest": largest, "oldest": oldest}

EPILOG = f"""examples:
  idcwh-dedup --db codes.bin --radius 3
  idcwh-dedup --db codes.bin --radius 3 --keep largest --html groups.html
  idcwh-dedup --db codes.bin --radius 3 --remove-list keys.txt
  idcwh-dedup --db incoming.bin --reference codes.bin --radius 3 --json

The output has group, action (keep or duplicate), distance to the kept item in bits, and key.
Nothing is deleted. `idcwh-index remove codes.bin --keys-from keys.txt` removes the listed items.

exit codes: {common.EXIT_CODES_SKIPPED}"""


def parser() -> common.Parser:
    parser = common.Parser(
        prog="idcwh-dedup",
        description="Find the groups of near-duplicates of a database by Hamming distance, exactly.",
        epilog=EPILOG,
    )
    parser.with_version()
    add = parser.add_argument_group("database").add_argument
    add("--db", required=True, type=common.path, metavar="FILE", help="database, written by idcwh-index build")
    add("--reference", type=common.path, metavar="FILE", help="database whose items are kept, of the same model")
    common.add_root(add)
    add_filters(add, "items of --db")

    add = parser.add_argument_group("groups").add_argument
    help = "largest Hamming distance of two duplicates in bits"
    add("--radius", required=True, type=common.natural, metavar="R", help=help)
    help = "greedy: within the radius of the kept item; components: chains of near items (default greedy)"
    add("--mode", choices=("components", "greedy"), help=help)
    help = "kept item of a group: first added, or by size or mtime of the image file (default first)"
    add("--keep", choices=("first", *PREFERENCES), help=help)
    add("--threads", type=common.threads, metavar="N", help="number of threads (default one per core)")

    add = parser.add_argument_group("output").add_argument
    add("--json", action="store_true", help="groups as JSON, with ids and labels")
    add("--csv", type=common.path, metavar="FILE", help="CSV file with one line per item")
    add("--html", type=common.path, metavar="FILE", help=f"HTML page with the images, {PAGE} groups per page")
    add("--remove-list", type=common.path, metavar="FILE", help="list of duplicates for idcwh-index remove --keys-from")
    return parser


@common.command
def main(argv: list[str] | None = None) -> int:
    command = parser()
    options = command.parse_args(argv)
    _check(options, command)
    with Database.open(options.db) as database:
        if options.radius > database.bits:
            raise UsageError(path="--radius", found=options.radius, expected=f"0 to {database.bits}")
        where = selected(options, database)
        roots = image_roots(database, options.root)
        files = _Files(roots)
        now = database.snapshot()
        compared = len(now) if where is None else len(where)
        kept_roots = roots
        if options.reference is not None:
            with Database.open(options.reference) as reference:
                _check_same(database, reference)
                kept_roots = image_roots(reference)
                groups = groups_with(now, reference.snapshot(), options.radius, where, options.threads)
        else:
            choose = PREFERENCES.get(options.keep)
            preference = None if choose is None else lambda keys: choose(files.paths(keys))
            groups = groups_within(now, options.radius, options.mode or "greedy", where, preference, options.threads)
        duplicates = sum(len(group.duplicates) for group in groups)
        if options.remove_list is not None:
            _write_list(options.remove_list, groups, now.keys(), duplicates)
        if options.csv is not None:
            _write_csv(options.csv, groups)
        if options.html is not None:
            _write_pages(Path(options.html), database, groups, roots, kept_roots)
        if options.json:
            _print_json(options, database, compared, duplicates, groups)
        else:
            _print_table(groups)
    files.note()
    of = "" if options.reference is None else f", reference {options.reference}"
    found = f"{counted(len(groups), 'group')}, {counted(duplicates, 'duplicate')}{of}"
    console.note(f"{options.db}: {counted(compared, 'item')}, {found}")
    return common.SKIPPED if files.missing else common.DONE


def _check(options: Any, command: common.Parser) -> None:
    """Checks the options and the output files before the work."""
    if options.reference is not None:
        for name in ("mode", "keep"):
            if getattr(options, name) is not None:
                command.error(f"argument --{name}: not allowed with argument --reference, whose items are kept")
    outputs: list[tuple[str, str | None, Kind]] = [
        ("--csv", options.csv, CSV),
        ("--html", options.html, gallery.GROUPS),
        ("--remove-list", options.remove_list, UNRECOGNIZABLE),
    ]
    seen = dict[Path, str]()
    for name, path, _ in outputs:
        if path is not None and (other := seen.setdefault(Path(path).resolve(), name)) != name:
            command.error(f"argument {name}: {path} is the file of {other} as well")
    for _, path, kind in outputs:
        if path is not None:
            check_target(path, kind, options.db, options.reference)


def _check_same(database: Database, reference: Database) -> None:
    """Raises an error unless the databases are two files whose codes the same model computed."""
    if reference.path.samefile(database.path):
        raise InvalidInputError("is the database itself", path=reference.path, hint="leave --reference out")
    check_same_model(database, reference)


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


def _lines(groups: list[Group]) -> Any:
    """Yields group number, action and item per line of the output."""
    for number, group in enumerate(groups, 1):
        yield number, "keep", group.keeper
        for item in group.duplicates:
            yield number, "duplicate", item


def _name(item: Item) -> str:
    return f"id {item.id}" if item.key is None else item.key


def _print_table(groups: list[Group]) -> None:
    if not groups:
        return
    width = max(len("group"), len(str(len(groups))))
    print(f"{'group':>{width}}  action     distance  key")
    for number, action, item in _lines(groups):
        sys.stdout.write(f"{number:>{width}}  {action:<9}  {item.distance:>8}  {console.one_line(_name(item))}\n")


def _print_json(options: Any, database: Database, compared: int, duplicates: int, groups: list[Group]) -> None:
    alone = options.reference is None
    head = {
        "database": str(database.path),
        "reference": options.reference,
        "bits": database.bits,
        "radius": options.radius,
        "mode": (options.mode or "greedy") if alone else None,
        "keep": (options.keep or "first") if alone else None,
        "items": compared,
        "duplicates": duplicates,
    }
    found = [
        {"keep": group.keeper._asdict(), "duplicates": [i._asdict() for i in group.duplicates]} for group in groups
    ]
    json.dump({**head, "groups": found}, sys.stdout, indent=1)
    print()


def _write_csv(path: str, groups: list[Group]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows((number, action, *item) for number, action, item in _lines(groups))
    with replacing(path, CSV) as out:
        out.write(text.getvalue().encode(errors="surrogateescape"))
    console.note(f"wrote {path}")


def _write_list(path: str, groups: list[Group], keys: list[str | None], duplicates: int) -> None:
    found = removable(groups, keys)
    listed = set(found)
    left_out = duplicates - sum(item.key in listed for group in groups for item in group.duplicates)
    with replacing(path, UNRECOGNIZABLE) as out:
        out.write("".join(f"{key}\n" for key in found).encode(errors="surrogateescape"))
    if left_out:
        reason = "without a key, with the key of an item that is kept, or with a line break in the key"
        console.note(f"{counted(left_out, 'duplicate')} left out of the list: {reason}")
    console.note(f"wrote {path}")


def _write_pages(
    path: Path, database: Database, groups: list[Group], roots: list[Path], kept_roots: list[Path]
) -> None:
    """Writes the page and, for many groups, further pages beside it: groups.html, groups-2.html, ..."""
    pages = max(1, -(-len(groups) // PAGE))
    paths = [path, *(path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(2, pages + 1))]
    title = f"{counted(len(groups), 'group')} of near-duplicates among {len(database):,} images"
    for number, at in enumerate(paths):
        part_of = groups[number * PAGE : (number + 1) * PAGE]
        shown = [
            gallery.Query(_name(keeper), image_path(kept_roots, keeper.key), None, _hits(items))
            for keeper, items in part_of
        ]
        subtitle = f"Page {number + 1} of {pages}. Badges show the distance to the kept image in bits."
        if any(len(items) > PAGE for _, items in part_of):
            subtitle += f" The first {PAGE} duplicates of each group are shown."
        near = [(name, i) for name, i in (("previous", number - 1), ("next", number + 1)) if 0 <= i < pages]
        text = gallery.page(
            shown,
            title=title,
            subtitle=subtitle,
            bits=database.bits,
            locate=lambda key: image_path(roots, key),
            caption="keep",
            links=[(f"{name} page", paths[i].name) for name, i in near],
        )
        with replacing(at, gallery.GROUPS) as out:
            out.write(text.encode())
        console.note(f"wrote {at}")


def _hits(items: list[Item]) -> list[Hit]:
    return [Hit(rank, *item) for rank, item in enumerate(items[:PAGE], 1)]
