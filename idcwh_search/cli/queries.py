"""The queries of idcwh-search: images, lists of images, an image on standard input, or codes."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._util import console, npy
from ..database.database import Database
from ..database.provenance import keys_of_file, open_encoder
from ..errors import InvalidInputError, UsageError
from ..images.listing import LeftOut, find_images
from . import common
from .hits import Query

if TYPE_CHECKING:
    from ..encoder.encoder import Encoder


@dataclass
class Queries:
    """The queries of a search, and the skipped images, each with `path` and `reason`."""

    items: list[Query]
    skipped: list[dict[str, str]] = field(default_factory=list)
    left_out: LeftOut = field(default_factory=LeftOut)
    """Files in the folders of --query that are not among the queries."""


class _StandardInput(io.BytesIO):
    """An image read from standard input."""

    name = "standard input"


Image = str | _StandardInput


def read_queries(options: Any, database: Database, roots: list[Path]) -> Queries:
    """Returns the queries of the command line with their codes.

    Args:
        options: options of the command.
        database: the database.
        roots: folders to which keys may be relative.

    Raises:
        InvalidInputError: none of the query images can be read.
        UsageError: a code on the command line is invalid.
    """
    if options.code is not None:
        return _hexadecimal(options.code, database)
    if options.query_codes is not None:
        return _codes(options.query_codes, database)
    images: list[Image] = []
    left_out = []
    for source in options.query:
        if source == "-" and (image := _standard_input()) is not None:
            images.append(image)
        else:
            found = find_images(source)
            images += found.paths
            left_out.append(found.left_out)
    joined = LeftOut.joined(left_out)
    console.note_all(joined.lines())
    encoder = open_encoder(database, options.model, **common.encoder_options(options))
    if encoder.device != "cpu" or options.device != "auto":
        console.note(f"model on {encoder.device}: {encoder.why}")
    queries = _combine(encoder, images, roots) if options.combine else _encode(encoder, images, roots)
    if not queries.items:
        raise InvalidInputError(f"none of {len(images):,} query images could be read", path="--query")
    queries.left_out = joined
    return queries


def _codes(path: str, database: Database) -> Queries:
    from ..codes import check_codes, code_bytes

    codes = npy.load(Path(path), f"packed codes, uint8 (n, {code_bytes(database.bits)})")
    codes = check_codes(np.ascontiguousarray(codes), database.bits, name=path)
    return Queries([Query(f"{path}[{i}]", code) for i, code in enumerate(codes)])


def _hexadecimal(texts: list[str], database: Database) -> Queries:
    from ..hexadecimal import BYTES, InvalidHashError, from_hex

    try:
        codes = from_hex(texts, database.bits, order=database.hash_order or BYTES)
    except InvalidHashError as error:
        found, expected = error.found, error.expected
        raise UsageError(f"{error.shown} is invalid", path="--code", found=found, expected=expected) from None
    return Queries([Query(text, code) for text, code in zip(texts, codes, strict=True)])


def _standard_input() -> _StandardInput | None:
    """Returns the image on standard input, or None for other content, such as a list of paths."""
    from ..images.decoding import HEAD, kind_of

    stdin = getattr(sys.stdin, "buffer", None)
    if not isinstance(stdin, io.BufferedReader) or not kind_of(stdin.peek(HEAD)[:HEAD]):
        return None
    return _StandardInput(stdin.read())


def _encode(encoder: Encoder, images: list[Image], roots: list[Path]) -> Queries:
    """Returns one query per image."""
    from ..encoder.batch import encode_files

    queries = Queries([])
    on_skip = _skipping(queries) if len(images) > 1 else None  # a single unreadable image is an error
    with console.progress_bar(total=len(images), unit="image", desc="encoding", leave=False) as bar:
        for done, codes in encode_files(encoder, images, on_skip=on_skip):
            queries.items += [_query([images[i]], code, roots) for i, code in zip(done, codes, strict=True)]
            bar.update(len(done))
    return queries


def _combine(encoder: Encoder, images: list[Image], roots: list[Path]) -> Queries:
    """Returns one query for all images. Bit i is 1 if the mean of their logits i is >= 0."""
    from ..codes import pack_outputs
    from ..images.decoding import UnreadableImage

    queries = Queries([])
    skip = _skipping(queries)
    read, logits = [], []
    for image in images:
        try:
            pixels = encoder.pixels(image)
        except UnreadableImage as error:
            if len(images) == 1:
                raise
            skip(error.path, error.reason)
        else:
            read.append(image)
            logits.append(encoder.logits(pixels[None])[0].astype(np.float64))
    if read:
        queries.items = [_query(read, pack_outputs(np.mean(logits, axis=0)[None])[0], roots)]
    return queries


def _skipping(queries: Queries) -> Any:
    def skip(path: str | os.PathLike[str], reason: str) -> None:
        queries.skipped.append({"path": os.fspath(path), "reason": reason})
        console.note(f"skipped {os.fspath(path)}: {reason}")

    return skip


def _query(images: list[Image], code: np.ndarray, roots: list[Path]) -> Query:
    first = images[0]
    files = tuple(keys_of_file(roots, image) for image in images if isinstance(image, str))
    names = [image if isinstance(image, str) else image.name for image in images]
    return Query(" + ".join(names), code, Path(first) if isinstance(first, str) else first.getvalue(), files)
