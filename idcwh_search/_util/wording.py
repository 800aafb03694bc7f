"""Numbers with nouns for messages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun, such as "1 image", "2 classes" or "1,200 training images"."""
    return f"{number:,} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """Returns the plural of a noun whose last word has a regular plural."""
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "sh", "tch")) else f"{noun}s"
