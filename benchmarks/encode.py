"""How fast pictures become codes: the pipeline that reads files, against ONNX Runtime alone on the same batches in memory.

    python benchmarks/encode.py model.onnx --images DIR            a table, and JSON with --json FILE
    python benchmarks/encode.py model.onnx --images DIR --repeat 7

Three things are measured in turn, `--repeat` times, so that whatever else the machine does hits all of them alike:

    session    ONNX Runtime as it comes: one session, all cores, default options, batches of 32 pictures in memory
    parallel   the session as the pipeline uses it, pictures in memory: a single-threaded run a core, batches of 8
    pipeline   encode_files from the files on: reading, decoding, resizing, encoding (what idcwh-index build does)

The ratio pipeline / session is taken within each round; the table gives the median round and the spread. Files are read
once before, so the disk is not measured.
"""
from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import PIL

from idcwh_search.encoder import Encoder
from idcwh_search.images import list_images
from idcwh_search.pipeline import encode_files
from idcwh_search.runtime import available_cores, load_onnxruntime

PLAIN_BATCH = 32


def plain_session(path: str, threads: int) -> Any:
    """ONNX Runtime with nothing set but the number of threads."""
    ort = load_onnxruntime()
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def time_session(session: Any, pixels: np.ndarray) -> float:
    """Images/s of one session that is given one batch after the other."""
    started = time.perf_counter()
    for start in range(0, len(pixels), PLAIN_BATCH):
        session.run(["codes"], {"image": pixels[start : start + PLAIN_BATCH]})
    return len(pixels) / (time.perf_counter() - started)


def time_parallel(encoder: Encoder, pixels: np.ndarray) -> float:
    """Images/s of the pipeline's way to run the model, without the files."""
    run, threads = encoder.parallel()
    shares = np.array_split(pixels, threads)
    workers = [threading.Thread(target=run, args=(share,)) for share in shares]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return len(pixels) / (time.perf_counter() - started)


def time_pipeline(encoder: Encoder, paths: list[str]) -> tuple[float, float]:
    """Images/s by the pipeline's own summary, and the part of the work that was the model's."""
    run = encode_files(encoder, paths)
    for _ in run:
        pass
    return run.summary.images_per_second, run.summary.inference_share


def measure(encoder: Encoder, paths: list[str], repeat: int) -> dict[str, list[float]]:
    """Rounds of the three, alternating."""
    session = plain_session(encoder.path, encoder.threads)
    pixels = np.stack([encoder.pixels(path) for path in paths])
    for _ in range(2):  # warm up: arenas, caches, clocks
        time_session(session, pixels[: 2 * PLAIN_BATCH])
        time_parallel(encoder, pixels[: 2 * PLAIN_BATCH])
    rounds: dict[str, list[float]] = {name: [] for name in ("session", "parallel", "pipeline", "model_share")}
    for number in range(repeat):
        rounds["session"].append(time_session(session, pixels))
        rounds["parallel"].append(time_parallel(encoder, pixels))
        speed, share = time_pipeline(encoder, paths)
        rounds["pipeline"].append(speed)
        rounds["model_share"].append(share)
        print(f"round {number + 1} of {repeat}", file=sys.stderr)
    return rounds


def machine(encoder: Encoder) -> dict[str, Any]:
    """Where the numbers come from."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = [line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name")]
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": available_cores(),
        "python": platform.python_version(),
        "onnxruntime": load_onnxruntime().__version__,
        "pillow": PIL.__version__,
        "model": Path(encoder.path).name,
        "backbone": encoder.info.backbone.get("name"),
        "pixels": encoder.preprocess.crop,
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model.onnx")
    parser.add_argument("--images", required=True, help="a folder of pictures, or a list of them")
    parser.add_argument("--limit", type=int, default=512, help="take so many of them (default: 512)")
    parser.add_argument("--repeat", type=int, default=5, help="rounds (default: 5)")
    parser.add_argument("--threads", type=int, help="cores to use (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round to a file")
    options = parser.parse_args()

    encoder = Encoder(options.model, device="cpu", threads=options.threads)
    found = list_images(options.images)
    paths = found[:: max(1, len(found) // options.limit)][: options.limit]
    rounds = measure(encoder, paths, options.repeat)
    ratios = {
        "pipeline / session": [p / s for p, s in zip(rounds["pipeline"], rounds["session"], strict=True)],
        "pipeline / parallel": [p / s for p, s in zip(rounds["pipeline"], rounds["parallel"], strict=True)],
    }
    about = machine(encoder)
    print(", ".join(f"{key} {value}" for key, value in about.items()), f"{len(paths)} images, {options.repeat} rounds")
    print(f"{'':20} {'median':>8} {'least':>8} {'most':>8}")
    for name in ("session", "parallel", "pipeline"):
        values = rounds[name]
        print(f"{name:20} {statistics.median(values):8.1f} {min(values):8.1f} {max(values):8.1f}   images/s")
    for name, values in ratios.items():
        print(f"{name:20} {statistics.median(values):8.2f} {min(values):8.2f} {max(values):8.2f}")
    print(f"{'model share of work':20} {statistics.median(rounds['model_share']):8.2f}")
    if options.json:
        options.json.write_text(json.dumps({"machine": about, "images": len(paths), "rounds": rounds}, indent=2) + "\n")


if __name__ == "__main__":
    main()
