"""Invalid arguments of _core: the message has the expected and the found value. Nothing is silently cast or copied."""

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search import _core

CODES = np.zeros((10, 6), np.uint8)
BITS = 48


@pytest.mark.parametrize(
    ("codes", "error", "words"),
    [
        (CODES.astype(np.int8), TypeError, ["uint8", "int8"]),
        (CODES.astype(bool), TypeError, ["uint8", "bool"]),
        (CODES.astype(np.float32), TypeError, ["uint8", "float32"]),
        (CODES.tolist(), TypeError, ["uint8", "list"]),
        (None, TypeError, ["uint8", "NoneType"]),
        (CODES[0], ValueError, [r"\(n, 6\)", r"\(6,\)"]),
        (CODES[None], ValueError, [r"\(n, 6\)", r"\(1, 10, 6\)"]),
        (np.zeros((10, 5), np.uint8), ValueError, [r"\(n, 6\)", r"\(10, 5\)"]),
        (np.zeros((10, 12), np.uint8)[:, ::2], ValueError, ["C-contiguous", "not C-contiguous"]),
        (np.zeros((20, 6), np.uint8)[::2], ValueError, ["C-contiguous", "not C-contiguous"]),
        (np.asfortranarray(np.zeros((10, 6), np.uint8)), ValueError, ["C-contiguous", "not C-contiguous"]),
    ],
)
def test_invalid_codes_and_queries_raise(codes, error, words):
    for arguments in ((codes, BITS, CODES), (CODES, BITS, codes)):
        for call in (lambda a: _core.topk(*a, 3), lambda a: _core.radius(*a, 3), lambda a: _core.rank(*a)):
            with pytest.raises(error) as caught:
                call(arguments)
            for word in words:
                caught.match(word)


@pytest.mark.parametrize(
    ("value", "error"),
    [(-1, ValueError), (-(2**70), ValueError)] + [(value, TypeError) for value in (24.5, 24.0, "3", True, None)],
)
def test_radius_and_k_other_than_whole_numbers_raise(value, error):
    with pytest.raises(error, match=r"^radius"):
        _core.radius(CODES, BITS, CODES, value)
    with pytest.raises(error, match=r"^radius"):
        _core.count(CODES, BITS, CODES, value)
    with pytest.raises(error, match=r"^k "):
        _core.topk(CODES, BITS, CODES, value)
    with pytest.raises(error, match=r"^k "):
        _core.topk_ties(CODES, BITS, CODES, value)


def test_radius_of_all_bits_and_more_returns_all():
    for radius in (BITS, BITS + 1, 10**6, 2**62, 2**70, np.int32(BITS)):
        assert _core.radius(CODES, BITS, CODES, radius)[0][-1] == 100


@pytest.mark.parametrize(("bits", "error"), [(0, ValueError), (-8, ValueError), (65536, ValueError), (4.0, TypeError)])
def test_invalid_bits_raise(bits, error):
    with pytest.raises(error, match=r"^bits"):
        _core.topk(CODES, bits, CODES, 1)


def test_large_argument_is_shortened_in_the_message():
    array = np.zeros((100, 8), np.uint8)
    for argument, call in (("bits", ih.HammingIndex), ("preprocess: resize", lambda value: ih.Preprocess(value, 224))):
        with pytest.raises(TypeError, match=rf"^{argument}") as caught:
            call(array)
        assert len(str(caught.value)) < 100


def test_invalid_ids_and_threads_raise():
    for ids, error in (
        (np.zeros(10, np.int32), TypeError),
        (list(range(10)), TypeError),
        (np.zeros(9, np.int64), ValueError),
        (np.zeros((10, 1), np.int64), ValueError),
        (np.zeros(20, np.int64)[::2], ValueError),
    ):
        with pytest.raises(error, match=r"^ids"):
            _core.topk(CODES, BITS, CODES, 1, ids=ids)
    for threads, error in ((-1, ValueError), (1025, ValueError), (1.5, TypeError)):
        with pytest.raises(error, match=r"^threads"):
            _core.topk(CODES, BITS, CODES, 1, threads=threads)


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([True] * 10, TypeError),
        (np.zeros(10, np.int32), TypeError),
        (np.zeros(10, np.int8), TypeError),
        (range(3), TypeError),
        (np.zeros(9, bool), ValueError),
        (np.zeros((10, 1), bool), ValueError),
        (np.zeros(20, np.uint8)[::2], ValueError),
        (np.zeros((2, 2), np.int64), ValueError),
        (np.arange(8)[::2], ValueError),
        (np.array([3, 3]), ValueError),
        (np.array([4, 3]), ValueError),
        (np.array([3, 10]), ValueError),
        (np.array([-1, 3]), ValueError),
        ((1, 2, 3), TypeError),
        ((1, 2.0), TypeError),
        ((-1, 2), ValueError),
        ((4, 2), ValueError),
    ],
)
def test_invalid_rows_raise(rows, error):
    for call in (
        lambda: _core.topk(CODES, BITS, CODES, 1, rows=rows),
        lambda: _core.topk_ties(CODES, BITS, CODES, 1, rows=rows),
        lambda: _core.radius(CODES, BITS, CODES, 1, rows=rows),
        lambda: _core.count(CODES, BITS, CODES, 1, rows=rows),
        lambda: _core.histogram(CODES, BITS, CODES, rows=rows),
        lambda: _core.rank(CODES, BITS, CODES, rows=rows),
    ):
        with pytest.raises(error, match=r"^rows"):
            call()


def test_empty_codes_and_queries_return_nothing():
    empty = np.zeros((0, 6), np.uint8)
    assert _core.topk(empty, BITS, CODES, 5)[0].shape == (10, 0)
    assert _core.topk(CODES, BITS, empty, 5)[1].shape == (0, 5)
    assert _core.rank(empty, BITS, CODES)[0].shape == (10, 0)
    assert _core.count(empty, BITS, CODES, 5).tolist() == [0] * 10
    assert _core.histogram(empty, BITS, CODES).tolist() == [[0] * 49] * 10
    assert _core.count(CODES, BITS, empty, 5).shape == (0,) and _core.histogram(CODES, BITS, empty).shape == (0, 49)
    assert _core.topk_ties(CODES, BITS, empty, 5)[0].tolist() == [0]
    assert _core.topk_ties(CODES, BITS, CODES, 0)[0].tolist() == [0] * 11
    assert _core.topk(CODES, BITS, CODES, 5, rows=(3, 3))[0].shape == (10, 0)
    lims, distances, ids = _core.radius(empty, BITS, CODES, 5)
    assert lims.tolist() == [0] * 11 and len(distances) == len(ids) == 0
    assert (distances.dtype, ids.dtype, lims.dtype) == (np.int32, np.int64, np.int64)
