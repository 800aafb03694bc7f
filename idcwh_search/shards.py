"""Pictures inside uncompressed tar files, read where they lie, as if the archive were a folder: `shards/000.tar/1.jpg`.

The layout is WebDataset's (files of one sample share their name up to the first dot: `0001.jpg`, `0001.cls`), but any
tar file of pictures will do. An archive is scanned once, from header to header; after that a picture is one read at
its offset, from any thread.
"""

# A path stays the string it was given as (it becomes a key of the database), so this file uses os.path.
# ruff: noqa: PTH113, PTH116, PTH118, PTH119, PTH122, PTH123
from __future__ import annotations

import io
import os
import tarfile
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from .errors import IdcwhError

SUFFIX = ".tar"
_COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")
_KEPT = 64  # archives whose contents are remembered; runs go through them one after the other
_LONGEST_LABEL = 4096  # bytes of a .cls file


@dataclass(frozen=True)
class Member:
    """Where a file lies in an archive, in bytes."""

    offset: int
    size: int


Contents = dict[str, Member]
_remembered: OrderedDict[tuple[str, int, int], Contents] = OrderedDict()
_lock = threading.Lock()


def is_shard(path: str) -> bool:
    """Whether a path names an archive, by its name. IdcwhError for a compressed one, which has no offsets."""
    lower = path.lower()
    if lower.endswith(_COMPRESSED):
        raise IdcwhError(f"{path}: a compressed archive; pictures are read in place, so decompress it to a .tar first")
    return lower.endswith(SUFFIX)


def contents(path: str) -> Contents:
    """Name -> place of every regular file in the archive, in its order; of a name that comes twice, the last.

    IdcwhError for what is no tar file, or ends in the middle. OSError when it cannot be read.
    """
    status = os.stat(path)
    key = (path, status.st_size, status.st_mtime_ns)
    with _lock:
        if key in _remembered:
            _remembered.move_to_end(key)
            return _remembered[key]
    found = _scan(path, status.st_size)
    with _lock:
        _remembered[key] = found
        while len(_remembered) > _KEPT:
            _remembered.popitem(last=False)
    return found


def split(path: str | os.PathLike[str]) -> tuple[str, str] | None:
    """`a/b.tar/c/d.jpg` as ("a/b.tar", "c/d.jpg") where a/b.tar is a file; None for every other path."""
    text = os.fspath(path)
    start = 0
    while (at := text.lower().find(SUFFIX + "/", start)) >= 0:
        archive = text[: at + len(SUFFIX)]
        if os.path.isfile(archive):
            return archive, text[at + len(SUFFIX) + 1 :]
        start = at + 1
    return None


def read(path: str | os.PathLike[str]) -> io.BytesIO | None:
    """The bytes of a file in an archive; None when the path leads into none. FileNotFoundError when it is not in it."""
    place = split(path)
    if place is None:
        return None
    archive, name = place
    return io.BytesIO(_bytes(archive, _member(archive, name, os.fspath(path))))


def stat(path: str | os.PathLike[str]) -> tuple[int, ...] | None:
    """Numbers that change when a file in an archive does, or None where there is no such file."""
    place = split(path)
    if place is None:
        return None
    archive, name = place
    found = contents(archive).get(name)
    return None if found is None else (found.size, found.offset, os.stat(archive).st_mtime_ns)


def label(path: str | os.PathLike[str]) -> str | None:
    """The text of the .cls file beside a picture in an archive; None where there is none."""
    place = split(path)
    if place is None:
        return None
    archive, name = place
    folder, base = os.path.split(name)
    found = contents(archive).get(os.path.join(folder, base.split(".", 1)[0] + ".cls"))
    if found is None or found.size > _LONGEST_LABEL:
        return None
    return _bytes(archive, found).decode("utf-8", "surrogateescape").strip() or None


def names(path: str, suffixes: frozenset[str]) -> Iterator[str]:
    """The pictures of an archive by their suffix, as paths that lead into it, in its order."""
    for name in contents(path):
        if os.path.splitext(name)[1].lower() in suffixes and not os.path.basename(name).startswith("."):
            yield f"{path}/{name}"


def _scan(path: str, size: int) -> Contents:
    found: Contents = {}
    end = 0
    try:
        if size == 0:
            raise tarfile.ReadError("an empty file")
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                if member.isreg() and not member.issparse():
                    found.pop(member.name, None)
                    found[member.name] = Member(member.offset_data, member.size)
                    end = max(end, member.offset_data + member.size)
    except tarfile.TarError as error:
        raise IdcwhError(f"{path}: not a tar file, or a damaged one ({error})") from None
    if end > size:
        raise IdcwhError(f"{path}: a damaged tar file, it ends in the middle of a picture")
    return found


def _member(archive: str, name: str, path: str) -> Member:
    try:
        return contents(archive)[name]
    except KeyError:
        raise FileNotFoundError(2, "no such file in the archive", path) from None


def _bytes(archive: str, member: Member) -> bytes:
    with open(archive, "rb", buffering=0) as file:
        file.seek(member.offset)
        parts, left = [], member.size
        while left and (part := file.read(left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
