"""Listing of images in a folder, a file, a list of paths, standard input or a tar file, shared by all commands.

All commands see the same images under the same keys, and report the same files as left out. Nothing is decoded here.
tar.py reads tar files.
"""

# Paths stay strings, because they become keys of the database. So this file uses os.path.
# ruff: noqa: PTH110, PTH112, PTH114, PTH116, PTH118, PTH119, PTH120, PTH122, PTH123
from __future__ import annotations

import codecs
import errno
import os
import re
import stat
import sys
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from .._util.text_files import check_text
from .._util.wording import counted
from ..errors import InvalidInputError, NotFoundError, NotSupportedError
from . import tar
from .decoding import HEAD, HEIF_SUFFIXES, heif_installed, kind_of

SUFFIXES = frozenset(
    f".{name}"
    for name in (
        *("jpg", "jpeg", "jpe", "jfif", "png", "apng", "webp", "avif", "gif", "bmp", "dib"),
        *("tif", "tiff", "jp2", "j2k", "ppm", "pgm", "pbm", "pnm", "tga", "ico"),
    )
)
"""Suffixes of image files, in any case. HEIF_SUFFIXES are added if pillow-heif is installed."""

_UNSUPPORTED = HEIF_SUFFIXES | frozenset(
    f".{name}"
    for name in (
        *("jxl", "jxr", "psd", "psb", "xcf", "exr", "hdr", "dds", "pcx", "svg", "svgz"),
        *("dng", "raw", "cr2", "cr3", "crw", "nef", "nrw", "arw", "sr2", "srf", "orf", "rw2", "rwl", "raf", "pef"),
        *("srw", "3fr", "fff", "iiq", "x3f", "erf", "mrw", "mef", "mos", "kdc", "dcr", "gpr"),
    )
)
"""Suffixes of image types that are not supported. Such files are skipped and reported."""

SPLIT_FOLDERS = frozenset({"train", "test", "val", "valid", "validation"})
"""Names of folders, in any case, that are parts of a dataset and not classes."""

SYSTEM_FOLDERS = frozenset({"__MACOSX", "@eaDir", "lost+found", "$RECYCLE.BIN", "System Volume Information"})
"""Names of folders that archivers and operating systems add. They are ignored."""

_NAMED = 8  # types per line of text

_EXPECTED = "a folder of images, an image, or a text file that lists images"

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


@dataclass(frozen=True, slots=True)
class ImageRef:
    """One image of a list.

    Attributes:
        path: path for preprocess.load_image.
        key: path relative to the root of the list.
        member: name in the tar file, or None for an image outside of tar files.
    """

    path: str
    key: str
    member: str | None = None

    def label(self, *, inside: bool, parts: frozenset[str] = SPLIT_FOLDERS) -> str | None:
        """Returns the label of the image from its location, or None.

        The label of a member of a tar file is the text of its .cls file, otherwise its first folder in the archive.
        Without these, and for any other image, it is the first folder in the key of the file.

        Args:
            inside: True if the key is relative to a listed folder, so that its first folder may be the label.
            parts: names of folders that are not labels.
        """
        found = None
        if self.member is not None:
            found = tar.label(self.path) or _first_folder(self.member, parts)
        return _first_folder(self.outer, parts) if found is None and inside else found

    @property
    def outer(self) -> str:
        """Key of the file; for a member of a tar file that of the tar file."""
        return self.key if self.member is None else self.key[: -len(self.member) - 1]


def _first_folder(path: str, parts: frozenset[str]) -> str | None:
    folders = path.split("/")[:-1]
    return next((name for name in folders if name.lower() not in parts and name not in ("..", ".", "")), None)


@dataclass
class LeftOut:
    """The files of a folder or tar file that are not in its list of images.

    Attributes:
        skipped: (key, type) of images of an unsupported type, and of compressed archives.
        links: (key, other key) of links to images or folders that are listed under another key.
        others: suffix -> number of other files.
    """

    skipped: list[tuple[str, str]] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)

    @classmethod
    def joined(cls, several: Iterable[LeftOut]) -> LeftOut:
        """Returns the sum of several."""
        found = cls()
        for one in several:
            found.skipped += one.skipped
            found.links += one.links
            found.others += one.others
        return found

    def lines(self) -> list[str]:
        """Returns messages about the files, one line each."""
        found = []
        if self.skipped:
            types = Counter(kind for _, kind in self.skipped)
            hint = "; pip install pillow-heif to read .heic" if not HEIF_SUFFIXES.isdisjoint(types) else ""
            hint += "; decompress archives to .tar" if any(map(tar.compressed_suffix, types)) else ""
            found.append(
                f"skipped {counted(len(self.skipped), 'file')} of unsupported types: {_counts(types)} "
                f"(first: {self.skipped[0][0]}){hint}"
            )
        if self.links:
            link, key = self.links[0]
            found.append(
                f"skipped {counted(len(self.links), 'link')} to listed files or folders (first: {link} to {key or '.'})"
            )
        if self.others:
            found.append(f"ignored other files: {_counts(self.others)}")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Returns the counts as plain Python for JSON."""
        return {
            "skipped": dict(Counter(kind for _, kind in self.skipped)),
            "links": len(self.links),
            "others": dict(self.others),
        }


def _counts(types: Counter[str]) -> str:
    named = [f"{number:,} {kind}" for kind, number in types.most_common(_NAMED)]
    rest = len(types) - _NAMED
    return ", ".join(named) + (f" and {counted(rest, 'more type')}" if rest > 0 else "")


@dataclass(frozen=True)
class ImageList:
    """A list of images in order, and the files left out of it. Keys are relative to the folder `root`."""

    root: str
    images: list[ImageRef]
    left_out: LeftOut = field(default_factory=LeftOut)

    @property
    def paths(self) -> list[str]:
        """Paths of the images."""
        return [image.path for image in self.images]


def list_images(source: str | os.PathLike[str]) -> list[str]:
    """Returns the paths of the images of `source`, in the order of `find_images`."""
    return find_images(source).paths


def find_images(source: str | os.PathLike[str]) -> ImageList:
    """Returns the images of `source`, which is one of these:

    - A folder. Every file below it with a suffix in SUFFIXES is listed, sorted by path components. Hidden files and
      SYSTEM_FOLDERS are ignored. Links are followed, but each folder and each file is listed once, if possible under
      its own name.
    - A .tar file, also within a folder or a list. The images in it are listed in its order (tar.py).
    - A file with the signature of an image, whatever its suffix.
    - Any other file, or "-" for standard input: a list with one path per line. Paths are relative to the folder of the
      list, or to the current folder for standard input. Empty lines are ignored.

    A file that cannot be decoded, such as a link in an archive, is an error only when it is read.

    Raises:
        NotFoundError: the path is missing.
        InvalidInputError: there are no images, or a list is not text.
        NotSupportedError: a path is a URL or a compressed archive.
        CorruptFileError: a tar file is corrupt.
        OSError: a folder cannot be read, so that its images would be missing.
    """
    text = os.fspath(source)
    if not text:
        raise InvalidInputError("path of the images is missing", expected=_EXPECTED)
    _check_no_url(text, text)
    if text == "-":
        # sys.stdin is None if standard input is closed.
        lines = _lines(sys.stdin.buffer, "", "standard input") if sys.stdin else []
        return _listed(lines, "", "standard input")
    if os.path.isdir(text):
        return _some(expanded(walk(text)), text, f"files with the suffixes {' '.join(sorted(suffixes()))}")
    root = os.path.dirname(text)
    if place := tar.split(text):
        root = os.path.dirname(place[0])
        return ImageList(root, [ImageRef(text, tar.relative(text, root or "."), place[1])])
    if not os.path.exists(text):
        raise NotFoundError(path=text, expected=_EXPECTED)
    if _suffix(text) in suffixes():
        return ImageList(root, [ImageRef(text, os.path.basename(text))])
    if tar.is_shard(text):
        return _listed([text], root, text)
    with open(text, "rb") as file:
        if kind_of(file.peek(HEAD)[:HEAD]):  # an image with another suffix or none, or of an unsupported type
            return ImageList(root, [ImageRef(text, os.path.basename(text))])
        if _suffix(text) in _UNSUPPORTED:
            raise NotSupportedError(
                f"{_suffix(text)} images are not supported", path=text, hint="convert it to JPEG or PNG first"
            )
        check_text(file.peek(8192)[:8192], text, "an image, or a UTF-8 text file that lists images")
        return _listed(_lines(file, root, text), root, text)


def suffixes() -> frozenset[str]:
    """Returns the suffixes of image files on this machine, in lower case."""
    return SUFFIXES | HEIF_SUFFIXES if heif_installed() else SUFFIXES


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def _some(found: ImageList, source: str, expected: str) -> ImageList:
    """Returns the list. Raises InvalidInputError with the files left out if it is empty."""
    if not found.images:
        raise InvalidInputError(
            "has no images", path=source, expected=expected, hint="; ".join(found.left_out.lines()) or None
        )
    return found


def _listed(paths: list[str], root: str, source: str) -> ImageList:
    """Returns the images of listed paths, with tar files replaced by the images in them."""
    found = expanded(ImageList(root, [ImageRef(path, tar.relative(path, root or ".")) for path in paths]))
    return _some(found, source, "images in the archive" if paths else "one path per line")


def _lines(file: IO[bytes], folder: str, name: str) -> list[str]:
    found = []
    for number, line in enumerate(file, 1):
        place = f"{name}:{number}"
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)  # Windows editors add it
        if number == 1 or b"\0" in line:
            check_text(line, place, "UTF-8 text with one path per line, as find without -print0 writes it")
        text = os.fsdecode(line.rstrip(b"\r\n"))
        if not text.strip():
            continue
        _check_no_url(text, place)
        found.append(os.path.join(folder, text))
    return found


def _check_no_url(text: str, place: str) -> None:
    if _URL.match(text):
        raise NotSupportedError(
            "URLs are not supported",
            path=place,
            found=text if text != place else None,
            hint="download the images and give their folder",
        )


# ---------------------------------------------------------------------------------------------------------- tar files


def expanded(found: ImageList) -> ImageList:
    """Returns the list with each tar file replaced by the images in it."""
    left_out = found.left_out
    images: list[ImageRef] = []
    for image in found.images:
        if image.member is not None or not tar.is_shard(image.path):
            images.append(image)
            continue
        for name in tar.contents(image.path):
            ref = ImageRef(f"{image.path}/{name}", f"{image.key}/{name}", name)
            if not _is_ignored(name) and _takes(ref, left_out):
                images.append(ref)
    return ImageList(found.root, images, left_out)


def _is_ignored(name: str) -> bool:
    """Returns True for a member that is hidden, in one of SYSTEM_FOLDERS, or a label file."""
    *folders, base = name.split("/")
    hidden = base.startswith(".") or any(part.startswith(".") and part != ".." for part in folders)
    return hidden or not SYSTEM_FOLDERS.isdisjoint(folders) or base.endswith(".cls")


# ------------------------------------------------------------------------------------------------------------ folders


def walk(top: str, folders: Sequence[str] = ()) -> ImageList:
    """Returns the images and tar files below a folder. Tar files are not `expanded`.

    Args:
        top: the folder.
        folders: folders in `top` to search; by default everything in `top`.

    Raises:
        OSError: a folder cannot be read.
    """
    left_out, found, links = LeftOut(), list[ImageRef](), set[str]()
    visited: dict[tuple[int, int], str] = {}
    # Folders to visit. Links come last, so that a folder is listed under its own name if that is below `top`.
    direct, linked = list[str](), deque[str]()
    for folder in reversed(folders or [""]):
        (linked if folder and os.path.islink(os.path.join(top, folder)) else direct).append(folder)
    while direct or linked:
        folder = direct.pop() if direct else linked.popleft()
        path = os.path.join(top, folder) if folder else top
        status = os.stat(path)
        before = visited.setdefault((status.st_dev, status.st_ino), folder)
        if before != folder:  # a link to a parent folder, or a second path to the same folder
            left_out.links.append((folder, before))
            continue
        with os.scandir(path) as entries:
            named = sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda one: one.name)
        below: list[str] = []
        for entry in named:
            key = f"{folder}/{entry.name}" if folder else entry.name
            if _is_folder(entry):
                if entry.name not in SYSTEM_FOLDERS:
                    (linked if entry.is_symlink() else below).append(key)
                continue
            ref = ImageRef(os.path.join(top, key), key)
            if _takes(ref, left_out):
                found.append(ref)
                if entry.is_symlink():
                    links.add(key)
        direct += reversed(below)
    found.sort(key=lambda image: image.key.split("/"))
    left_out.skipped.sort(key=lambda one: one[0].split("/"))
    return ImageList(top, _once(found, links, left_out), left_out)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno == errno.ELOOP:  # a link to itself
            return False
        raise


def _once(found: list[ImageRef], links: set[str], left_out: LeftOut) -> list[ImageRef]:
    """Returns each file once. Links to files listed under their own name or by an earlier link are left out."""
    if not links:
        return found
    identity = [_identity(image.path) for image in found]
    listed = {file: image.key for file, image in zip(identity, found, strict=True) if image.key not in links}
    kept = []
    for file, image in zip(identity, found, strict=True):
        if image.key in links and file is not None:
            before = listed.setdefault(file, image.key)
            if before != image.key:
                left_out.links.append((image.key, before))
                continue
        kept.append(image)
    return kept


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:  # a broken link, which is reported when it is read
        return None
    return status.st_dev, status.st_ino


def _takes(image: ImageRef, left_out: LeftOut) -> bool:
    """Returns True for an image or an archive of images. Any other file is counted in `left_out`."""
    suffix = _suffix(image.path)
    if suffix in suffixes():
        return True
    if suffix == tar.SUFFIX and image.member is None:
        return True
    if suffix in _UNSUPPORTED:
        left_out.skipped.append((image.key, suffix))
    elif image.member is None and (compressed := tar.compressed_suffix(image.path)):
        left_out.skipped.append((image.key, compressed))
    elif not suffix and (kind := kind_of(_head(image))) and kind != "PDF":
        left_out.skipped.append((image.key, f"{kind} without a suffix"))
    else:
        left_out.others[suffix or "without a suffix"] += 1
    return False


def _head(image: ImageRef) -> bytes:
    """Returns the first HEAD bytes of a file, or b"" if it cannot be read."""
    if image.member is not None:
        return tar.head(image.path, HEAD)
    try:
        if not stat.S_ISREG(os.stat(image.path).st_mode):  # opening a named pipe would block
            return b""
        with open(image.path, "rb", buffering=0) as file:
            return file.read(HEAD)
    except OSError:
        return b""
