"""Decoding of image files by Pillow into upright 8-bit RGB images without transparency.

The rules apply in this order. They are part of a model, because other pixels give other codes:

1. The first frame of the file is decoded at full size, without JPEG draft mode.
2. The EXIF orientation is applied. An orientation that only XMP has is ignored, as in other programs. Colour profiles
   are ignored, as in torchvision.
3. Samples become 8-bit RGB. 16-bit samples keep their high byte, as in Pillow's 16-bit RGB PNG, and 12-bit samples
   their high 8 bits. 32-bit integers are clipped to 0..65535 and treated as 16-bit ones. Floats within 0..1 are scaled
   by 255, and other floats clipped to 0..255. Pillow converts CMYK, palette, grey and 1-bit images.
4. Transparent pixels of any kind are blended over white. The transparent colour of a 16-bit RGB PNG is compared by the
   high bytes of its samples.

preprocess.py has rule 5, the resampling. Pillow's warnings concern files that it reads anyway, and sizes that are
checked here. The commands silence them (cli/common.py).
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import IO, Any, NamedTuple

import numpy as np
from PIL import Image, ImageFile, PngImagePlugin

from ..errors import IdcwhError, InvalidInputError

MAX_PIXELS = 178_956_970  # Pillow's own limit, 0.7 GB when decoded; checked after the header is read

HEIF_SUFFIXES = frozenset({".heic", ".heif", ".hif"})  # decoded by pillow-heif if it is installed

# Formats that are decoded, whatever the suffix. The list is closed, because Pillow's others include EPS, which runs
# Ghostscript.
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "DIB", "TIFF", "PPM", "JPEG2000", "AVIF", "TGA", "ICO", "HEIF")
_PLUGINS = ("WebP", "Tiff", "Jpeg2K", "Avif", "Tga", "Ico")  # plugins that Image.preinit does not load
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_KINDS: tuple[tuple[re.Pattern[bytes], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), kind)
    for pattern, kind in (
        (rb"\xff\xd8\xff", "JPEG"),
        (rb"\x89PNG\r\n\x1a\n", "PNG"),
        (rb"GIF8[79]a", "GIF"),
        (rb"RIFF....WEBP", "WebP"),
        (rb"II\*\0|MM\0\*", "TIFF"),
        (rb"BM....\0\0\0\0", "BMP"),
        (rb"P[1-6]\s+(#|\d+\s+\d)|P7\s+(#|WIDTH)", "PNM"),
        (rb"\0\0\x01\0", "ICO"),
        (rb"\0\0\0\x0cjP  \r\n\x87\n|\xff\x4f\xff\x51", "JPEG 2000"),
        (rb"....ftyp(avif|avis)", "AVIF"),
        (rb"....ftyp(heic|heix|heim|heis|hevc|hevx|mif1|msf1)", "HEIC"),
        (rb"\xff\x0a|\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
        (rb"8BPS", "Photoshop (PSD)"),
        (rb"%PDF-", "PDF"),
        (rb"....ftypcrx |FUJIFILMCCD-RAW|II\x1a\0\0\0HEAPCCDR", "camera raw"),
        (rb"(\xef\xbb\xbf)?\s*<(svg\b|!DOCTYPE svg\b|(\?xml|!--).*<svg\b)", "SVG"),
    )
)
HEAD = 4096
"""Bytes that `kind_of` needs to detect the type of an image."""
_ORIENTATION = 0x0112  # EXIF tag
_XMP = ("xmp", "XML:com.adobe.xmp")  # keys of XMP data in Image.info


class UnreadableImage(IdcwhError):
    """An image that cannot be decoded, with its `path` and the `reason`. Commands skip and count such images."""

    path: str

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(reason, path=path)
        self.reason = reason


def kind_of(head: bytes) -> str | None:
    """Returns the type of an image from its first HEAD bytes, such as "JPEG", or None for other content.

    All decoded types are detected except TGA, which has no signature. Common types that are not decoded are detected,
    too.
    """
    return next((kind for pattern, kind in _KINDS if pattern.match(head)), None)


def to_rgb(image: Image.Image, name: str | os.PathLike[str]) -> Image.Image:
    """Returns an image opened by Pillow as upright RGB. Raises UnreadableImage with the path `name`."""
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise UnreadableImage(name, f"too large ({width} x {height}, at most {MAX_PIXELS:,} pixels)")
    if width * height == 0:
        raise UnreadableImage(name, f"no pixels ({width} x {height})")
    if getattr(image, "tile", None):  # the image is not decoded yet
        _check_truncated_images()
        if image.format == "TIFF":
            _prepare_tiff(image, name)
    samples = _samples(image)
    try:
        transparent = _transparent_sample(image)
        with _without_xmp(image):
            image.load()
        image = _upright(image)
        if transparent is not None:
            image = image.copy()  # leaves the caller's image unchanged
            image.info["transparency"] = transparent
        return _rgb(image, samples)
    except Exception as error:  # Pillow's decoders raise many kinds of exceptions for corrupt files
        raise UnreadableImage(name, _cause(error)) from error


@cache
def _formats() -> tuple[str, ...]:
    """Returns the formats of _FORMATS that this Pillow supports. Only their plugins are loaded, which is faster."""
    Image.preinit()
    for name in _PLUGINS:
        try:
            importlib.import_module(f"PIL.{name}ImagePlugin")
        except ImportError:  # this Pillow version lacks the format
            continue
    if heif_installed():
        heif = importlib.import_module("pillow_heif")
        heif.register_heif_opener()
        if "AVIF" not in Image.OPEN and hasattr(heif, "register_avif_opener"):  # older Pillow and older pillow-heif
            heif.register_avif_opener()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


@cache
def heif_installed() -> bool:
    """Returns True if pillow-heif is installed, which decodes HEIC images."""
    return importlib.util.find_spec("pillow_heif") is not None


def _check_truncated_images() -> None:
    """Raises InvalidInputError if Pillow loads truncated images.

    The setting is not changed here, because it belongs to the whole process.
    """
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise InvalidInputError(
            "is not supported, because truncated images would be accepted",
            path="PIL.ImageFile.LOAD_TRUNCATED_IMAGES",
            found=True,
            expected=False,
            hint="set it to False before images are read",
        )


def open_image(file: IO[bytes], path: str | os.PathLike[str]) -> Image.Image:
    """Returns an image that Pillow has opened but not decoded. Raises UnreadableImage with the path."""
    _check_truncated_images()
    try:
        return Image.open(_without_large_texts(file), formats=_formats())
    except Image.UnidentifiedImageError as error:
        file.seek(0)
        raise UnreadableImage(path, _unidentified(kind_of(file.read(HEAD))) or _cause(error)) from error
    except Exception as error:
        raise UnreadableImage(path, _cause(error)) from error


def _unidentified(kind: str | None) -> str | None:
    """Returns the reason why a file with the signature of this type cannot be opened, or None without a signature."""
    if {"HEIC": "HEIF", "WebP": "WEBP", "JPEG 2000": "JPEG2000"}.get(kind or "", kind) in _formats():
        return f"corrupt: begins like {kind}, but cannot be opened"
    hint = {
        "SVG": "; convert it to PNG first",
        "HEIC": "; install pillow-heif (pip install pillow-heif), or convert it to JPEG first",
        "AVIF": "; install Pillow 11.3 or later, or convert it to JPEG first",
        **dict.fromkeys(("JPEG XL", "Photoshop (PSD)", "PDF", "camera raw"), "; convert it to JPEG or PNG first"),
    }
    return f"{kind} is not supported{hint[kind]}" if kind in hint else None


_PNG = b"\x89PNG\r\n\x1a\n"
_TEXTS = (b"tEXt", b"zTXt", b"iTXt", b"iCCP")  # text and profile chunks, whose size Pillow limits


def _without_large_texts(file: IO[bytes]) -> IO[bytes]:
    """Returns a PNG file without text and profile chunks that exceed Pillow's limits. Other files are returned as is.

    Pillow refuses files beyond these limits, which guard against decompression bombs. The limits are global, so they
    are not changed here.
    """
    if file.read(len(_PNG)) != _PNG:
        file.seek(0)
        return file
    at, left, dropped = len(_PNG), 32 * PngImagePlugin.MAX_TEXT_CHUNK, []
    while len(head := file.read(8)) == 8:
        length, kind = int.from_bytes(head[:4], "big"), head[4:]
        if kind in _TEXTS:
            size = _text_size(kind, file.read(length)) if left >= 0 else 0  # later ones are dropped in any case
            left -= size
            if size > PngImagePlugin.MAX_TEXT_CHUNK or left < 0:
                dropped.append((at, at + 12 + length))
        at += 12 + length
        file.seek(at)
    file.seek(0)
    if not dropped:
        return file
    content, begin, kept = file.read(), 0, []
    for start, end in dropped:
        kept.append(content[begin:start])
        begin = end
    return io.BytesIO(b"".join([*kept, content[begin:]]))


def _text_size(kind: bytes, data: bytes) -> int:
    """Returns the decompressed size of a chunk, exact up to Pillow's limit."""
    if kind == b"tEXt" or (kind == b"iTXt" and data.partition(b"\0")[2][:1] == b"\0"):
        return len(data)
    text = data.partition(b"\0")[2][1:]  # after the keyword and one number
    if kind == b"iTXt":  # compressed iTXt also has a second number, a language and a translated keyword
        text = text[1:].partition(b"\0")[2].partition(b"\0")[2]
    try:
        return max(len(data), len(zlib.decompressobj().decompress(text, PngImagePlugin.MAX_TEXT_CHUNK + 1)))
    except zlib.error:
        return len(data)


def _cause(error: Exception) -> str:
    if isinstance(error, Image.UnidentifiedImageError):
        return "not an image, or of a type that is not supported"
    if isinstance(error, Image.DecompressionBombError):
        most = min(MAX_PIXELS, 2 * (Image.MAX_IMAGE_PIXELS or MAX_PIXELS))  # Pillow's limit, which can be lowered
        return f"too large (at most {most:,} pixels)"
    if isinstance(error, MemoryError):
        return "not enough memory to decode it"
    if isinstance(error, Warning):
        return f"Pillow warning, which this process raises as an error: {' '.join(str(error).split())}"
    return "corrupt: " + (" ".join(str(error).split()) or type(error).__name__)


def _upright(image: Image.Image) -> Image.Image:
    try:
        # After load(), because Pillow rotates a TIFF itself, and a PNG may have its EXIF after the pixels.
        turn = _UPRIGHT.get(_exif(image).get(_ORIENTATION, 1))
    except Exception:  # the pixels may be intact although the EXIF is corrupt
        return image
    return image if turn is None else image.transpose(turn)


def _exif(image: Image.Image) -> Image.Exif:
    """Returns the EXIF block of a decoded image. Image.getexif would also use an orientation in its XMP."""
    found = Image.Exif()
    if (block := image.info.get("exif")) is not None:
        found.load(block)
    elif (text := image.info.get("Raw profile type exif")) is not None:  # PNG files older than the eXIf chunk
        found.load(bytes.fromhex("".join(text.split("\n")[3:])))
    return found


@contextmanager
def _without_xmp(image: Image.Image) -> Iterator[None]:
    """Hides the XMP while a TIFF is decoded. Pillow would rotate it by its XMP if its EXIF has no orientation."""
    hidden = {name: image.info.pop(name) for name in _XMP if name in image.info}
    try:
        yield
    finally:
        image.info.update(hidden)


def _transparent_sample(image: Image.Image) -> int | tuple[int, ...] | None:
    """Returns the transparent colour of a PNG that is not decoded yet, scaled to 8 bits, or None.

    Pillow scales samples of 2, 4 and 16 bits, but not this colour. None means that Pillow's value is correct.
    """
    sample, tiles = image.info.get("transparency"), getattr(image, "tile", None)
    raw = tiles[0][3] if image.format == "PNG" and tiles else None  # storage mode of the samples
    if raw in ("L;2", "L;4") and isinstance(sample, int):
        return sample * (255 // (2 ** int(raw[2:]) - 1))
    if raw == "RGB;16B" and isinstance(sample, tuple):
        return tuple(value >> 8 for value in sample)
    return None


class _Samples(NamedTuple):
    """The encoding of grey samples, which a decoded image of Pillow does not show."""

    inverted: bool = False  # 0 is white
    unsigned: bool = False  # unsigned 32-bit samples, which Pillow stores as signed ones
    shift: int = 0  # 16 minus the bits per sample


_BITS, _PHOTOMETRIC, _PLANAR, _SAMPLE_FORMAT = 258, 262, 284, 339  # TIFF tags


def _samples(image: Image.Image) -> _Samples:
    if image.format != "TIFF":
        return _Samples()
    tags: Any = getattr(image, "tag_v2", {})
    bits, kind = tags.get(_BITS, (1,))[0], tags.get(_SAMPLE_FORMAT, (1,))[0]
    # Pillow itself inverts samples of up to 8 bits.
    return _Samples(tags.get(_PHOTOMETRIC) == 0, (bits, kind) == (32, 1), 16 - bits if 8 < bits < 16 else 0)


# libtiff converts samples to native byte order, and Pillow would swap them again. Mode of Pillow -> native mode.
_SWAPPED = {"I;16BS": "I;16NS", "I;32BS": "I;32NS", "F;32BF": "F;32NF"}


def _prepare_tiff(image: Any, name: str | os.PathLike[str]) -> None:
    """Corrects the modes by which Pillow will decode a TIFF. Raises UnreadableImage if it cannot decode it."""
    tags, tiles = image.tag_v2, image.tile
    modes = {tile[3] if isinstance(tile[3], str) else tile[3][0] for tile in tiles}
    by_libtiff = all(tile[0] == "libtiff" for tile in tiles)
    wide = any(bits > 8 for bits in tags.get(_BITS, (1,)))
    if tags.get(_PLANAR) == 2 and len(tags.get(_BITS, (1,))) > 1 and (image.mode == "LA" or (wide and not by_libtiff)):
        raise UnreadableImage(
            name, f"TIFF with separate planes of {tags[_BITS][0]}-bit samples, which is not supported"
        )
    if by_libtiff and modes & set(_SWAPPED):
        image.tile = [_with_mode(tile, _SWAPPED[tile[3][0]]) for tile in tiles]


def _with_mode(tile: Any, mode: str) -> Any:
    args = (mode, *tile[3][1:])
    return tile._replace(args=args) if hasattr(tile, "_replace") else (*tile[:3], args)  # older Pillow has plain tuples


def _rgb(image: Image.Image, samples: _Samples) -> Image.Image:
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode.startswith("I") or image.mode == "F":
        image = _eight_bit(image, samples)
    elif image.mode == "LAB":
        image = _from_lab(image)
    if image.mode in ("La", "RGBa"):  # premultiplied
        image = image.convert(image.mode[:-1] + "A")
    if image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info:
        seen = image.convert("RGBA")
        white = Image.new("RGBA", seen.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, seen)
    return image.convert("RGB")


def _eight_bit(image: Image.Image, how: _Samples) -> Image.Image:
    """Returns grey samples of 16 or 32 bits, or floats, as mode L. The transparent sample value becomes white."""
    samples = np.asarray(image)
    if image.mode == "F":
        samples = np.nan_to_num(samples, nan=0.0)
        scale = 255.0 if samples.min() >= 0.0 and samples.max() <= 1.0 else 1.0
        grey = np.clip(np.rint(samples * scale), 0, 255).astype(np.uint8)
    else:
        samples = samples.view(np.uint32) if how.unsigned and samples.dtype == np.int32 else samples
        grey = (np.clip(samples, 0, 65535 >> how.shift) >> (8 - how.shift)).astype(np.uint8)
    if how.inverted:
        grey = 255 - grey
    transparent = image.info.get("transparency")
    if isinstance(transparent, int):
        grey[samples == transparent] = 255
    return Image.fromarray(grey)


def _from_lab(image: Image.Image) -> Image.Image:
    from PIL import ImageCms

    turned = ImageCms.profileToProfile(
        image, ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB"), outputMode="RGB"
    )
    assert turned is not None  # None is returned only for inPlace=True
    return turned
