"""Codes of classes with large distances: the targets of CSQ and OrthoHash, the codes of class-code."""

from __future__ import annotations

import torch
from torch import Tensor

_SPREAD = 4096  # largest number of classes whose codes are chosen for their distances
_POOL = 8192  # random codes to choose from
_POOL_BYTES = 1 << 23  # limit of the pool with one byte per bit, reached by _POOL codes of 1,024 bits


def hadamard_rows(rows: Tensor, order: int) -> Tensor:
    """Returns rows (int64 [n]) of Sylvester's Hadamard matrix, int8 [n, order] of +1 and -1.

    Two different rows differ in half of their positions. The memory is linear in `order`, unlike for the whole matrix.

    Raises:
        ValueError: `order` is not a power of 2.
    """
    if order < 1 or order & (order - 1):
        raise ValueError(f"order: expected a power of 2, not {order}")
    h = torch.ones(len(rows), 1, dtype=torch.int8)
    while h.shape[1] < order:  # H of twice the order is [[H, H], [H, -H]]
        second_half = (rows & h.shape[1] > 0)[:, None]
        h = torch.cat([h, torch.where(second_half, -h, h)], 1)
    return h


def rows_of_hadamard(classes: int, bits: int) -> Tensor | None:
    """Returns rows of H, and of -H if H has too few, in random order. Returns None if there are not enough rows."""
    if bits & (bits - 1) or classes > 2 * bits:
        return None
    chosen = torch.randperm(bits if classes <= bits else 2 * bits)[:classes]
    return torch.where(chosen < bits, 1, -1).to(torch.int8)[:, None] * hadamard_rows(chosen % bits, bits)


def spread(classes: int, bits: int) -> Tensor:
    """Returns random codes int8 [classes, bits] of +1 and -1, from torch's default generator.

    With more classes than codes, the uses of two codes differ by at most one. Up to 4,096 classes, each code is the
    farthest from the previous ones in a pool of thousands of random codes, or hundreds for very long codes. More
    classes get distinct random codes, whose distances are close to bits / 2 in any case.
    """
    if classes >= 2**bits:
        numbers = torch.cat([torch.randperm(2**bits) for _ in range(-(-classes // 2**bits))])[:classes]
        return _codes(numbers, bits)
    pool = _pool(max(min(_POOL, _POOL_BYTES // bits) if classes <= _SPREAD else 0, classes), bits)
    return _farthest(pool, classes) if classes <= _SPREAD else pool[:classes]


def _codes(numbers: Tensor, bits: int) -> Tensor:
    return (2 * (numbers[:, None] >> torch.arange(bits) & 1) - 1).to(torch.int8)


def _pool(size: int, bits: int) -> Tensor:
    """Returns at least `size` distinct random codes, or all codes if there are few."""
    if 2**bits <= 2 * size:
        return _codes(torch.randperm(2**bits), bits)
    codes = torch.empty(0, bits, dtype=torch.int8)
    while len(codes) < size:  # one or two passes, since repeated codes are rare
        drawn = torch.cat([codes, 2 * torch.randint(2, (size, bits), dtype=torch.int8) - 1])
        codes = torch.unique(drawn, dim=0)
    return codes[torch.randperm(len(codes))]


def _farthest(pool: Tensor, count: int) -> Tensor:
    """Returns `count` codes of the pool: the first, then repeatedly the one farthest from the chosen ones."""
    p = pool.float()
    chosen = torch.zeros(count, dtype=torch.int64)
    nearest = p @ p[0]  # largest inner product with a chosen code; the smallest value is the farthest code
    for i in range(1, count):
        chosen[i] = nearest.argmin()
        nearest = torch.maximum(nearest, p @ p[chosen[i]])
    return pool[chosen]
