"""Images per second of fine-tuning on a CPU, with freed memory kept or returned, in float32 and in bfloat16.

    python benchmarks/training.py [--crop 128] [--batch 32] [--seconds 8]

Each candidate runs in a new process, because the setting of the allocator cannot be undone. Weights are random, which
does not change the speed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

from common import machine

WAYS = ("float32, memory returned", "float32, memory kept", "bfloat16, memory kept")


def rate(way: str, backbone: str, crop: int, batch: int, seconds: float) -> float:
    """Returns the images per second of forward, backward and optimizer step."""
    import torch

    from idcwh_train.engine import malloc
    from idcwh_train.models import backbones

    if "kept" in way:
        malloc.keep_freed()
    network = backbones.create(backbone, "none", crop, seed=0).network.train().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-4, momentum=0.9)
    x = torch.randn(batch, 3, crop, crop).to(memory_format=torch.channels_last)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=way.startswith("bfloat16")):
            out = network(x)
        out.float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    step()
    steps, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        step()
        steps += 1
    return steps * batch / (time.perf_counter() - started)


def main() -> None:
    """Prints the machine and the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="timm:tf_efficientnet_lite0", help="default: EfficientNet-Lite0")
    parser.add_argument("--crop", type=int, default=128, help="side of the images, in pixels (default 128)")
    parser.add_argument("--batch", type=int, default=32, help="images per batch (default 32)")
    parser.add_argument("--seconds", type=float, default=8, help="seconds per candidate (default 8)")
    parser.add_argument("--way", choices=WAYS, help="a single candidate, in this process")
    options = parser.parse_args()
    if options.way:
        print(rate(options.way, options.backbone, options.crop, options.batch, options.seconds))
        return
    print(json.dumps(machine("torch", "timm")))
    print(f"{options.backbone}, {options.crop} x {options.crop} pixels, batches of {options.batch}")
    for way in WAYS:
        command = [sys.executable, __file__, "--way", way, *sys.argv[1:]]
        images_per_second = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(f"{way:28} {images_per_second:7.1f} images/s", flush=True)


if __name__ == "__main__":
    main()
