"""Augmentation and loading of batches, compared with single images and plain Python integers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from idcwh_search.datasets import LabelledImages
from idcwh_search.images.preprocess import Preprocess
from idcwh_train.data.augment import augment, draw, whole
from idcwh_train.data.loader import pixels, read, read_one

RNG = np.random.default_rng(1)
M = 2**64


def held(n: int, h: int, w: int) -> LabelledImages:
    images = RNG.integers(0, 256, (n, h, w, 3), dtype=np.uint8)
    return LabelledImages([str(i) for i in range(n)], np.zeros(n, np.int64), ["x"], images, [""] * n)


# ------------------------------------------------------------------------------------------------------------ reading


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos", "box"])
@pytest.mark.parametrize(("h", "w", "resize", "crop"), [(32, 32, 32, 32), (32, 32, 32, 28), (20, 36, 20, 16)])
def test_loader_arrays_of_matching_size_equal_pillow(h, w, resize, crop, interpolation):
    data, preprocess = held(6, h, w), Preprocess(resize, crop, interpolation)
    rows = np.array([4, 0, 5])
    expected = np.stack([data.image(i, preprocess) for i in rows])
    result = pixels(data, rows, preprocess)
    assert result.shape == (3, crop, crop, 3) and result.flags.c_contiguous
    assert not np.shares_memory(result, data.images)
    np.testing.assert_array_equal(result, expected)
    batch = read_one(data, rows, preprocess)
    assert batch.rows.tolist() == [4, 0, 5] and batch.failed == {}
    np.testing.assert_array_equal(batch.pixels.permute(0, 2, 3, 1).numpy(), expected)


@pytest.mark.parametrize(("h", "w", "resize", "crop"), [(32, 32, 36, 32), (32, 32, 32, 27), (33, 32, 32, 32)])
def test_loader_arrays_of_other_sizes_are_scaled_singly(h, w, resize, crop):
    data, preprocess = held(3, h, w), Preprocess(resize, crop)
    assert pixels(data, np.arange(3), preprocess) is None
    batch = read_one(data, np.arange(3), preprocess)
    np.testing.assert_array_equal(batch.pixels[2].permute(1, 2, 0).numpy(), data.image(2, preprocess))


def test_augment_of_files_equals_that_of_arrays(tmp_path):
    data, rows = held(5, 24, 24), np.array([3, 1, 4, 0])
    paths = [tmp_path / f"{i}.png" for i in range(5)]
    for path, image in zip(paths, data.images, strict=True):
        Image.fromarray(image).save(path)
    paths[1].write_text("hello")
    files = LabelledImages(data.keys, data.labels, data.classes, paths, data.split)

    def change(rows, found):
        return augment(found, rows, 3, 2, crop=20, pad=2, flip=True, hole=6)

    (from_files,) = read(files, [rows], Preprocess(24, 24), augment=change)
    (from_arrays,) = read(data, [rows], Preprocess(24, 24), augment=change)
    assert from_files.rows.tolist() == [3, 4, 0] and set(from_files.failed) == {1}
    assert torch.equal(from_files.pixels, from_arrays.pixels[[0, 2, 3]])
    nothing = read_one(files, np.array([1]), Preprocess(24, 24), augment=change)
    assert len(nothing.rows) == 0 and len(nothing.pixels) == 0


# ------------------------------------------------------------------------------------------------------- augmentation


def mix(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % M
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % M
    return z ^ (z >> 31)


def lots(seed: int, epoch: int, row: int) -> list[int]:
    """Returns the random numbers of a row, by the definition in Python's integers."""
    golden = 0x9E3779B97F4A7C15
    state = mix(mix(mix((seed + golden) % M) ^ epoch) ^ row)
    return [mix((state + i * golden) % M) for i in range(1, 6)]


def test_generator_equals_splitmix64():
    """First outputs for seed 1234567, as published with the reference implementation."""
    state, result = 1234567, []
    for _ in range(3):
        state = (state + 0x9E3779B97F4A7C15) % M
        result.append(mix(state))
    assert result == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize(("seed", "epoch"), [(0, 1), (7, 150), (2**63, 3), (2**64 - 1, 0)])
def test_random_numbers_follow_seed_epoch_and_row(seed, epoch):
    rows = np.array([0, 5, 59_999, 2**40])
    assert draw(seed, epoch, rows).tolist() == [lots(seed, epoch, int(row)) for row in rows]


@pytest.mark.parametrize("side", [32, 33])
def test_augment_of_a_batch_equals_single_images(side):
    crop, pad, hole, seed, epoch = 28, 3, 9, 11, 4
    data, rows = RNG.integers(0, 256, (40, side, side + 4, 3), dtype=np.uint8), np.arange(100, 140)
    before = data.copy()
    actual = augment(data, rows, seed, epoch, crop=crop, pad=pad, flip=True, hole=hole, fill=7)
    np.testing.assert_array_equal(data, before)
    flipped = 0
    for image, row, result in zip(data, rows, actual, strict=True):
        top, left, mirror, y, x = lots(seed, epoch, int(row))
        border = np.pad(image, ((pad, pad), (pad, pad), (0, 0)), mode="reflect")
        top = (top >> 32) * (side + 2 * pad - crop + 1) >> 32
        left = (left >> 32) * (side + 4 + 2 * pad - crop + 1) >> 32
        expected = border[top : top + crop, left : left + crop]
        if mirror >> 63:
            expected, flipped = np.fliplr(expected), flipped + 1
        y, x = ((v >> 32) * crop >> 32 for v in (y, x))
        rows_in, columns_in = (np.abs(np.arange(crop) - (v - hole // 2) - (hole - 1) / 2) < hole / 2 for v in (y, x))
        expected = np.where((rows_in[:, None] & columns_in)[..., None], 7, expected)
        np.testing.assert_array_equal(result, expected)
    assert 5 < flipped < 35


def test_augment_does_not_depend_on_batch_or_other_options():
    data, rows = RNG.integers(0, 256, (30, 16, 16, 3), dtype=np.uint8), RNG.permutation(1000)[:30]
    some = RNG.permutation(30)[:7]
    whole_batch = augment(data, rows, 1, 2, crop=16, pad=2, flip=True)
    np.testing.assert_array_equal(augment(data[some], rows[some], 1, 2, crop=16, pad=2, flip=True), whole_batch[some])
    plain = augment(data, rows, 1, 2, crop=16, pad=2)
    mirrored = (whole_batch != plain).any(axis=(1, 2, 3))
    np.testing.assert_array_equal(whole_batch, np.where(mirrored[:, None, None, None], plain[:, :, ::-1], plain))
    assert not np.array_equal(augment(data, rows, 1, 3, crop=16, pad=2), plain)
    assert not np.array_equal(augment(data, rows, 2, 2, crop=16, pad=2), plain)


def test_augment_alternate_mirrors_every_other_epoch():
    data, rows = RNG.integers(0, 256, (50, 8, 8, 3), dtype=np.uint8), np.arange(50)
    odd, even, third = (augment(data, rows, 5, e, crop=8, flip=True, alternate=True) for e in (1, 2, 3))
    np.testing.assert_array_equal(odd, even[:, :, ::-1])
    np.testing.assert_array_equal(odd, third)
    assert 10 < np.count_nonzero((odd == data).all(axis=(1, 2, 3))) < 40


def test_augment_without_options_changes_nothing():
    data = RNG.integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)
    np.testing.assert_array_equal(augment(data, np.arange(4), 0, 0, crop=8), data)
    assert augment(data[:0], np.arange(0), 0, 0, crop=6, pad=1, flip=True, hole=2).shape == (0, 6, 6, 3)


@pytest.mark.parametrize("limit", [2, 9, 17])
def test_random_numbers_are_uniform(limit):
    """Chi-square over rows, and over epochs of one row: within five deviations of its mean, for each column."""
    n = 200_000
    rows = draw(3, 1, np.arange(n))
    epochs = np.concatenate([draw(3, epoch, np.array([42])) for epoch in range(2_000)])
    for numbers in (rows, epochs):
        for column in whole(numbers, limit).T:
            counts = np.bincount(column, minlength=limit)
            expected = len(column) / limit
            chi = float(((counts - expected) ** 2 / expected).sum())
            assert len(counts) == limit and chi < limit - 1 + 5 * np.sqrt(2 * (limit - 1)), counts
    correlation = np.corrcoef((rows / 2.0**64).T) - np.eye(5)
    assert np.abs(correlation).max() < 5 / np.sqrt(n)


@pytest.mark.parametrize(
    ("options", "name"), [({"crop": 9}, "crop"), ({"crop": 0}, "crop"), ({"crop": 8, "pad": 8}, "pad")]
)
def test_augment_with_a_square_that_does_not_fit_raises(options, name):
    with pytest.raises(ValueError, match=f"^{name}"):
        augment(np.zeros((1, 8, 8, 3), np.uint8), np.arange(1), 0, 0, **options)
