"""The HTML page with queries and hits, one self-contained file without scripts.

Each image is embedded once, as a CSS background, even if it is a hit of many queries.
"""

from __future__ import annotations

import base64
import io
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote

from .._util.atomic import begins_with
from .._util.console import one_line
from ..database.items import class_names
from ..errors import IdcwhError
from ..images.preprocess import Preprocess, load_image
from .hits import Hit

THUMBNAIL = Preprocess(resize=144, crop=144, interpolation="bicubic")


Locate = Callable[[str | None], Path | None]
"""A function that returns the image file of a key, or None if it is missing."""


@dataclass(frozen=True)
class Query:
    """A query and its hits in order. `label` is the name of its folder if items have this label, otherwise None."""

    name: str
    image: Path | bytes | None
    label: str | None
    hits: list[Hit]


def page(
    queries: list[Query],
    *,
    title: str,
    subtitle: str,
    bits: int,
    locate: Locate,
    caption: str = "query",
    links: Sequence[tuple[str, str]] = (),
) -> str:
    """Returns the page as HTML text.

    Args:
        queries: queries with their hits.
        title, subtitle: plain text.
        bits: code length.
        locate: function that returns the image file of a key.
        caption: word below the image of a query.
        links: (text, file name) of other pages.
    """
    images = _Images(locate)
    rows = "\n".join(_row(query, caption, bits, images) for query in queries)
    judged = any(query.label for query in queries)
    legend = (
        '<p class="legend"><span class="dot same"></span> same label as the query '
        '<span class="dot other"></span> another label</p>'
        if judged
        else ""
    )
    if links:
        anchors = [f'<a href="{quote(os.fsencode(file))}">{escape(text)}</a>' for text, file in links]
        legend += f"<p>{' '.join(anchors)}</p>"
    return _PAGE.format(
        title=escape(title), subtitle=escape(subtitle), legend=legend, rows=rows, style=_STYLE, images=images.css()
    )


def _row(query: Query, caption: str, bits: int, images: _Images) -> str:
    hits = "\n".join(_hit(hit, query.label, bits, images) for hit in query.hits) or '<p class="none">no hits</p>'
    label = f"<b>{escape(_printable(query.label))}</b>" if query.label else ""
    return (
        f'<section><figure class="query" title="{escape(_printable(query.name))}">'
        f"{images.show(query.image, query.name)}"
        f"<figcaption>{caption} {label}<small>{escape(_printable(_short(query.name)))}</small></figcaption></figure>"
        f'<div class="hits">{hits}</div></section>'
    )


def _hit(hit: Hit, wanted: str | None, bits: int, images: _Images) -> str:
    judged = wanted is not None and hit.label is not None
    verdict = "" if not judged else " same" if wanted in class_names(hit.label or "") else " other"
    name = hit.key or f"id {hit.id}"
    label = f"<b>{escape(_printable(hit.label))}</b>" if hit.label else ""
    image = images.show(images.locate(hit.key), name)
    return (
        f'<figure class="hit{verdict}" title="{escape(_printable(name))}">{image}'
        f'<span class="distance" title="Hamming distance, 0 to {bits} bits">{hit.distance}</span>'
        f"<figcaption><i>{hit.rank}</i> {label}<small>{escape(_printable(name))}</small></figcaption></figure>"
    )


def _short(name: str) -> str:
    """Returns the last folder and the file name of a path."""
    return "/".join(name.split("/")[-2:])


def _printable(name: str) -> str:
    """Returns a name or label as printable text. Undecodable bytes are replaced, control characters escaped."""
    return one_line("".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in name))


class _Images:
    """The images of a page, each embedded once."""

    def __init__(self, locate: Locate) -> None:
        self.locate = locate
        self._numbers: dict[Path | bytes, int | None] = {}
        self._rules: list[str] = []

    def show(self, path: Path | bytes | None, name: str) -> str:
        number = self._number(path) if path is not None else None
        if number is None:
            return '<div class="image missing">no image</div>'
        return f'<div class="image p{number}" role="img" aria-label="{escape(_printable(name))}"></div>'

    def _number(self, path: Path | bytes) -> int | None:
        if path not in self._numbers:
            try:
                data = _thumbnail(path)
            except IdcwhError:  # missing or corrupt since it was indexed; the page shows "no image"
                self._numbers[path] = None
            else:
                self._numbers[path] = len(self._rules)
                self._rules.append(f".p{len(self._rules)}{{background-image:url(data:image/jpeg;base64,{data})}}")
        return self._numbers[path]

    def css(self) -> str:
        return "\n".join(self._rules)


def _thumbnail(path: Path | bytes) -> str:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(load_image(path, THUMBNAIL)).save(buffer, "JPEG", quality=88)
    return base64.b64encode(buffer.getvalue()).decode()


_STYLE = """
:root{--ground:#fff;--ink:#1b1f24;--soft:#667;--line:#dde;--same:#1a7f4b;--other:#c2410c;--card:#f6f7f9}
@media(prefers-color-scheme:dark){
:root{--ground:#14171b;--ink:#e8eaed;--soft:#9aa3ad;--line:#2b3138;--same:#4cc38a;--other:#f08a5d;--card:#1c2127}
}
*{box-sizing:border-box}
body{margin:0 auto;padding:28px;max-width:1560px;background:var(--ground);color:var(--ink)}
body{font:14px/1.4 system-ui,sans-serif}
h1{font-size:20px;margin:0}
header p{margin:4px 0;color:var(--soft)}
section{display:flex;gap:22px;padding:18px 0;border-top:1px solid var(--line);margin-top:14px}
figure{margin:0;position:relative;width:144px;flex:none}
.image{width:144px;height:144px;border-radius:6px;background:var(--card) center/cover}
.missing{display:grid;place-items:center;color:var(--soft);font-size:12px}
.query{width:168px}
.query .image{width:168px;height:168px;outline:3px solid var(--ink);outline-offset:2px}
.hits{display:flex;flex-wrap:wrap;gap:14px;align-content:flex-start}
.hit .image{border-bottom:5px solid var(--line)}
.hit.same .image{border-bottom-color:var(--same)}
.hit.other .image{border-bottom-color:var(--other)}
.distance{position:absolute;top:6px;right:6px;padding:1px 8px;border-radius:10px;background:rgba(0,0,0,.72)}
.distance{color:#fff;font-variant-numeric:tabular-nums}
figcaption{padding-top:6px}
figcaption i{color:var(--soft);font-style:normal}
figcaption b{font-weight:600}
small{display:block;color:var(--soft);overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.dot{display:inline-block;width:12px;height:12px;border-radius:3px;margin:0 4px 0 12px;vertical-align:-1px}
.dot.same{background:var(--same)}
.dot.other{background:var(--other)}
.legend .dot:first-child{margin-left:0}
.none{color:var(--soft)}
"""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>{title}</title>
<style>{style}
{images}
</style></head>
<body><header><h1>{title}</h1><p>{subtitle}</p>{legend}</header>
{rows}
</body></html>
"""

_BEGINNING = re.escape(_PAGE.partition("{title}")[0].encode())
KIND = begins_with("page of hits", _BEGINNING + rb"\d+ quer(y|ies) against ")
GROUPS = begins_with("page of groups", _BEGINNING + rb"[\d,]+ groups? of near-duplicates")
