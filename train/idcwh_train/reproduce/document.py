"""A document of headings, paragraphs, tables and pictures, as Markdown and as one HTML file.

In text, `code` and **bold** mean the same in both; nothing else is markup.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class Entry:
    """A cell of a table: the first line is what it says, the others are smaller. best: printed bold."""

    lines: tuple[str, ...]
    best: bool = False


@dataclass(frozen=True)
class Table:
    """head: names of the columns; rows: the first entry of each names it. words: columns of words, not of numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[Entry | str]]
    words: bool = False


@dataclass(frozen=True)
class Figure:
    """A PNG file, what it shows, and the same in words for those who do not see it."""

    path: Path
    caption: str


@dataclass(frozen=True)
class Folded:
    """Blocks that are opened by a click."""

    summary: str
    blocks: Sequence[Block]


Block = Heading | Paragraph | Table | Figure | Folded


def markdown(blocks: Sequence[Block], folder: Path) -> str:
    """For a file in `folder`, to which the paths of pictures are relative."""
    return "\n\n".join(_markdown(block, folder) for block in blocks) + "\n"


def _markdown(block: Block, folder: Path) -> str:
    match block:
        case Heading():
            return f"{'#' * block.level} {block.text}"
        case Paragraph():
            return block.text
        case Table():
            rows = [[_entry(e) for e in row] for row in block.rows]
            lines = [block.head, ["---"] + ["---" if block.words else "---:"] * (len(block.head) - 1), *rows]
            return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        case Figure():
            return f"![{block.caption}]({block.path.relative_to(folder).as_posix()})\n\n*{block.caption}*"
        case Folded():
            inside = markdown(block.blocks, folder)
            return f"<details><summary>{html.escape(block.summary)}</summary>\n\n{inside}\n</details>"


def _entry(entry: Entry | str) -> str:
    if isinstance(entry, str):
        return entry
    first, *others = entry.lines
    return "<br>".join([f"**{first}**" if entry.best else first, *(f"<sub>{line}</sub>" for line in others)])


_CSS = """
:root { color-scheme: light }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 1100px;
  margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.8rem; line-height: 1.2 }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #ddd } h3 { margin-top: 2rem }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1rem 0 }
th, td { padding: .35rem .6rem; text-align: right; vertical-align: top; border-bottom: 1px solid #e4e4e4 }
th:first-child, table.words th, table.words td { text-align: left }
thead th { border-bottom: 2px solid #888; vertical-align: bottom }
tbody th { font-weight: 600 }
td.best > .main { font-weight: 700; background: #e8f1fa; border-radius: 3px; padding: 0 .25em; margin: 0 -.25em }
small { display: block; color: #595959; font-size: .8rem; white-space: nowrap }
code { font-size: .9em; background: #f3f3f3; padding: .1em .3em; border-radius: 3px; overflow-wrap: anywhere }
figure { margin: 1.5rem 0 } figure img { max-width: 100%; height: auto } figcaption { color: #444; font-size: .92rem }
details { margin: 1rem 0 } summary { cursor: pointer; color: #0a58a6 }
"""


def page(title: str, blocks: Sequence[Block]) -> str:
    """One HTML file with everything in it."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n"
        + "\n".join(_html(block) for block in blocks)
        + "\n</body>\n</html>\n"
    )


def _html(block: Block) -> str:
    match block:
        case Heading():
            return f"<h{block.level}>{_inline(block.text)}</h{block.level}>"
        case Paragraph():
            return f"<p>{_inline(block.text)}</p>"
        case Table():
            head = "".join(f'<th scope="col">{_inline(text)}</th>' for text in block.head)
            rows = "\n".join(_row(row) for row in block.rows)
            kind = ' class="words"' if block.words else ""
            return f'<div class="wide"><table{kind}><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>'
        case Figure():
            data = base64.b64encode(block.path.read_bytes()).decode()
            caption = html.escape(block.caption)
            image = f'<img src="data:image/png;base64,{data}" alt="{caption}">'
            return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
        case Folded():
            inside = "\n".join(_html(inner) for inner in block.blocks)
            return f"<details><summary>{html.escape(block.summary)}</summary>{inside}</details>"


def _row(row: Sequence[Entry | str]) -> str:
    first, *others = (e if isinstance(e, Entry) else Entry((e,)) for e in row)
    cells = [f'<th scope="row">{_lines(first)}</th>']
    cells += [f"<td{' class=best' if e.best else ''}>{_lines(e)}</td>" for e in others]
    return f"<tr>{''.join(cells)}</tr>"


def _lines(entry: Entry) -> str:
    first, *others = entry.lines
    return f'<span class="main">{_inline(first)}</span>' + "".join(f"<small>{_inline(line)}</small>" for line in others)


def _inline(text: str) -> str:
    text = html.escape(text)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", text)
