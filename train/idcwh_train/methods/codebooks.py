"""Codes for classes, far from each other: the targets of CSQ and OrthoHash, the codes of class-code."""

from __future__ import annotations

import torch
from torch import Tensor

_SPREAD = 4096  # classes for which codes are chosen far apart; more are only drawn different
_POOL = 8192


def hadamard(order: int) -> Tensor:
    """Sylvester's Hadamard matrix, int8 [order, order] of +1 and -1: any two rows differ in half of their places.

    ValueError unless `order` is a power of 2.
    """
    if order < 1 or order & (order - 1):
        raise ValueError(f"order: expected a power of 2, not {order}")
    h = torch.ones(1, 1, dtype=torch.int8)
    while len(h) < order:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)])
    return h


def rows_of_hadamard(classes: int, bits: int) -> Tensor | None:
    """Codes from the rows of H, and of -H when H has too few, in random order; None where that is not possible."""
    if bits & (bits - 1) or classes > 2 * bits:
        return None
    h = hadamard(bits)
    rows = h if classes <= bits else torch.cat([h, -h])
    return rows[torch.randperm(len(rows))[:classes]]


def spread(classes: int, bits: int) -> Tensor:
    """Random codes int8 [classes, bits] of +1 and -1, from torch's default generator.

    With more classes than codes each code is given out equally often, up to one. Up to 4,096 classes, each code is the
    one farthest from those before, of thousands drawn (or of all there are); with more, codes are different and no
    more than that: drawn at random they are close to bits / 2 apart anyway.
    """
    if classes >= 2**bits:
        numbers = torch.cat([torch.randperm(2**bits) for _ in range(-(-classes // 2**bits))])[:classes]
        return _codes(numbers, bits)
    pool = _pool(max(_POOL if classes <= _SPREAD else 0, classes), bits)
    return _farthest(pool, classes) if classes <= _SPREAD else pool[:classes]


def _codes(numbers: Tensor, bits: int) -> Tensor:
    return (2 * (numbers[:, None] >> torch.arange(bits) & 1) - 1).to(torch.int8)


def _pool(size: int, bits: int) -> Tensor:
    """At least `size` different random codes, or all that there are."""
    if 2**bits <= 2 * size:
        return _codes(torch.randperm(2**bits), bits)
    codes = torch.empty(0, bits, dtype=torch.int8)
    while len(codes) < size:  # once or twice: repeats are rare
        drawn = torch.cat([codes, (2 * torch.randint(2, (size, bits)) - 1).to(torch.int8)])
        codes = torch.unique(drawn, dim=0)
    return codes[torch.randperm(len(codes))]


def _farthest(pool: Tensor, count: int) -> Tensor:
    """`count` codes of the pool: the first one, then each time that with the largest distance to its nearest."""
    p = pool.float()
    chosen = torch.zeros(count, dtype=torch.int64)
    nearest = p @ p[0]  # largest inner product with a chosen one; least is farthest
    for i in range(1, count):
        chosen[i] = nearest.argmin()
        nearest = torch.maximum(nearest, p @ p[chosen[i]])
    return pool[chosen]
