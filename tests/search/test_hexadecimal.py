"""from_hex, from_integers and to_hex, compared with bits and distances that the hashers computed themselves."""

import json
from pathlib import Path

import numpy as np
import pytest

import idcwh_search as ih

VECTORS = json.loads((Path(__file__).parent / "data" / "hashes.json").read_text("utf-8"))["vectors"]


def name_of(vector):
    return vector["hasher"].split("(image")[0]


@pytest.fixture(params=VECTORS, ids=name_of)
def vector(request):
    return request.param


def test_from_hex_has_the_distances_of_the_hasher(vector):
    bits, order = vector["bits"], vector["order"]
    codes = ih.from_hex(vector["hex"], bits, order=order)
    index = ih.HammingIndex(bits)
    index.add(codes)
    distances, ids = index.search(codes, len(codes))
    np.testing.assert_array_equal(distances, np.take_along_axis(np.array(vector["distances"]), ids, axis=1))


def test_from_hex_has_the_bit_order_of_the_hasher(vector):
    codes = ih.from_hex(vector["hex"], vector["bits"], order=vector["order"])
    assert "".join(map(str, ih.unpack(codes, vector["bits"])[0].astype(int))) == vector["first_bits"]


def test_to_hex_returns_the_text_of_the_hasher(vector):
    codes = ih.from_hex(vector["hex"], vector["bits"], order=vector["order"])
    assert ih.to_hex(codes, vector["bits"], vector["order"]) == vector["hex"]


@pytest.mark.parametrize("bits", [1, 3, 4, 5, 8, 9, 12, 42, 48, 63, 64, 81, 256, 1001])
@pytest.mark.parametrize("order", ["imagehash", "img_hash"])
def test_to_hex_undoes_from_hex_at_every_width(bits, order, rng, code_maker):
    codes = code_maker.random(rng, 50, bits)
    texts = ih.to_hex(codes, bits, order)
    np.testing.assert_array_equal(ih.from_hex(texts, bits, order=order), codes)
    if order == "imagehash":
        numbers = [int("".join(map(str, row)), 2) for row in ih.unpack(codes, bits).astype(int)]
        assert texts == [f"{number:0{-(-bits // 4)}x}" for number in numbers]
    else:
        assert texts == [code.tobytes().hex() for code in codes]


def test_from_hex_of_img_hash_is_lsb_first_per_byte():
    codes = ih.from_hex(["4992"], order="img_hash")  # the bytes that the crate's tests expect for i % 3 == 0
    np.testing.assert_array_equal(ih.unpack(codes, 16)[0], np.arange(16) % 3 == 0)


@pytest.mark.parametrize("order", ["imagehash", "pdq", "img_hash"])
def test_from_hex_accepts_upper_case_and_0x(order, rng, code_maker):
    codes = code_maker.random(rng, 4, 256)
    texts = ih.to_hex(codes, 256, order)
    written = ["0x" + texts[0], "0X" + texts[1].upper(), texts[2].upper(), texts[3]]
    for strings in (written, np.array(written), np.array(written, object), iter(written)):
        np.testing.assert_array_equal(ih.from_hex(strings, order=order), codes)


def test_from_hex_without_texts_needs_bits():
    assert ih.from_hex([], 64, order="imagehash").shape == (0, 8)
    assert ih.from_hex([], order="pdq").shape == (0, 32)
    assert ih.to_hex(np.empty((0, 8), np.uint8), 64, "imagehash") == []
    with pytest.raises(ValueError, match="give bits"):
        ih.from_hex([], order="imagehash")


@pytest.mark.parametrize(
    ("texts", "bits", "order", "row", "problem"),
    [
        (["ab", "abc"], None, "imagehash", 1, "3 digits, expected 2"),
        (["ab", ""], None, "imagehash", 1, "0 digits"),
        ([""], None, "imagehash", 0, "0 digits"),
        (["0x"], None, "img_hash", 0, "0 digits"),
        (["abcd"], 12, "imagehash", 0, "4 digits, expected 3"),
        (["abc"], None, "img_hash", 0, "two per byte"),
        (["ab" * 8], None, "pdq", 0, "16 digits, expected 64"),
        (["ab", "0xag"], None, "imagehash", 1, "'g'"),
        (["ab", "a "], None, "imagehash", 1, "' '"),
        (["ab", "-1"], None, "imagehash", 1, "'-'"),
        (["ab", "é1"], None, "imagehash", 1, "'é'"),
        (["ab", "١1"], None, "imagehash", 1, "'١'"),
        (["ab", "a\ud800"], None, "imagehash", 1, "ud800"),
        (["1ff", "3ff"], 9, "imagehash", 1, "beyond 9 bits"),
        (["ff01", "ff02"], 9, "img_hash", 1, "beyond 9 bits"),
    ],
)
def test_from_hex_of_invalid_text_names_row_and_text(texts, bits, order, row, problem):
    with pytest.raises(ValueError, match=problem) as caught:
        ih.from_hex(texts, bits, order=order)
    assert f"strings: row {row} ({texts[row]!r}) is invalid" in str(caught.value)


@pytest.mark.parametrize("strings", ["abcd", b"abcd", [b"ab"], ["ab", None], [171]])
def test_from_hex_of_other_types_raises_type_error(strings):
    with pytest.raises(TypeError, match=r"^strings"):
        ih.from_hex(strings, order="imagehash")


def test_unknown_order_or_bits_of_pdq_raise_value_error():
    with pytest.raises(ValueError, match="imagehash, pdq, img_hash"):
        ih.from_hex(["ab"], order="phash")
    with pytest.raises(ValueError, match="expected 256"):
        ih.from_hex(["ab"], 8, order="pdq")
    with pytest.raises(ValueError, match="expected 256"):
        ih.to_hex(np.zeros((1, 1), np.uint8), 8, "pdq")
    with pytest.raises(ValueError, match="PDQ has 256 bits"):
        ih.from_integers([1], order="pdq")


@pytest.mark.parametrize("vector", [vector for vector in VECTORS if vector["integers"] is not None], ids=name_of)
def test_from_integers_equals_from_hex_of_the_hasher(vector):
    bits, values = vector["bits"], np.array(vector["integers"], np.uint64)
    codes = ih.from_hex(vector["hex"], bits, order="imagehash")
    np.testing.assert_array_equal(ih.from_integers(values, bits, order="imagehash"), codes)
    np.testing.assert_array_equal(ih.from_integers(values.view(np.int64), bits, order="imagehash"), codes)


@pytest.mark.parametrize("order", ["imagehash", "img_hash"])
@pytest.mark.parametrize("bits", [1, 7, 20, 63, 64])
def test_from_integers_equals_from_hex_at_every_width(bits, order, rng, code_maker):
    codes = code_maker.random(rng, 50, bits)
    values = np.array([int(text, 16) for text in ih.to_hex(codes, bits, order)], np.uint64)
    for array in (values, values.view(np.int64), np.stack([values, values], axis=1)[:, 0]):
        np.testing.assert_array_equal(ih.from_integers(array, bits, order=order), codes)
    assert ih.from_integers(values[:0], bits, order=order).shape == (0, -(-bits // 8))


@pytest.mark.parametrize("order", ["imagehash", "img_hash"])
@pytest.mark.parametrize("bits", [1, 7, 20, 42, 63, 64])
def test_to_integers_undoes_from_integers(bits, order, rng, code_maker):
    codes = code_maker.random(rng, 50, bits)
    values = ih.to_integers(codes, bits, order)
    assert values.dtype == np.uint64 and values.tolist() == [int(text, 16) for text in ih.to_hex(codes, bits, order)]
    np.testing.assert_array_equal(ih.from_integers(values.view(np.int64), bits, order=order), codes)
    assert ih.to_integers(codes[:0], bits, order).shape == (0,)


@pytest.mark.parametrize("vector", [vector for vector in VECTORS if vector["integers"] is not None], ids=name_of)
def test_to_integers_returns_the_integers_of_the_hasher(vector):
    codes = ih.from_hex(vector["hex"], vector["bits"], order=vector["order"])
    assert ih.to_integers(codes, vector["bits"], vector["order"]).tolist() == vector["integers"]


def test_to_integers_of_wide_codes_or_pdq_raises():
    with pytest.raises(ValueError, match="bits"):
        ih.to_integers(np.zeros((1, 9), np.uint8), 65, "imagehash")
    with pytest.raises(ValueError, match="PDQ has 256 bits"):
        ih.to_integers(np.zeros((1, 32), np.uint8), 256, "pdq")


@pytest.mark.parametrize(("value", "bits"), [(512, 9), (1 << 40, 9), (-1, 63), (4096, 12)])
def test_from_integers_beyond_bits_names_row_and_value(value, bits):
    with pytest.raises(ValueError, match=rf"^values: row 1 \({value}\) is invalid .*beyond {bits} bits"):
        ih.from_integers([0, value], bits, order="imagehash")


@pytest.mark.parametrize("values", [[1.0], np.array([1], np.int32), [True], ["ff"], [2**63, -1], []])
def test_from_integers_of_other_dtypes_raises_type_error(values):
    with pytest.raises(TypeError, match=r"^values must be int64 or uint64"):
        ih.from_integers(values, order="imagehash")


def test_from_integers_of_wrong_shape_raises_value_error():
    with pytest.raises(ValueError, match="shape"):
        ih.from_integers([[1, 2]], order="imagehash")
