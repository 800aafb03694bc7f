"""Exponential moving averages (EMA) of the weights (`--average`) and of the batch norm statistics.

Their decay grows with the number of steps, so that the initial values fade early in a short training.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def decay(limit: float, steps: int) -> float:
    """Returns the EMA decay after `steps` steps, which grows from 0.1 to `limit`."""
    return min(limit, (1 + steps) / (10 + steps))


def of_weights(network: nn.Module, limit: float) -> AveragedModel:
    """Returns the EMA of all weights and buffers of a network. `limit` is the largest decay, see `decay`.

    The first update copies the network.
    """

    def update(mean: Any, current: Any, updates: Any) -> None:
        get_ema_multi_avg_fn(decay(limit, int(updates)))(mean, current, updates)

    return AveragedModel(network, multi_avg_fn=update, use_buffers=True)


class BatchNormWarmup:
    """The running statistics of batch norm in a network that trains from scratch.

    Their initial values are mean 0 and variance 1. With a constant decay, such as 0.99 in torchvision's MobileNetV3,
    they would dominate the first hundred steps, and all images would have the same code.
    """

    def __init__(self, network: nn.Module) -> None:
        self._norms = [
            (norm, norm.momentum)
            for norm in network.modules()
            if isinstance(norm, _BatchNorm) and norm.momentum is not None
        ]

    def before_step(self, steps: int) -> None:
        """Sets the momentum of every batch norm for the step after `steps` steps."""
        for norm, momentum in self._norms:
            norm.momentum = 1 - decay(1 - momentum, steps)
