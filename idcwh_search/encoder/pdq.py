"""PDQ, the perceptual hash of 256 bits for near-duplicates, by the package pdqhash.

Large images are first scaled to 512 x 512 pixels, as in the reference implementation (facebook/ThreatExchange,
pdq/cpp/io/pdqio.cpp). Its README recommends a radius of 31 bits, and no hashes with a quality of 49 or less.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PIL import Image

from .._util.hardware import available_cores
from ..images.preprocess import load_reduced
from .types import Codes, ImageInput

BITS = 256
LEAST_QUALITY = 50
_SIDE = 512


class Pdq:
    """The PDQ hasher, an encoder of many images for batch.py. A code is the hash, with its quality as one more byte.

    Attributes:
        device, threads, batch_size: as in Encoder.
    """

    device = "cpu"
    batch_size = 8

    def __init__(self, threads: int | None = None) -> None:
        """Imports pdqhash. Raises ImportError without it."""
        import pdqhash

        self._compute = pdqhash.compute
        self.threads = threads or available_cores()

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of the hash and quality of one image."""
        return (BITS // 8 + 1,)

    def pixels(self, image: ImageInput) -> Codes:
        """Returns hash and quality of an image file, uint8 (33,). Raises UnreadableImage.

        Bit 0 of the hash is the least significant one of its hexadecimal text, as in `from_hex(order="pdq")`.
        """
        rgb = load_reduced(image, _SIDE)  # type: ignore[arg-type]
        if max(rgb.size) > _SIDE:
            rgb = rgb.resize((_SIDE, _SIDE), Image.Resampling.BILINEAR)
        bits, quality = self._compute(np.asarray(rgb))
        return np.append(np.packbits(bits[::-1].astype(bool), bitorder="little"), np.uint8(quality))

    def run(self, pixels: Codes) -> tuple[Codes, None]:
        """Returns the hashes, which `pixels` has computed already."""
        return pixels, None

    def parallel(self) -> tuple[Callable[[Codes], tuple[Codes, None]], int]:
        """Returns `run` and the number of threads."""
        return self.run, self.threads
