"""The options that limit a command to some items of a database: --label and --key-prefix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._util import console
from ..database.database import Database
from ..errors import InvalidInputError


def add_filters(add: Callable[..., Any], items: str) -> None:
    """Adds the options. `add` is the add_argument of a parser, `items` a plural noun for the help."""
    add("--label", nargs="+", action="extend", metavar="NAME", help=f"labels of the {items} (default any)")
    add("--key-prefix", nargs="+", action="extend", metavar="TEXT", help="beginnings of their keys (default any)")


def selected(options: Any, database: Database) -> np.ndarray | None:
    """Returns the ids that match --label and --key-prefix, or None without these options."""
    if options.label is None and options.key_prefix is None:
        return None
    where = database.select(labels=options.label, key_prefixes=options.key_prefix)
    if not len(where):
        problem = "has no items that match both --label and --key-prefix"
        raise InvalidInputError(problem, path=options.db, hint="leave one of them out")
    console.note(f"searching {len(where):,} of {len(database):,} items")
    return where
