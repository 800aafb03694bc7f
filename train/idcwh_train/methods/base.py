"""The interface of a method for the trainer: a loss with its state and its head."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from idcwh_search.errors import InvalidInputError

from ..models import heads
from ..option_types import declared
from . import MODULES


@dataclass
class Loss:
    """The loss of a batch.

    total: the scalar to differentiate.
    terms: its summands by name, detached.
    skipped: number of rows without a label.
    """

    total: Tensor
    terms: dict[str, Tensor]
    skipped: int = 0


class Method(nn.Module):
    """The base class of the losses.

    The parameters of a method (centers) train together with the network, with their own learning rate. Other state is
    in buffers, so that a checkpoint stores only its `state_dict`.

    Options are declared as class attributes, such as `margin: float = option(0.5, AT_LEAST_0, "...")`, and an instance
    has their values. A subclass defines `terms`, and `head` unless it is a linear layer. With `closed_form` it defines
    `fit` instead.
    """

    name: ClassVar[str]
    closed_form: ClassVar[bool] = False  # if true, `fit` is called once with all features instead of the training loop
    head_lr: ClassVar[float] = 1.0  # learning rate of the head divided by that of the backbone, in fine-tuning

    def __init__(self, classes: int, bits: int, images: int = 0, **options: Any) -> None:
        """Stores the numbers of classes, bits and training images, and the options.

        Raises TypeError for an unknown option, and ValueError for an invalid value.
        """
        super().__init__()
        self.classes, self.bits, self.images = classes, bits, images
        known = declared(type(self))
        if unknown := [name for name in options if name not in known]:
            raise TypeError(f"unknown option {unknown[0]!r}; expected one of {', '.join(known)}")
        for name, one in known.items():
            setattr(self, name, one.checked(name, options.get(name, one.default)))

    def options(self) -> dict[str, Any]:
        """Returns the value of every option in plain Python, for model.pt."""
        return {name: getattr(self, name) for name in declared(type(self))}

    def head(self, features: int) -> nn.Module:
        """Returns a new head of heads.py, float32 [n, features] -> [n, bits], with random weights.

        In eval mode its output is the logits h whose signs are the code, in training mode the input h of `forward`.
        """
        return heads.linear(features, self.bits)

    def start_epoch(self) -> None:
        """Prepares an epoch; the trainer calls it before the first batch."""

    def forward(self, h: Tensor, y: Tensor, rows: Tensor) -> Loss:
        """Returns the loss of a batch, the sum of `terms` for the rows that have a label.

        Args:
            h: output of the head, float32 [n, bits], with gradient.
            y: labels, bool [n, classes], with any number per row.
            rows: positions of the training images, int64 [n], 0 to images - 1.
        """
        labelled = y.any(dim=1)
        skipped = len(y) - int(labelled.sum())
        if skipped:
            h, y, rows = h[labelled], y[labelled], rows[labelled]
        if not len(h):
            return Loss(h.sum() + sum(0 * p.sum() for p in self.parameters()), {}, skipped)
        with torch.autocast(h.device.type, enabled=False):
            terms = self.terms(h if h.dtype == torch.float64 else h.float(), y, rows)
        total = torch.stack(list(terms.values())).sum()
        return Loss(total, {name: term.detach() for name, term in terms.items()}, skipped)

    def terms(self, h: Tensor, y: Tensor, rows: Tensor) -> dict[str, Tensor]:
        """Returns the terms of the loss by name, with their weights. Every row has a label, and n > 0."""
        raise NotImplementedError

    def fit(self, x: Tensor, y: Tensor, generator: torch.Generator) -> nn.Module:
        """Returns the fitted head of a method in closed form.

        Args:
            x: features, float32 [N, features].
            y: labels, bool [N, classes].
            generator: generator of random numbers, on the CPU.
        """
        raise NotImplementedError

    def class_centers(self) -> Tensor | None:
        """Returns the class centers [classes, bits] for model.pt, or None for a method without centers."""
        return None


def sgn(x: Tensor) -> Tensor:
    """Returns the signs as +1 and -1, of the same dtype. sgn(0) is +1 in the whole toolkit, and 0 in torch.sign."""
    one = torch.ones((), dtype=x.dtype, device=x.device)
    return torch.where(x >= 0, one, -one)


def quantization(h: Tensor) -> Tensor:
    """Returns ||b - h||^2 of each row, [n], where b = sgn(h) has no gradient."""
    return (sgn(h.detach()) - h).square().sum(dim=1)


def find(name: str) -> type[Method]:
    """Returns the class of a method. Raises IdcwhError for an unknown name."""
    if name not in MODULES:
        raise InvalidInputError(path="method", found=name, expected=f"one of {', '.join(MODULES)}")
    module = importlib.import_module(f".{MODULES[name].module}", __package__)
    method: type[Method] = next(
        c for c in vars(module).values() if isinstance(c, type) and getattr(c, "name", None) == name
    )
    return method


def create(
    name: str, classes: int, bits: int, images: int, options: dict[str, Any], multi_label: bool | None = None
) -> Method:
    """Returns a method by name.

    Args:
        classes, bits, images: numbers of classes, bits and training images.
        options: those that differ from the defaults.
        multi_label: default of the option `multi_label`, True for multi-label data; None if it is unknown.

    Raises:
        IdcwhError: unknown name.
        TypeError: unknown option; the message begins with the method's name.
        ValueError: invalid value; the message begins with the method's name.
    """
    method = find(name)
    if multi_label is not None and "multi_label" in declared(method):
        options = {"multi_label": multi_label, **options}
    try:
        return method(classes, bits, images, **options)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from error
