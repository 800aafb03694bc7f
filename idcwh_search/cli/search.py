"""idcwh-search: the nearest images of a database, for query images or query codes."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import gallery
from ..database import Database, part
from ..errors import IdcwhError
from ..files import check_target, replacing
from ..image_lists import LeftOut, find_images
from ..manifest import image_path, open_encoder
from . import common

EPILOG = """examples:
  idcwh-search --db codes.bin --query photo.jpg
  idcwh-search --db codes.bin --query holiday/ --top 5 --html hits.html
  idcwh-search --db codes.bin --query photo.jpg --radius 3 --json

Prints rank, Hamming distance, key and label of each hit, ordered by (distance, id). Exit codes: 0 done, 1 failed,
2 wrong usage, 3 done but some query images could not be read."""


def parser() -> common.Parser:
    parser = common.Parser(
        prog="idcwh-search", description="Find the nearest images of a database, exactly.", epilog=EPILOG
    )
    parser.with_version()
    parser.add_argument("--db", required=True, metavar="FILE", help="the database, made by idcwh-index build")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--query", nargs="+", action="extend", metavar="IMAGE", help="images, or folders or lists of them"
    )
    source.add_argument("--query-codes", metavar="FILE.npy", help="packed codes instead: uint8 (n, ceil(bits/8))")
    parser.add_argument(
        "--top", type=common.positive, metavar="K", help="the K nearest (default 10, or all within --radius)"
    )
    parser.add_argument(
        "--radius", type=common.natural, metavar="R", help="only hits at a Hamming distance of at most R"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--html", metavar="FILE", help="also write a page with the pictures of queries and hits")
    parser.add_argument("--model", metavar="FILE", help="the model.onnx (default: the one that the database names)")
    common.add_device(parser.add_argument)
    parser.add_argument(
        "--threads", type=common.positive, metavar="N", help="threads (default: all cores given to the process)"
    )
    return parser


@dataclass
class Queries:
    """What is searched for: names, files (None for bare codes), packed codes."""

    names: list[str]
    paths: list[Path | None]
    codes: np.ndarray
    skipped: list[dict[str, str]]
    left_out: LeftOut
    """Files of the folders in --query that are not among the queries."""


@common.command
def main(argv: list[str] | None = None) -> int:
    options = parser().parse_args(argv)
    if options.html is not None:
        inputs = [options.db, options.model, options.query_codes, *(options.query or [])]
        check_target(options.html, gallery.KIND, *inputs)
    with Database.open(options.db) as database:
        queries = _codes(options, database) if options.query_codes is not None else _encode(options, database)
        results = _search(database, queries, options.top, options.radius, options.threads)
        if options.json:
            _print_json(database, queries, results)
        else:
            _print_table(database, queries, results)
        if options.html is not None:
            _write_page(Path(options.html), database, queries, results)
    return common.SKIPPED if queries.skipped or queries.left_out.skipped else common.DONE


def _codes(options: Any, database: Database) -> Queries:
    from ..codes import check_codes

    try:
        codes = np.load(options.query_codes, allow_pickle=False)
    except (ValueError, EOFError):  # numpy's words are about pickles
        width = -(-database.bits // 8)
        raise IdcwhError(
            f"{options.query_codes}: not a .npy file of plain numbers, or damaged; "
            f"expected packed codes, uint8 (n, {width}), as numpy.save writes them"
        ) from None
    if not isinstance(codes, np.ndarray):
        raise IdcwhError(f"{options.query_codes}: an archive of several arrays; expected one .npy array of codes")
    codes = np.ascontiguousarray(codes)
    check_codes(codes, database.bits, name=options.query_codes)
    return Queries(
        [f"{options.query_codes}[{i}]" for i in range(len(codes))], [None] * len(codes), codes, [], LeftOut()
    )


def _encode(options: Any, database: Database) -> Queries:
    from ..pipeline import encode_files

    lists = [find_images(source) for source in options.query]
    paths = [path for found in lists for path in found.paths]
    left_out = LeftOut.joined(found.left_out for found in lists)
    common.note_all(left_out.lines())
    wanted = {"device": options.device, "threads": options.threads, "preprocess": options.preprocess}
    encoder = open_encoder(database, options.model, **wanted)
    if encoder.device != "cpu" or options.device != "auto":
        common.note(f"model on {encoder.device}: {encoder.why}")
    skipped: list[dict[str, str]] = []

    def skip(path: str | os.PathLike[str], reason: str) -> None:
        skipped.append({"path": os.fspath(path), "reason": reason})
        common.note(f"skipped {os.fspath(path)}: {reason}")

    names: list[str] = []
    batches: list[np.ndarray] = []
    with common.progress_bar(total=len(paths), unit="image", desc="encoding", leave=False) as bar:
        for done, codes in encode_files(encoder, paths, on_skip=skip):
            names += [paths[i] for i in done]
            batches.append(codes)
            bar.update(len(done))
    if not batches:
        raise IdcwhError(f"none of the {len(paths)} query images could be read")
    return Queries(names, [Path(name) for name in names], np.concatenate(batches), skipped, left_out)


Results = list[list[tuple[int, int]]]
"""For each query its hits, (distance, id), in order."""


def _search(database: Database, queries: Queries, top: int | None, radius: int | None, threads: int | None) -> Results:
    if radius is None:
        distances, ids = database.search(queries.codes, top or 10, threads=threads)
        return [list(zip(d.tolist(), i.tolist(), strict=True)) for d, i in zip(distances, ids, strict=True)]
    limits, distances, ids = database.range_search(queries.codes, min(radius, database.bits), threads=threads)
    found = list(zip(distances.tolist(), ids.tolist(), strict=True))
    return [found[a:b][:top] for a, b in zip(limits[:-1].tolist(), limits[1:].tolist(), strict=True)]


def _print_json(database: Database, queries: Queries, results: Results) -> None:
    def hits(result: list[tuple[int, int]]) -> list[dict[str, Any]]:
        ids = [number for _, number in result]
        columns = zip(result, database.keys(ids), database.labels(ids), strict=True)
        return [
            {"rank": rank, "distance": distance, "id": number, "key": key, "label": label}
            for rank, ((distance, number), key, label) in enumerate(columns, 1)
        ]

    found = [{"query": name, "hits": hits(result)} for name, result in zip(queries.names, results, strict=True)]
    content = {
        "database": str(database.path),
        "bits": database.bits,
        "queries": found,
        "skipped": queries.skipped,
        "left_out": queries.left_out.to_dict(),
    }
    json.dump(content, sys.stdout, indent=1)
    print()


def _print_table(database: Database, queries: Queries, results: Results) -> None:
    """Aligned columns; with several queries a line that names each."""
    for number, (name, result) in enumerate(zip(queries.names, results, strict=True)):
        if len(queries.names) > 1:
            print(f"{chr(10) if number else ''}{common.one_line(name)}")
        ids = [id_ for _, id_ in result]
        keys = [
            common.one_line(key if key is not None else f"id {id_}")
            for key, id_ in zip(database.keys(ids), ids, strict=True)
        ]
        width = max((len(key) for key in keys), default=3)
        print(f"rank  distance  {'key':<{width}}  label".rstrip())
        for rank, ((distance, _), key, label) in enumerate(zip(result, keys, database.labels(ids), strict=True), 1):
            print(f"{rank:>4}  {distance:>8}  {key:<{width}}  {common.one_line(label or '')}".rstrip())


def _write_page(path: Path, database: Database, queries: Queries, results: Results) -> None:
    known = set(database.label_names())
    shown = []
    for name, file, result in zip(queries.names, queries.paths, results, strict=True):
        ids = [id_ for _, id_ in result]
        columns = zip(result, database.keys(ids), database.labels(ids), strict=True)
        hits = [
            gallery.Hit(rank, distance, id_, key, label, image_path(database, key))
            for rank, ((distance, id_), key, label) in enumerate(columns, 1)
        ]
        folder = file.parent.name if file is not None else None
        shown.append(gallery.Query(name, file, folder if folder in known else None, hits))
    title = f"{len(shown)} {'query' if len(shown) == 1 else 'queries'} against {len(database):,} images"
    method = str(part(part(database.manifest, "model"), "method").get("name", "")).upper()
    subtitle = f"{database.path.name}: {database.bits}-bit codes {method}; on each picture its Hamming distance"
    with replacing(path, gallery.KIND) as out:
        out.write(gallery.page(shown, title=title, subtitle=subtitle, bits=database.bits).encode())
    common.note(f"wrote {path}")
