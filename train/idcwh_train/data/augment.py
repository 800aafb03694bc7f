"""Augmentation of a batch of pixels: random crop with a reflected border, horizontal flip, random erasing.

Every random number is a function of (seed, epoch, row), not of the batch, the threads or earlier numbers. A resumed run
therefore gets the same pixels. Each augmentation has its own numbers, so enabling one does not change the others.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
"""uint8 [n, h, w, 3], contiguous."""

_TOP, _LEFT, _FLIP, _HOLE_TOP, _HOLE_LEFT = range(5)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def augment(
    pixels: Pixels,
    rows: np.ndarray,
    seed: int,
    epoch: int,
    *,
    crop: int,
    pad: int = 0,
    flip: bool = False,
    alternate: bool = False,
    hole: int = 0,
    fill: int = 128,
) -> Pixels:
    """Returns the augmented images of an epoch, uint8 [n, crop, crop, 3].

    Args:
        pixels: the images, uint8 [n, h, w, 3].
        rows: their rows in the dataset, which select the random numbers.
        crop: side of a random square of the image.
        pad: width of a border around the image, which reflects it without repeating the edge.
        flip: flips half of the images left to right.
        alternate: flips each image in every other epoch instead.
        hole: side of a square that is filled; its centre is anywhere in the result.
        fill: the value of its pixels, 0 to 255.

    Raises ValueError if the square is larger than the image with its border.
    """
    random = draw(seed, epoch, rows)
    out = random_crop(pixels, random, crop, pad)
    if flip:
        constant = draw(seed, 0, rows) if alternate else random
        flip_where(out, (constant[:, _FLIP] >> np.uint64(63) != 0) ^ bool(alternate and epoch % 2))
    if hole:
        cut_out(out, random, hole, fill)
    return out


def draw(seed: int, epoch: int, rows: np.ndarray) -> np.ndarray:
    """Returns five random numbers per image, uint64 [n, 5], from SplitMix64, whose state is a hash of the arguments.

    Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    state = _mix(_mix(np.uint64((seed + int(_GOLDEN)) % 2**64)) ^ np.uint64(epoch))
    with np.errstate(over="ignore"):
        each = _mix(state ^ np.asarray(rows).astype(np.uint64))
        return _mix(each[:, None] + np.arange(1, _HOLE_LEFT + 2, dtype=np.uint64) * _GOLDEN)


def whole(random: np.ndarray, limit: int) -> np.ndarray:
    """Returns integers from 0 to limit - 1, int64, from random uint64. They are uniform up to 2^-32."""
    return (((random >> np.uint64(32)) * np.uint64(limit)) >> np.uint64(32)).astype(np.int64)


def random_crop(pixels: Pixels, random: np.ndarray, crop: int, pad: int = 0) -> Pixels:
    """Returns a new array with a square of each image and its reflected border. `random` is the result of `draw`."""
    n, h, w = pixels.shape[:3]
    if pad >= min(h, w):
        raise ValueError(f"pad: expected less than the side of the image ({h} x {w}), not {pad}")
    if not 1 <= crop <= min(h, w) + 2 * pad:
        raise ValueError(f"crop: expected 1 to {min(h, w) + 2 * pad} for images of {h} x {w}, not {crop}")
    if pad:
        pixels = np.pad(pixels, ((0, 0), (pad, pad), (pad, pad), (0, 0)), mode="reflect")
    tops = whole(random[:, _TOP], h + 2 * pad - crop + 1).tolist()
    lefts = whole(random[:, _LEFT], w + 2 * pad - crop + 1).tolist()
    out = np.empty((n, crop, crop, 3), np.uint8)
    # Copying a slice per image is faster than indexing with arrays.
    for target, source, top, left in zip(out, pixels, tops, lefts, strict=True):
        target[:] = source[top : top + crop, left : left + crop]
    return out


def flip_where(pixels: Pixels, chosen: np.ndarray) -> None:
    """Flips the images where `chosen`, bool [n], is true, left to right and in place."""
    whole_pixels = pixels.view("V3")[..., 0]  # one item per pixel, which is faster than three bytes
    whole_pixels[chosen] = whole_pixels[chosen, :, ::-1]


def cut_out(pixels: Pixels, random: np.ndarray, side: int, fill: int = 128) -> None:
    """Fills a square of each image in place. Its centre is inside the image, and its edges may be outside."""
    h, w = pixels.shape[1:3]
    tops = whole(random[:, _HOLE_TOP], h) - side // 2
    lefts = whole(random[:, _HOLE_LEFT], w) - side // 2
    for image, top, left in zip(pixels, tops.tolist(), lefts.tolist(), strict=True):
        image[max(0, top) : max(0, top + side), max(0, left) : max(0, left + side)] = fill


def _mix(z: np.ndarray | np.uint64) -> np.ndarray:
    """Returns the result of SplitMix64's finalizer, a bijection of uint64."""
    z = np.atleast_1d(z)
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
