"""Finds the images of a folder, a file, a list of paths, standard input or a tar file: the one lister of all commands.

Training, evaluation, export checks, indexing and search see the same images under the same names, and report what was
left out. Nothing is decoded here: decoding.py and preprocess.py make pixels of a file, tar.py reads tar files.
"""

# A path stays the string it was given as (it becomes a key of the database), so this file uses os.path.
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
"""Files with these suffixes, in any case, are images. With pillow-heif installed HEIF_SUFFIXES are, too."""

_UNSUPPORTED = HEIF_SUFFIXES | frozenset(
    f".{name}"
    for name in (
        *("jxl", "jxr", "psd", "psb", "xcf", "exr", "hdr", "dds", "pcx", "svg", "svgz"),
        *("dng", "raw", "cr2", "cr3", "crw", "nef", "nrw", "arw", "sr2", "srf", "orf", "rw2", "rwl", "raf", "pef"),
        *("srw", "3fr", "fff", "iiq", "x3f", "erf", "mrw", "mef", "mos", "kdc", "dcr", "gpr"),
    )
)
"""Image types that are not decoded: files with these suffixes are skipped inputs."""

SPLIT_FOLDERS = frozenset({"train", "test", "val", "valid", "validation"})
"""Folders of these names, in any case, are parts of a dataset, not classes."""

SYSTEM_FOLDERS = frozenset({"__MACOSX", "@eaDir", "lost+found", "$RECYCLE.BIN", "System Volume Information"})
"""Folders that archivers and operating systems add; nothing below them is an image of the user's."""

_NAMED = 8  # types that a line of text names

_EXPECTED = "a folder of images, an image, or a text file that lists images"

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


@dataclass(frozen=True, slots=True)
class ImageRef:
    """One image: `path` opens it (preprocess.load_image), `key` names it relative to the root of its list.

    member: its name in the tar file, None for an image that is a file of its own.
    """

    path: str
    key: str
    member: str | None = None

    def label(self, *, inside: bool, parts: frozenset[str] = SPLIT_FOLDERS) -> str | None:
        """Returns the label that the place of the image gives it, or None.

        For a member of a tar file: the text of its .cls file, else its first folder in the archive. Then, if the key
        is a path `inside` a listed folder, its first folder there. Folders called like one of `parts` do not count.
        """
        found = None
        if self.member is not None:
            found = tar.label(self.path) or _first_folder(self.member, parts)
        return _first_folder(self.outer, parts) if found is None and inside else found

    @property
    def outer(self) -> str:
        """The key of the file itself: of the tar file for a member."""
        return self.key if self.member is None else self.key[: -len(self.member) - 1]


def _first_folder(path: str, parts: frozenset[str]) -> str | None:
    folders = path.split("/")[:-1]
    return next((name for name in folders if name.lower() not in parts and name not in ("..", ".", "")), None)


@dataclass
class LeftOut:
    """The files of a folder or tar file that are not in its list of images.

    skipped: keys and types of files that are images, but of a type that is not decoded, and of archives that cannot be
             read in place
    links:   keys of links to images or folders that are listed under another key, and that key
    others:  number of other files, by suffix
    """

    skipped: list[tuple[str, str]] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)

    @classmethod
    def joined(cls, several: Iterable[LeftOut]) -> LeftOut:
        """Returns what several lists left out."""
        found = cls()
        for one in several:
            found.skipped += one.skipped
            found.links += one.links
            found.others += one.others
        return found

    def lines(self) -> list[str]:
        """Returns the messages for people, one line each."""
        found = []
        if self.skipped:
            types = Counter(kind for _, kind in self.skipped)
            hint = "; pip install pillow-heif to read .heic" if not HEIF_SUFFIXES.isdisjoint(types) else ""
            hint += "; decompress archives to .tar" if any(map(tar.compressed_suffix, types)) else ""
            found.append(
                f"skipped {counted(len(self.skipped), 'file')} of types that are not read: {_counts(types)} "
                f"(the first: {self.skipped[0][0]}){hint}"
            )
        if self.links:
            link, key = self.links[0]
            found.append(f"not listed twice: {counted(len(self.links), 'link')} (the first: {link} is {key or '.'})")
        if self.others:
            found.append(f"ignored other files: {_counts(self.others)}")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Returns the counts in plain Python, for JSON."""
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
    """The images that were found, in order, and the files left out. Keys are relative to the folder `root`."""

    root: str
    images: list[ImageRef]
    left_out: LeftOut = field(default_factory=LeftOut)

    @property
    def paths(self) -> list[str]:
        """The path of each image."""
        return [image.path for image in self.images]


def list_images(source: str | os.PathLike[str]) -> list[str]:
    """Returns the paths of the images of `source`, in the order of `find_images`."""
    return find_images(source).paths


def find_images(source: str | os.PathLike[str]) -> ImageList:
    """Returns the images that `source` stands for.

    A folder: every file below it with a suffix in SUFFIXES (any case), sorted by path, component by component. Names
    that begin with a dot and folders of the operating system are ignored. Links are followed, but each folder and each
    file is listed once, under its own name where it has one. A .tar file, given, listed or below a folder: the images
    in it, in its order (tar.py). A file that begins like an image, whatever its suffix: that image. Any other file,
    or "-" for standard input: a list, one path per line, relative to the list's folder (standard input: to the current
    one), in the order of the list; empty lines are ignored.

    A file that cannot be decoded, such as a link in an archive, is an error only when it is read. Raises IdcwhError
    for no images, a URL, a compressed archive that is given or listed, and a corrupt tar file; OSError for a folder
    that cannot be read, since its images would be missing.
    """
    text = os.fspath(source)
    if not text:
        raise InvalidInputError("the path of the images is empty", expected=_EXPECTED)
    _check_no_url(text, text)
    if text == "-":
        # sys.stdin is None where standard input is closed
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
        if kind_of(file.peek(HEAD)[:HEAD]):  # an image without a suffix, with another one, or of an unsupported type
            return ImageList(root, [ImageRef(text, os.path.basename(text))])
        if _suffix(text) in _UNSUPPORTED:
            raise NotSupportedError(
                f"{_suffix(text)} images are not supported", path=text, hint="convert it to JPEG or PNG first"
            )
        check_text(file.peek(8192)[:8192], text, "an image, or a UTF-8 text file that lists images")
        return _listed(_lines(file, root, text), root, text)


def check_text(head: bytes, path: str | os.PathLike[str], expected: str) -> None:
    """Raises InvalidInputError if a file begins like UTF-16 or a binary file, and not like UTF-8 text."""
    utf16 = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if utf16 or b"\0" in head:
        raise InvalidInputError(
            "is not UTF-8 text",
            path=path,
            found="UTF-16 text" if utf16 else "a NUL byte",
            expected=expected,
            hint="save it as UTF-8" if utf16 else None,
        )


def suffixes() -> frozenset[str]:
    """Returns the suffixes of the files that are listed as images here, in lower case."""
    return SUFFIXES | HEIF_SUFFIXES if heif_installed() else SUFFIXES


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def _some(found: ImageList, source: str, expected: str) -> ImageList:
    """Returns the list, or raises InvalidInputError if it is empty, with what was left out."""
    if not found.images:
        raise InvalidInputError(
            "has no images", path=source, expected=expected, hint="; ".join(found.left_out.lines()) or None
        )
    return found


def _listed(paths: list[str], root: str, source: str) -> ImageList:
    """Returns the images of listed paths, whose tar files are replaced by the images in them."""
    found = expanded(ImageList(root, [ImageRef(path, tar.relative(path, root or ".")) for path in paths]))
    return _some(found, source, "images in the archive" if paths else "one path per line")


def _lines(file: IO[bytes], folder: str, name: str) -> list[str]:
    found = []
    for number, line in enumerate(file, 1):
        place = f"{name}:{number}"
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)  # Windows editors put it in front
        if number == 1 or b"\0" in line:
            check_text(line, place, "one path per line, as find without -print0 writes them")
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
            hint="download the images first and give their folder",
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
    """Returns whether a member is hidden, in a folder of the system, or a label."""
    *folders, base = name.split("/")
    hidden = base.startswith(".") or any(part.startswith(".") and part != ".." for part in folders)
    return hidden or not SYSTEM_FOLDERS.isdisjoint(folders) or base.endswith(".cls")


# ------------------------------------------------------------------------------------------------------------ folders


def walk(top: str, folders: Sequence[str] = ()) -> ImageList:
    """Returns the images and tar files below a folder, the tar files not yet `expanded`. Raises OSError.

    folders: the folders in `top` to search, without the files beside them; by default everything is searched.
    """
    left_out, found, links = LeftOut(), list[ImageRef](), set[str]()
    visited: dict[tuple[int, int], str] = {}
    own, linked = list[str](), deque[str]()  # folders to visit; links later: each folder has its own name if it has one
    for folder in reversed(folders or [""]):
        (linked if folder and os.path.islink(os.path.join(top, folder)) else own).append(folder)
    while own or linked:
        folder = own.pop() if own else linked.popleft()
        path = os.path.join(top, folder) if folder else top
        status = os.stat(path)
        before = visited.setdefault((status.st_dev, status.st_ino), folder)
        if before != folder:  # a link back up, or a second way to the same folder
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
        own += reversed(below)
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
    """Returns each file once, without links to files that are listed under their own name or by an earlier link."""
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
    except OSError:  # a link to nothing: shows when it is read
        return None
    return status.st_dev, status.st_ino


def _takes(image: ImageRef, left_out: LeftOut) -> bool:
    """Returns whether a file is listed, as an image or an archive of images. If not, it is counted in `left_out`."""
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
    """Returns the first bytes of a file, or none if it cannot be read."""
    if image.member is not None:
        return tar.head(image.path, HEAD)
    try:
        if not stat.S_ISREG(os.stat(image.path).st_mode):  # opening a named pipe would wait for ever
            return b""
        with open(image.path, "rb", buffering=0) as file:
            return file.read(HEAD)
    except OSError:
        return b""
