"""_core against numpy and faiss: every width, kind of data, number of queries, k, radius and number of threads."""

import numpy as np
import pytest

from idcwh_search import _core

faiss = pytest.importorskip("faiss")

ONE_TO_300 = [
    *range(1, 41),
    47,
    48,
    49,
    63,
    64,
    65,
    72,
    95,
    96,
    100,
    127,
    128,
    129,
    160,
    192,
    200,
    248,
    255,
    256,
    257,
    300,
]


def kinds(rng, maker, n, bits):
    """Returns codes by name, of kinds of data that are hard for scans and selections."""
    base = maker.random(rng, n, bits)
    centers = maker.random(rng, 7, bits)
    noise = np.packbits(rng.random((n, bits)) < 0.05, axis=1, bitorder="little")
    query = base[0]
    order = np.argsort(maker.distances(query[None], base)[0], kind="stable")
    return {
        "random": base,
        "clustered": centers[rng.integers(0, 7, n)] ^ noise,
        "all equal": np.repeat(base[:1], n, axis=0),
        "near to far": base[order],
        "far to near": base[order[::-1]],
        "masked by XOR": base ^ maker.random(rng, 1, bits),
    }


@pytest.mark.parametrize("bits", [8, 24, 64, 96, 128, 256, 512])
def test_topk_equals_faiss_id_for_id(bits, rng, code_maker):
    n = 3000
    for name, codes in kinds(rng, code_maker, n, bits).items():
        codes = np.ascontiguousarray(codes)
        index = faiss.IndexBinaryFlat(codes.shape[1] * 8)
        index.add(codes)
        queries = np.concatenate([codes[:3], code_maker.random(rng, 6, bits)])
        for k in (1, 10, 100):
            expected_d, expected_i = index.search(queries, k)
            distances, ids = _core.topk(codes, bits, queries, k, threads=2)
            np.testing.assert_array_equal(distances, expected_d, err_msg=f"{name}, k={k}")
            np.testing.assert_array_equal(ids, expected_i, err_msg=f"{name}, k={k}")


@pytest.mark.parametrize("bits", [64, 256])
def test_radius_equals_faiss(bits, rng, code_maker):
    codes, queries = code_maker.random(rng, 2000, bits), code_maker.random(rng, 5, bits)
    index = faiss.IndexBinaryFlat(bits)
    index.add(codes)
    for radius in (0, bits // 2 - 8, bits // 2, bits):
        expected_lims, _, expected_ids = index.range_search(queries, radius + 1)  # faiss excludes the radius
        lims, _, ids = _core.radius(codes, bits, queries, radius)
        np.testing.assert_array_equal(lims, expected_lims.astype(np.int64))
        for q in range(len(queries)):
            np.testing.assert_array_equal(
                np.sort(ids[lims[q] : lims[q + 1]]), np.sort(expected_ids[lims[q] : lims[q + 1]])
            )


@pytest.mark.parametrize("bits", ONE_TO_300)
def test_searches_of_every_width_equal_numpy(bits, rng, code_maker):
    n = 400
    ids = rng.permutation(10 * n)[:n]
    mask = rng.random(n) < 0.3
    for codes in kinds(rng, code_maker, n, bits).values():
        codes = np.ascontiguousarray(codes)
        queries = np.concatenate([codes[5:6], code_maker.random(rng, 8, bits)])
        for names in (None, ids):
            for chosen in (None, np.flatnonzero(mask)):
                eligible = None if chosen is None else mask
                expected_d, expected_i = code_maker.ranking(queries, codes, names, chosen)
                distances, result = _core.topk(codes, bits, queries, 12, ids=names, rows=eligible)
                np.testing.assert_array_equal(distances, expected_d[:, :12])
                np.testing.assert_array_equal(result, expected_i[:, :12])
                distances, result = _core.rank(codes, bits, queries, ids=names, rows=eligible)
                np.testing.assert_array_equal(distances, expected_d)
                np.testing.assert_array_equal(result, expected_i)
                radius = int(expected_d[1, len(expected_d[1]) // 3])  # equal to a distance
                lims, distances, result = _core.radius(codes, bits, queries, radius, ids=names, rows=eligible)
                for q in range(len(queries)):
                    within = int((expected_d[q] <= radius).sum())
                    assert lims[q + 1] - lims[q] == within
                    np.testing.assert_array_equal(distances[lims[q] : lims[q + 1]], expected_d[q, :within])
                    np.testing.assert_array_equal(result[lims[q] : lims[q + 1]], expected_i[q, :within])


@pytest.mark.parametrize("width", [1, 2, 3, 5, 6, 7, 9, 12, 17, 20, 31, 33, 40, 63, 65, 100])
def test_distance_of_a_single_bit_is_1(width):
    """Codes with a single bit set, tail bytes included: distance 1 from zero, 8 * width - 1 from all ones."""
    bits = 8 * width
    codes = np.packbits(np.eye(bits, dtype=np.uint8), axis=1, bitorder="little")
    queries = np.repeat(np.array([[0x00], [0xFF]], np.uint8), width, axis=1)
    for batch in (queries[:1], queries[1:], np.tile(queries, (4, 1))):
        for distances in (_core.rank(codes, bits, batch)[0], _core.topk(codes, bits, batch, bits)[0]):
            for query, row in zip(batch, distances, strict=True):
                assert (row == (1 if query[0] == 0 else bits - 1)).all()
    lims, _, ids = _core.radius(codes, bits, queries, 1)
    if bits > 2:
        np.testing.assert_array_equal(lims, [0, bits, bits])
        np.testing.assert_array_equal(ids, np.arange(bits))
    _, nearest = _core.topk(codes, bits, codes, 1)
    np.testing.assert_array_equal(nearest[:, 0], np.arange(bits))


@pytest.mark.parametrize("bits", [120, 127, 128, 129, 248, 255, 256, 264, 500, 512, 1000, 1024, 4096, 65535])
def test_distances_of_all_bits_do_not_overflow(bits, code_maker):
    """No sum overflows at the largest distance, in every operation, among nearer codes and alone."""
    ones = np.packbits(np.ones((1, bits), np.uint8), axis=1, bitorder="little")
    codes = np.zeros((100, ones.shape[1]), np.uint8)
    for batch in (ones, np.repeat(ones, 9, axis=0)):
        assert (_core.topk(codes, bits, batch, 5)[0] == bits).all()
        assert (_core.rank(codes, bits, batch)[0] == bits).all()
        assert _core.radius(codes, bits, batch, bits)[0][-1] == 100 * len(batch)
        assert _core.radius(codes, bits, batch, bits - 1)[0][-1] == 0
        assert _core.radius(codes, bits, batch, 0)[0][-1] == 0
        near = codes.copy()
        near[70] = ones[0]
        distances, ids = _core.topk(near, bits, batch, 2)
        assert (distances == [0, bits]).all() and (ids == [70, 0]).all()


@pytest.mark.parametrize("nq", [0, 1, 2, 3, 31, 32, 33, 100, 101, 300])
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_topk_with_any_queries_and_threads_equals_numpy(nq, threads, rng, code_maker):
    codes, queries = code_maker.random(rng, 1500, 48), code_maker.random(rng, nq, 48)
    expected_d, expected_i = code_maker.ranking(queries, codes)
    distances, ids = _core.topk(codes, 48, queries, 20, threads=threads)
    assert distances.shape == ids.shape == (nq, 20) and distances.dtype == np.int32 and ids.dtype == np.int64
    np.testing.assert_array_equal(distances, expected_d[:, :20])
    np.testing.assert_array_equal(ids, expected_i[:, :20])
    np.testing.assert_array_equal(_core.rank(codes, 48, queries, threads=threads)[1], expected_i)
    lims, found_d, found_i = _core.radius(codes, 48, queries, 17, threads=threads)
    assert lims.shape == (nq + 1,)
    np.testing.assert_array_equal(found_d, expected_d[expected_d <= 17])
    np.testing.assert_array_equal(found_i, expected_i[expected_d <= 17])


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_topk_with_any_k_equals_numpy(n, rng, code_maker):
    codes, queries = code_maker.random(rng, n, 32), code_maker.random(rng, 3, 32)
    expected_d, expected_i = code_maker.ranking(queries, codes)
    for k in {0, 1, max(n - 1, 0), n, n + 1, 2**40}:
        distances, ids = _core.topk(codes, 32, queries, k)
        assert distances.shape == ids.shape == (3, min(k, n))
        np.testing.assert_array_equal(distances, expected_d[:, :k])
        np.testing.assert_array_equal(ids, expected_i[:, :k])


def test_identical_codes_are_in_id_order(rng):
    """The top 100 are the first 100 of the top 10,000."""
    codes = np.full((20_000, 8), 7, np.uint8)
    ids = rng.permutation(20_000).astype(np.int64)
    for threads in (1, 2, 7):
        for names in (None, ids):
            for nq in (1, 9):
                few = _core.topk(codes, 64, codes[:nq], 100, ids=names, threads=threads)[1]
                many = _core.topk(codes, 64, codes[:nq], 10_000, ids=names, threads=threads)[1]
                np.testing.assert_array_equal(few, many[:, :100])
                np.testing.assert_array_equal(many, np.tile(np.arange(10_000), (nq, 1)))


def test_masks_of_none_all_and_runs_equal_numpy(rng, code_maker):
    codes, queries = code_maker.random(rng, 10_000, 64), code_maker.random(rng, 9, 64)
    run = np.zeros(10_000, np.uint8)
    run[3000:7000] = 200  # any non-zero byte selects
    single = np.zeros(10_000, bool)
    single[9_999] = True
    for mask in (np.zeros(10_000, bool), np.ones(10_000, bool), run, single, rng.random(10_000) < 0.01):
        rows = np.flatnonzero(mask)
        expected_d, expected_i = code_maker.ranking(queries, codes, rows=rows)
        for nq in (1, 9):
            distances, ids = _core.topk(codes, 64, queries[:nq], 30, rows=mask, threads=2)
            np.testing.assert_array_equal(distances, expected_d[:nq, :30])
            np.testing.assert_array_equal(ids, expected_i[:nq, :30])


def test_read_only_memory_map_is_searched(tmp_path, rng, code_maker):
    codes = code_maker.random(rng, 1000, 64)
    (tmp_path / "codes").write_bytes(b"xyz" + codes.tobytes())
    mapped = np.memmap(tmp_path / "codes", np.uint8, "r", offset=3, shape=codes.shape)  # and at an odd address
    assert not mapped.flags.writeable
    np.testing.assert_array_equal(_core.topk(mapped, 64, codes[:5], 3)[1], _core.topk(codes, 64, codes[:5], 3)[1])


def test_crc32c_equals_reference():
    assert _core.crc32c(b"123456789") == 0xE3069283
    assert _core.crc32c(b"6789", _core.crc32c(b"12345")) == 0xE3069283
    assert _core.crc32c(b"") == 0
    assert _core.crc32c(np.frombuffer(b"123456789", np.uint8)) == _core.crc32c(memoryview(b"123456789")) == 0xE3069283
    with pytest.raises(ValueError, match=r"^seed"):
        _core.crc32c(b"", -1)
    with pytest.raises((BufferError, ValueError)):
        _core.crc32c(np.zeros((4, 4), np.uint8)[:, ::2])


@pytest.mark.parametrize("bits", [1, 4, 7, 12, 33, 100])
def test_padding_is_zero_finds_each_bit(bits, rng, code_maker):
    codes = code_maker.random(rng, 10_000, bits)
    assert _core.padding_is_zero(codes, bits)
    for row in (0, 4096, 9_999):
        for bit in range(bits % 8, 8):
            broken = codes.copy()
            broken[row, -1] |= 1 << bit
            assert not _core.padding_is_zero(broken, bits)
    assert _core.padding_is_zero(np.full((3, 2), 255, np.uint8), 16)
