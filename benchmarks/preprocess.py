"""How fast a decoded image becomes the pixels that a model sees: idcwh::Preprocess beside Pillow, which gives the
same bytes.

    python benchmarks/preprocess.py

They take turns on one thread, each from an image that is decoded already. "Pillow" is one call of Image.resize with
the same box, "Python" what images.py does (two calls, so that every version of Pillow gives the same pixels).
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
    """idcwh_image."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
        ("stride", ctypes.c_ssize_t),
    )


def cpp(preprocess: Preprocess, pixels: np.ndarray) -> Callable[[], np.ndarray]:
    """idcwh::Preprocess through its C ABI."""
    library = ctypes.CDLL(str(Path(ih.get_library_dir()) / "libidcwh_encoder.so.0"))
    handle, made = ctypes.c_void_p(), np.empty((preprocess.crop, preprocess.crop, 3), np.uint8)
    assert library.idcwh_preprocess_from_json(json.dumps(preprocess.to_dict()).encode(), ctypes.byref(handle)) == 0
    view = ImageView(pixels.ctypes.data, pixels.shape[1], pixels.shape[0], 0)

    def run() -> np.ndarray:
        assert library.idcwh_preprocess_run(handle, ctypes.byref(view), ctypes.c_void_p(made.ctypes.data)) == 0
        return made

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resize", type=int, default=240)
    parser.add_argument("--crop", type=int, default=224)
    parser.add_argument("--json", metavar="FILE", help="write the numbers there, too")
    options = parser.parse_args()

    machine = common.machine("pillow", "numpy")
    print(common.describe(machine))
    print(f"milliseconds per image, to {options.crop} x {options.crop}, one thread; median round")
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
            assert np.array_equal(run(), to_pixels(image, preprocess)), "not the same pixels"
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
