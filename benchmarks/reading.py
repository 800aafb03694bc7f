"""Speed of reading batches of augmented pixels from a dataset in memory, such as CIFAR-10, in one thread.

    python benchmarks/reading.py [--data cifar10.npz]

Two candidates run in turn: one image at a time with numpy, and whole batches with `idcwh_train.data.augment`.
Both crop randomly with a reflected border of 4 pixels, flip half of the images and erase a square of 8 pixels.
"""

from __future__ import annotations

import argparse

import common
import numpy as np

from idcwh_search import datasets
from idcwh_search.images.preprocess import Preprocess
from idcwh_train.data.augment import augment
from idcwh_train.data.loader import Batch, read_one

PAD, HOLE, BATCH = 4, 8, 128


def one_by_one(rows: np.ndarray, pixels: np.ndarray) -> np.ndarray:
    """Returns the images with the same augmentation, one at a time, with numpy's generator."""
    return np.stack([_augmented(int(row), image) for row, image in zip(rows, pixels, strict=True)])


def _augmented(row: int, image: np.ndarray) -> np.ndarray:
    random, side = np.random.default_rng([0, 1, row]), len(image)
    top, left = random.integers(0, 2 * PAD + 1, 2)
    border = np.pad(image, ((PAD, PAD), (PAD, PAD), (0, 0)), mode="reflect")
    cut = border[top : top + side, left : left + side]
    cut = (cut[:, ::-1] if random.random() < 0.5 else cut).copy()
    top, left = random.integers(0, side, 2) - HOLE // 2
    cut[max(0, top) : max(0, top + HOLE), max(0, left) : max(0, left + HOLE)] = 128
    return cut


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help=".npz archive of square images (default 5,000 images of noise, 32 x 32)")
    parser.add_argument("--seconds", type=float, default=10, help="seconds to measure (default 10)")
    parser.add_argument("--json", metavar="FILE", help="JSON file of the results")
    options = parser.parse_args()

    dataset = datasets.load(options.data) if options.data else noise(5_000, 32)
    assert isinstance(dataset.images, np.ndarray), "expected arrays"
    side = dataset.images.shape[1]
    preprocess = Preprocess(side, side)
    rows = np.random.default_rng(0).permutation(len(dataset))[:BATCH]

    def batch() -> Batch:
        def augmented(batch_rows: np.ndarray, pixels: np.ndarray) -> np.ndarray:
            return augment(pixels, batch_rows, 0, 1, crop=side, pad=PAD, flip=True, hole=HOLE)

        return read_one(dataset, rows, preprocess, augment=augmented)

    times = common.alternate(
        {"one by one": lambda: read_one(dataset, rows, preprocess, one_by_one), "batch": batch},
        seconds=options.seconds,
        most=100_000,
    )
    middle = common.medians(times)
    here = common.machine("numpy", "pillow", "torch")
    print(common.describe(here))
    for name, seconds in middle.items():
        print(f"{name:10} {len(rows) / seconds:9.0f} images/s   (median of {len(times[name])} batches of {len(rows)})")
    print(f"ratio {middle['one by one'] / middle['batch']:.1f}")
    row = {"side": side, "images_per_second": {name: len(rows) / seconds for name, seconds in middle.items()}}
    common.write_json(options.json, here, [row])


def noise(n: int, side: int) -> datasets.LabelledImages:
    """Returns a dataset of n images of noise."""
    images = np.random.default_rng(0).integers(0, 256, (n, side, side, 3), dtype=np.uint8)
    return datasets.LabelledImages([str(i) for i in range(n)], np.zeros(n, np.int64), ["x"], images, [""] * n)


if __name__ == "__main__":
    main()
