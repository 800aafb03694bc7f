"""Samples and metadata of every kind: handmade TIFF files of known samples, and large metadata."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import MAX_TEXT_CHUNK, PngInfo

from idcwh_search.images import decoding
from idcwh_search.images.decoding import UnreadableImage
from idcwh_search.images.preprocess import Preprocess, load_image

SIDE = 4
PLAIN = Preprocess(SIDE, SIDE)
UNSIGNED, SIGNED, FLOAT = 1, 2, 3
WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, CMYK = 0, 1, 2, 5


def tiff(
    data: bytes,
    bits: int,
    *,
    photometric: int = BLACK_IS_ZERO,
    kind: int = UNSIGNED,
    order: str = "<",
    deflate: bool = False,
    channels: int = 1,
    planes: list[bytes] | None = None,
    alpha: bool = False,
) -> bytes:
    """Returns a TIFF of one strip, or of one per plane, by the specification of TIFF 6.0."""
    strips = [zlib.compress(strip) if deflate else strip for strip in (planes or [data])]
    offsets = [8 + sum(map(len, strips[:i])) for i in range(len(strips))]
    body = b"".join(strips)
    body += bytes(len(body) % 2)
    tags = {
        256: (4, [SIDE]),
        257: (4, [SIDE]),
        258: (3, [bits] * channels),
        259: (3, [8 if deflate else 1]),
        262: (3, [photometric]),
        273: (4, offsets),
        277: (3, [channels]),
        278: (4, [SIDE]),
        279: (4, [len(strip) for strip in strips]),
        284: (3, [2 if planes else 1]),
        **({338: (3, [2])} if alpha else {}),
        339: (3, [kind] * channels),
    }
    extra, entries = b"", b""
    behind = 8 + len(body) + 2 + 12 * len(tags) + 4
    for tag, (type_, values) in tags.items():
        packed = struct.pack(f"{order}{len(values)}{'H' if type_ == 3 else 'I'}", *values)
        if len(packed) > 4:
            value = struct.pack(f"{order}I", behind + len(extra))
            extra += packed
        else:
            value = packed.ljust(4, b"\0")
        entries += struct.pack(f"{order}HHI", tag, type_, len(values)) + value
    head = (b"II" if order == "<" else b"MM") + struct.pack(f"{order}HI", 42, 8 + len(body))
    return head + body + struct.pack(f"{order}H", len(tags)) + entries + struct.pack(f"{order}I", 0) + extra


RAMP = np.arange(SIDE * SIDE, dtype=np.uint64) * 16 + 15  # 0x0F, 0x1F, ... 0xFF: the high bytes of all samples below
CASES = {
    "8 bits": (8, UNSIGNED, RAMP.astype(np.uint8), RAMP),
    "16 bits": (16, UNSIGNED, (RAMP * 257).astype(np.uint16), RAMP),
    "16 bits, signed": (16, SIGNED, (RAMP * 128).astype(np.int16), RAMP // 2),
    "32 bits": (32, UNSIGNED, (RAMP << np.uint64(24)).astype(np.uint32), np.full_like(RAMP, 255)),
    "32 bits, small": (32, UNSIGNED, (RAMP * 257).astype(np.uint32), RAMP),
    "32 bits, signed": (32, SIGNED, (RAMP * 257).astype(np.int32), RAMP),
    "floats": (32, FLOAT, (RAMP / 255).astype(np.float32), RAMP),
}


def is_opened(name: str, photometric: int, order: str) -> bool:
    """Returns whether Pillow opens such a file."""
    if photometric == WHITE_IS_ZERO:
        return name in ("8 bits", "floats") or (name, order) == ("16 bits", "<")
    return order == "<" or name not in ("32 bits", "32 bits, small")


@pytest.mark.parametrize("deflate", [False, True])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("photometric", [BLACK_IS_ZERO, WHITE_IS_ZERO])
@pytest.mark.parametrize("name", CASES)
def test_grey_tiff_has_its_samples(name: str, photometric: int, order: str, deflate: bool, tmp_path: Path) -> None:
    bits, kind, samples, expected = CASES[name]
    path = tmp_path / "t.tif"
    data = samples.astype(samples.dtype.newbyteorder(order)).tobytes()
    path.write_bytes(tiff(data, bits, photometric=photometric, kind=kind, order=order, deflate=deflate))
    if not is_opened(name, photometric, order):
        with pytest.raises(UnreadableImage):
            load_image(path, PLAIN)
        return
    grey = expected if photometric == BLACK_IS_ZERO else 255 - expected
    assert load_image(path, PLAIN)[..., 1].ravel().tolist() == grey.tolist()


@pytest.mark.parametrize("photometric", [BLACK_IS_ZERO, WHITE_IS_ZERO])
def test_bilevel_tiff_has_its_samples(photometric: int, tmp_path: Path) -> None:
    path = tmp_path / "t.tif"
    path.write_bytes(tiff(bytes([0b1010_0000, 0, 0xF0, 0b0001_0000]), 1, photometric=photometric))
    white = np.array([[1, 0, 1, 0], [0] * 4, [1] * 4, [0, 0, 0, 1]]) ^ (photometric == WHITE_IS_ZERO)
    assert load_image(path, PLAIN)[..., 0].tolist() == (255 * white).tolist()


def test_12_bit_tiff_keeps_the_high_bits(tmp_path: Path) -> None:
    samples, packed = [int(value) * 16 + 7 for value in RAMP], b""
    for one, two in zip(samples[::2], samples[1::2], strict=True):
        packed += bytes([one >> 4, (one & 15) << 4 | two >> 8, two & 255])
    path = tmp_path / "t.tif"
    path.write_bytes(tiff(packed, 12))
    assert load_image(path, PLAIN)[..., 0].ravel().tolist() == RAMP.tolist()


@pytest.mark.parametrize("largest", [255, 1023, 4095, 65535])
def test_pgm_is_scaled_by_its_largest_sample(largest: int, tmp_path: Path) -> None:
    samples = np.linspace(0, largest, 16).round().astype(">u2" if largest > 255 else "u1")
    (tmp_path / "p.pgm").write_bytes(b"P5 4 4 %d\n" % largest + samples.tobytes())
    got = load_image(tmp_path / "p.pgm", PLAIN)[..., 0].ravel().astype(int)
    assert np.abs(got - samples.astype(float) * 255 / largest).max() <= 1


@pytest.mark.parametrize("deflate", [False, True])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("photometric", "channels", "bits"), [(RGB, 3, 8), (RGB, 3, 16), (CMYK, 4, 16), (BLACK_IS_ZERO, 2, 8)]
)
def test_tiff_of_separate_planes_is_right_or_unreadable(
    photometric: int, channels: int, bits: int, order: str, deflate: bool, tmp_path: Path
) -> None:
    planes = [
        (RAMP if i == 0 else np.full_like(RAMP, 255 if photometric == BLACK_IS_ZERO else 0)) for i in range(channels)
    ]
    dtype = np.dtype(np.uint8 if bits == 8 else np.uint16).newbyteorder(order)
    packed = [(plane * (257 if bits == 16 else 1)).astype(dtype).tobytes() for plane in planes]
    path = tmp_path / "t.tif"
    alpha = photometric == BLACK_IS_ZERO
    path.write_bytes(
        tiff(
            b"",
            bits,
            photometric=photometric,
            order=order,
            deflate=deflate,
            channels=channels,
            planes=packed,
            alpha=alpha,
        )
    )
    try:
        got = load_image(path, PLAIN)[..., 0].ravel().astype(int)
    except UnreadableImage as error:
        assert error.path == str(path) and f"{bits}-bit" in error.reason and (bits, photometric) != (8, RGB)
    else:
        assert np.abs(got - (255 - RAMP if photometric == CMYK else RAMP).astype(int)).max() <= 1


# ------------------------------------------------------------------------------------------------ metadata


def image() -> Image.Image:
    return Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3) * 5)


def oriented() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif.tobytes()


def large(name: str) -> dict[str, object]:
    """Returns options of PNG's save with more metadata than Pillow reads."""
    info, text = PngInfo(), "x" * 3_000_000
    if name == "zTXt":
        info.add_text("Comment", text, zip=True)
    elif name == "tEXt":
        for i in range(30):
            info.add_text(f"Comment {i}", text)
    elif name == "iTXt":
        info.add_itxt("Comment", text, zip=True)
    elif name == "many":
        for i in range(100):
            info.add_text(f"Comment {i}", text[:900_000], zip=True)
    return {"icc_profile": bytes(3_000_000)} if name == "iCCP" else {"pnginfo": info}


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("name", ["zTXt", "tEXt", "iTXt", "iCCP", "many"])
def test_png_with_large_metadata_has_its_pixels(name: str, behind: bool, tmp_path: Path) -> None:
    path = tmp_path / "p.png"
    image().save(path, exif=oriented(), **large(name))
    if behind:  # behind the pixels, as some programs write it
        content, chunks, at = path.read_bytes(), [], 8
        while at < len(content):
            end = at + 12 + int.from_bytes(content[at : at + 4], "big")
            chunks.append(content[at:end])
            at = end
        texts = [part for part in chunks if part[4:8] in (b"tEXt", b"zTXt", b"iTXt", b"iCCP")]
        others = [part for part in chunks if part not in texts]
        path.write_bytes(content[:8] + b"".join([*others[:-1], *texts, others[-1]]))
    expected = np.asarray(image().transpose(Image.Transpose.ROTATE_270))
    assert load_image(path, PLAIN).tolist() == expected.tolist()
    assert load_image(path.read_bytes(), PLAIN).tolist() == expected.tolist()


def test_png_texts_beyond_the_limit_are_not_decompressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    size_of = decoding._text_size

    def counted(kind: bytes, data: bytes) -> int:
        sizes.append(size_of(kind, data))
        return sizes[-1]

    monkeypatch.setattr(decoding, "_text_size", counted)
    image().save(tmp_path / "p.png", **large("many"))
    assert load_image(tmp_path / "p.png", PLAIN).tolist() == np.asarray(image()).tolist()
    limit = 32 * MAX_TEXT_CHUNK
    assert limit < sum(sizes) < limit + MAX_TEXT_CHUNK


@pytest.mark.parametrize("name", ["exif", "xmp", "icc_profile"])
@pytest.mark.parametrize("suffix", [".webp", ".jpg", ".tif"])
def test_large_metadata_costs_no_pixels(suffix: str, name: str, tmp_path: Path) -> None:
    size = 60_000 if suffix == ".jpg" and name != "icc_profile" else 5_000_000  # one segment of JPEG
    large = b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0" + bytes(size) if name == "exif" else bytes(size)
    if suffix == ".tif":
        large = large[6:] if name == "exif" else large
    options = {"lossless": True} if suffix == ".webp" else {}
    image().save(tmp_path / f"plain{suffix}", **options)
    image().save(tmp_path / f"large{suffix}", **options, **{name: large})
    plain, result = (load_image(tmp_path / f"{which}{suffix}", PLAIN).tolist() for which in ("plain", "large"))
    assert result == plain
