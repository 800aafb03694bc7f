"""Labelled images for tests that train."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def write_images(root: Path, classes: int = 3, each: int = 14, size: int = 40) -> Path:
    """Writes images that a random network can distinguish: a colour and a stripe per class, with noise."""
    rng = np.random.default_rng(0)
    for c in range(classes):
        for i in range(each):
            image = rng.integers(0, 60, (size, size, 3))
            image[:, :, c % 3] += 120
            image[c % 7 :: 7] += 70
            path = root / ("test" if i < 3 else "train") / f"class{c}" / f"{i:02d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.clip(image, 0, 255).astype(np.uint8)).save(path)
    return root
