"""The flags that say how a labelled set is split, the same for every command that splits one."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from ..splits.options import OPTIONS
from . import common


def add_options(add: Callable[..., Any]) -> None:
    """Adds a flag for each of OPTIONS, absent from the namespace unless it is given."""
    number = {"type": common.positive, "metavar": "N", "default": argparse.SUPPRESS}
    queries = {**number, "type": common.natural}
    add("--query-per-class", help="queries per class; 0: none, all images train", **queries)
    add("--train-per-class", help="training images of each class", **number)
    add("--query", help="queries over all classes, for multi-label images; 0: none, all images train", **queries)
    add("--train", help="training images over all classes, likewise", **number)
    add("--database-without-train", action="store_true", default=argparse.SUPPRESS, help="leave out training images")
    add("--unseen-classes", help="of protocol unseen: classes that do not train (default: a quarter)", **number)


def given(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the options that were given, by their names."""
    return {name: value for name, value in vars(arguments).items() if name in OPTIONS}


def flag(name: str) -> str:
    """Returns the flag of one of OPTIONS."""
    return f"--{name.replace('_', '-')}"
