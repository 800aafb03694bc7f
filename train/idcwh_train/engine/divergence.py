"""Detection of diverged training, by checks of the losses before a step and of the weights before a file."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from idcwh_search.errors import IdcwhError

LARGEST = 2.0**24
"""The limit of outputs and trained weights. Above it, float32 cannot represent a difference of 1, the distance between
an output and a binary code."""


class DivergedError(IdcwhError):
    """A training whose loss, outputs or weights are not finite, or exceed LARGEST."""


def is_sound(x: Tensor) -> bool:
    """Returns True if all absolute values are finite and at most LARGEST."""
    return bool((x.detach().abs() <= LARGEST).all())


def check(state: Mapping[str, Tensor], trained: set[str], when: str) -> None:
    """Raises DivergedError unless all tensors of `state` are finite, and those named in `trained` at most LARGEST.

    Running statistics and averages depend on the images and the trained weights, so they have no separate limit.
    """
    for name, x in state.items():
        if not x.is_floating_point() or (is_sound(x) if name in trained else bool(x.isfinite().all())):
            continue
        raise DivergedError(f"{when} {name} reaches {float(x.abs().max()):.3g} (limit {LARGEST:.3g})")
