"""Which images a name stands for: a folder, a file, a list of paths, standard input, a tar file."""

# A path stays the string it was given as (it becomes a key of the database), so this file uses os.path.
# ruff: noqa: PTH116, PTH118, PTH120, PTH122, PTH206
from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from . import shards
from .errors import IdcwhError

SUFFIXES = frozenset(
    f".{name}"
    for name in (
        *("jpg", "jpeg", "jpe", "jfif", "png", "apng", "webp", "avif", "gif", "bmp", "dib"),
        *("tif", "tiff", "jp2", "j2k", "ppm", "pgm", "pbm", "pnm", "tga", "ico"),
    )
)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def list_images(source: str | os.PathLike[str]) -> list[str]:
    """The image files that `source` stands for, as paths that can be opened.

    A folder: every file below it with a suffix in SUFFIXES (any case), sorted by path, component by component; names
    that begin with a dot are passed over, links to folders are followed, each folder once. A file with such a suffix:
    that file. A .tar file, given, listed or below a folder: the pictures in it, in its order (shards.py). Any other
    file, or "-" for standard input: a list, one path a line, relative to the list's folder (standard input: to the
    current one), in the order of the list; empty lines are passed over. Whether a file can be decoded, or a link in an
    archive leads anywhere, shows only when it is read. Nothing found, a URL, a compressed archive, or a damaged
    tar file is an IdcwhError.
    """
    text = os.fspath(source)
    _refuse_url(text, "")
    if text == "-":
        lines = _lines(sys.stdin.buffer, "") if sys.stdin else []  # None where standard input is closed
        return _some(lines, "standard input names no images; expected one path a line")
    path = Path(text)
    if path.is_dir():
        found = list(_expanded(sorted(_walk(text), key=lambda name: name.split(os.sep))))
        return _some(found, f"{text}: no images in this folder or below it (looked for {' '.join(sorted(SUFFIXES))})")
    if shards.split(text):
        return [text]
    if not path.exists():
        raise IdcwhError(f"{text}: not found; expected a folder of images, an image, or a text file that lists images")
    if path.suffix.lower() in SUFFIXES:
        return [text]
    if shards.is_shard(text):
        return _some(list(_expanded([text])), f"{text}: no images in this archive")
    with path.open("rb") as file:
        if b"\0" in file.peek(8192)[:8192]:
            raise IdcwhError(f"{text}: neither an image, by its suffix, nor a text file that lists images")
        return _some(_lines(file, os.path.dirname(text)), f"{text}: the list names no images; expected one path a line")


def _some(found: list[str], complaint: str) -> list[str]:
    if not found:
        raise IdcwhError(complaint)
    return found


def _lines(file: IO[bytes], folder: str) -> list[str]:
    found = []
    for number, line in enumerate(file, 1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)  # Windows editors put it in front
        if b"\0" in line:
            raise IdcwhError(f"line {number}: a NUL byte; expected UTF-8 text, one path a line (find -print0 has none)")
        text = os.fsdecode(line.rstrip(b"\r\n"))
        if not text.strip():
            continue
        _refuse_url(text, f"line {number}: ")
        path = os.path.join(folder, text)
        found.append(path)
    return list(_expanded(found))


def _expanded(paths: Iterable[str]) -> Iterator[str]:
    """Each archive replaced by what is in it."""
    for path in paths:
        if shards.is_shard(path):
            yield from shards.names(path, SUFFIXES)
        else:
            yield path


def _refuse_url(text: str, where: str) -> None:
    if _URL.match(text):
        raise IdcwhError(f"{where}{text}: nothing is downloaded; fetch the images first and give their folder")


def _walk(top: str) -> Iterator[str]:
    seen: set[tuple[int, int]] = set()
    for folder, below, files in os.walk(top, onerror=_raise, followlinks=True):
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in seen:  # a link back up, or a second way to the same folder
            below.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in files:
            if name.startswith("."):
                continue
            if os.path.splitext(name)[1].lower() in SUFFIXES or shards.is_shard(os.path.join(folder, name)):
                yield os.path.join(folder, name)


def _raise(error: OSError) -> None:
    """A folder that cannot be read is an error: images would be missing and nobody would know."""
    raise error
