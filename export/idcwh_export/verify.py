"""Does the ONNX file compute what the model computes? Decided in bits, on real images, in batches of several sizes.

Two programs that add the same float32 numbers in another order differ in the last digits, so a logit that is zero up to
rounding may give a bit either way. Anything more is a fault of the export: another normalisation, a wrong fusion,
another layout, a batch size frozen in. The line between the two is drawn relative to `scale`, the root mean square of
the logits of the images at hand, since only the size of logits relative to each other means anything:

- a bit may differ only where |logit| <= ZERO * scale;
- no logit may differ by more than SAME * scale, which also catches a fault too small to flip a bit of these few images.

Some networks, deep ones with random weights above all, make more of rounding than that. Where a limit is passed, the
model is run once more in float64 and its own rounding in float32 measured: up to OWN times that is rounding as well.

Measured on GoogLeNet and EfficientNet-Lite0 (docs/export.md), rounding stays below 3e-5 * scale, and the smallest fault
tried, a mean that is off by 1/10,000 of the range of a pixel, moves logits by 6e-4 * scale or more.

A file of lower precision differs by design. What it may not do is find worse: its MAP on these images may be lower than
the model's by no more than MAP_LOSS. In half precision no activation may come near the end of the range: ACTIVATION.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from idcwh_search._util.wording import counted
from idcwh_search.encoder.encoder import Encoder
from idcwh_search.images.preprocess import Pixels
from idcwh_train.models.hash_model import HashModel

from . import retrieval
from .emulation import LARGEST as LARGEST_HALF
from .emulation import HalfArithmetic

ZERO = 1e-4
SAME = 3e-4
OWN = 8
MAP_LOSS = {"fp16": 0.002, "int8": 0.01}
ACTIVATION = LARGEST_HALF / 2  # other pictures go further than these few
SIZES = (1, 3, 8)  # batches every file is tried with, besides the largest
LARGEST = 32
RANKED = 5000  # pictures that MAP is taken over at most, evenly spaced; each is a query against all others
_TRIED = LARGEST  # images of a run that go through all sizes; the rest go through the largest only

Codes = npt.NDArray[np.uint8]
Logits = npt.NDArray[np.float32]


@dataclass
class Comparison:
    """What a verification found; grows chunk by chunk.

    images: pictures compared; bits: comparisons of a bit (a picture counts once for each batch size it was run in);
    differing: bits that came out differently; largest: largest |logit| among those; distance: largest difference of any
    logit; batches: the sizes that were run; faults: what is wrong beyond numbers, in words. noise: largest
    difference of any of the model's own logits from those in float64, 0 where it was not measured. map_before and
    map_after: MAP of the model's codes and of the file's on `ranked` of the pictures, None where nothing among these is
    relevant to another;
    seconds: in ONNX Runtime, for `timed` pictures in the largest batches. activation: the largest in half precision,
    None where it was not looked at.
    """

    precision: str = "fp32"
    images: int = 0
    bits: int = 0
    differing: int = 0
    largest: float = 0.0
    distance: float = 0.0
    batches: set[int] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    noise: float = 0.0
    squares: float = 0.0
    logits: int = 0
    ranked: int = 0
    map_before: float | None = None
    map_after: float | None = None
    seconds: float = 0.0
    timed: int = 0
    activation: float | None = None

    @property
    def scale(self) -> float:
        """Root mean square of the model's logits."""
        return float(np.sqrt(self.squares / self.logits)) if self.logits else 0.0

    @property
    def images_per_second(self) -> float:
        """Of ONNX Runtime alone, in the largest batches."""
        return self.timed / self.seconds if self.seconds else 0.0

    def problem(self) -> str | None:
        """Why the file must not be used, in one line; None if it is as good as the model."""
        if self.activation is not None and not self.activation <= ACTIVATION:  # nor where it is not a number
            beyond = f"{self.activation:.6g}" if self.activation <= LARGEST_HALF else f"more than {LARGEST_HALF:,.0f}"
            return (
                f"an activation reaches {beyond}, where half precision ends at {LARGEST_HALF:,.0f} and "
                f"{ACTIVATION:,.0f} is allowed, since other images go further; take fp32"
            )
        if self.faults:
            return self.faults[0]
        if not self.images:
            return "no images to compare on"
        if self.precision != "fp32":
            return self._lost()
        zero, same = (max(part * self.scale, OWN * self.noise) for part in (ZERO, SAME))
        if self.largest > zero:
            return (
                f"{self.differing} of {self.bits} bits differ, one at |logit| {self.largest:.3g}, "
                f"where rounding explains no more than {zero:.3g}"
            )
        if self.distance > same:
            return f"logits differ by {self.distance:.3g}, where rounding explains no more than {same:.3g}"
        return None

    def _lost(self) -> str | None:
        if self.map_before is None or self.map_after is None:
            return (
                "nothing among the images is relevant to another, so no MAP can be compared; take others to verify on"
            )
        if self.map_before - self.map_after > MAP_LOSS[self.precision]:
            better = "" if self.ranked == RANKED else ": a larger set, with --verify, measures it better"
            return (
                f"MAP falls from {self.map_before:.4f} to {self.map_after:.4f} in {self.precision}, "
                f"where {MAP_LOSS[self.precision]} is allowed ({self.differing} of {self.bits} bits differ; measured "
                f"on {self.ranked} images{better})"
            )
        return None

    def __str__(self) -> str:
        sizes = ", ".join(map(str, sorted(self.batches)))
        among = f", largest |logit| among them {self.largest:.3g}" if self.differing else ""
        reached = "" if self.activation is None else f"; activations reach {self.activation:.4g}"
        images = counted(self.images, "image")
        return (
            f"{images} in batches of {sizes}: {self.differing} of {self.bits:,} bits differ{among}; "
            f"logits differ by at most {self.distance:.3g} (their scale is {self.scale:.3g}){reached}"
        )

    def to_dict(self) -> dict[str, Any]:
        """What is written into the file: everything but times, which are never the same twice."""
        return {
            "images": self.images,
            "batches": sorted(self.batches),
            "bits_compared": self.bits,
            "bits_differing": self.differing,
            "largest_logit_differing": self.largest,
            "logit_distance": self.distance,
            "logit_scale": self.scale,
            "model_rounding": self.noise or None,
            "map_images": self.ranked,
            "map_before": self.map_before,
            "map_after": self.map_after,
            **({} if self.activation is None else {"largest_activation": self.activation}),
        }


def verify(
    network: nn.Module,
    encoders: Sequence[Encoder | HalfArithmetic],
    chunks: Iterable[Pixels],
    labels: Callable[[], npt.NDArray[Any]] | None = None,
) -> list[Comparison]:
    """Run torch on the CPU and the encoders side by side on chunks of preprocessed pictures uint8 [m, H, W, 3].

    One comparison an encoder; the encoders take turns chunk by chunk, so that their times can be compared. labels
    gives, once the chunks are through, what belongs together (retrieval.share_a_label); without it the nearest by
    logits do.
    """
    found = [Comparison(precision=encoder.info.precision) for encoder in encoders]
    network.eval()
    wanted: list[Logits] = []
    first: Pixels | None = None
    codes: list[list[Codes]] = [[] for _ in encoders]
    for pixels in chunks:
        expected = _torch_logits(network, pixels)
        if not np.isfinite(expected).all():
            for comparison in found:
                comparison.faults.append("the model itself gives logits that are not finite numbers")
            return found
        wanted.append(expected)
        first = pixels if first is None else first
        for comparison, encoder, kept in zip(found, encoders, codes, strict=True):
            comparison.squares += float(np.square(expected, dtype=np.float64).sum())
            comparison.logits += expected.size
            for size in (*SIZES, LARGEST) if comparison.images < _TRIED else (LARGEST,):
                got = _compare(comparison, encoder, pixels, expected, size)
            kept.append(got)
            comparison.images += len(pixels)
            if isinstance(encoder, HalfArithmetic):
                comparison.activation = encoder.largest
    suspects = [one for one in found if one.precision == "fp32" and one.problem() and not one.faults]
    if suspects and first is not None:
        noise = float(np.abs(_exact_logits(network, first) - wanted[0]).max())
        for comparison in suspects:
            comparison.noise = noise
    if wanted:
        _rank(found, np.concatenate(wanted), [np.concatenate(kept) for kept in codes], labels)
    return found


def _rank(
    found: list[Comparison], logits: Logits, codes: list[Codes], labels: Callable[[], npt.NDArray[Any]] | None
) -> None:
    """MAP, over pictures of the whole set where it is too large: sets are often in the order of their classes."""
    rows = np.linspace(0, len(logits) - 1, min(len(logits), RANKED)).round().astype(np.int64)
    logits, bits = logits[rows], logits.shape[1]
    relevant = retrieval.nearest(logits) if labels is None else retrieval.share_a_label(labels()[rows])
    model = np.packbits(logits >= 0, axis=1, bitorder="little")
    before = retrieval.mean_average_precision(model, relevant, bits)
    for comparison, kept in zip(found, codes, strict=True):
        comparison.ranked, comparison.map_before = len(rows), before
        comparison.map_after = retrieval.mean_average_precision(kept[rows], relevant, bits)


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


def _exact_logits(network: nn.Module, pixels: Pixels) -> npt.NDArray[np.float64]:
    """What the model would give if numbers had twice the digits. Its own logits where it is no HashModel."""
    if not isinstance(network, HashModel):
        return _torch_logits(network, pixels).astype(np.float64)
    exact = copy.deepcopy(network).double()
    with torch.inference_mode():
        x = (torch.from_numpy(pixels).permute(0, 3, 1, 2).double() - exact.mean) / exact.std
        logits: npt.NDArray[np.float64] = exact.hash(exact.backbone(x)).numpy()
    return logits


def _compare(
    found: Comparison, encoder: Encoder | HalfArithmetic, pixels: Pixels, expected: Logits, size: int
) -> Codes:
    """One batch size; too few pictures for a full batch are repeated, so that the size is really run. Their codes."""
    order = np.arange(max(len(pixels), size if size in SIZES else 0)) % len(pixels)
    started = time.perf_counter()
    parts = [encoder.run(pixels[order[start : start + size]]) for start in range(0, len(order), size)]
    if size == LARGEST:
        found.seconds += time.perf_counter() - started
        found.timed += len(order)
    codes, logits = (np.concatenate(part) for part in zip(*parts, strict=True))
    expected = expected[order]
    found.batches.add(min(size, len(order)))
    found.bits += expected.size
    if not np.array_equal(codes, np.packbits(logits >= 0, axis=1, bitorder="little")):
        found.faults.append("its codes are not its logits packed by sign")
    if not np.isfinite(logits).all():
        found.faults.append("it gives logits that are not finite numbers where the model does not")
        return codes[: len(pixels)]
    differing = (logits >= 0) != (expected >= 0)
    if differing.any():
        found.differing += int(differing.sum())
        found.largest = max(found.largest, float(np.abs(expected[differing]).max()))
    found.distance = max(found.distance, float(np.abs(logits - expected).max()))
    return codes[: len(pixels)]
