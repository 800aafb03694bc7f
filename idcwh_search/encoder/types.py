"""Type aliases for codes, logits and images in the encoder."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt
from PIL import Image

from ..images.preprocess import Encoded

Codes = npt.NDArray[np.uint8]
Logits = npt.NDArray[np.float32]
ImageInput = Encoded | Image.Image | npt.NDArray[np.uint8]  # an array is one image, uint8 [h, w, 3]
ENCODED = (str, os.PathLike, bytes, bytearray, memoryview)
"""Types of an encoded image: a path or the bytes of a file. Objects with `read` are encoded images, too."""
