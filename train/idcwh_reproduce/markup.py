"""The Markdown of the report, and its conversion to an HTML page.

Most functions return the Markdown of one block. A report is a list of blocks, joined by blank lines.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from pathlib import Path

from markdown import markdown

from idcwh_search._util.console import one_line

_CSS = """
:root { color-scheme: light }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 1100px;
  margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.8rem; line-height: 1.2 }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #ddd } h3 { margin-top: 2rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1rem 0; display: block;
  overflow-x: auto }
th, td { padding: .35rem .6rem; vertical-align: top; border-bottom: 1px solid #e4e4e4 }
th { border-bottom: 2px solid #888; vertical-align: bottom; text-align: left } td:first-child { font-weight: 600 }
td strong { background: #e8f1fa; border-radius: 3px; padding: 0 .25em; margin: 0 -.25em }
td br { display: none } td sub { display: block; color: #595959; font-size: .8rem; white-space: nowrap }
code { font-size: .9em; background: #f3f3f3; padding: .1em .3em; border-radius: 3px; overflow-wrap: anywhere }
p:has(> img) { margin-bottom: 0 } img { max-width: 100%; height: auto } em { color: #444; font-size: .92rem }
details { margin: 1rem 0 } summary { cursor: pointer; color: #0a58a6 }
"""


def text(value: str) -> str:
    """Returns text from elsewhere, such as an error message, with all markup escaped."""
    return re.sub(
        r"([\\`*\[\]|]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))", r"\\\1", html.escape(one_line(value), quote=False)
    )


def code(value: str) -> str:
    """Returns a code span. Characters that are not possible in a table become character references."""
    value = one_line(value)
    if not re.search(r"[`|]", value):
        return f"`{value}`"
    return f"<code>{re.sub(r'[^A-Za-z0-9 ]', lambda found: f'&#{ord(found[0])};', value)}</code>"


def plus_minus(mean: float, deviation: float | None, sign: str = "") -> str:
    """Returns a mean with its standard deviation, if there is one."""
    return f"{mean:{sign}.4f}" + (f" ± {deviation:.4f}" if deviation is not None else "")


def entry(first: str, *others: str, best: bool = False) -> str:
    """Returns the entry of a table: the first line, bold if it is the best of its column, and smaller lines."""
    return "<br>".join([f"**{first}**" if best else first, *(f"<sub>{line}</sub>" for line in others)])


def table(head: Sequence[str], rows: Sequence[Sequence[str]], words: bool = False) -> str:
    """Returns a table whose first column has the row titles. The others are aligned left for words, else right."""
    rule = ["---"] + ["---" if words else "---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *rows))


def figure(path: Path, caption: str, folder: Path) -> str:
    """Returns an image with its caption, which is also its alternative text. `folder` is that of the report."""
    return f"![{caption}]({path.relative_to(folder).as_posix()})\n\n*{caption}*"


def folded(summary: str, blocks: Sequence[str]) -> str:
    """Returns blocks that are hidden until the reader opens them."""
    inside = "\n\n".join(blocks)
    return f'<details markdown="1"><summary>{html.escape(summary)}</summary>\n\n{inside}\n\n</details>'


def page(title: str, blocks: Sequence[str], folder: Path) -> str:
    """Returns the report as one HTML page with embedded images, whose paths are relative to `folder`."""
    body = markdown("\n\n".join(blocks), extensions=["tables", "md_in_html"], output_format="html")

    def embed(found: re.Match[str]) -> str:
        data = base64.b64encode((folder / html.unescape(found[1])).read_bytes()).decode()
        return f'src="data:image/png;base64,{data}"'

    body = re.sub(r'src="([^"]+)"', embed, body)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )
