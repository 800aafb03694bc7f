"""The tables of options in the documentation, made from the declarations.

`python tests/support/option_tables.py` writes them into the documents again.
"""

from __future__ import annotations

import re
from pathlib import Path

from idcwh_train import recipes
from idcwh_train.methods import MODULES
from idcwh_train.methods.base import find
from idcwh_train.methods.idcwh_options import IDCWHOptions
from idcwh_train.option_types import declared, shown
from idcwh_train.options import OPTIONS

DOCS = Path(__file__).parents[2] / "docs"
_TABLE = re.compile(r"(<!-- options of (\w+): [^>]* -->\n).*?(<!-- end -->)", re.DOTALL)


def with_tables(text: str) -> str:
    """Returns the document with each table between its two marks replaced."""
    tables = {"training": training, "methods": methods}
    return _TABLE.sub(lambda found: found[1] + tables[found[2]]() + found[3], text)


def training() -> str:
    """Returns the options of idcwh-train, with the recipes' values that differ from the paper's."""
    names = list(recipes.RECIPES)
    values = {name: recipes.options(name, {}) for name in names}
    rows = [["option", "meaning", *(f"`{name}`" for name in names)], ["---"] * (2 + len(names))]
    for name, one in {**OPTIONS, **declared(IDCWHOptions)}.items():
        if one.group is None and name != "min_steps":
            continue
        cells = [shown(one.default) or one.unset]
        for recipe in names[1:]:
            result = values[recipe].of_method(48).get(name, getattr(values[recipe], name, one.default))
            cells.append("" if result == one.default else shown(result))
        choices = "" if one.metavar or one.type.metavar[:1] != "{" else f" ({one.type.words.removeprefix('one of ')})"
        meaning = one.help.removesuffix(", see below")  # the end of --help
        rows.append([_flag(name) if one.group else name, meaning + choices, *cells])
    return _markdown(rows)


def methods() -> str:
    """Returns the options of every method."""
    rows = [["method", "option", "default", "meaning"], ["---"] * 4]
    for method in MODULES:
        for name, one in declared(find(method)).items() if method not in ("idcwh-single", "fsdh") else ():
            rows.append([f"`{method}`", name, shown(one.default), one.help])
    return _markdown(rows)


def _flag(name: str) -> str:
    return f"`--{name.replace('_', '-')}`"


def _markdown(rows: list[list[str]]) -> str:
    return "".join("|" + "".join(f" {cell} |" if cell else " |" for cell in row) + "\n" for row in rows)


if __name__ == "__main__":
    for path in DOCS.glob("*.md"):
        path.write_text(with_tables(path.read_text("utf-8")), "utf-8")
