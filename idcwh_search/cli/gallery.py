"""The HTML page with queries and hits, one self-contained file without scripts.

Each image is embedded once, as a CSS background, even if it is a hit of many queries.
"""

from __future__ import annotations

import base64
import io
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote

from .._util.atomic import begins_with
from .._util.console import one_line
from .._util.hardware import available_cores
from ..database.items import class_names
from ..errors import IdcwhError
from ..images.preprocess import Preprocess, load_reduced, to_pixels
from .hits import Hit

THUMBNAIL = Preprocess(resize=144, crop=144, interpolation="bicubic")


Locate = Callable[[str | None], Path | None]
"""A function that returns the image file of a key, or None if it is missing."""


@dataclass(frozen=True)
class Query:
    """A query and its hits in order.

    Attributes:
        name: text below its image.
        image: its file or bytes; None if it is missing.
        label: the name of its folder if items have this label, otherwise None.
        hits: the hits that are shown.
        more: number of further hits.
        key: its key, for the line of `pair`.
    """

    name: str
    image: Path | bytes | None
    label: str | None
    hits: list[Hit]
    more: int = 0
    key: str | None = None


def page(
    queries: list[Query],
    *,
    title: str,
    subtitle: str,
    bits: int,
    locate: Locate,
    caption: str = "query",
    links: Sequence[tuple[str, str]] = (),
    pair: Callable[[str, str], str] | None = None,
) -> str:
    """Returns the page as HTML text.

    Args:
        queries: queries with their hits.
        title, subtitle: plain text.
        bits: code length.
        locate: function that returns the image file of a key.
        caption: word below the image of a query.
        links: (text, file name) of other pages.
        pair: function of the keys of a query and a hit, which returns a line to be copied from the page.
    """
    images = _Images(locate)
    images.load(queries)
    rows = "\n".join(_row(query, caption, bits, images, pair) for query in queries)
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


def _row(query: Query, caption: str, bits: int, images: _Images, pair: Callable[[str, str], str] | None) -> str:
    lines = [_line(pair, query.key, hit.key) for hit in query.hits]
    hits = "\n".join(_hit(hit, query.label, bits, images, line) for hit, line in zip(query.hits, lines, strict=True))
    hits = hits or '<p class="none">no hits</p>'
    if query.more > 0:
        hits += f'\n<p class="none">and {query.more:,} more</p>'
    label = f"<b>{escape(_printable(query.label))}</b>" if query.label else ""
    return (
        f'<section><figure class="query" title="{escape(_printable(query.name))}">'
        f"{images.show(query.image, query.name)}"
        f"<figcaption>{caption} {label}<small>{escape(_printable(_short(query.name)))}</small></figcaption></figure>"
        f'<div class="hits">{hits}</div></section>'
    )


def _line(pair: Callable[[str, str], str] | None, query: str | None, hit: str | None) -> str:
    """Returns the HTML of the line to be copied, or "" without one. A page cannot hold bytes that are not UTF-8."""
    if pair is None or query is None or hit is None:
        return ""
    text = pair(query, hit)
    if any("\ud800" <= c <= "\udfff" for c in text):
        return ""
    return f"<details><summary>not a duplicate</summary><pre>{escape(text)}\n</pre></details>"


def _hit(hit: Hit, wanted: str | None, bits: int, images: _Images, line: str) -> str:
    judged = wanted is not None and hit.label is not None
    verdict = "" if not judged else " same" if wanted in class_names(hit.label or "") else " other"
    name = hit.key or f"id {hit.id}"
    label = f"<b>{escape(_printable(hit.label))}</b>" if hit.label else ""
    image = images.show(images.locate(hit.key), name)
    return (
        f'<figure class="hit{verdict}" title="{escape(_printable(name))}">{image}'
        f'<span class="distance" title="Hamming distance, 0 to {bits} bits">{hit.distance}</span>'
        f"<figcaption><i>{hit.rank}</i> {label}<small>{escape(_printable(name))}</small>{line}</figcaption></figure>"
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

    def load(self, queries: list[Query]) -> None:
        """Computes the thumbnails of the images of a page on all cores."""
        found = [path for query in queries for path in (query.image, *(self.locate(hit.key) for hit in query.hits))]
        paths = dict.fromkeys(path for path in found if path is not None)
        with ThreadPoolExecutor(available_cores(), thread_name_prefix="idcwh-page") as pool:
            try:
                for path, data in zip(paths, pool.map(_thumbnail, paths), strict=True):
                    self._numbers[path] = None if data is None else len(self._rules)
                    if data is not None:
                        self._rules.append(f".p{len(self._rules)}{{background-image:url({data})}}")
            finally:
                pool.shutdown(wait=False, cancel_futures=True)  # an interrupt does not wait for queued images

    def show(self, path: Path | bytes | None, name: str) -> str:
        number = None if path is None else self._numbers[path]
        if number is None:
            return '<div class="image missing">no image</div>'
        return f'<div class="image p{number}" role="img" aria-label="{escape(_printable(name))}"></div>'

    def css(self) -> str:
        return "\n".join(self._rules)


def _thumbnail(path: Path | bytes) -> str | None:
    """Returns the URL with the bytes of a thumbnail, or None if the file was removed or corrupted meanwhile."""
    from PIL import Image

    buffer = io.BytesIO()
    try:
        pixels = to_pixels(load_reduced(path, 2 * THUMBNAIL.crop), THUMBNAIL, "image")
    except IdcwhError:
        return None
    Image.fromarray(pixels).save(buffer, "JPEG", quality=88)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"


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
section{display:flex;gap:22px;padding:18px 6px;border-top:1px solid var(--line);margin:14px -6px 0}
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
section{content-visibility:auto;contain-intrinsic-size:auto 230px}
details{font-size:12px;color:var(--soft)}
summary{cursor:pointer}
pre{margin:4px 0 0;max-width:144px;overflow:hidden;text-overflow:ellipsis;user-select:all}
header a{margin-right:14px;color:inherit}
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
