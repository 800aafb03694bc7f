"""Number of bits that differ between a trained model in PyTorch and its ONNX file, on real images.

    python benchmarks/bit_flips.py --data demo/cifar10                      trains a hash layer on each backbone
    python benchmarks/bit_flips.py --data photos --models runs/*/model.pt   compares existing models

A bit may differ only if its logit is zero up to rounding. Bits that differ at |logit| > 1e-4 are counted separately.
Backbones without available weights are random, with the batch norm statistics of some of the images. Without these, the
features of a deep network would all be equal.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import common
import numpy as np
import torch

from idcwh_export.export import export_onnx
from idcwh_search import datasets
from idcwh_search.encoder.encoder import Encoder
from idcwh_search.images.preprocess import Preprocess
from idcwh_train.engine.checkpoint import load_model
from idcwh_train.models import backbones

BACKBONES = {
    "timm:tf_efficientnet_lite0": "imagenet",
    "googlenet": "none",
    "resnet18": "none",
    "timm:vit_tiny_patch16_224": "none",
}
FAR = 1e-4
CHUNK = 32


def random_weights(data: str, backbone: str, folder: Path) -> Path:
    """Writes random weights with the batch norm statistics of images. Returns the path, for --weights."""
    created, dataset = backbones.create(backbone, weights="none", seed=0), datasets.load(data)
    rows = np.linspace(0, len(dataset) - 1, 64).astype(int)
    pixels = np.stack([dataset.image(int(row), Preprocess()) for row in rows])
    mean, std = (255 * torch.tensor(values).view(3, 1, 1) for values in (created.mean, created.std))
    for layer in created.network.modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm):
            layer.momentum = None  # the mean over all batches
    created.network.train()
    with torch.no_grad():
        for part in torch.from_numpy(pixels).permute(0, 3, 1, 2).split(16):
            created.network((part - mean) / std)
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(created.network.state_dict(), folder / "weights.pt")
    return folder / "weights.pt"


def train(data: str, backbone: str, weights: str, bits: int, folder: Path) -> Path:
    """Trains a hash layer on a frozen backbone for a few epochs. Returns the path of its model.pt."""
    if weights == "none":
        weights = str(random_weights(data, backbone, folder.with_name(f"{folder.name}-weights")))
    command = [sys.executable, "-c", "from idcwh_train.cli import main; raise SystemExit(main())"]
    command += ["--data", data, "--backbone", backbone, "--weights", weights, "--freeze", "--bits", str(bits)]
    command += ["--epochs", "10", "--out", str(folder), "--overwrite"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder / "model.pt"


def count(path: Path, onnx: Path, data: str, limit: int | None) -> dict[str, Any]:
    """Compares PyTorch and ONNX Runtime on the CPU, on the images of `data`. Returns a row of the table."""
    export_onnx(path, onnx, device="cpu")
    model, content = load_model(path)
    encoder, dataset = Encoder(onnx, device="cpu", batch_size=CHUNK), datasets.load(data)
    preprocess = Preprocess.from_dict(content["preprocess"])
    rows = range(len(dataset))[: limit or len(dataset)]
    row: dict[str, Any] = {"backbone": content["backbone"]["name"], "weights": content["training"].get("weights")}
    row |= {"images": len(rows), "bits": 0, "differing": 0, "differing_far": 0, "largest": 0.0, "distance": 0.0}
    seen: set[bytes] = set()
    for start in range(0, len(rows), CHUNK):
        pixels = np.stack([dataset.image(i, preprocess) for i in rows[start : start + CHUNK]])
        with torch.inference_mode():
            expected = model(torch.from_numpy(pixels).permute(0, 3, 1, 2)).numpy()
        codes, logits = encoder.run(pixels)
        seen.update(code.tobytes() for code in codes)
        differing = (logits >= 0) != (expected >= 0)
        row["bits"] += expected.size
        row["differing"] += int(differing.sum())
        row["differing_far"] += int((differing & (np.abs(expected) > FAR)).sum())
        row["largest"] = max(row["largest"], float(np.abs(expected[differing]).max(initial=0.0)))
        row["distance"] = max(row["distance"], float(np.abs(logits - expected).max()))
    return row | {"distinct": len(seen)}


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="labelled dataset, as for idcwh-train")
    parser.add_argument("--models", nargs="*", type=Path, help="model.pt files (default one per backbone is trained)")
    parser.add_argument("--bits", type=int, default=256, help="code length of the trained models (default 256)")
    parser.add_argument("--limit", type=int, help="number of images (default all)")
    parser.add_argument("--json", metavar="FILE", help="JSON file of the results")
    options = parser.parse_args()

    here = common.machine("torch", "onnxruntime-gpu", "onnxruntime", "timm", "torchvision")
    print(common.describe(here))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        models = options.models or [
            train(options.data, name, weights, options.bits, Path(folder) / name.replace(":", "_"))
            for name, weights in BACKBONES.items()
        ]
        for number, path in enumerate(models):
            row = count(path, Path(folder) / f"{number}.onnx", options.data, options.limit)
            rows.append(row)
            print(
                f"{row['backbone']:28} {row['images']:6} images, {row['distinct']} distinct codes, "
                f"{row['bits']:,} bits: {row['differing']} differ, "
                f"{row['differing_far']} of them at |logit| > {FAR:g} (largest {row['largest']:.2g}); "
                f"logits differ by at most {row['distance']:.2g}",
                flush=True,
            )
    total, far = sum(row["bits"] for row in rows), sum(row["differing_far"] for row in rows)
    print(f"{far} of {total:,} bits differ at |logit| > {FAR:g}")
    common.write_json(options.json, here, rows)


if __name__ == "__main__":
    main()
