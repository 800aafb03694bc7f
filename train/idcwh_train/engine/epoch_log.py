"""The log record of an epoch: the names of its values, and its line on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CLOCKS = ("seconds", "cpu_seconds")
"""Timing fields, which differ between otherwise identical runs. On a shared machine, the CPU seconds divided by the
number of cores estimate the time of an epoch without other load."""

Record = dict[str, Any]
"""The values of an epoch, a line of log.jsonl. With several code lengths, their names are like `map@48`."""


def named(name: str, bits: int, lengths: Sequence[int]) -> str:
    """Returns the name of a value in a record, with the code length if there are several."""
    return name if len(lengths) == 1 else f"{name}@{bits}"


def line(record: Record, epochs: int, lengths: Sequence[int]) -> str:
    """Returns the line that is printed at the end of an epoch."""
    parts = [f"epoch {record['epoch']}/{epochs}:"]
    for bits in lengths:

        def value(name: str, bits: int = bits) -> Any:
            return record.get(named(name, bits, lengths))

        terms = [f"{name} {value(name):.4g}" for name in ("loss", "L1", "L2", "Q") if value(name) is not None]
        validation = [f"validation MAP {value('map'):.4f}"] if value("map") is not None else []
        codes = []
        if value("distinct_codes") is not None:
            codes = [f"{value('distinct_codes'):,} distinct codes, bit bias {value('bit_bias'):.2f}"]
        length = [] if len(lengths) == 1 else [f"[{bits} bits]"]
        values = [*([" ".join(terms)] if terms else []), *validation, *codes]
        parts.append(" ".join([*length, ", ".join(values)]))
    return " ".join(parts)
