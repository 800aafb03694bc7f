"""Detection of diverged training: the checks of losses before a step, and of weights before a file."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from idcwh_search.errors import IdcwhError

LARGEST = 2.0**24
"""Limit of outputs and trained weights. Above it float32 rounds away a difference of 1, and with it the +1 and -1 of a
code and every step between them."""


class DivergedError(IdcwhError):
    """A training whose loss, outputs or weights are not finite, or too large for codes. `train` raises it."""


def is_sound(x: Tensor) -> bool:
    """Returns whether all values are finite and at most LARGEST."""
    return bool((x.detach().abs() <= LARGEST).all())


def check(state: Mapping[str, Tensor], trained: set[str], when: str) -> None:
    """Raises DivergedError unless all tensors of `state` are finite, and those named in `trained` at most LARGEST.

    Running statistics and averages follow from the images and the trained weights, so they have no limit of their own.
    """
    for name, x in state.items():
        if not x.is_floating_point() or (is_sound(x) if name in trained else bool(x.isfinite().all())):
            continue
        raise DivergedError(f"{when} {name} reaches {float(x.abs().max()):.3g} (limit {LARGEST:.3g})")
