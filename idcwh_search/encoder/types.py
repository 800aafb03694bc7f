"""Types of codes, logits, images and encoders."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image

from ..images.preprocess import Encoded

Codes = npt.NDArray[np.uint8]
Logits = npt.NDArray[np.float32]
ImageInput = Encoded | Image.Image | npt.NDArray[np.uint8]  # an array is one image, uint8 [h, w, 3]
ENCODED = (str, os.PathLike, bytes, bytearray, memoryview)
"""Types of an encoded image: a path or the bytes of a file. Objects with `read` are encoded images, too."""


class BatchEncoder(Protocol):
    """An encoder of many images by batch.py: the model of Encoder, or a perceptual hash."""

    device: str
    threads: int
    batch_size: int

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of the array of one image."""

    def pixels(self, image: ImageInput) -> npt.NDArray[np.uint8]:
        """Returns one image as an array of `input_shape`. Raises UnreadableImage."""

    def run(self, pixels: npt.NDArray[np.uint8]) -> tuple[Codes, Any]:
        """Returns codes and logits of several images."""

    def parallel(self) -> tuple[Callable[[npt.NDArray[np.uint8]], tuple[Codes, Any]], int]:
        """Returns a function like `run`, and the number of threads that should call it at once."""
