"""The losses, one file a method; `base.py` says what a method is, docs/methods.md what each one does.

To add one: a file here with a class that sets `name`, and an entry in MODULES. The command line reads this file before
torch is loaded, so it imports nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


def _none(bits: int) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Entry:
    """Where a method is, and what suits it when it trains on frozen features.

    module     the file in this folder
    frozen     what differs from the recipe "frozen": fields of recipes.Options
    with_bits  its own options that differ from their defaults there, by the code length
    """

    module: str
    frozen: dict[str, Any] = field(default_factory=dict)
    with_bits: Callable[[int], dict[str, Any]] = _none


def _idcwh(bits: int) -> dict[str, Any]:
    # ||h - mu||^2 and Q are sums over the bits: so that no code length weighs them otherwise
    return {"sigma2": bits / 3, "beta": 1.2 / bits}


MODULES = {
    "idcwh": Entry("idcwh", with_bits=_idcwh),
    "idcwh-single": Entry("idcwh", with_bits=_idcwh),
    "dcwh": Entry("dcwh"),
    "dpsh": Entry("dpsh"),
    "dtsh": Entry("dtsh"),
    "dsdh": Entry("dsdh"),
    "hashnet": Entry("hashnet"),
    "dhn": Entry("dhn"),
    "dnnh": Entry("dnnh"),
    "sdh": Entry("sdh"),
    "fsdh": Entry("fsdh"),
    "csq": Entry("csq"),
    "orthohash": Entry("orthohash"),
    "class-code": Entry("class_code"),
}
"""Name of a method, as `--method` and model.pt call it -> entry."""

L2_REDUCTIONS = ("sum/Z", "sum", "sum/ZC", "sum/n")
"""What the sum over the Z x C terms of IDCWH's L2 is divided by; "sum" is eq. 11 as it stands, "sum/ZC" the mean."""
REDUCTIONS = ("mean", "sum")
"""Of terms that are sums over the images of a batch."""
