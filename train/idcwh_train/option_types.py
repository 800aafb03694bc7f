"""What a setting may be: in words, as a check, and as people write it on a command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}
_NOTHING = ("none", "null")


@dataclass(frozen=True)
class Kind:
    """The values that a setting takes.

    words     what was expected, for an error
    of        the type in which they are kept
    fits      whether a value is one of them
    optional  None is one as well
    """

    words: str
    of: type
    fits: Callable[[Any], bool]
    optional: bool = False

    def or_none(self) -> Kind:
        """The same, or None."""
        return replace(self, words=f"{self.words}, or none", optional=True)

    def checked(self, name: str, value: Any) -> Any:
        """`value`, a number as int or float. ValueError, with the name of the setting, for one that does not fit."""
        if value is None and self.optional:
            return None
        if not self.fits(value):
            raise ValueError(f"{name}: expected {self.words}, not {value!r}")
        return self.of(value)

    def read(self, name: str, text: str) -> Any:
        """As `checked`, of what a person wrote: true, false, yes and no for a boolean, none and null for None."""
        word = text.strip().lower()
        if self.optional and word in _NOTHING:
            return None
        return self.checked(name, _BOOLEANS.get(word, text) if self.of is bool else self._converted(text))

    def _converted(self, text: str) -> Any:
        try:
            return self.of(text)
        except ValueError:
            return text


def guessed(text: str) -> Any:
    """What a person may have meant where the kind is not known yet: a boolean, what it is as JSON, or the text."""
    word = text.strip().lower()
    if word in _BOOLEANS:
        return _BOOLEANS[word]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and abs(float(value)) < float("inf")  # not NaN


def whole(least: int) -> Kind:
    """Whole numbers from `least` on."""
    return Kind(f"a whole number of at least {least}", int, lambda value: _whole(value) and value >= least)


def one_of(choices: tuple[str, ...]) -> Kind:
    """One of these texts."""
    return Kind(f"one of {', '.join(choices)}", str, lambda value: isinstance(value, str) and value in choices)


BOOLEAN = Kind("true or false", bool, lambda value: isinstance(value, bool))
TEXT = Kind("text", str, lambda value: isinstance(value, str))
NAME = Kind("a name", str, lambda value: isinstance(value, str) and value != "")
AT_LEAST_0 = Kind("a number of at least 0", float, lambda value: _number(value) and value >= 0)
ABOVE_0 = Kind("a number above 0", float, lambda value: _number(value) and value > 0)
SHARE = Kind("a share from 0 up to, not including, 1", float, lambda value: _number(value) and 0 <= value < 1)
