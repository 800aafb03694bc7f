"""The HTML pages of idcwh-dedup: groups.html, groups-2.html and so on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .._util import console
from .._util.atomic import check_target, replacing
from .._util.wording import counted
from ..database.provenance import image_path
from . import gallery, not_duplicates
from .duplicates import Group
from .hits import Hit

GROUPS = 100  # groups per page
IMAGES = 500  # images per page, about 5 MB
SHOWN = 100  # duplicates shown per group


def write_pages(
    path: Path, groups: list[Group], items: int, bits: int, roots: list[Path], kept_roots: list[Path]
) -> None:
    """Writes the pages. `items` is the number of compared items."""
    parts = list(_parts(groups))
    paths = [path, *(path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(2, len(parts) + 1))]
    for at in paths:
        check_target(at, gallery.GROUPS)
    title = f"{counted(len(groups), 'group')} of near-duplicates among {items:,} images"
    last = len(parts) - 1
    with console.progress_bar(total=len(parts), unit="page", desc="writing", leave=False) as bar:
        for number, (at, part) in enumerate(zip(paths, parts, strict=True)):
            near = [("first", 0), ("previous", number - 1), ("next", number + 1), ("last", last)]
            subtitle = f"Page {number + 1} of {last + 1}. Badges show the distance to the kept image in bits."
            text = gallery.page(
                [
                    gallery.Query(
                        keeper.key if keeper.key is not None else f"id {keeper.id}",
                        image_path(kept_roots, keeper.key),
                        None,
                        [Hit(rank, *item) for rank, item in enumerate(found[:SHOWN], 1)],
                        len(found) - SHOWN,
                        keeper.key,
                    )
                    for keeper, found in part
                ],
                title=title,
                subtitle=subtitle,
                bits=bits,
                locate=lambda key: image_path(roots, key),
                caption="keep",
                links=[(f"{name} page", paths[i].name) for name, i in near if 0 <= i <= last and i != number],
                pair=not_duplicates.line,
            )
            with replacing(at, gallery.GROUPS) as out:
                out.write(text.encode())
            bar.update(1)
    console.note(f"wrote {path}" + (f" and {counted(last, 'further page')}" if last else ""))


def _parts(groups: list[Group]) -> Iterator[list[Group]]:
    """Yields the groups of each page."""
    part: list[Group] = []
    images = 0
    for group in groups:
        size = 1 + min(len(group.duplicates), SHOWN)
        if part and (len(part) == GROUPS or images + size > IMAGES):
            yield part
            part, images = [], 0
        part.append(group)
        images += size
    yield part
