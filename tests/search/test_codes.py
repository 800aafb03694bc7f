"""pack, unpack and check_codes, compared with numpy and the definition of a code."""

import warnings

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search.codes import check_codes, code_bytes, pack_outputs


@pytest.mark.parametrize("bits", [1, 7, 8, 9, 12, 48, 64, 100, 1024])
def test_pack_is_numpy_packbits_little_and_unpack_undoes_it(bits, rng):
    h = rng.normal(size=(50, bits))
    codes = ih.pack(h)
    assert codes.dtype == np.uint8 and codes.shape == (50, code_bytes(bits)) == (50, -(-bits // 8))
    np.testing.assert_array_equal(codes, np.packbits(h >= 0, axis=1, bitorder="little"))
    np.testing.assert_array_equal(ih.unpack(codes, bits), h >= 0)
    np.testing.assert_array_equal(ih.pack(ih.unpack(codes, bits)), codes)
    assert ih.unpack(codes, bits).dtype == bool


def test_bit_i_is_in_byte_i_div_8_at_position_i_mod_8():
    for i in range(20):
        h = -np.ones((1, 20))
        h[0, i] = 1
        assert ih.pack(h)[0].tolist() == [1 << i % 8 if byte == i // 8 else 0 for byte in range(3)]


def test_pack_of_zero_is_one_for_either_sign():
    assert ih.pack(np.array([[0.0, -0.0, 1e-300, -1e-300, np.inf, -np.inf]])).tolist() == [[0b010111]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_pack_takes_every_real_dtype(dtype):
    assert ih.pack(np.array([[1, -1, 0, -2, 3]], dtype)).tolist() == [[0b10101]]


def test_pack_of_bool_keeps_it():
    assert ih.pack(np.array([[True, False, True]])).tolist() == [[0b101]]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int64, np.uint64])
def test_pack_of_integers_raises_and_names_astype_bool(dtype):
    with pytest.raises(TypeError, match=r"^h .*h\.astype\(bool\)") as caught:
        ih.pack(np.array([[1, 0, 1]], dtype))
    assert np.dtype(dtype).name in str(caught.value)


@pytest.mark.parametrize("features", [np.abs, lambda h: -np.abs(h) - 1e-9], ids=["non-negative", "negative"])
def test_pack_of_features_with_one_sign_warns(features, rng):
    with pytest.warns(UserWarning, match=r"^pack: 100 % .*h\.mean\(axis=0\)"):
        ih.pack(features(rng.normal(size=(20, 48))))


def test_pack_of_balanced_or_few_outputs_does_not_warn(rng):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        h = np.abs(rng.normal(size=(20, 48)))
        ih.pack(h - h.mean(axis=0))
        ih.pack(np.ones((1, 48)))
        ih.pack(np.zeros((0, 48)))
        pack_outputs(np.ones((20, 48)))


def test_unpacked_bits_as_codes_names_pack():
    with pytest.raises(ValueError, match=r"^codes .*pack\(x\.astype\(bool\)\)"):
        check_codes(np.ones((5, 48), np.uint8), 48)


def test_pack_takes_strided_and_empty_arrays():
    h = np.arange(-40, 40, dtype=float).reshape(4, 20)
    np.testing.assert_array_equal(ih.pack(h[::2, ::2]), ih.pack(h[::2, ::2].copy()))
    assert ih.pack(np.zeros((0, 12))).shape == (0, 2)
    assert ih.unpack(np.zeros((0, 2), np.uint8), 12).shape == (0, 12)


@pytest.mark.parametrize(
    ("h", "error"),
    [
        (np.array([[1.0, np.nan]]), ValueError),
        (np.ones(4), ValueError),
        (np.ones((2, 2, 2)), ValueError),
        (np.ones((2, 0)), ValueError),
        (np.ones((2, 2), complex), TypeError),
        (np.array([["a"]]), TypeError),
    ],
)
def test_pack_of_invalid_outputs_raises(h, error):
    with pytest.raises(error, match=r"^(h|bits) "):
        ih.pack(h)


@pytest.mark.parametrize(
    ("codes", "error"),
    [
        (np.zeros((2, 2), np.int8), TypeError),
        (np.zeros((2, 2), bool), TypeError),
        ([[0, 0]], TypeError),
        (np.zeros(2, np.uint8), ValueError),
        (np.zeros((2, 3), np.uint8), ValueError),
        (np.zeros((4, 2), np.uint8)[::2], ValueError),
        (np.asfortranarray(np.zeros((4, 2), np.uint8)), ValueError),
        (np.array([[0, 0], [0, 0x10]], np.uint8), ValueError),
    ],
)
def test_check_codes_of_invalid_codes_raises(codes, error):
    with pytest.raises(error, match=r"^queries"):
        check_codes(codes, 12, name="queries")


def test_check_codes_returns_the_array_itself():
    codes = np.zeros((6, 2), np.uint8)
    assert check_codes(codes, 12) is codes
    strided = codes[::2]
    assert check_codes(strided, 12, contiguous=False) is strided
    codes[2, 1] = 0x80
    with pytest.raises(ValueError, match=r"^codes: row 1"):
        check_codes(strided, 12, contiguous=False)


@pytest.mark.parametrize(
    ("bits", "error"), [(0, ValueError), (65536, ValueError), (1.5, TypeError), (True, TypeError), ("8", TypeError)]
)
def test_code_bytes_of_invalid_bits_raises(bits, error):
    with pytest.raises(error, match=r"^bits"):
        code_bytes(bits)
