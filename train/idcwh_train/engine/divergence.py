"""When training has diverged: what is checked before a loss reaches a weight, and before a weight reaches a file."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from idcwh_search.errors import IdcwhError

LARGEST = 2.0**24
"""What an output or a weight that is trained may reach. From here on float32 has no room for a 1 beside it: the +1 and
-1 of a code, and the steps between them, are lost in rounding, and so is the way back."""


class Diverged(IdcwhError):
    """Numbers that no step can be taken from."""


def is_sound(x: Tensor) -> bool:
    """Whether all is finite and none is beyond LARGEST."""
    return bool((x.detach().abs() <= LARGEST).all())


def check(state: Mapping[str, Tensor], trained: set[str], when: str) -> None:
    """Diverged, naming the tensor, unless all that is in `state` is finite and what is `trained` is not beyond LARGEST.

    The rest, running statistics and means, is of a size that the pictures have, or follows from what is trained.
    """
    for name, x in state.items():
        if not x.is_floating_point() or (is_sound(x) if name in trained else bool(x.isfinite().all())):
            continue
        raise Diverged(f"{when} {name} has values up to {float(x.abs().max()):.3g}, with which nothing can be trained")
