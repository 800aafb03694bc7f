"""The comparison of an ONNX file with its model: codes and logits on real images, in batches of several sizes.

Two programs that sum the same float32 values in different orders differ in the last digits. A logit that is zero up to
rounding may therefore give either bit. Larger differences are faults of the export, such as another normalisation, a
wrong fusion, another layout or a fixed batch size. The limits are relative to `scale`, the root mean square of the
logits of the images:

- a bit may differ only if |logit| <= ZERO * scale.
- no logit may differ by more than SAME * scale, which also detects faults that flip no bit of these images.

Some networks amplify rounding, mainly deep networks with random weights. If a limit is exceeded, the model is run again
in float64, which measures its rounding in float32. Differences of up to OWN times this value are rounding as well.

docs/export.md has measurements for GoogLeNet and EfficientNet-Lite0. Rounding stays below 3e-5 * scale. The smallest
fault that was tried, a mean that is wrong by 1/10,000 of the range of a pixel, changes logits by at least 6e-4 * scale.

A file of lower precision differs by design. Its MAP on these images may be at most MAP_LOSS lower than the model's. In
half precision, activations may not exceed ACTIVATION.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
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
ACTIVATION = LARGEST_HALF / 2  # half of the range, since other images may have larger activations
SIZES = (1, 3, 8)  # batch sizes besides the largest
LARGEST = 32
RANKED = 5000  # largest number of images for MAP, evenly spaced; each is a query against all others
_TRIED = LARGEST  # number of images that run in all batch sizes; the others run in the largest only

Codes = npt.NDArray[np.uint8]
Logits = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Comparison:
    """The result of a verification.

    Attributes:
        precision: precision of the file.
        images: number of images.
        bits: number of bits compared; an image counts once per batch size.
        differing: number of bits that differ.
        largest: largest |logit| of a bit that differs.
        distance: largest difference of a logit.
        batches: the batch sizes.
        scale: root mean square of the model's logits.
        fault: the description of a fault that is independent of limits.
        noise: largest difference between the model's logits and those in float64; 0 if it was not measured.
        ranked: number of images for MAP.
        map_before, map_after: MAP of the model's codes and of the file's, or None if no image is relevant.
        images_per_second: speed of ONNX Runtime in the largest batches.
        activation: largest activation in half precision, or None.
    """

    precision: str = "fp32"
    images: int = 0
    bits: int = 0
    differing: int = 0
    largest: float = 0.0
    distance: float = 0.0
    batches: tuple[int, ...] = ()
    scale: float = 0.0
    fault: str | None = None
    noise: float = 0.0
    ranked: int = 0
    map_before: float | None = None
    map_after: float | None = None
    images_per_second: float = 0.0
    activation: float | None = None

    def problem(self) -> str | None:
        """Returns the reason why the file must not be used, in one line, or None if it matches the model."""
        if self.activation is not None and not self.activation <= ACTIVATION:  # also true for NaN
            value = f"{self.activation:.6g}" if self.activation <= LARGEST_HALF else f"more than {LARGEST_HALF:,.0f}"
            return f"an activation is too large for fp16 (found {value}, expected at most {ACTIVATION:,.0f}); use fp32"
        if self.fault:
            return self.fault
        if not self.images:
            return "there are no images to compare"
        if self.precision != "fp32":
            return self._lost()
        zero, same = (max(part * self.scale, OWN * self.noise) for part in (ZERO, SAME))
        if self.largest > zero:
            return (
                f"{self.differing} of {self.bits} bits differ, at |logit| up to {self.largest:.3g}; "
                f"rounding explains at most {zero:.3g}"
            )
        if self.distance > same:
            return f"logits differ by {self.distance:.3g}; rounding explains at most {same:.3g}"
        return None

    def _lost(self) -> str | None:
        """Returns the reason why a file of lower precision must not be used, or None."""
        if self.map_before is None or self.map_after is None:
            return "MAP cannot be compared, because no image is relevant to another; pass other images with --verify"
        if self.map_before - self.map_after > MAP_LOSS[self.precision]:
            more = "" if self.ranked == RANKED else "; measure it on more images with --verify"
            return (
                f"MAP falls from {self.map_before:.4f} to {self.map_after:.4f} in {self.precision}, "
                f"by more than {MAP_LOSS[self.precision]} ({self.differing} of {self.bits} bits differ on "
                f"{self.ranked} images){more}"
            )
        return None

    def __str__(self) -> str:
        sizes = ", ".join(map(str, self.batches))
        largest = f" (at |logit| up to {self.largest:.3g})" if self.differing else ""
        activation = "" if self.activation is None else f"; largest activation {self.activation:.4g}"
        images = counted(self.images, "image")
        return (
            f"{images} in batches of {sizes}: {self.differing} of {self.bits:,} bits differ{largest}; "
            f"logits differ by at most {self.distance:.3g}, their scale is {self.scale:.3g}{activation}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the record that is written into the file, without times, so that equal models give equal bytes."""
        return {
            "images": self.images,
            "batches": list(self.batches),
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


@dataclass
class _Tally:
    """The counts of one encoder while chunks are compared."""

    encoder: Encoder | HalfArithmetic
    bits: int = 0
    differing: int = 0
    largest: float = 0.0
    distance: float = 0.0
    batches: set[int] = field(default_factory=set)
    fault: str | None = None
    seconds: float = 0.0
    timed: int = 0
    codes: list[Codes] = field(default_factory=list)

    def add(self, pixels: Pixels, expected: Logits, sizes: Iterable[int]) -> None:
        """Compares one chunk in each of these batch sizes, and keeps the codes of the last size."""
        for size in sizes:
            codes = self._compare(pixels, expected, size)
        self.codes.append(codes[: len(pixels)])

    def _compare(self, pixels: Pixels, expected: Logits, size: int) -> Codes:
        # If there are fewer images than the batch size, they are repeated.
        order = np.arange(max(len(pixels), size if size in SIZES else 0)) % len(pixels)
        started = time.perf_counter()
        parts = [self.encoder.run(pixels[order[start : start + size]]) for start in range(0, len(order), size)]
        if size == LARGEST:
            self.seconds += time.perf_counter() - started
            self.timed += len(order)
        codes, logits = (np.concatenate(part) for part in zip(*parts, strict=True))
        expected = expected[order]
        self.batches.add(min(size, len(order)))
        self.bits += expected.size
        if not np.array_equal(codes, np.packbits(logits >= 0, axis=1, bitorder="little")):
            self.fault = self.fault or "its codes are not the packed signs of its logits"
        if not np.isfinite(logits).all():
            self.fault = self.fault or "its logits are not finite, while the model's are"
            return codes
        differing = (logits >= 0) != (expected >= 0)
        if differing.any():
            self.differing += int(differing.sum())
            self.largest = max(self.largest, float(np.abs(expected[differing]).max()))
        self.distance = max(self.distance, float(np.abs(logits - expected).max()))
        return codes


def verify(
    network: nn.Module,
    encoders: Sequence[Encoder | HalfArithmetic],
    chunks: Iterable[Pixels],
    labels: Callable[[], npt.NDArray[Any]] | None = None,
) -> list[Comparison]:
    """Compares torch on the CPU with encoders, on chunks of preprocessed images uint8 [m, H, W, 3].

    The encoders run in turn for each chunk, so that their times can be compared.

    Args:
        labels: a function that returns, after the last chunk, the labels for MAP (retrieval.share_a_label). By default
            the nearest images by logits are relevant.

    Returns:
        One comparison per encoder.
    """
    tallies = [_Tally(encoder) for encoder in encoders]
    network.eval()
    expected: list[Logits] = []
    first, images = None, 0
    for pixels in chunks:
        expected.append(_torch_logits(network, pixels))
        if not np.isfinite(expected[-1]).all():
            fault = "the logits of the model are not finite"
            return [Comparison(encoder.info.precision, fault=fault) for encoder in encoders]
        for tally in tallies:
            tally.add(pixels, expected[-1], (*SIZES, LARGEST) if images < _TRIED else (LARGEST,))
        first, images = pixels if first is None else first, images + len(pixels)
    if first is None:
        return [Comparison(encoder.info.precision) for encoder in encoders]
    results = _results(tallies, np.concatenate(expected), labels)
    suspects = [one.precision == "fp32" and not one.fault and one.problem() is not None for one in results]
    if not any(suspects):
        return results
    noise = float(np.abs(_exact_logits(network, first) - expected[0]).max())
    return [replace(one, noise=noise) if suspect else one for one, suspect in zip(results, suspects, strict=True)]


def _results(tallies: list[_Tally], logits: Logits, labels: Callable[[], npt.NDArray[Any]] | None) -> list[Comparison]:
    """Returns the comparisons. MAP is computed on evenly spaced images, since datasets are often sorted by class."""
    scale = float(np.sqrt(np.square(logits, dtype=np.float64).mean()))
    rows = np.linspace(0, len(logits) - 1, min(len(logits), RANKED)).round().astype(np.int64)
    ranked, bits = logits[rows], logits.shape[1]
    relevant = retrieval.nearest(ranked) if labels is None else retrieval.share_a_label(labels()[rows])
    model = np.packbits(ranked >= 0, axis=1, bitorder="little")
    before = retrieval.mean_average_precision(model, relevant, bits)
    return [
        Comparison(
            precision=tally.encoder.info.precision,
            images=len(logits),
            bits=tally.bits,
            differing=tally.differing,
            largest=tally.largest,
            distance=tally.distance,
            batches=tuple(sorted(tally.batches)),
            scale=scale,
            fault=tally.fault,
            ranked=len(rows),
            map_before=before,
            map_after=retrieval.mean_average_precision(np.concatenate(tally.codes)[rows], relevant, bits),
            images_per_second=tally.timed / tally.seconds if tally.seconds else 0.0,
            activation=tally.encoder.largest if isinstance(tally.encoder, HalfArithmetic) else None,
        )
        for tally in tallies
    ]


def chunks(images: Iterable[Pixels], size: int = LARGEST) -> Iterator[Pixels]:
    """Yields single images uint8 [H, W, 3] as arrays of up to `size`."""
    gathered: list[Pixels] = []
    for image in images:
        gathered.append(image)
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
    """Returns the logits of a HashModel in float64, and those of another network in float32."""
    if not isinstance(network, HashModel):
        return _torch_logits(network, pixels).astype(np.float64)
    exact = copy.deepcopy(network).double()
    with torch.inference_mode():
        x = (torch.from_numpy(pixels).permute(0, 3, 1, 2).double() - exact.mean) / exact.std
        logits: npt.NDArray[np.float64] = exact.hash(exact.backbone(x)).numpy()
    return logits
