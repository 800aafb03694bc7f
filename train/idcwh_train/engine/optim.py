"""The optimizer and the learning-rate schedule of a run."""

from __future__ import annotations

import math

import torch

from ..methods.base import Method
from ..models.hash_model import Network
from ..options import Options


def learning_rate_factor(options: Options, epoch: int, step: int, epochs: int, steps: int) -> float:
    """Returns the factor of all learning rates in a step: a linear warmup, then the schedule of the options.

    Args:
        epoch, step: position in the run, from 0; `step` counts within the epoch.
        epochs, steps: number of epochs, and of steps per epoch.
    """
    total = epochs * steps
    done = (epoch * steps + step) / total
    if done < options.warmup:
        return (done + 1 / total) / options.warmup
    if options.schedule == "step":
        return float(0.1 ** (3 * epoch // epochs))
    left = 1 - (done - options.warmup) / (1 - options.warmup)
    return left if options.schedule == "linear" else 0.5 - 0.5 * math.cos(math.pi * left)


def optimizer(network: Network, methods: list[Method], options: Options) -> torch.optim.Optimizer:
    """Returns SGD or AdamW, with separate learning rates for backbone, hash layers and class centers."""
    trained = [(name, p) for name, p in network.named_parameters() if p.requires_grad]
    rates = {
        "network": ([p for name, p in trained if not name.startswith("heads.")], options.lr),
        "heads": (
            [p for name, p in trained if name.startswith("heads.")],
            _head_lr(methods, options),
        ),
        "centers": ([p for method in methods for p in method.parameters()], options.center_lr),
    }
    groups = [{"params": params, "lr": lr} for params, lr in rates.values() if params]
    if options.optimizer == "adam":
        return torch.optim.AdamW(groups, weight_decay=options.weight_decay)
    return torch.optim.SGD(
        groups, momentum=options.momentum, weight_decay=options.weight_decay, nesterov=options.nesterov
    )


def _head_lr(methods: list[Method], options: Options) -> float:
    """Returns the learning rate of the hash layers: head_lr, or by default lr times the method's factor.

    With a frozen backbone the factor does not apply.
    """
    if options.head_lr is not None:
        return options.head_lr
    return options.lr if options.freeze else options.lr * methods[0].head_lr
