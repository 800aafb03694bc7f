"""Time to the first code, in a new process that imports, opens the model, reads an image and encodes it.

    python benchmarks/first_code.py model.onnx --image photo.jpg

Each run is a new process. The files are read once before, so the disk is not measured. The table has the medians of the
wall-clock time of the process, and of its parts as the process measures them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

import common

# The first run of `encode` is slower than later ones.
PROGRAM = """
import json, sys, time
marks = [("python", time.perf_counter())]
import idcwh_search
from idcwh_search import Encoder
marks.append(("import idcwh_search", time.perf_counter()))
import onnxruntime
marks.append(("import onnxruntime", time.perf_counter()))
encoder = Encoder(sys.argv[1], device=sys.argv[3])
marks.append(("open the model", time.perf_counter()))
pixels = encoder.pixels(sys.argv[2])
marks.append(("read the image", time.perf_counter()))
encoder.encode(pixels[None])
marks.append(("encode", time.perf_counter()))
print(json.dumps([(name, at - before) for (_, before), (name, at) in zip(marks, marks[1:])]))
"""


def once(model: str, image: str, device: str) -> dict[str, float]:
    """Returns the seconds of each part. "whole" includes the start and end of the process."""
    # Python may use cached bytecode, as in an installation
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", PROGRAM, model, image, device]
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    whole = time.perf_counter() - started
    parts = dict(json.loads(done.stdout))
    return {"start and end Python": whole - sum(parts.values()), **parts, "whole": whole}


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="model.onnx")
    parser.add_argument("--image", required=True, help="image file")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="device (default cpu)")
    parser.add_argument("--runs", type=int, default=15, help="number of processes (default 15)")
    parser.add_argument("--json", metavar="FILE", help="JSON file of the results")
    options = parser.parse_args()

    once(options.model, options.image, options.device)
    runs = [once(options.model, options.image, options.device) for _ in range(options.runs)]
    here = common.machine("onnxruntime-gpu", "onnxruntime", "pillow", "numpy")
    print(common.describe(here))
    row: dict[str, Any] = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    for name, seconds in row.items():
        fastest = min(run[name] for run in runs)
        print(f"{name:22} {1000 * seconds:7.0f} ms   (fastest {1000 * fastest:.0f})")
    common.write_json(options.json, here, [{"device": options.device, "runs": options.runs, "seconds": row}])


if __name__ == "__main__":
    main()
