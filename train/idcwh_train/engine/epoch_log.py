"""The record of an epoch: how its numbers are called, and as a line for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CLOCKS = ("seconds", "cpu_seconds")
"""What a clock says of an epoch: the numbers of a record that are not the same again. On a machine that others use too,
the CPU's seconds over its cores tell what the epoch would have taken alone."""

Record = dict[str, Any]
"""What is known at the end of an epoch; a line of log.jsonl. With several code lengths, what differs between them is
named like `map@48`."""


def named(name: str, bits: int, lengths: Sequence[int]) -> str:
    """A name in a record: of one code length where there are several."""
    return name if len(lengths) == 1 else f"{name}@{bits}"


def line(record: Record, epochs: int, lengths: Sequence[int]) -> str:
    """What the terminal is told at the end of an epoch."""
    said = [f"epoch {record['epoch']}/{epochs}:"]
    for bits in lengths:

        def of(name: str, bits: int = bits) -> Any:
            return record.get(named(name, bits, lengths))

        terms = [f"{name} {of(name):.4g}" for name in ("loss", "L1", "L2", "Q") if of(name) is not None]
        held = [f"MAP {of('map'):.4f} on held-out images"] if of("map") is not None else []
        codes = []
        if of("distinct_codes") is not None:
            codes = [f"{of('distinct_codes'):,} distinct codes, bit bias {of('bit_bias'):.2f}"]
        length = [] if len(lengths) == 1 else [f"[{bits} bits]"]
        said.append(" ".join([*length, ", ".join([" ".join(terms), *held, *codes] if terms else [*held, *codes])]))
    return " ".join(said)
