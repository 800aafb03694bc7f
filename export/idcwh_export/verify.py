"""Does the ONNX file compute what the model computes? Decided in bits, on real images, in batches of several sizes.

Two programs that add the same float32 numbers in another order differ in the last digits, so a logit that is zero up to
rounding may give a bit either way. Anything more is a fault of the export: another normalisation, a wrong fusion,
another layout, a batch size frozen in. The line between the two is drawn relative to `scale`, the root mean square of
the logits of the images at hand, since only the size of logits relative to each other means anything:

- a bit may differ only where |logit| <= ZERO * scale;
- no logit may differ by more than SAME * scale, which also catches a fault too small to flip a bit of these few images.

Measured on GoogLeNet and EfficientNet-Lite0 (docs/export.md), rounding stays below 3e-5 * scale, and the smallest fault
tried, a mean that is off by 1/10,000 of the range of a pixel, moves logits by 6e-4 * scale or more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from idcwh_search.encoder import Encoder
from idcwh_search.images import Pixels

ZERO = 1e-4
SAME = 3e-4
SIZES = (1, 3, 8)  # batches every file is tried with, besides the largest
LARGEST = 32
_TRIED = 24  # images of a run that go through all sizes; the rest go through the largest only

Logits = npt.NDArray[np.float32]


@dataclass
class Comparison:
    """What a verification found; grows chunk by chunk.

    images: pictures compared; bits: comparisons of a bit (a picture counts once for each batch size it was run in);
    differing: bits that came out differently; largest: largest |logit| among those; distance: largest difference of any
    logit; batches: the sizes that were run; faults: what is wrong beyond numbers, in words.
    """

    images: int = 0
    bits: int = 0
    differing: int = 0
    largest: float = 0.0
    distance: float = 0.0
    batches: set[int] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    squares: float = 0.0
    logits: int = 0

    @property
    def scale(self) -> float:
        """Root mean square of the model's logits."""
        return float(np.sqrt(self.squares / self.logits)) if self.logits else 0.0

    def problem(self) -> str | None:
        """Why the file must not be used, in one line; None if it is as good as the model."""
        if self.faults:
            return self.faults[0]
        if not self.images:
            return "no images to compare on"
        if self.largest > ZERO * self.scale:
            return (
                f"{self.differing} of {self.bits} bits differ, one at |logit| {self.largest:.3g}, "
                f"where rounding explains no more than {ZERO * self.scale:.3g}"
            )
        if self.distance > SAME * self.scale:
            return f"logits differ by {self.distance:.3g}, where rounding explains no more than {SAME * self.scale:.3g}"
        return None

    def __str__(self) -> str:
        sizes = ", ".join(map(str, sorted(self.batches)))
        among = f", largest |logit| among them {self.largest:.3g}" if self.differing else ""
        return (
            f"{self.images} images in batches of {sizes}: {self.differing} of {self.bits:,} bits differ{among}; "
            f"logits differ by at most {self.distance:.3g} (their scale is {self.scale:.3g})"
        )


def verify(network: nn.Module, encoder: Encoder, chunks: Iterable[Pixels]) -> Comparison:
    """Run torch on the CPU and ONNX Runtime side by side on chunks of preprocessed pictures uint8 [m, H, W, 3]."""
    found = Comparison()
    network.eval()
    for pixels in chunks:
        expected = _torch_logits(network, pixels)
        if not np.isfinite(expected).all():
            found.faults.append("the model itself gives logits that are not finite numbers")
            return found
        found.squares += float(np.square(expected, dtype=np.float64).sum())
        found.logits += expected.size
        for size in (*SIZES, LARGEST) if found.images < _TRIED else (LARGEST,):
            _compare(found, encoder, pixels, expected, size)
        found.images += len(pixels)
    return found


def chunks(pictures: Iterable[Pixels], size: int = LARGEST) -> Iterator[Pixels]:
    """Single pictures uint8 [H, W, 3] as arrays of up to `size`."""
    gathered: list[Pixels] = []
    for picture in pictures:
        gathered.append(picture)
        if len(gathered) == size:
            yield np.stack(gathered)
            gathered = []
    if gathered:
        yield np.stack(gathered)


def _torch_logits(network: nn.Module, pixels: Pixels) -> Logits:
    with torch.inference_mode():
        logits: Logits = network(torch.from_numpy(pixels).permute(0, 3, 1, 2)).float().cpu().numpy()
        return logits


def _compare(found: Comparison, encoder: Encoder, pixels: Pixels, expected: Logits, size: int) -> None:
    """One batch size; too few pictures for a full batch are repeated, so that the size is really run."""
    order = np.arange(max(len(pixels), size if size in SIZES else 0)) % len(pixels)
    parts = [encoder.run(pixels[order[start : start + size]]) for start in range(0, len(order), size)]
    codes, logits = (np.concatenate(part) for part in zip(*parts, strict=True))
    expected = expected[order]
    found.batches.add(min(size, len(order)))
    found.bits += expected.size
    if not np.array_equal(codes, np.packbits(logits >= 0, axis=1, bitorder="little")):
        found.faults.append("its codes are not its logits packed by sign")
    if not np.isfinite(logits).all():
        found.faults.append("it gives logits that are not finite numbers where the model does not")
        return
    differing = (logits >= 0) != (expected >= 0)
    if differing.any():
        found.differing += int(differing.sum())
        found.largest = max(found.largest, float(np.abs(expected[differing]).max()))
    found.distance = max(found.distance, float(np.abs(logits - expected).max()))
