"""Export of backbones: one of each family is built, exported and compared with PyTorch, bit by bit.

    python benchmarks/backbones.py --images demo/cifar10/test --json backbones.jsonl [NAME ...]

Weights are random, so nothing is downloaded. Batch norm has the statistics of the images, and each bit of the hash
layer is 1 for half of them, so that activations and codes are realistic. Backbones in the JSON file are not run again,
but are in the table. The row of a failure has the reason.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import common
import numpy as np
import torch

from idcwh_export.export import export_onnx
from idcwh_search.errors import IdcwhError
from idcwh_search.images.listing import list_images
from idcwh_search.images.preprocess import Preprocess, load_image
from idcwh_train.engine.checkpoint import save_model
from idcwh_train.models import backbones
from idcwh_train.models.hash_model import HashModel

BITS = 48
# The smallest network of each family. The members of a family share an implementation, and differ in width and depth.
FAMILIES = (
    *("alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s", "googlenet", "inception_v3"),
    *("maxvit_t", "mnasnet0_5", "mobilenet_v2", "mobilenet_v3_small", "regnet_x_400mf", "resnet18", "resnext50_32x4d"),
    *("shufflenet_v2_x0_5", "squeezenet1_1", "swin_t", "swin_v2_t", "vgg11", "vit_b_32", "wide_resnet50_2"),
    *("timm:tf_efficientnet_lite0", "timm:convnextv2_atto", "timm:deit_tiny_patch16_224", "timm:ghostnet_100"),
    *(
        "timm:hardcorenas_a",
        "timm:mixer_s32_224",
        "timm:mobilenetv4_conv_small",
        "timm:mobilevit_xxs",
        "timm:repvgg_a0",
    ),
    *(
        "timm:resmlp_12_224",
        "timm:levit_128s",
        "timm:edgenext_xx_small",
        "timm:efficientformer_l1",
        "timm:poolformer_s12",
    ),
    *("timm:xcit_nano_12_p16_224", "timm:vit_tiny_patch16_224", "timm:fastvit_t8", "timm:rexnet_100", "timm:nfnet_l0"),
    *("timm:inception_next_atto", "timm:starnet_s1", "timm:tiny_vit_5m_224", "timm:regnety_002", "timm:hgnetv2_b0"),
)


def model(name: str, pixels: np.ndarray, folder: Path, crop: int) -> Path:
    """Writes a model.pt of this backbone with the batch norm statistics of the images. Returns its path."""
    backbone = backbones.create(name, weights="none", crop=crop, seed=0)
    network = HashModel(backbone.network, backbone.features, BITS, backbone.mean, backbone.std)
    batch = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    for layer in network.modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm):
            layer.momentum = None  # the mean over all batches
    with torch.no_grad():
        network.train()
        for part in batch.split(16):
            network.backbone(network.normalise(part))
        network.eval()
        network.hash.bias.sub_(torch.cat([network(part) for part in batch.split(16)]).mean(0))
    content = {
        "classes": ["none"], "backbone": backbone.config, "method": {"name": "none"}, "centers": None, "training": {},
        "preprocess": Preprocess(crop, crop).to_dict(),
        "normalize": {"mean": list(backbone.mean), "std": list(backbone.std)},
        "sample": {"images": torch.from_numpy(pixels), "keys": [str(i) for i in range(len(pixels))]},
    }  # fmt: skip
    save_model(folder / "model.pt", network, content)
    return folder / "model.pt"


def examine(name: str, paths: list[str], crop: int) -> dict[str, Any]:
    """Builds, exports and compares a backbone. Returns a row of the table."""
    row: dict[str, Any] = {"backbone": name, "crop": crop}
    started = time.perf_counter()
    try:
        pixels = np.stack([load_image(path, Preprocess(crop, crop)) for path in paths])
        with tempfile.TemporaryDirectory() as folder:
            path = model(name, pixels, Path(folder), crop)
            (done,) = export_onnx(path, Path(folder) / "model.onnx", device="cpu").files
    except (IdcwhError, ValueError, RuntimeError) as error:
        return row | {"problem": " ".join(str(error).split())[:300]}
    comparison = done.comparisons["cpu"]
    row |= {"bytes": done.size, **comparison.to_dict(), "relative": comparison.distance / comparison.scale}
    row["images_per_second"] = round(comparison.images_per_second, 1)
    return row | {"seconds": round(time.perf_counter() - started, 1), "peak": resource.getrusage(0).ru_maxrss}


def line(row: dict[str, Any]) -> str:
    """Returns a row of the table in docs/export.md."""
    if "problem" in row:
        return f"| {row['backbone']} | {row['crop']} | | | {row['problem']} |"
    flips = f"{row['bits_differing']} of {row['bits_compared']:,}"
    return f"| {row['backbone']} | {row['crop']} | {row['bytes'] / 1e6:.1f} MB | {flips} | {row['relative']:.1e} |"


def main() -> None:
    """Prints the table, and writes the rows to the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=FAMILIES, help="backbones (default one of each family)")
    parser.add_argument("--images", required=True, help="folder or list of images")
    parser.add_argument("--count", type=int, default=32, help="number of images (default 32)")
    parser.add_argument("--crop", type=int, default=224, help="side of the images, in pixels (default 224)")
    parser.add_argument("--json", type=Path, help="JSON Lines file of the rows, which are not computed again")
    options = parser.parse_args()

    listed = list_images(options.images)
    paths = listed[:: max(1, len(listed) // options.count)][: options.count]
    rows: dict[str, dict[str, Any]] = {}
    if options.json and options.json.exists():
        rows = {row["backbone"]: row for row in map(json.loads, options.json.read_text().splitlines())}
    print(
        common.describe(common.machine("torch", "onnxruntime-gpu", "onnxruntime", "onnxscript", "timm", "torchvision"))
    )
    print(
        "| backbone | pixels | file | bits that differ | largest difference of a logit / scale |\n|---|---|---|---|---|"
    )
    for name in options.names:
        if name not in rows:
            rows[name] = examine(name, paths, options.crop)
            if options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps(rows[name]) + "\n")
        print(line(rows[name]), flush=True)


if __name__ == "__main__":
    main()
