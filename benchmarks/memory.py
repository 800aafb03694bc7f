"""Resident memory of a process that encodes many images.

    python benchmarks/memory.py model.onnx --images DIR [--count 100000]

The images are encoded repeatedly, `count` in total. The memory should stop growing early.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import common

from idcwh_search.encoder.batch import encode_files
from idcwh_search.encoder.encoder import Encoder
from idcwh_search.images.listing import list_images

STEPS = 20


def resident() -> int:
    """Returns the resident memory of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="model.onnx")
    parser.add_argument("--images", required=True, help="folder or list of images")
    parser.add_argument("--count", type=int, default=100_000, help="number of encoded images (default 100,000)")
    parser.add_argument("--threads", type=int, help="number of cores (default all)")
    parser.add_argument("--json", metavar="FILE", help="JSON file of the results")
    options = parser.parse_args()

    encoder = Encoder(options.model, device="cpu", threads=options.threads)
    listed = list_images(options.images)
    paths = [listed[i % len(listed)] for i in range(options.count)]
    here = common.machine("onnxruntime-gpu", "onnxruntime", "pillow", "numpy")
    print(common.describe(here))
    run, done, rows = encode_files(encoder, paths), 0, []
    for positions, _ in run:
        before, done = done, done + len(positions)
        if done * STEPS // options.count > before * STEPS // options.count:
            rows.append({"images": done, "bytes": resident()})
            rate = run.summary.images_per_second
            print(f"{done:9,} images {rows[-1]['bytes'] / 1e6:8.1f} MB {rate:8.1f} images/s", flush=True)
    common.write_json(options.json, here, rows)


if __name__ == "__main__":
    main()
