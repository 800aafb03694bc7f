"""idcwh-search, which finds the nearest images in a database for query images or query codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from .._util import console
from .._util.atomic import check_target, replacing
from .._util.wording import counted
from ..database.database import Database, part
from ..database.provenance import image_path, image_roots
from . import common, gallery
from .filters import add_filters, selected
from .hits import TOP, Answer, Hit, Search, Ties
from .queries import Queries, read_queries

EPILOG = f"""examples:
  idcwh-search --db codes.bin --query photo.jpg
  idcwh-search --db codes.bin --query holiday/ --top 5 --html hits.html
  idcwh-search --db codes.bin --query photo.jpg --radius 3 --json
  idcwh-search --db codes.bin --query photo.jpg --label bird cat --key-prefix holiday/2024/
  idcwh-search --db codes.bin --query front.jpg side.jpg --combine
  idcwh-search --db pdq.bin --code d38bc9cb7af4971a4acfd1e4f0f22c3bae1cf38748f31838c31c41c7be701418
  curl -s https://example.org/photo.jpg | idcwh-search --db codes.bin --query -

The output has rank, Hamming distance in bits, key and label of each hit, ordered by (distance, id).
Among equal distances the query's own file comes first.

exit codes: {common.EXIT_CODES_SKIPPED}"""


def parser() -> common.Parser:
    parser = common.Parser(
        prog="idcwh-search",
        description="Find the nearest images in a database by Hamming distance, exactly.",
        epilog=EPILOG,
    )
    parser.with_version()
    group = parser.add_argument_group("database and queries")
    group.add_argument(
        "--db", required=True, type=common.path, metavar="FILE", help="database, written by idcwh-index build"
    )
    common.add_root(group.add_argument)
    source = group.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--query",
        nargs="+",
        action="extend",
        type=common.path,
        metavar="IMAGE",
        help="images, folders or lists of paths; - for an image or a list on stdin",
    )
    source.add_argument(
        "--query-codes", type=common.path, metavar="FILE.npy", help="packed query codes, uint8 (n, ceil(bits/8))"
    )
    source.add_argument(
        "--code",
        nargs="+",
        action="extend",
        metavar="HEX",
        help="query codes in hexadecimal, in the hash order of the database, or byte by byte without one",
    )
    group.add_argument(
        "--combine", action="store_true", help="one query for all images, by the sign of their mean logits"
    )

    add = parser.add_argument_group("hits").add_argument
    add("--top", type=common.positive, metavar="K", help=f"hits per query (default {TOP}, or all within --radius)")
    add("--radius", type=common.natural, metavar="R", help="largest Hamming distance in bits (default any)")
    add_filters(add, "hits")
    add("--exclude-self", action="store_true", help="hits without the query's own file")

    add = parser.add_argument_group("output").add_argument
    add("--json", action="store_true", help="hits as JSON, with ids and counts of ties")
    add("--html", type=common.path, metavar="FILE", help="HTML page with the images of queries and hits")

    common.add_model(parser)
    return parser


@common.command
def main(argv: list[str] | None = None) -> int:
    command = parser()
    options = command.parse_args(argv)
    if options.query is None:
        name = "--code" if options.query_codes is None else "--query-codes"
        for given, option, reason in (
            (options.combine, "--combine", "codes have no logits"),
            (options.exclude_self, "--exclude-self", "codes have no files"),
        ):
            if given:
                command.error(f"argument {option}: not allowed with argument {name}, because {reason}")
    if options.html is not None:
        inputs = [options.db, options.model, options.query_codes, *(options.query or [])]
        check_target(options.html, gallery.KIND, *inputs)
    with Database.open(options.db) as database:
        where = selected(options, database)
        codes_only = options.query is None and options.html is None
        roots = [] if codes_only else image_roots(database, options.root)
        queries = read_queries(options, database, roots)
        search = Search(options.top, options.radius, where, options.exclude_self, options.threads)
        answers: Iterable[Answer] = search.run(database, queries.items)
        if options.html is not None:
            answers = list(answers)
        ties = _TieNotes(len(queries.items))
        if options.json:
            _print_json(database, queries, ties.seen(answers))
        else:
            _print_table(len(queries.items), ties.seen(answers))
        ties.note()
        if options.html is not None:
            _write_page(Path(options.html), database, list(answers), roots)
    return common.SKIPPED if queries.skipped or queries.left_out.skipped else common.DONE


class _TieNotes:
    """Notes about queries with more ties than are shown."""

    def __init__(self, queries: int) -> None:
        self._queries = queries
        self._cut, self._line = 0, ""

    def seen(self, answers: Iterable[Answer]) -> Iterator[Answer]:
        for answer in answers:
            if answer.ties is not None:
                self._cut, self._line = self._cut + 1, _tie_note(answer, answer.ties)
            yield answer

    def note(self) -> None:
        if self._queries > 1 and self._cut:
            console.note(
                f"{self._cut} of {self._queries} queries have more items tied with the last hit than are shown; "
                "--json counts them"
            )
        elif self._cut:
            console.note(self._line)


def _tie_note(answer: Answer, ties: Ties) -> str:
    own_files = sum(hit.id in answer.self_ids for hit in answer.hits if hit.distance == ties.distance)
    others = ties.shown - own_files
    shown = ["the query's own file"] if own_files else []
    if others:
        shown.append("the first" + (f" {others:,}" if others > 1 else "") + (" others" if own_files else "") + " by id")
    verb = "is" if ties.shown == 1 else "are"
    return f"{ties.items:,} items tie at distance {ties.distance}; {' and '.join(shown)} {verb} shown"


_CHUNK = 4096  # hits per write


def _print_json(database: Database, queries: Queries, answers: Iterable[Answer]) -> None:
    """Writes the output of json.dump(indent=1) hit by hit, so that a million hits are as fast as in the table."""
    head = {"database": str(database.path), "bits": database.bits}
    sys.stdout.write(f'{_json(head, "")[:-2]},\n "queries": [')
    for number, answer in enumerate(answers):
        ties = None if answer.ties is None else vars(answer.ties)
        head = {"query": answer.query.name, "self_ids": answer.self_ids, "ties": ties}
        sys.stdout.write(f'{"," if number else ""}\n  {_json(head, "  ")[:-4]},\n   "hits": [')
        hits = map(_json_hit, answer.hits)
        separator = ""
        while chunk := ",".join(islice(hits, _CHUNK)):
            sys.stdout.write(separator + chunk)
            separator = ","
        sys.stdout.write("\n   ]\n  }" if answer.hits else "]\n  }")
    tail = {"skipped": queries.skipped, "left_out": queries.left_out.to_dict()}
    sys.stdout.write(f"\n ],{_json(tail, '')[1:]}\n")


def _json(value: Any, indent: str) -> str:
    return json.dumps(value, indent=1).replace("\n", f"\n{indent}")


_text = json.encoder.encode_basestring_ascii


def _json_hit(hit: Hit) -> str:
    rank, distance, id_, key, label = hit
    return (
        f'\n    {{\n     "rank": {rank},\n     "distance": {distance},\n     "id": {id_},\n'
        f'     "key": {"null" if key is None else _text(key)},\n'
        f'     "label": {"null" if label is None else _text(label)}\n    }}'
    )


def _print_table(queries: int, answers: Iterable[Answer]) -> None:
    """Writes aligned columns, with a heading per query if there are several."""
    for number, answer in enumerate(answers):
        if queries > 1:
            print(f"{chr(10) if number else ''}{console.one_line(answer.query.name)}")
        keys = [console.one_line(hit.key if hit.key is not None else f"id {hit.id}") for hit in answer.hits]
        width = max((len(key) for key in keys), default=3)
        print(f"rank  distance  {'key':<{width}}  label".rstrip())
        lines = (
            f"{hit.rank:>4}  {hit.distance:>8}  {key:<{width}}  {console.one_line(hit.label or '')}".rstrip() + "\n"
            for hit, key in zip(answer.hits, keys, strict=True)
        )
        while chunk := "".join(islice(lines, _CHUNK)):
            sys.stdout.write(chunk)


def _write_page(path: Path, database: Database, answers: list[Answer], roots: list[Path]) -> None:
    known = set(database.label_names())
    shown = []
    for answer in answers:
        image = answer.query.image
        folder = image.parent.name if isinstance(image, Path) else None
        label = folder if folder in known else None
        shown.append(gallery.Query(answer.query.name, image, label, answer.hits))
    title = f"{len(shown)} {'query' if len(shown) == 1 else 'queries'} against {len(database):,} images"
    method = str(part(part(database.manifest, "model"), "method").get("name", "")).upper()
    origin = " ".join(filter(None, (f"{database.bits}-bit", database.hash_order or method)))
    subtitle = f"{database.path.name}: {origin} codes. Badges show the Hamming distance in bits."
    missing = set[str | None]()

    def locate(key: str | None) -> Path | None:
        path = image_path(roots, key)
        if path is None:
            missing.add(key)
        return path

    with replacing(path, gallery.KIND) as out:
        out.write(gallery.page(shown, title=title, subtitle=subtitle, bits=database.bits, locate=locate).encode())
    if missing:
        console.note(f"{counted(len(missing), 'image')} of the page missing (pass their folder as --root)")
    console.note(f"wrote {path}")
