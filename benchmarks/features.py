"""Images per second of a frozen backbone on a CPU.

    python benchmarks/features.py [--backbone timm:tf_efficientnet_lite0] [--crop 224] [--data cifar10.npz]

Four candidates run in turn on the same images:

    PyTorch                  batches of 32, all threads
    PyTorch, channels last   the same in the other memory layout
    folded                   folded batch norm, four images per thread; also reads and scales the images
    ONNX Runtime             the same without PyTorch, as `idcwh-train --freeze` for 3,000 images or more
"""

from __future__ import annotations

import argparse

import common
import numpy as np
import torch
from reading import noise

from idcwh_search import datasets
from idcwh_search.images.preprocess import Preprocess
from idcwh_train.frozen import features, ort_backbone
from idcwh_train.models import backbones
from idcwh_train.models.hash_model import Embedder


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="timm:tf_efficientnet_lite0", help="default: EfficientNet-Lite0")
    parser.add_argument("--crop", type=int, default=224, help="side of the images, in pixels (default 224)")
    parser.add_argument("--data", help=".npz archive of images (default noise of 32 x 32 pixels)")
    parser.add_argument("--images", type=int, default=256, help="number of images (default 256)")
    parser.add_argument("--seconds", type=float, default=60, help="seconds to measure (default 60)")
    parser.add_argument("--json", metavar="FILE", help="JSON file of the results")
    options = parser.parse_args()

    dataset = datasets.load(options.data) if options.data else noise(options.images, 32)
    rows = np.arange(options.images)
    preprocess = Preprocess(options.crop, options.crop)
    backbone = backbones.create(options.backbone, "none", options.crop, seed=0)
    model = Embedder(backbone.network.eval(), backbone.features, backbone.mean, backbone.std)
    pixels = torch.randn(32, 3, options.crop, options.crop)
    pixels_last = pixels.to(memory_format=torch.channels_last)
    example = torch.rand(2, 3, options.crop, options.crop)
    session, plain = ort_backbone.session(backbone.network, example), ort_backbone.session

    def eager(x: torch.Tensor) -> None:
        with torch.inference_mode():
            for _ in range(0, len(rows), 32):
                backbone.network(x)

    def compute(found: object) -> None:
        ort_backbone.ENOUGH, ort_backbone.session = 0, lambda *_: found
        features.compute(model, dataset, rows, preprocess, torch.device("cpu"))
        ort_backbone.session = plain

    times = common.alternate(
        {
            "PyTorch": lambda: eager(pixels),
            "PyTorch, channels last": lambda: eager(pixels_last),
            "folded": lambda: compute(None),
            "ONNX Runtime": lambda: compute(session),
        },
        seconds=options.seconds,
    )
    middle = common.medians(times)
    here = common.machine("torch", "onnxruntime-gpu", "onnxruntime", "numpy")
    print(common.describe(here))
    print(f"{options.backbone}, {options.crop} pixels, {len(rows)} images, {len(times['folded'])} rounds")
    for name, seconds in middle.items():
        print(f"{name:24} {len(rows) / seconds:8.1f} images/s   ({middle['PyTorch'] / seconds:.2f} times PyTorch)")
    rates = {name: len(rows) / seconds for name, seconds in middle.items()}
    common.write_json(
        options.json, here, [{"backbone": options.backbone, "images_per_second": rates, "seconds": times}]
    )


if __name__ == "__main__":
    main()
