"""Declarations of options: type, check, help text and default in one place.

options.py and the methods declare their options with `option`. The parser, the checks of values and checkpoints, and
the tables in the documentation read these declarations.
"""

from __future__ import annotations

import argparse
import json
import reprlib
from collections.abc import Callable
from dataclasses import Field, dataclass, field, replace
from numbers import Integral, Real
from typing import Any

_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}
_NOTHING = ("none", "null")


@dataclass(frozen=True)
class OptionType:
    """The values that an option takes.

    words: the expected value, for errors.
    convert: returns the stored value for a value that fits.
    fits: returns True for a valid value, before it is converted.
    optional: None is valid as well.
    metavar: the placeholder of a value in --help.
    """

    words: str
    convert: Callable[[Any], Any]
    fits: Callable[[Any], bool]
    metavar: str
    optional: bool = False

    def or_none(self) -> OptionType:
        """Returns the type that takes None as well."""
        return replace(self, words=f"{self.words}, or none", optional=True)

    def checked(self, name: str, value: Any) -> Any:
        """Returns the value as it is stored. Raises ValueError, with the option's name, for an invalid value."""
        if value is None and self.optional:
            return None
        if not self.fits(value):
            raise ValueError(f"{name}: expected {self.words}, not {reprlib.repr(value)}")
        return self.convert(value)

    def read(self, name: str, text: str) -> Any:
        """Returns the value of a text. Booleans are true, false, yes and no; None is none or null."""
        word = text.strip().lower()
        if self.optional and word in _NOTHING:
            return None
        if self.convert is bool:
            return self.checked(name, _BOOLEANS.get(word, text))
        try:
            value = self.convert(text)
        except ValueError:
            value = text
        return self.checked(name, value)

    def __call__(self, text: str) -> Any:
        """Returns the value of a command-line argument, so that argparse takes an OptionType as `type`."""
        try:
            return self.read("", text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error).removeprefix(": ")) from None


def guessed(text: str) -> Any:
    """Returns the value of a text for an option of unknown type: a boolean, a JSON value, or the text itself."""
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


def whole(least: int, most: float = float("inf")) -> OptionType:
    """Returns the type of whole numbers from `least` to `most`."""
    words = f"a whole number of at least {least}" if most == float("inf") else f"a whole number from {least} to {most}"
    return OptionType(words, int, lambda value: _whole(value) and least <= value <= most, "N")


def one_of(*choices: str) -> OptionType:
    """Returns the type of a choice among names."""
    words, metavar = f"one of {', '.join(choices)}", "{" + ",".join(choices) + "}"
    return OptionType(words, str, lambda value: isinstance(value, str) and value in choices, metavar)


SWITCH = OptionType("true or false", bool, lambda value: isinstance(value, bool), "")
TEXT = OptionType("text", str, lambda value: isinstance(value, str), "TEXT")
NAME = OptionType("a name", str, lambda value: isinstance(value, str) and value != "", "NAME")
AT_LEAST_0 = OptionType("a number of at least 0", float, lambda value: _number(value) and value >= 0, "X")
ABOVE_0 = OptionType("a number above 0", float, lambda value: _number(value) and value > 0, "X")
SHARE = OptionType("a share from 0 up to, not including, 1", float, lambda v: _number(v) and 0 <= v < 1, "SHARE")
DICTIONARY = OptionType("a dictionary", dict, lambda value: isinstance(value, dict), "")


@dataclass(frozen=True)
class Option:
    """The declaration of an option.

    type: the values that it takes.
    help: a noun phrase with the unit, for --help and the documentation.
    group: title of its group in --help; None for an option without a flag.
    metavar: the placeholder of a value in --help; by default that of its type.
    unset: meaning of the default None.
    negatable: the flag has a --no- form, for a switch that a recipe turns on.
    repeated: the value is a tuple of one or more distinct values, in ascending order.
    """

    default: Any
    type: OptionType
    help: str
    group: str | None = None
    metavar: str | None = None
    unset: str = ""
    negatable: bool = False
    repeated: bool = False

    def checked(self, name: str, value: Any) -> Any:
        """Returns the value as it is stored. Raises ValueError, with the option's name, for an invalid value."""
        if not self.repeated:
            return self.type.checked(name, value)
        values = value if isinstance(value, list | tuple) else (value,)
        checked = tuple(sorted(self.type.checked(name, one) for one in values))
        if len(set(checked)) < max(len(checked), 1):
            raise ValueError(f"{name}: expected one or more distinct values, not {shown(tuple(values)) or 'none'}")
        return checked

    def add(self, add_argument: Callable[..., Any], name: str) -> None:
        """Adds the flag of this option to a parser."""
        flag, text = f"--{name.replace('_', '-')}", self.help
        if default := shown(self.default) or self.unset:
            text += f" (default {default})"
        if self.type is SWITCH:
            add_argument(flag, action=argparse.BooleanOptionalAction if self.negatable else "store_true", help=text)
        else:
            nargs = "+" if self.repeated else None
            add_argument(flag, type=self.type, metavar=self.metavar or self.type.metavar, nargs=nargs, help=text)


def option(default: Any, type: OptionType, help: str, group: str | None = None, **more: Any) -> Any:
    """Returns a declared option, for a field of a dataclass or an attribute of a method's class; see Option."""
    metadata = {"option": Option(default, type, help, group, **more)}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def declared(owner: type) -> dict[str, Option]:
    """Returns the options that a class declares, by name: first its own, then those of its base classes."""
    options: dict[str, Option] = {}
    for c in owner.__mro__:
        attributes: dict[str, Any] = vars(c).get("__dataclass_fields__") or dict(vars(c))
        for name, value in attributes.items():
            if isinstance(value, Field) and "option" in value.metadata:
                options.setdefault(name, value.metadata["option"])
    return options


def shown(value: Any) -> str:
    """Returns a value as in --help and the documentation, or "" for False, None and an empty dictionary."""
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    if isinstance(value, bool):
        return "on" if value else ""
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None or value == {} else str(value)
