"""How many images a second a CPU trains on when a whole backbone is fine-tuned: with freed memory kept or not, and in
bfloat16 beside float32.

    python benchmarks/training.py [--crop 128] [--batch 32] [--seconds 8]

Each way runs in a process of its own, since memory once kept stays kept. Weights are random: that costs the same.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

from common import machine

WAYS = ("float32, memory given back", "float32, memory kept", "bfloat16, memory kept")


def rate(way: str, backbone: str, crop: int, batch: int, seconds: float) -> float:
    """Images a second of forward, backward and step."""
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
    """Print a table, and the machine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="timm:tf_efficientnet_lite0")
    parser.add_argument("--crop", type=int, default=128)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--way", choices=WAYS, help="this one alone, in this process")
    asked = parser.parse_args()
    if asked.way:
        print(rate(asked.way, asked.backbone, asked.crop, asked.batch, asked.seconds))
        return
    print(json.dumps(machine("torch", "timm")))
    print(f"{asked.backbone}, {asked.crop} x {asked.crop} pixels, batches of {asked.batch}")
    for way in WAYS:
        command = [sys.executable, __file__, "--way", way, *sys.argv[1:]]
        found = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(f"{way:28} {found:7.1f} images/s", flush=True)


if __name__ == "__main__":
    main()
