"""What a method is: a loss with its state, as the loop sees it."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from idcwh_search.errors import IdcwhError

from . import MODULES


@dataclass
class Loss:
    """The scalar to differentiate, its parts as they enter it (detached, by name), and the rows without a label."""

    total: Tensor
    terms: dict[str, Tensor]
    skipped: int = 0


class Method(nn.Module):
    """A loss. Its parameters (centers) are trained beside the network's, with the learning rate of the centers;
    whatever else it has to remember is a buffer, so that `state_dict` is all that a checkpoint needs.

    Made with the number of classes, of bits and of training images, and the options of `options()`.
    """

    name: ClassVar[str]

    def options(self) -> dict[str, Any]:
        """What the command line may set, with its value here; plain Python, goes into model.pt."""
        raise NotImplementedError

    def start_epoch(self) -> None:
        """Called before the first batch of every epoch."""

    def forward(self, h: Tensor, y: Tensor, rows: Tensor) -> Loss:
        """The loss of a batch.

        h     logits, float32 [n, bits], with gradient
        y     labels, bool [n, classes]; several or none a row are allowed
        rows  int64 [n], which training images these are, 0 to N - 1
        """
        raise NotImplementedError

    def class_centers(self) -> Tensor | None:
        """Class centers [classes, bits] for model.pt, or None when the method has none."""
        return None


def create(name: str, classes: int, bits: int, images: int, options: dict[str, Any]) -> Method:
    """A method by name. IdcwhError for an unknown name, TypeError or ValueError for a wrong option."""
    if name not in MODULES:
        raise IdcwhError(f"unknown method {name!r}; expected one of {', '.join(MODULES)}")
    module = importlib.import_module(f".{MODULES[name]}", __package__)
    found = next(c for c in vars(module).values() if isinstance(c, type) and getattr(c, "name", None) == name)
    method: Method = found(classes, bits, images, **options)
    return method
