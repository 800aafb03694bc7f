"""How many images a second a frozen backbone turns into features on a CPU.

    python benchmarks/features.py [--backbone timm:tf_efficientnet_lite0] [--crop 224] [--data cifar10.npz]

Four ways take turns, on the same images: PyTorch as it comes in batches of 32 with all threads, the same in channels
last, batch norm folded away with four images a thread, and ONNX Runtime with four images a thread (`idcwh-train
--freeze` takes the last for 3,000 images and more). Reading and scaling of the images is in the last two alone.
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
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="timm:tf_efficientnet_lite0")
    parser.add_argument("--crop", type=int, default=224)
    parser.add_argument("--data", help="an .npz archive (default: noise, 32 x 32)")
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=60, help="how long to measure (default: 60)")
    parser.add_argument("--json", metavar="FILE", help="write the numbers to a file")
    asked = parser.parse_args()

    dataset = datasets.load(asked.data) if asked.data else noise(asked.images, 32)
    rows = np.arange(asked.images)
    preprocess = Preprocess(asked.crop, asked.crop)
    backbone = backbones.create(asked.backbone, "none", asked.crop, seed=0)
    model = Embedder(backbone.network.eval(), backbone.features, backbone.mean, backbone.std)
    pixels = torch.randn(32, 3, asked.crop, asked.crop)
    pixels_last = pixels.to(memory_format=torch.channels_last)
    example = torch.rand(2, 3, asked.crop, asked.crop)
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
        seconds=asked.seconds,
    )
    middle = common.medians(times)
    here = common.machine("torch", "onnxruntime-gpu", "onnxruntime", "numpy")
    print(common.describe(here))
    print(f"{asked.backbone}, {asked.crop} pixels, {len(rows)} images, {len(times['folded'])} rounds")
    for name, seconds in middle.items():
        print(f"{name:24} {len(rows) / seconds:8.1f} images/s   ({middle['PyTorch'] / seconds:.2f} times PyTorch)")
    rates = {name: len(rows) / seconds for name, seconds in middle.items()}
    common.write_json(asked.json, here, [{"backbone": asked.backbone, "images_per_second": rates, "seconds": times}])


if __name__ == "__main__":
    main()
