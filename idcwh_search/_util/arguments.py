"""Validators of integer arguments."""

from __future__ import annotations

import operator
import reprlib
from typing import Any


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Returns an integer of any type as an int.

    Raises:
        TypeError: the value is not an integer. True and False are not accepted.
        ValueError: the number is below `least` or above `most`.
    """
    limits = f">= {least}" if most is None else f"from {least} to {most}"
    problem = f"{name} must be a whole number {limits}, not {reprlib.repr(value)}"
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(problem) from None
    if number < least or (most is not None and number > most):
        raise ValueError(problem)
    return number


def whole_or_none(name: str, value: Any, least: int, most: int | None = None) -> int | None:
    """Returns None for None, and `whole(...)` for any other value."""
    return None if value is None else whole(name, value, least, most)
