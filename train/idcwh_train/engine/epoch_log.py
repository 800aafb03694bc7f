"""The log record of an epoch: the names of its numbers, and its line on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CLOCKS = ("seconds", "cpu_seconds")
"""Timing fields; they differ between otherwise identical runs. On a shared machine, the CPU seconds divided by the
cores are the time that the epoch would have taken alone."""

Record = dict[str, Any]
"""The numbers of an epoch, a line of log.jsonl. With several code lengths, those of one have names like `map@48`."""


def named(name: str, bits: int, lengths: Sequence[int]) -> str:
    """Returns the name of a number in a record, with the code length if there are several."""
    return name if len(lengths) == 1 else f"{name}@{bits}"


def line(record: Record, epochs: int, lengths: Sequence[int]) -> str:
    """Returns the line that is printed at the end of an epoch."""
    said = [f"epoch {record['epoch']}/{epochs}:"]
    for bits in lengths:

        def of(name: str, bits: int = bits) -> Any:
            return record.get(named(name, bits, lengths))

        terms = [f"{name} {of(name):.4g}" for name in ("loss", "L1", "L2", "Q") if of(name) is not None]
        validation = [f"MAP {of('map'):.4f} on validation images"] if of("map") is not None else []
        codes = []
        if of("distinct_codes") is not None:
            codes = [f"{of('distinct_codes'):,} distinct codes, bit bias {of('bit_bias'):.2f}"]
        length = [] if len(lengths) == 1 else [f"[{bits} bits]"]
        parts = [*([" ".join(terms)] if terms else []), *validation, *codes]
        said.append(" ".join([*length, ", ".join(parts)]))
    return " ".join(said)
