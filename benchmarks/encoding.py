"""Speed of encoding on the CPU: ONNX Runtime in each precision, and eager PyTorch in both memory layouts, in turn.

    python benchmarks/encoding.py runs/photos/model.pt --onnx model.onnx model.int8.onnx

All candidates encode the same batch of preprocessed images from model.pt, with the same number of threads. PyTorch runs
the network in eval mode and inference_mode, and numpy packs the codes. It runs in the contiguous layout, in channels
last, and in channels last with bfloat16. The last column is the ratio to the fastest PyTorch candidate in float32.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import numpy as np
import torch

from idcwh_search._util.hardware import available_cores
from idcwh_search.encoder.encoder import Encoder
from idcwh_train.engine.checkpoint import load_model


def eager(model: torch.nn.Module, pixels: np.ndarray, layout: torch.memory_format, half: bool) -> Callable[[], object]:
    """Returns a function that computes packed codes in PyTorch."""
    model = model.to(memory_format=layout)  # type: ignore[call-overload]

    def run() -> object:
        batch = torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous(memory_format=layout)
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=half):
            logits = model(batch)
        return np.packbits(logits.float().numpy() >= 0, axis=1, bitorder="little")

    return run


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="model.pt")
    parser.add_argument("--onnx", nargs="+", default=[], help="its files of idcwh-export")
    parser.add_argument("--batch", type=int, default=32, help="images per batch (default 32)")
    parser.add_argument("--threads", type=int, default=available_cores(), help="threads per run (default all cores)")
    parser.add_argument("--seconds", type=float, default=60, help="seconds to measure (default 60)")
    parser.add_argument("--json", metavar="FILE", help="JSON file of the results")
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    _, content = load_model(options.model)
    pixels = np.resize(content["sample"]["images"].numpy(), (options.batch, *content["sample"]["images"].shape[1:]))
    candidates: dict[str, Callable[[], object]] = {}
    for path in options.onnx:
        encoder = Encoder(path, device="cpu", threads=options.threads, batch_size=options.batch)
        candidates[f"ONNX Runtime {encoder.info.precision}"] = lambda encoder=encoder: encoder.encode(pixels)
    layouts = {"contiguous": (torch.contiguous_format, False), "channels last": (torch.channels_last, False)}
    layouts["channels last, bfloat16"] = (torch.channels_last, True)
    for name, (layout, half) in layouts.items():
        candidates[f"PyTorch {name}"] = eager(load_model(options.model)[0], pixels, layout, half)

    times = common.alternate(candidates, seconds=options.seconds)
    middle = common.medians(times)
    best = min(middle["PyTorch contiguous"], middle["PyTorch channels last"])
    here = common.machine("onnxruntime-gpu", "onnxruntime", "torch", "numpy")
    print(common.describe(here))
    about: dict[str, Any] = {"backbone": content["backbone"]["name"], "pixels": content["preprocess"]["crop"]}
    about |= {"batch": options.batch, "threads": options.threads, "model": Path(options.model).name}
    print(f"{about}, {min(map(len, times.values()))} rounds")
    rows = []
    for name, seconds in middle.items():
        fastest = options.batch / min(times[name])
        print(f"{name:32} {options.batch / seconds:8.1f} images/s (fastest {fastest:.1f}) {best / seconds:7.2f} x")
        rows.append({**about, "name": name, "images_per_second": options.batch / seconds, "ratio": best / seconds})
    common.write_json(options.json, here, rows)


if __name__ == "__main__":
    main()
