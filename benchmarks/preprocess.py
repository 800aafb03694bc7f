"""Speed of preprocessing decoded images: idcwh::Preprocess compared with Pillow, which gives the same bytes.

    python benchmarks/preprocess.py

The candidates run in turn on one thread. "Pillow" is one call of Image.resize with the same box. "Python" is
`to_pixels` with two calls, so that all versions of Pillow give the same pixels.
"""

from __future__ import annotations

import argparse
import ctypes
import json
from collections.abc import Callable
from pathlib import Path

import common
import numpy as np
from PIL import Image

import idcwh_search as ih
from idcwh_search.images.preprocess import Preprocess, to_pixels

SIZES = ((500, 375), (375, 500), (4000, 3000), (3000, 4000))
FILTERS = ("bilinear", "bicubic", "lanczos", "box")


class ImageView(ctypes.Structure):
    """The C struct idcwh_image."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
        ("stride", ctypes.c_ssize_t),
    )


def cpp(preprocess: Preprocess, pixels: np.ndarray) -> Callable[[], np.ndarray]:
    """Returns a function that runs idcwh::Preprocess through its C ABI."""
    library = ctypes.CDLL(str(Path(ih.get_library_dir()) / "libidcwh_encoder.so.0"))
    handle, out = ctypes.c_void_p(), np.empty((preprocess.crop, preprocess.crop, 3), np.uint8)
    assert library.idcwh_preprocess_from_json(json.dumps(preprocess.to_dict()).encode(), ctypes.byref(handle)) == 0
    view = ImageView(pixels.ctypes.data, pixels.shape[1], pixels.shape[0], 0)

    def run() -> np.ndarray:
        assert library.idcwh_preprocess_run(handle, ctypes.byref(view), ctypes.c_void_p(out.ctypes.data)) == 0
        return out

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resize", type=int, default=240, help="shorter side, in pixels (default 240)")
    parser.add_argument("--crop", type=int, default=224, help="side of the crop, in pixels (default 224)")
    parser.add_argument("--json", metavar="FILE", help="JSON file of the results")
    options = parser.parse_args()

    machine = common.machine("pillow", "numpy")
    print(common.describe(machine))
    print(f"milliseconds per image of {options.crop} x {options.crop} pixels, one thread, median of the rounds")
    print(f"{'image':>11}  {'filter':9} {'Pillow':>8} {'Python':>8} {'C++':>8}  ratio to Pillow")
    rows = []
    for width, height in SIZES:
        pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
        image = Image.fromarray(pixels)
        for name in FILTERS:
            preprocess = Preprocess(options.resize, options.crop, name)
            how, out = getattr(Image.Resampling, name.upper()), (options.crop, options.crop)
            side = min(width, height) * options.crop / options.resize
            left, top = (width - side) / 2, (height - side) / 2
            box = (left, top, left + side, top + side)
            run = cpp(preprocess, pixels)
            assert np.array_equal(run(), to_pixels(image, preprocess)), "the pixels differ"
            candidates = {
                "pillow": lambda image=image, out=out, how=how, box=box: image.resize(out, how, box=box),
                "python": lambda image=image, preprocess=preprocess: to_pixels(image, preprocess),
                "cpp": run,
            }
            taken = {key: 1000 * value for key, value in common.medians(common.alternate(candidates, 1.5)).items()}
            ratio = taken["pillow"] / taken["cpp"]
            print(f"{width:>5} x {height:<4} {name:9}", *(f"{taken[key]:8.2f}" for key in candidates), f"{ratio:10.2f}")
            rows.append({"width": width, "height": height, "filter": name, "milliseconds": taken, "ratio": ratio})
    common.write_json(options.json, machine, rows)


if __name__ == "__main__":
    main()
