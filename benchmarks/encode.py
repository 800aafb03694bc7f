"""Speed of encoding image files, compared with inference alone and with decoding alone.

    python benchmarks/encode.py model.onnx --images DIR
    python benchmarks/encode.py model.onnx --images DIR --enlarge 4000 3000     as JPEG files of 12 megapixels

Four candidates run in turn, so that other load on the machine affects all of them alike:

    session    ONNX Runtime with default options: all cores in one run, batches of 32 images in memory
    parallel   ONNX Runtime as in the pipeline: one single-threaded run per core, batches of 8 images in memory
    decode     reading, decoding and resizing, one thread per core
    pipeline   encode_files: reading, decoding, resizing and encoding, as in idcwh-index build

A pipeline can reach at most 1 / (1 / parallel + 1 / decode), since both need the same cores. The table has images/s of
the median round, and ratios of medians. All files are read once before, so that the disk is not measured.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import common
import numpy as np
from PIL import Image

from idcwh_search.encoder.batch import encode_files
from idcwh_search.encoder.encoder import Encoder
from idcwh_search.encoder.ort import load_onnxruntime
from idcwh_search.images.listing import list_images

PLAIN_BATCH = 32


def plain_session(path: str, threads: int) -> Any:
    """Returns a session with default options, except for the number of threads."""
    ort = load_onnxruntime()
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run_session(session: Any, pixels: np.ndarray) -> None:
    """Runs one batch after the other."""
    for start in range(0, len(pixels), PLAIN_BATCH):
        session.run(["codes"], {"image": pixels[start : start + PLAIN_BATCH]})


def run_parallel(encoder: Encoder, pixels: np.ndarray) -> None:
    """Runs the model as in the pipeline, without files."""
    run, threads = encoder.parallel()
    workers = [threading.Thread(target=run, args=(share,)) for share in np.array_split(pixels, threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def run_decode(encoder: Encoder, paths: list[str]) -> None:
    """Reads, decodes and resizes the images."""
    with ThreadPoolExecutor(encoder.threads) as pool:
        for _ in pool.map(encoder.pixels, paths, chunksize=4):
            pass


def enlarged(paths: list[str], size: tuple[int, int], folder: str) -> list[str]:
    """Writes the images as JPEG files of this size. Noise makes decoding as expensive as for photographs."""
    rng, written = np.random.default_rng(0), []
    noise = rng.normal(0, 6, (size[1], size[0], 1))
    for i, path in enumerate(paths):
        large = np.asarray(Image.open(path).convert("RGB").resize(size, Image.Resampling.BICUBIC))
        written.append(f"{folder}/{i:04d}.jpg")
        Image.fromarray(np.clip(large + noise, 0, 255).astype(np.uint8)).save(written[-1], quality=90)
    return written


def run_pipeline(encoder: Encoder, paths: list[str], shares: list[float]) -> None:
    """Encodes the files. Appends the model's share of the work to `shares`."""
    run = encode_files(encoder, paths)
    for _ in run:
        pass
    shares.append(run.summary.inference_share)


def main() -> None:
    """Parses the arguments and measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="model.onnx")
    parser.add_argument("--images", required=True, help="folder or list of images")
    parser.add_argument("--limit", type=int, default=256, help="number of images (default 256)")
    parser.add_argument("--enlarge", type=int, nargs=2, metavar=("W", "H"), help="size of JPEG files of the images")
    parser.add_argument("--seconds", type=float, default=60, help="seconds to measure (default 60)")
    parser.add_argument("--threads", type=int, help="number of cores (default all)")
    parser.add_argument("--json", metavar="FILE", help="JSON file of the results")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        measure(options, stack)


def measure(options: Any, stack: contextlib.ExitStack) -> None:
    """Measures the four candidates, prints and writes. The stack removes temporary files."""
    encoder = Encoder(options.model, device="cpu", threads=options.threads)
    listed = list_images(options.images)
    paths = listed[:: max(1, len(listed) // options.limit)][: options.limit]
    if options.enlarge:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        paths = enlarged(paths, tuple(options.enlarge), folder)
    pixels = np.stack([encoder.pixels(path) for path in paths])
    session, shares = plain_session(encoder.path, encoder.threads), []
    times = common.alternate(
        {
            "session": lambda: run_session(session, pixels),
            "parallel": lambda: run_parallel(encoder, pixels),
            "decode": lambda: run_decode(encoder, paths),
            "pipeline": lambda: run_pipeline(encoder, paths, shares),
        },
        seconds=options.seconds,
    )
    middle = common.medians(times)
    here = common.machine("onnxruntime-gpu", "onnxruntime", "pillow", "numpy")
    about: dict[str, Any] = {"backbone": encoder.info.backbone.get("name"), "pixels": encoder.preprocess.crop}
    about["threads"] = encoder.threads
    print(common.describe(here))
    print(f"{about}, {len(paths)} images, {len(times['session'])} rounds")
    for name, seconds in middle.items():
        fastest, slowest = len(paths) / min(times[name]), len(paths) / max(times[name])
        print(f"{name:10} {len(paths) / seconds:8.1f} images/s   ({slowest:.1f} to {fastest:.1f})")
    ratios = {name: middle[name] / middle["pipeline"] for name in ("session", "parallel", "decode")}
    ratios["upper limit"] = (middle["parallel"] + middle["decode"]) / middle["pipeline"]
    print(", ".join(f"pipeline / {name} {ratio:.2f}" for name, ratio in ratios.items()))
    print(f"share of inference in the pipeline's work: {np.median(shares):.2f}")
    row = {**about, "images": len(paths), "images_per_second": {k: len(paths) / v for k, v in middle.items()}}
    common.write_json(options.json, here, [{**row, "model_share": float(np.median(shares)), "seconds": times}])


if __name__ == "__main__":
    main()
