"""_core with rows in every form, counts and ties, compared with numpy and faiss."""

import numpy as np
import pytest

from idcwh_search import _core

faiss = pytest.importorskip("faiss")


def ways(mask: np.ndarray) -> list[np.ndarray | tuple[int, int]]:
    """Returns the same rows as a mask, as bytes, as a list and, if contiguous, as a range."""
    rows = np.flatnonzero(mask)
    output: list[np.ndarray | tuple[int, int]] = [mask, mask.astype(np.uint8) * 200, rows]
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
        output.append((int(rows[0]), int(rows[-1]) + 1))
    return output


def masks(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    numbers = np.arange(n)
    return {
        "none": np.zeros(n, bool),
        "all": np.ones(n, bool),
        "the last": numbers == n - 1,
        "a run": (numbers >= n // 3) & (numbers < n // 2),
        "1 %": rng.random(n) < 0.01,
        "half": rng.random(n) < 0.5,
        "all but a few": rng.random(n) > 0.001,
        "words": numbers // 64 % 5 == 2,
    }


@pytest.mark.parametrize("bits", [12, 64, 200])
@pytest.mark.parametrize("nq", [1, 9])
def test_rows_of_every_kind_select_the_same(bits, nq, rng, code_maker):
    n = 7001
    codes, queries = code_maker.random(rng, n, bits), code_maker.random(rng, nq, bits)
    names = rng.permutation(n).astype(np.int64)
    measured = code_maker.distances(queries, codes)
    for name, mask in masks(rng, n).items():
        chosen = np.flatnonzero(mask)
        histogram = np.array([np.bincount(row[chosen], minlength=bits + 1) for row in measured])
        for ids in (None, names):
            labels = np.arange(n) if ids is None else names
            order = np.array([np.lexsort((labels[chosen], row[chosen])) for row in measured], dtype=np.int64)
            expected_d = np.take_along_axis(measured[:, chosen], order.reshape(nq, -1), axis=1)
            expected_i = labels[chosen][order.reshape(nq, -1)]
            for rows in ways(mask):
                told = f"{name} as {type(rows)}"
                options = {"ids": ids, "rows": rows, "threads": 2}
                distances, result = _core.topk(codes, bits, queries, 20, **options)
                np.testing.assert_array_equal(distances, expected_d[:, :20], err_msg=told)
                np.testing.assert_array_equal(result, expected_i[:, :20], err_msg=told)
                distances, result = _core.rank(codes, bits, queries, **options)
                np.testing.assert_array_equal(distances, expected_d, err_msg=told)
                np.testing.assert_array_equal(result, expected_i, err_msg=told)
                radius = bits // 2 - 2
                lims, distances, result = _core.radius(codes, bits, queries, radius, **options)
                np.testing.assert_array_equal(distances, expected_d[expected_d <= radius], err_msg=told)
                np.testing.assert_array_equal(result, expected_i[expected_d <= radius], err_msg=told)
                within = (expected_d <= radius).sum(axis=1)
                np.testing.assert_array_equal(np.diff(lims), within, err_msg=told)
        for rows in ways(mask):
            for threads in (1, 2):
                counts = _core.count(codes, bits, queries, bits // 2 - 2, rows=rows, threads=threads)
                np.testing.assert_array_equal(counts, (measured[:, chosen] <= bits // 2 - 2).sum(axis=1), err_msg=name)
                counts = _core.histogram(codes, bits, queries, rows=rows, threads=threads)
                np.testing.assert_array_equal(counts, histogram, err_msg=name)


@pytest.mark.parametrize("bits", [1, 7, 16, 63, 64, 128, 256, 300, 1024])
def test_count_and_histogram_equal_numpy(bits, rng, code_maker):
    codes = code_maker.random(rng, 3000, bits)
    queries = np.concatenate([codes[:1], code_maker.random(rng, 19, bits)])
    measured = code_maker.distances(queries, codes)
    for nq in (1, 20):
        counts = _core.histogram(codes, bits, queries[:nq])
        assert counts.dtype == np.int64 and counts.shape == (nq, bits + 1)
        np.testing.assert_array_equal(counts, [np.bincount(row, minlength=bits + 1) for row in measured[:nq]])
        for radius in {0, 1, bits // 3, bits // 2, bits, bits + 5}:
            counts = _core.count(codes, bits, queries[:nq], radius)
            assert counts.dtype == np.int64
            np.testing.assert_array_equal(counts, (measured[:nq] <= radius).sum(axis=1))


@pytest.mark.parametrize("bits", [8, 64, 256])
def test_counts_equal_faiss(bits, rng, code_maker):
    codes, queries = code_maker.random(rng, 2000, bits), code_maker.random(rng, 12, bits)
    index = faiss.IndexBinaryFlat(bits)
    index.add(codes)
    for radius in (0, bits // 3, bits // 2):
        lims, _, _ = index.range_search(queries, radius + 1)  # faiss excludes the radius
        np.testing.assert_array_equal(_core.count(codes, bits, queries, radius), np.diff(lims.astype(np.int64)))


@pytest.mark.parametrize("bits", [1, 8, 16, 64, 128])
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_topk_ties_returns_every_tie(bits, threads, rng, code_maker):
    """Returns all rows as near as the k-th. The first k are those of a search without ties."""
    codes = code_maker.random(rng, 3000, bits)
    codes[1500:] = codes[rng.integers(0, 40, 1500)]
    queries = np.concatenate([codes[:2], code_maker.random(rng, 8, bits)])
    names = rng.permutation(3000).astype(np.int64)
    for ids in (None, names):
        expected_d, expected_i = code_maker.ranking(queries, codes, ids)
        for k in (0, 1, 5, 60, 700, 2999, 3000, 5000):
            for nq in (1, 10):
                lims, distances, result = _core.topk_ties(codes, bits, queries[:nq], k, ids=ids, threads=threads)
                for q in range(nq):
                    within = int((expected_d[q] <= expected_d[q, min(k, 3000) - 1]).sum()) if k else 0
                    assert lims[q + 1] - lims[q] == within >= min(k, 3000)
                    np.testing.assert_array_equal(distances[lims[q] : lims[q + 1]], expected_d[q, :within])
                    np.testing.assert_array_equal(result[lims[q] : lims[q + 1]], expected_i[q, :within])


def test_topk_ties_of_equal_codes_returns_all(code_maker):
    codes = np.full((20_000, 8), 7, np.uint8)
    for threads in (1, 2):
        lims, distances, ids = _core.topk_ties(codes, 64, codes[:1], 1, threads=threads)
        assert lims.tolist() == [0, 20_000] and (distances == 0).all()
        np.testing.assert_array_equal(ids, np.arange(20_000))
