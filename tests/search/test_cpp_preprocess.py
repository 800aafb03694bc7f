"""The pixels of idcwh::Preprocess, compared with Pillow's on photographs and on thousands of random images."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from idcwh_search.images.listing import list_images
from idcwh_search.images.preprocess import Preprocess, to_pixels
from support.c_abi import CppError

REPOSITORY = Path(__file__).resolve().parents[2]
FILTERS = ("bilinear", "bicubic", "lanczos", "box")


def check(cpp, pixels: np.ndarray, preprocess: Preprocess) -> None:
    result = cpp.preprocess(json.dumps(preprocess.to_dict()))(pixels)
    expected = to_pixels(Image.fromarray(np.ascontiguousarray(pixels)), preprocess)
    if not np.array_equal(result, expected):
        differ = np.abs(result.astype(int) - expected)
        pytest.fail(f"{pixels.shape}, {preprocess}: {(differ > 0).sum()} bytes differ, by at most {differ.max()}")


def random_image(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Returns noise, black and white with the largest overshoot of the filters, or nearly flat pixels that show every
    rounding.
    """
    pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    kind = rng.integers(0, 4)
    if kind == 0:
        return np.where(pixels < 128, 0, 255).astype(np.uint8)
    return pixels // 64 + 120 if kind == 1 else pixels


@pytest.mark.parametrize("interpolation", FILTERS)
def test_random_images_of_any_size_equal_python(cpp, interpolation: str) -> None:
    rng = np.random.default_rng(FILTERS.index(interpolation))
    shapes = {
        "tiny": lambda: rng.integers(1, 12, 2),
        "common": lambda: rng.integers(1, 150, 2),
        "wide": lambda: (rng.integers(1, 4), rng.integers(1, 3000)),
        "tall": lambda: (rng.integers(1, 3000), rng.integers(1, 4)),
        "square": lambda: [rng.integers(1, 130)] * 2,
    }
    for shape in shapes.values():
        for _ in range(150):
            height, width = map(int, shape())
            resize = int(rng.integers(1, 130))
            crop = resize if rng.random() < 0.2 else int(rng.integers(1, resize + 1))
            check(cpp, random_image(rng, height, width), Preprocess(resize, crop, interpolation))


@pytest.mark.parametrize("interpolation", FILTERS)
@pytest.mark.parametrize(
    ("height", "width"), [(1, 1), (1, 10_000), (10_000, 1), (3, 5000), (5000, 3), (375, 500), (500, 375), (799, 100)]
)
def test_images_of_odd_sizes_equal_python(cpp, height: int, width: int, interpolation: str) -> None:
    pixels = random_image(np.random.default_rng(height * width), height, width)
    for resize, crop in ((240, 224), (224, 224), (32, 32), (7, 3), (1, 1)):
        check(cpp, pixels, Preprocess(resize, crop, interpolation))


def test_images_with_strides_equal_python(cpp) -> None:
    whole = np.random.default_rng(0).integers(0, 256, (90, 120, 3), dtype=np.uint8)
    for view in (whole[10:70, 20:100], whole[::-1], whole[80:20:-2, 5:]):
        check(cpp, view, Preprocess(40, 32))


def test_very_tall_images_equal_python(cpp) -> None:
    """Beyond 2^24 rows or columns, a box in single precision is between pixels. Both sides must round alike."""
    rng = np.random.default_rng(1)
    long = rng.integers(0, 256, (1, 17_000_000, 3), dtype=np.uint8)
    check(cpp, long, Preprocess(10, 8))
    check(cpp, long.reshape(17_000_000, 1, 3), Preprocess(10, 8, "lanczos"))


def test_photographs_equal_python(cpp) -> None:
    paths = list_images(REPOSITORY / "demo" / "cifar10")[::25]
    assert len(paths) >= 30
    for path in paths:
        with Image.open(path) as image:
            small = np.asarray(image.convert("RGB"))
        check(cpp, small, Preprocess(240, 224, "bilinear"))
        check(cpp, small, Preprocess(32, 32, "bicubic"))
    # A JPEG of the size and shape of a photograph.
    mosaic = np.concatenate([np.concatenate([np.asarray(Image.open(p).convert("RGB")) for p in paths[:12]], 1)] * 9, 0)
    file = io.BytesIO()
    Image.fromarray(mosaic).resize((1700, 1299)).save(file, "JPEG", quality=88)
    photograph = np.asarray(Image.open(file))
    for interpolation in FILTERS:
        check(cpp, photograph, Preprocess(240, 224, interpolation))
        check(cpp, np.ascontiguousarray(photograph.swapaxes(0, 1)), Preprocess(256, 224, interpolation))


@pytest.mark.parametrize("interpolation", FILTERS)
def test_passes_equal_pillow(interpolation: str) -> None:
    """Verifies the oracle by one call of Pillow, for sizes at which all versions use the same order of passes."""
    pixels = np.random.default_rng(3).integers(0, 256, (200, 301, 3), dtype=np.uint8)
    image, how = Image.fromarray(pixels), getattr(Image.Resampling, interpolation.upper())
    side = 200 * 60 / 64
    box = ((301 - side) / 2, (200 - side) / 2, (301 + side) / 2, (200 + side) / 2)
    assert np.array_equal(to_pixels(image, Preprocess(64, 60, interpolation)), image.resize((60, 60), how, box=box))


def test_tall_images_do_not_depend_on_pillow_version() -> None:
    """Pillow 13 resizes the columns of a tall image first, older versions its rows. Our order is always the same."""
    pixels = np.random.default_rng(4).integers(0, 256, (350, 171, 3), dtype=np.uint8)
    image, how = Image.fromarray(pixels), Image.Resampling.BILINEAR
    rows = image.resize((32, 350), how, box=(0, 0, 171, 350))
    expected = rows.resize((32, 32), how, box=(0, (350 - 171) / 2, 32, (350 + 171) / 2))
    assert np.array_equal(to_pixels(image, Preprocess(32, 32)), expected)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"interpolation": "nearest"}, "interpolation"),
        ({"interpolation": None}, "interpolation"),
        ({"crop": 241}, "crop"),
        ({"crop": 0}, "crop"),
        ({"crop": -5}, "crop"),
        ({"crop": 224.0}, "crop"),
        ({"resize": 8193}, "resize"),
        ({"resize": True}, "resize"),
        ({"resize": 10**30}, "resize"),
        ({"antialias": True}, "antialias"),
    ],
)
def test_fields_that_python_rejects_are_rejected(cpp, change: dict, named: str) -> None:
    values = {"resize": 240, "crop": 224, "interpolation": "bilinear", **change}
    with pytest.raises((ValueError, TypeError)):
        Preprocess.from_dict(values)
    with pytest.raises(CppError) as caught:
        cpp.preprocess(json.dumps(values))
    assert named in str(caught.value) and caught.value.status == 1


def test_corrupt_json_is_rejected(cpp) -> None:
    """A text without a valid dictionary for Python's reader is rejected in C++ too, and nothing crashes."""
    good = json.dumps(Preprocess().to_dict())
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(3000):
        text = bytearray(good, "ascii")
        for _ in range(rng.integers(1, 4)):
            at = rng.integers(0, len(text))
            if rng.random() < 0.3:
                del text[at:]
                text += b" "
            else:
                text[at] = rng.integers(1, 128)
        try:
            expected = Preprocess.from_dict(json.loads(text.decode("ascii")))
        except (ValueError, TypeError):
            refused += 1
            with pytest.raises(CppError):
                cpp.preprocess(text.decode("ascii"))
        else:
            pixels = np.arange(300, dtype=np.uint8).reshape(10, 10, 3)
            result = cpp.preprocess(text.decode("ascii"))(pixels)
            assert np.array_equal(result, to_pixels(Image.fromarray(pixels), expected))
    assert refused > 2000
