"""The files of idcwh-dedup: CSV of groups, list of duplicates, and the script that moves duplicates."""

from __future__ import annotations

import csv
import io
import os
import shlex
from collections.abc import Iterator
from functools import lru_cache
from operator import itemgetter
from pathlib import Path

from .._util import console
from .._util.atomic import UNRECOGNIZABLE, begins_with, replacing
from .._util.wording import counted
from ..database.provenance import image_path
from ..images import tar
from .duplicates import Group, Item

COLUMNS = ("group", "action", "distance", "id", "key", "label")
CSV = begins_with("CSV file of groups", ",".join(COLUMNS).encode())
_BEGINNING = "#!/bin/sh\n# Moves duplicates that idcwh-dedup found"
NOT_MOVABLE = "without a file of their own, with the key of another item, or in a tar file"
SCRIPT = begins_with("script of duplicates", _BEGINNING.encode())

_HEAD = f"""{_BEGINNING} into the folder DIR:   sh SCRIPT DIR
# Nothing is deleted or replaced. The duplicates of a file that is missing stay where they are.
# %s
LC_ALL=C
export LC_ALL
case $#,$1 in
1,/*) to=$1 ;;
1,?*) to=$PWD/$1 ;;
*) echo "usage: sh $0 DIR" >&2; exit 2 ;;
esac
moved=0 status=0

complain() {{
    printf '%%s\\n' "$1" >&2
    status=1
}}

keep() {{
    kept=$1
    [ -f "$kept" ] || complain "$kept: is missing; its duplicates stay"
}}

move() {{
    target=$to/$2
    if [ ! -f "$kept" ]; then :
    elif [ ! -f "$1" ]; then complain "$1: is missing"
    elif [ -e "$target" ] || [ -L "$target" ]; then complain "$target: already exists"
    elif mkdir -p "${{target%%/*}}" && mv "$1" "$target"; then moved=$((moved + 1))
    else status=1
    fi
}}

"""
_TAIL = """
echo "moved $moved files" >&2
exit $status
"""


def lines(groups: list[Group]) -> Iterator[tuple[int, str, Item]]:
    """Yields group number, action and item per line of the output."""
    for number, group in enumerate(groups, 1):
        yield number, "keep", group.keeper
        for item in group.duplicates:
            yield number, "duplicate", item


def write_csv(path: str, groups: list[Group]) -> None:
    """Writes one line per item."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows((number, action, *item) for number, action, item in lines(groups))
    with replacing(path, CSV) as out:
        out.write(text.getvalue().encode(errors="surrogateescape"))
    console.note(f"wrote {path}")


def write_list(path: str, texts: list[str], left_out: int, reasons: str) -> None:
    """Writes one text per line. Texts with a line break are left out, too. `reasons` are those of all left out."""
    found = [text for text in texts if text.splitlines() == [text]]
    with replacing(path, UNRECOGNIZABLE) as out:
        out.write("".join(f"{text}\n" for text in found).encode(errors="surrogateescape"))
    _note_left_out(path, left_out + len(texts) - len(found), reasons)
    console.note(f"wrote {path}")


class Files:
    """The files of the items of groups.

    Args:
        roots, kept_roots: folders of the duplicates and of the kept items.
        movable: keys that only duplicates have.
    """

    def __init__(self, groups: list[Group], roots: list[Path], kept_roots: list[Path], movable: set[str]) -> None:
        kept = [image_path(kept_roots, group.keeper.key) for group in groups]
        real = {_real(path) for path in kept if path is not None}
        self.groups: list[tuple[str, list[tuple[str, str]]]] = []
        self.left_out = 0
        for group, keeper in zip(groups, kept, strict=True):
            files: list[tuple[str, str]] = []
            if keeper is not None:
                for key in dict.fromkeys(item.key for item in group.duplicates):
                    path = image_path(roots, key) if key in movable else None
                    own = path is not None and not tar.stat(path) and _real(path) not in real
                    if own and key is not None and path is not None:
                        files.append((os.path.abspath(path), key))  # noqa: PTH100 (not resolved)
                archive = tar.split(keeper)
                self.groups.append((os.path.abspath(archive[0] if archive else keeper), files))  # noqa: PTH100
            self.left_out += len(group.duplicates) - len(files)

    @property
    def paths(self) -> list[str]:
        """Absolute paths of the files of the duplicates."""
        return [path for _, files in self.groups for path, _ in files]

    def write_script(self, path: str, title: str) -> None:
        """Writes the shell script that moves the files. File names appear as quoted arguments only."""
        text = io.StringIO()
        text.write(_HEAD % console.one_line(title))
        for kept, files in filter(itemgetter(1), self.groups):
            text.write(f"keep {shlex.quote(kept)}\n")
            for file, key in files:
                name = os.path.normpath(f"/{key}").lstrip("/")  # without .., so that it is below the folder
                text.write(f"move {shlex.quote(file)} {shlex.quote(name)}\n")
        text.write(_TAIL)
        with replacing(path, SCRIPT) as out:
            out.write(text.getvalue().encode(errors="surrogateescape"))
        _note_left_out(path, self.left_out, NOT_MOVABLE)
        console.note(f"wrote {path}")


def _real(path: Path) -> str:
    """Returns os.path.realpath(path), with the folders cached, which is many times faster for many files."""
    folder, name = os.path.split(path)
    at = os.path.join(_real_folder(folder), name)  # noqa: PTH118
    return os.path.realpath(at) if os.path.islink(at) else at  # noqa: PTH114


_real_folder = lru_cache(os.path.realpath)


def _note_left_out(path: str, count: int, reasons: str) -> None:
    if count:
        console.note(f"{path}: left out {counted(count, 'duplicate')} {reasons}")
