"""All pairs of codes within a radius, their number, and the clusters that they make. The engine is csrc/src/join."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from .. import _core
from .._util.arguments import whole
from ..codes import check_codes

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]
BLOCK = 1 << 17  # pairs, 2.6 MB, which stay in the caches


class Join(Iterator[Pairs]):
    """The pairs within a radius, as an iterator over blocks (I, J, D): int64, int64 and int32 arrays of one length.

    Every pair comes exactly once. The order is a function of the codes and the radius. It does not depend on the
    number of threads or the instruction set.

    Threads may share a join: each block goes to one of them. Ctrl-C ends a long join. After an error, such as Ctrl-C,
    each later call raises an error, too.
    """

    def __init__(self, join: _core.Join) -> None:
        """Wraps a join of the engine; callers use `self_join` and `join`."""
        self._join = join

    def __next__(self) -> Pairs:
        return next(self._join)

    def explain(self) -> str:
        """Returns how the pairs are found, as text; "" after the last block."""
        return self._join.explain()


def self_join(
    codes: np.ndarray,
    radius: int,
    bits: int | None = None,
    *,
    max_pairs: int | None = None,
    block: int = BLOCK,
    threads: int | None = None,
) -> Join:
    """Returns all pairs of rows i < j at a distance of at most `radius`, as blocks (I, J, D).

    Args:
        codes: packed codes, uint8 (n, ceil(bits / 8)), n < 2**32. The distinct ones are copied.
        radius: inclusive radius in bits, 0 to `bits`.
        bits: code length; None for 8 * codes.shape[1].
        max_pairs: largest number of pairs; None for any.
        block: largest number of pairs per block.
        threads: number of threads; None for one per available core.

    Raises:
        ValueError: an argument is invalid, or (while iterating) there are more than `max_pairs` pairs. The message
            states their number.
        TypeError: an argument has a wrong type.
    """
    codes, bits = _checked(codes, bits, "codes")
    return Join(_core.join(codes, None, bits, radius, max_pairs, block, threads))


def join(
    a: np.ndarray,
    b: np.ndarray,
    radius: int,
    bits: int | None = None,
    *,
    max_pairs: int | None = None,
    block: int = BLOCK,
    threads: int | None = None,
) -> Join:
    """Returns all pairs of a row of `a` and a row of `b` at a distance of at most `radius`, as blocks (I, J, D).

    I counts rows of `a`, J rows of `b`. The arguments and errors are those of `self_join`.
    """
    a, bits = _checked(a, bits, "a")
    b, bits = _checked(b, bits, "b")
    return Join(_core.join(a, b, bits, radius, max_pairs, block, threads))


def count_pairs(codes: np.ndarray, radius: int, bits: int | None = None, *, threads: int | None = None) -> int:
    """Returns the number of pairs of rows i < j at a distance of at most `radius`.

    The arguments and errors are those of `self_join`.
    """
    codes, bits = _checked(codes, bits, "codes")
    return _core.join_count(codes, None, bits, radius, threads)


def clusters(
    codes: np.ndarray,
    radius: int,
    mode: Literal["components", "greedy"] = "components",
    bits: int | None = None,
    *,
    threads: int | None = None,
) -> np.ndarray:
    """Returns the cluster of each row, int64 (n,), numbered from 0 in the order of their first rows.

    Args:
        codes: packed codes, uint8 (n, ceil(bits / 8)), n < 2**32.
        radius: inclusive radius in bits, 0 to `bits`.
        mode: "components" puts two rows into one cluster if a chain of pairs within the radius connects them. "greedy"
            visits the rows in order: a row joins the first keeper within the radius, or becomes a keeper itself. So
            every row is within the radius of the first row of its cluster. It holds 8 bytes per pair of distinct
            codes in memory.
        bits: code length; None for 8 * codes.shape[1].
        threads: number of threads; None for one per available core.

    Raises:
        ValueError: an argument is invalid.
        TypeError: an argument has a wrong type.
    """
    if mode not in ("components", "greedy"):
        raise ValueError(f'mode must be "components" or "greedy", not {mode!r}')
    codes, bits = _checked(codes, bits, "codes")
    return _core.clusters(codes, bits, radius, mode == "greedy", threads)


def _checked(codes: np.ndarray, bits: int | None, name: str) -> tuple[np.ndarray, int]:
    if bits is None:
        if np.ndim(codes) != 2 or np.shape(codes)[1] == 0:
            raise ValueError(f"{name} must be uint8 of shape (n, bytes), not of shape {np.shape(codes)}")
        bits = 8 * np.shape(codes)[1]
    bits = whole("bits", bits, 1)
    return check_codes(codes, bits, name), bits
