"""Reading of images in uncompressed tar files in place, by paths such as `shards/000.tar/1.jpg`.

Every tar file of images is accepted. Labels are read from the layout of WebDataset, where files of one sample share
their name up to the first dot (`0001.jpg`, `0001.cls`). An archive is scanned once, from header to header. After that
any thread reads an image by one read at its offset.

Names are those of the unpacked files, so `./a//b.jpg` and `/a/b.jpg` are both a/b.jpg. Links are not followed, because
archives of WebDataset have none.
"""

# Paths stay strings, because they become keys of the database. So this file uses os.path.
# ruff: noqa: PTH113, PTH116, PTH118, PTH122, PTH123
from __future__ import annotations

import errno
import io
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from ..errors import CorruptFileError, NotSupportedError

if TYPE_CHECKING:
    import tarfile

SUFFIX = ".tar"
_COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")
_KEPT = 64  # archives whose contents are cached; commands read archives one after the other
_LONGEST_LABEL = 4096  # most bytes of a .cls file


@dataclass(frozen=True)
class Member:
    """Offset and size of a file in an archive, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True)
class Unreadable:
    """A member of an archive that cannot be read in place, with the reason."""

    reason: str


Contents = dict[str, Member | Unreadable]


def compressed_suffix(path: str) -> str | None:
    """Returns the suffix of a compressed archive, which cannot be read in place, or None for other paths."""
    return next((suffix for suffix in _COMPRESSED if path.lower().endswith(suffix)), None)


def is_shard(path: str) -> bool:
    """Returns True if the suffix of a path is that of an archive. Raises NotSupportedError for a compressed one."""
    if suffix := compressed_suffix(path):
        raise NotSupportedError(path=path, found=suffix, expected=SUFFIX, hint="decompress it to .tar")
    return path.lower().endswith(SUFFIX)


def contents(path: str) -> Contents:
    """Returns the members of an archive in its order: name -> member. Folders are left out.

    The last of several members with one name counts. Members that cannot be read in place, such as links, are included
    as `Unreadable`, so that they are reported as skipped.

    Raises:
        CorruptFileError: the file is not a tar file, or is truncated.
        OSError: the file cannot be read.
    """
    status = os.stat(path)
    return _scan(path, status.st_size, status.st_mtime_ns)


def split(path: str | os.PathLike[str]) -> tuple[str, str] | None:
    """Returns ("a/b.tar", "c/d.jpg") for `a/b.tar/c/d.jpg` if a/b.tar is a file; None for any other path.

    The name in the archive is normalised, as in `contents`.
    """
    text = os.fspath(path)
    start = 0
    while (at := text.lower().find(SUFFIX + "/", start)) >= 0:
        archive = text[: at + len(SUFFIX)]
        if os.path.isfile(archive):
            return archive, _normal(text[at + len(SUFFIX) + 1 :])
        start = at + 1
    return None


def relative(path: str, root: str | os.PathLike[str]) -> str:
    """Returns the path relative to a folder. The name within an archive stays unchanged."""
    place = split(path)
    return os.path.relpath(path, root) if place is None else f"{os.path.relpath(place[0], root)}/{place[1]}"


def read(path: str | os.PathLike[str]) -> io.BytesIO | None:
    """Returns the bytes of a file in an archive, or None if the path does not lead into one.

    Raises FileNotFoundError if the archive has no such file, another OSError if it cannot be read in place.
    """
    archive, found = _find(path)
    if archive is None:
        return None
    if isinstance(found, Member):
        return io.BytesIO(_bytes(archive, found))
    if found is None:
        raise FileNotFoundError(errno.ENOENT, "no such file in the archive", os.fspath(path))
    raise OSError(errno.EOPNOTSUPP, found.reason, os.fspath(path))


def exists(path: str | os.PathLike[str]) -> bool:
    """Returns True if a path leads to a member of an archive, readable or not."""
    return _find(path)[1] is not None


def stat(path: str | os.PathLike[str]) -> tuple[int, ...] | None:
    """Returns size, offset and mtime of a file in an archive, or None if there is no such file."""
    archive, found = _find(path)
    if archive is None or not isinstance(found, Member):
        return None
    return found.size, found.offset, os.stat(archive).st_mtime_ns


def label(path: str | os.PathLike[str]) -> str | None:
    """Returns the text of the .cls file beside an image in an archive, or None without one.

    The file of `22.05.png` is `22.05.cls` or `22.cls`. WebDataset uses the name up to the first dot, and other writers
    the name up to the last.
    """
    place = split(path)
    if place is None:
        return None
    archive, name = place
    folder, base = os.path.split(name)
    for stem in dict.fromkeys((os.path.splitext(base)[0], base.split(".", 1)[0])):
        found = contents(archive).get(os.path.join(folder, f"{stem}.cls"))
        if isinstance(found, Member) and found.size <= _LONGEST_LABEL:
            return _bytes(archive, found).decode("utf-8", "surrogateescape").strip() or None
    return None


def head(path: str, size: int) -> bytes:
    """Returns the first `size` bytes of a file in an archive, or b"" if it cannot be read in place."""
    archive, found = _find(path)
    if archive is None or not isinstance(found, Member):
        return b""
    return _bytes(archive, Member(found.offset, min(size, found.size)))


def _find(path: str | os.PathLike[str]) -> tuple[str | None, Member | Unreadable | None]:
    """Returns the archive in a path and the member there. Each is None if it does not exist."""
    place = split(path)
    return (None, None) if place is None else (place[0], contents(place[0]).get(place[1]))


@lru_cache(_KEPT)
def _scan(path: str, size: int, mtime_ns: int) -> Contents:
    """Returns the members of an archive. The cached result is used until size or mtime of the archive change."""
    import tarfile  # a slow import, needed for tar files only

    found: Contents = {}
    end = 0
    try:
        if size == 0:
            raise tarfile.ReadError("an empty file")
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                name = _normal(member.name)
                found.pop(name, None)
                if not member.isdir():
                    found[name] = _entry(member, name)
                if member.isreg() and not member.issparse():
                    end = max(end, member.offset_data + member.size)
            # tarfile treats a corrupt header as the end of the archive, but a real end is zeros.
            assert archive.fileobj is not None
            archive.fileobj.seek(archive.offset)
            if archive.fileobj.read(tarfile.BLOCKSIZE).strip(b"\0"):
                raise tarfile.ReadError(f"no header at byte {archive.offset}")
    except tarfile.TarError as error:
        raise CorruptFileError(f"is corrupt: {error}", path=path, expected="a tar file") from None
    if end > size:
        raise CorruptFileError(path=path, found=f"{size} bytes", expected=f"at least {end}")
    return found


def _normal(name: str) -> str:
    """Returns the path of an unpacked file relative to the folder of unpacking. A leading / is removed."""
    return os.path.normpath(name.lstrip("/"))


def _entry(member: tarfile.TarInfo, name: str) -> Member | Unreadable:
    """Returns offset and size of a member, or the reason why it cannot be read in place."""
    if name.split("/", 1)[0] == "..":
        return Unreadable("a path outside the archive")
    if member.islnk() or member.issym():
        return Unreadable(f"a link to {member.linkname!r}; write the archive with --dereference --hard-dereference")
    if member.issparse():
        return Unreadable("a sparse file; write the archive without --sparse")
    return Member(member.offset_data, member.size) if member.isreg() else Unreadable("not a regular file")


def _bytes(archive: str, member: Member) -> bytes:
    with open(archive, "rb", buffering=0) as file:
        file.seek(member.offset)
        parts, left = [], member.size
        while left and (part := file.read(left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
