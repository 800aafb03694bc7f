"""Files to pixels: every size, orientation and mode of images. The oracles are Pillow and plain numpy."""

from __future__ import annotations

import struct
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps
from PIL.PngImagePlugin import PngInfo

from idcwh_search.images.preprocess import Preprocess, load_image, to_pixels

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow warns of unusual files
SMALL = Preprocess(resize=24, crop=20)


def as_is(side: int) -> Preprocess:
    """Returns a preprocess that does not change a square image of this side, so that only the conversion to RGB is
    tested.
    """
    return Preprocess(resize=side, crop=side)


def noise(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    shape = (height, width) if channels == 1 else (height, width, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def smooth(height: int, width: int) -> Image.Image:
    """Returns an image whose eight orientations all differ, smooth enough for JPEG."""
    y, x = np.mgrid[0:height, 0:width]
    channels = [255 * x / width, 255 * y / height, 127 + 100 * np.sin(x / 9)]
    return Image.fromarray(np.stack(channels, -1).astype(np.uint8))


# ------------------------------------------------------------------------------------------------ geometry


@pytest.mark.parametrize("side", [20, 24, 97, 300])
@pytest.mark.parametrize("name", ["bilinear", "bicubic", "lanczos", "box"])
def test_square_equals_resize_then_crop(side: int, name: str) -> None:
    image = Image.fromarray(noise(side, side))
    whole = image.resize((240, 240), getattr(Image.Resampling, name.upper()))
    expected = np.asarray(whole.crop((8, 8, 232, 232)), np.int16)
    got = to_pixels(image, Preprocess(240, 224, name))
    assert got.shape == (224, 224, 3) and got.dtype == np.uint8
    assert np.abs(got - expected).max() <= 2  # rounding may differ in each of the two passes


@pytest.mark.parametrize(("height", "width"), [(60, 600), (600, 60), (60, 90), (120, 60)])
def test_long_sides_equal_resize_then_crop(height: int, width: int) -> None:
    """Scaling to 120 leaves whole numbers, so that no rounding of the longer side can differ."""
    image = Image.fromarray(noise(height, width))
    wide, high = width * 120 // min(height, width), height * 120 // min(height, width)
    left, top = (wide - 112) // 2, (high - 112) // 2
    expected = image.resize((wide, high), Image.Resampling.BILINEAR).crop((left, top, left + 112, top + 112))
    got = to_pixels(image, Preprocess(120, 112))
    assert np.abs(got - np.asarray(expected, np.int16)).max() <= 1


def test_image_of_the_crop_size_is_not_resampled() -> None:
    pixels = noise(32, 32)
    assert np.array_equal(to_pixels(Image.fromarray(pixels), as_is(32)), pixels)


def test_shrinking_is_antialiased() -> None:
    """A fine chequerboard becomes grey, not black or white."""
    board = (np.indices((256, 256)).sum(0) % 2 * 255).astype(np.uint8)
    got = to_pixels(Image.fromarray(board), as_is(16))
    assert got.min() >= 120 and got.max() <= 135


@pytest.mark.parametrize("size", [(1, 1), (1, 10_000), (10_000, 1), (2, 3), (4000, 7)])
def test_image_of_odd_size_has_the_size_of_the_crop(size: tuple[int, int], tmp_path: Path) -> None:
    Image.new("RGB", size, (10, 200, 30)).save(tmp_path / "odd.png")
    got = load_image(tmp_path / "odd.png", Preprocess())
    assert got.shape == (224, 224, 3) and (got == (10, 200, 30)).all()


def test_centre_of_a_very_tall_image_is_exact() -> None:
    middle, tall = Image.fromarray(noise(40, 1)), Image.new("RGB", (1, 36_000_000))
    tall.paste(middle, (0, 18_000_000 - 20))
    for resize in (10, 9, 8):  # the first row is odd or even
        assert np.array_equal(to_pixels(tall, Preprocess(resize, 8)), to_pixels(middle, Preprocess(resize, 8)))


def test_load_image_in_threads_gives_the_same_pixels(tmp_path: Path) -> None:
    for i in range(12):
        Image.fromarray(noise(50, 70, seed=i)).save(tmp_path / f"{i}.jpg")
    paths = [tmp_path / f"{i}.jpg" for i in range(12)]
    expected = [load_image(path, SMALL) for path in paths]
    results: list[list[np.ndarray]] = []
    threads = [threading.Thread(target=lambda: results.append([load_image(p, SMALL) for p in paths])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(np.array_equal(got, want) for result in results for got, want in zip(result, expected, strict=True))


# ------------------------------------------------------------------------------------------------ orientation

STORED = {  # the stored form of an upright image with this orientation tag
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", [".png", ".tif", ".webp"])
def test_orientation_gives_the_upright_pixels(orientation: int, suffix: str, tmp_path: Path) -> None:
    upright = smooth(48, 80)
    turn = STORED[orientation]
    stored = upright if turn is None else upright.transpose(turn)
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"lossless": True} if suffix == ".webp" else {}
    stored.save(tmp_path / f"turned{suffix}", exif=exif, **options)
    upright.save(tmp_path / "upright.png")
    expected = load_image(tmp_path / "upright.png", SMALL)
    assert np.array_equal(load_image(tmp_path / f"turned{suffix}", SMALL), expected)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_of_a_jpeg_is_applied(orientation: int, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "turned.jpg"
    smooth(48, 80).save(path, exif=exif)
    expected = to_pixels(ImageOps.exif_transpose(Image.open(path)), SMALL)
    assert np.array_equal(load_image(path, SMALL), expected)


def test_orientation_in_the_text_chunk_of_a_png_is_applied(tmp_path: Path) -> None:
    """ImageMagick wrote it as a text: its length, then its bytes in hexadecimal, 36 per line."""
    exif = Image.Exif()
    exif[0x0112] = 6
    block, info = exif.tobytes(), PngInfo()
    lines = [block[i : i + 36].hex() for i in range(0, len(block), 36)]
    info.add_text("Raw profile type exif", "\n".join(["", "exif", f"{len(block):8}", *lines, ""]), zip=True)
    smooth(48, 80).transpose(Image.Transpose.ROTATE_90).save(tmp_path / "turned.png", pnginfo=info)
    assert np.array_equal(load_image(tmp_path / "turned.png", SMALL), to_pixels(smooth(48, 80), SMALL))


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_meaningless_orientation_is_ignored(orientation: int, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    smooth(48, 80).save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(load_image(tmp_path / "a.png", SMALL), to_pixels(smooth(48, 80), SMALL))


def test_corrupt_exif_is_ignored(tmp_path: Path) -> None:
    smooth(48, 80).save(tmp_path / "a.jpg", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff rubbish")
    assert load_image(tmp_path / "a.jpg", SMALL).shape == (20, 20, 3)


XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tif", ".webp"])
def test_orientation_in_xmp_is_ignored(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    image = smooth(48, 80)
    if suffix == ".tif":
        image.save(path, tiffinfo={700: XMP})
    elif suffix == ".png":
        info = PngInfo()
        info.add_itxt("XML:com.adobe.xmp", XMP.decode())
        image.save(path, pnginfo=info)
    else:
        image.save(path, xmp=XMP, **({"lossless": True} if suffix == ".webp" else {}))
    with Image.open(path) as opened:
        assert b"Orientation" in opened.info["xmp"]
        assert opened.getexif()[0x0112] == 6, "Pillow would turn it"
    if suffix == ".jpg":
        assert path.read_bytes().count(XMP) == 1
        path.with_name("bare.jpg").write_bytes(without_xmp(path.read_bytes()))
        expected = load_image(tmp_path / "bare.jpg", SMALL)
    else:
        expected = to_pixels(image, SMALL)
    assert np.array_equal(load_image(path, SMALL), expected)


def without_xmp(jpeg: bytes) -> bytes:
    """Returns the same JPEG without its APP1 segment of XMP."""
    at = jpeg.index(b"\xff\xe1")
    return jpeg[:at] + jpeg[at + 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big") :]


# ------------------------------------------------------------------------------------------------ modes


@pytest.mark.parametrize("name", ["grey.png", "grey.tif", "grey.pgm"])
def test_16_bit_grey_keeps_the_high_byte(name: str, tmp_path: Path) -> None:
    samples = np.random.default_rng(1).integers(0, 65536, (16, 16), dtype=np.uint16)
    Image.fromarray(samples).save(tmp_path / name)
    got = load_image(tmp_path / name, as_is(16))
    assert np.array_equal(got, np.repeat((samples >> 8).astype(np.uint8)[..., None], 3, -1))


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, depth: int, colour: int, rows: bytes, *extra: bytes) -> bytes:
    """Returns a handmade PNG of a kind that Pillow cannot write."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    body = [chunk(b"IHDR", header), *extra, chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(body)


def test_16_bit_rgb_equals_16_bit_grey(tmp_path: Path) -> None:
    samples = np.random.default_rng(2).integers(0, 65536, (8, 8), dtype=np.uint16)
    rows = b"".join(b"\0" + np.repeat(row[:, None], 3, 1).astype(">u2").tobytes() for row in samples)
    (tmp_path / "rgb.png").write_bytes(png(8, 8, 16, 2, rows))
    Image.fromarray(samples).save(tmp_path / "grey.png")
    assert np.array_equal(load_image(tmp_path / "rgb.png", as_is(8)), load_image(tmp_path / "grey.png", as_is(8)))


def test_transparent_sample_of_16_bit_grey_is_white(tmp_path: Path) -> None:
    samples = np.array([[1000, 30000], [30001, 65535]], np.uint16)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in samples)
    (tmp_path / "t.png").write_bytes(png(2, 2, 16, 0, rows, chunk(b"tRNS", struct.pack(">H", 30000))))
    got = load_image(tmp_path / "t.png", as_is(2))[..., 0]
    assert got.tolist() == [[1000 >> 8, 255], [30001 >> 8, 255]]


@pytest.mark.parametrize("depth", [1, 2, 4, 8])
def test_transparent_sample_of_grey_is_white(depth: int, tmp_path: Path) -> None:
    most = 2**depth - 1
    samples = np.random.default_rng(depth).integers(0, most + 1, (8, 8))
    chosen = 1  # not 0, which is 0 at every depth
    samples[3, 4] = chosen
    bits = ((samples[..., None] >> np.arange(depth - 1, -1, -1)) & 1).astype(np.uint8).reshape(8, -1)
    rows = b"".join(b"\0" + np.packbits(row).tobytes() for row in bits)
    (tmp_path / "t.png").write_bytes(png(8, 8, depth, 0, rows, chunk(b"tRNS", struct.pack(">H", chosen))))
    grey = np.where(samples == chosen, 255, samples * 255 // most)
    assert np.array_equal(load_image(tmp_path / "t.png", as_is(8)), np.repeat(grey[..., None], 3, -1))
    with Image.open(tmp_path / "t.png") as image:  # the caller's image does not change
        assert np.array_equal(to_pixels(image, as_is(8))[..., 0], grey)
        assert image.info["transparency"] == (255 * chosen if depth == 1 else chosen)


def test_transparent_colour_of_16_bit_rgb_is_white(tmp_path: Path) -> None:
    samples = np.random.default_rng(4).integers(0, 65536, (4, 4, 3), dtype=np.uint16)
    samples[1, 2] = samples[0, 0]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in samples)
    (tmp_path / "t.png").write_bytes(png(4, 4, 16, 2, rows, chunk(b"tRNS", struct.pack(">3H", *samples[0, 0]))))
    expected = np.where((samples == samples[0, 0]).all(-1, keepdims=True), 255, samples >> 8)
    assert (expected == 255).all(-1).sum() == 2
    assert np.array_equal(load_image(tmp_path / "t.png", as_is(4)), expected)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (np.array([[0.0, 0.5], [1.0, 0.25]], np.float32), [[0, 128], [255, 64]]),
        (np.array([[0.0, 100.0], [255.0, 300.0]], np.float32), [[0, 100], [255, 255]]),
        (np.array([[-3.0, np.nan], [np.inf, 7.0]], np.float32), [[0, 0], [255, 7]]),
        (np.array([[0.5, np.nan], [1.0, 0.25]], np.float32), [[128, 0], [255, 64]]),
    ],
)
def test_float_samples_are_scaled_or_clipped(samples: np.ndarray, expected: list[list[int]], tmp_path: Path) -> None:
    Image.fromarray(samples).save(tmp_path / "f.tif")
    assert load_image(tmp_path / "f.tif", as_is(2))[..., 0].tolist() == expected


def test_32_bit_integers_are_clipped(tmp_path: Path) -> None:
    Image.fromarray(np.array([[-5, 256], [65535, 10**9]], np.int32)).save(tmp_path / "i.tif")
    assert load_image(tmp_path / "i.tif", as_is(2))[..., 0].tolist() == [[0, 1], [255, 255]]


@pytest.mark.parametrize("mode", ["1", "L", "P", "CMYK", "YCbCr", "HSV", "RGBX"])
def test_opaque_modes_are_converted_as_pillow_does(mode: str) -> None:
    image = Image.fromarray(noise(16, 16)).convert(mode)
    assert np.array_equal(to_pixels(image, as_is(16)), np.asarray(image.convert("RGB")))


def test_cmyk_jpeg_is_converted(tmp_path: Path) -> None:
    smooth(16, 16).convert("CMYK").save(tmp_path / "c.jpg")
    with Image.open(tmp_path / "c.jpg") as image:
        assert image.mode == "CMYK"
        expected = np.asarray(image.convert("RGB"))
    assert np.array_equal(load_image(tmp_path / "c.jpg", as_is(16)), expected)


def test_lab_is_converted_to_its_colour(tmp_path: Path) -> None:
    from PIL import ImageCms

    lab = ImageCms.profileToProfile(
        smooth(16, 16), ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), outputMode="LAB"
    )
    assert lab is not None
    lab.save(tmp_path / "lab.tif")
    difference = np.abs(load_image(tmp_path / "lab.tif", as_is(16)) - np.asarray(smooth(16, 16), np.int16))
    assert np.median(difference) <= 2


def over_white(colour: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    a = alpha[..., None] / 255.0
    return colour * a + 255.0 * (1 - a)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "RGBa", "La", "PA"])
def test_alpha_is_laid_over_white(mode: str) -> None:
    colour, alpha = noise(16, 16), noise(16, 16, 1, seed=5)
    if mode in ("LA", "La"):
        colour = np.repeat(colour[..., :1], 3, -1)
    rgba = Image.fromarray(np.dstack([colour, alpha]))
    if mode == "PA":
        palette = Image.fromarray(colour).quantize(64)
        colour = np.asarray(palette.convert("RGB"))
        image = palette.convert("PA")
        image.putalpha(Image.fromarray(alpha))
    else:
        image = rgba.convert("LA").convert(mode) if mode in ("LA", "La") else rgba.convert(mode)
    got = to_pixels(image, as_is(16)).astype(float)
    assert np.abs(got - over_white(colour, alpha)).max() <= (2 if mode.endswith("a") else 1)  # a: rounded once more


@pytest.mark.parametrize("suffix", [".png", ".gif"])
def test_transparent_palette_entry_is_white(suffix: str, tmp_path: Path) -> None:
    image = Image.new("P", (4, 4), 1)
    image.putpalette([0, 0, 0, 200, 10, 10, 10, 200, 10])
    image.putpixel((0, 0), 2)
    image.save(tmp_path / f"p{suffix}", transparency=1)
    got = load_image(tmp_path / f"p{suffix}", as_is(4))
    assert got[0, 0].tolist() == [10, 200, 10] and (got.reshape(-1, 3)[1:] == 255).all()


def test_palette_with_partial_transparency_is_blended(tmp_path: Path) -> None:
    image = Image.new("P", (2, 2))
    image.putpalette([0, 0, 0, 200, 100, 0])
    image.putpixel((1, 0), 1)
    image.save(tmp_path / "p.png", transparency=bytes([0, 128]))
    got = load_image(tmp_path / "p.png", as_is(2))
    assert got[0].tolist() == [[255, 255, 255], [227, 177, 127]]  # 200, 100, 0 at 128 / 255 over white


def test_transparent_colour_of_rgb_is_white(tmp_path: Path) -> None:
    image = Image.new("RGB", (2, 2), (9, 9, 9))
    image.putpixel((0, 0), (1, 2, 3))
    image.save(tmp_path / "t.png", transparency=(1, 2, 3))
    got = load_image(tmp_path / "t.png", as_is(2))
    assert got[0, 0].tolist() == [255, 255, 255] and got[1, 1].tolist() == [9, 9, 9]


@pytest.mark.parametrize("suffix", [".gif", ".webp", ".png", ".tif"])
def test_first_frame_is_decoded(suffix: str, tmp_path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "lime", "blue")]
    options = {"lossless": True} if suffix == ".webp" else {}
    frames[0].save(tmp_path / f"a{suffix}", save_all=True, append_images=frames[1:], **options)
    assert (load_image(tmp_path / f"a{suffix}", as_is(8)) == (255, 0, 0)).all()


# ------------------------------------------------------------------------------------------------ Preprocess


def test_preprocess_to_dict_and_back_is_equal() -> None:
    result = Preprocess(64, 60, "bicubic")
    assert Preprocess.from_dict(result.to_dict()) == result
    assert Preprocess.from_dict({"crop": 60, "interpolation": "bicubic", "resize": 64}) == result


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"resize": 10, "crop": 20, "interpolation": "bilinear"}, "crop"),
        ({"resize": 0, "crop": 0, "interpolation": "bilinear"}, "crop"),
        ({"resize": 24.0, "crop": 20, "interpolation": "bilinear"}, "resize"),
        ({"resize": True, "crop": True, "interpolation": "bilinear"}, "resize"),
        ({"resize": 24, "crop": 20, "interpolation": "nearest"}, "interpolation"),
        ({"resize": 24, "crop": 20}, "interpolation"),
        ({"resize": 24, "crop": 20, "interpolation": "box", "flip": True}, "flip"),
        ([24, 20], "list"),
    ],
)
def test_preprocess_of_wrong_fields_names_the_field(values: object, named: str) -> None:
    with pytest.raises((ValueError, TypeError), match=rf"^preprocess: .*\b{named}\b"):
        Preprocess.from_dict(values)  # type: ignore[arg-type]


def test_load_image_without_preprocess_raises_type_error(tmp_path):
    path = tmp_path / "a.png"
    Image.new("RGB", (4, 4)).save(path)
    for wrong in (None, 224, (240, 224)):
        with pytest.raises(TypeError, match=r"^preprocess:"):
            load_image(path, wrong)
