"""HammingIndex.optimize, which must change only the time of searches; snapshots, ties, counts and histograms."""

import threading

import faiss
import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search import _core


def clustered(rng, n, bits, centers, flip):
    """Returns codes like those of a trained model: near one of a few centers, many of them equal."""
    points = rng.integers(0, 2, (centers, bits), dtype=np.uint8)
    rows = points[rng.integers(0, centers, n)] ^ (rng.random((n, bits)) < flip)
    return np.packbits(rows, axis=1, bitorder="little")


DATA = {
    "uniform": lambda rng, n, bits: np.packbits(
        rng.integers(0, 2, (n, bits), dtype=np.uint8), axis=1, bitorder="little"
    ),
    "clustered": lambda rng, n, bits: clustered(rng, n, bits, 10, 0.02),
    "constant first half": lambda rng, n, bits: np.concatenate(
        [np.full((n, bits // 16), 7, np.uint8), rng.integers(0, 256, (n, bits // 16), dtype=np.uint8)], axis=1
    ),
    "one huge bucket": lambda rng, n, bits: np.where(
        (rng.random(n) < 0.6)[:, None] & (np.arange(bits // 8) < bits // 8 - 2),
        np.uint8(7),
        rng.integers(0, 256, (n, bits // 8), dtype=np.uint8),
    ),
    "all equal": lambda rng, n, bits: np.repeat(clustered(rng, 1, bits, 1, 0.0), n, axis=0),
}


@pytest.mark.parametrize("bits", [16, 64])
@pytest.mark.parametrize("data", DATA)
def test_optimized_index_equals_faiss(data, bits, rng):
    n = 70_000
    codes = DATA[data](rng, n, bits)
    queries = np.concatenate([codes[:3], DATA["uniform"](rng, 3, bits)])
    peer = faiss.IndexBinaryFlat(bits)
    peer.add(codes)
    index = ih.HammingIndex(bits)
    index.add(codes[: n - 100])
    index.optimize()
    index.add(codes[n - 100 :])
    (built,) = index.structures()
    assert built["codes"] == n - 100 and 0 < built["bytes"] <= index.memory
    for k in (1, 10, 300):
        expected_d, expected_i = peer.search(queries, k)
        distances, ids = index.search(queries, k)
        np.testing.assert_array_equal(distances, expected_d)
        np.testing.assert_array_equal(ids, expected_i)
    all_distances = np.bitwise_count(queries[:, None, :] ^ codes[None]).sum(axis=2, dtype=np.int64)
    for radius in (0, 2, bits // 3):
        lims, distances, ids = index.range_search(queries, radius)
        within = all_distances <= radius
        np.testing.assert_array_equal(np.diff(lims), within.sum(axis=1))
        np.testing.assert_array_equal(index.count(queries, radius), within.sum(axis=1))
        for q in range(len(queries)):
            order = np.lexsort((np.flatnonzero(within[q]), all_distances[q][within[q]]))
            np.testing.assert_array_equal(ids[lims[q] : lims[q + 1]], np.flatnonzero(within[q])[order])
            np.testing.assert_array_equal(distances[lims[q] : lims[q + 1]], all_distances[q][within[q]][order])
    histogram = index.histogram(queries)
    for q in range(len(queries)):
        np.testing.assert_array_equal(histogram[q], np.bincount(all_distances[q], minlength=bits + 1))
    order = np.argsort(all_distances[:2], axis=1, kind="stable")
    np.testing.assert_array_equal(index.rank(queries[:2])[1], order)

    index.drop_structures()
    assert index.structures() == []
    np.testing.assert_array_equal(index.search(queries, 10)[1], peer.search(queries, 10)[1])


def test_optimize_stays_within_memory(rng):
    index = ih.HammingIndex(64)
    index.add(DATA["uniform"](rng, 100_000, 64))
    index.optimize(memory=0)
    assert index.structures() == []
    index.optimize(memory=2_000_000)
    assert sum(entry["bytes"] for entry in index.structures()) <= 2_000_000


@pytest.mark.slow
def test_optimize_wide_codes_stays_within_default_memory(rng):
    index = ih.HammingIndex(4096)
    index.add(DATA["uniform"](rng, 70_000, 4096))
    index.optimize()
    (built,) = index.structures()
    assert 0 < built["bytes"] <= 128 * 70_000 + (1 << 20)
    np.testing.assert_array_equal(index.search(index.codes[:3], 1)[1][:, 0], [0, 1, 2])


def test_explain_skewed_codes_promises_no_shortcut(rng):
    index = ih.HammingIndex(64)
    index.add(DATA["constant first half"](rng, 200_000, 64))
    index.optimize()
    explained = index.explain(radius=0)
    (scan,) = [path for path in (explained, *explained.others) if path.path == "scan"]
    (multi,) = [path for path in (explained, *explained.others) if path.path == "multi-index"]
    assert explained.path == "scan" and multi.nanoseconds > scan.nanoseconds


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("isa", [entry["name"] for entry in ih.isa() if entry["supported"]])
def test_optimized_index_filtered_equals_scan(isa, data, rng):
    n, bits = 70_000, 128
    plain, optimized = ih.HammingIndex(bits), ih.HammingIndex(bits)
    codes = DATA[data](rng, n, bits)
    plain.add(codes)
    optimized.add(codes)
    optimized.optimize()
    queries = np.concatenate([np.tile(codes[:2], (20, 1)), codes[-1:] ^ 1])
    active = next(entry["name"] for entry in ih.isa() if entry["active"])
    try:
        filters = (None, np.arange(5, n, 97), (n - 900, n), rng.random(n) < 0.3)
        for where in filters:
            for batch in (queries, queries[-1:]):
                _core.set_isa("portable")
                want = [*plain.search(batch, 10, where), *plain.range_search(batch, 1, where)]
                want += [*plain.search_ties(batch[:3], 10, where), plain.count(batch, 20, where)]
                _core.set_isa(isa)
                have = [*optimized.search(batch, 10, where), *optimized.range_search(batch, 1, where)]
                have += [*optimized.search_ties(batch[:3], 10, where), optimized.count(batch, 20, where)]
                for a, b in zip(have, want, strict=True):
                    np.testing.assert_array_equal(a, b)
    finally:
        _core.set_isa(active)


def test_explain_names_the_path_and_why(rng):
    index = ih.HammingIndex(12)
    index.add(DATA["uniform"](rng, 50_000, 12))
    assert index.explain(k=10).path == "scan"
    index.optimize()
    chosen = index.explain(k=10)
    assert chosen.path == "table" and "distinct" in chosen.because and chosen.nanoseconds > 0
    assert [other.path for other in chosen.others] == ["scan"]
    assert "not scan" in str(chosen)
    assert index.explain(radius=2, queries=100).path in ("table", "scan")
    for wrong in ({}, {"k": 1, "radius": 1}):
        with pytest.raises(ValueError, match=r"^explain"):
            index.explain(**wrong)


def test_search_ties_returns_every_tie(rng, code_maker):
    codes, queries = code_maker.random(rng, 500, 8), code_maker.random(rng, 5, 8)
    index = ih.HammingIndex(8)
    index.add(codes)
    expected_d, expected_i = code_maker.ranking(queries, codes)
    for k in (0, 1, 10, 499, 500, 501):
        lims, distances, ids = index.search_ties(queries, k)
        for q in range(len(queries)):
            kept = int((expected_d[q] <= expected_d[q][min(k, 500) - 1]).sum()) if k else 0
            np.testing.assert_array_equal(ids[lims[q] : lims[q + 1]], expected_i[q][:kept])
            np.testing.assert_array_equal(distances[lims[q] : lims[q + 1]], expected_d[q][:kept])


def test_snapshot_does_not_change(rng, code_maker):
    codes = code_maker.random(rng, 300, 24)
    index = ih.HammingIndex(24)
    index.add(codes[:200])
    view = index.snapshot()
    index.add(codes[200:])
    index.remove(range(0, 150))
    np.testing.assert_array_equal(view.rank(codes[:2])[1], code_maker.ranking(codes[:2], codes[:200])[1])
    assert len(view) == 200 and len(index) == 150 and "200" in repr(view)
    np.testing.assert_array_equal(view.codes, codes[:200])
    del index
    np.testing.assert_array_equal(view.get(7), codes[7])


def test_search_beside_writer_sees_whole_changes(rng, code_maker):
    codes = code_maker.random(rng, 64, 32)
    index = ih.HammingIndex(32)
    stop, failures = threading.Event(), []

    def read():
        while not stop.is_set():
            view = index.snapshot()
            if len(view) % 64 or len(view.search(codes[:1], 5000)[1][0]) != len(view):
                failures.append(len(view))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(200):
        ids = index.add(codes)
        if len(index) > 1000:
            index.remove(index.ids[:640])
        assert len(ids) == 64
    stop.set()
    for reader in readers:
        reader.join()
    assert not failures


def test_index_threads_are_used_and_checked(rng, code_maker):
    with pytest.raises(ValueError, match=r"^threads"):
        ih.HammingIndex(8, threads=2000)
    index = ih.HammingIndex(8, threads=2)
    index.add(code_maker.random(rng, 10, 8))
    assert index.search(code_maker.random(rng, 1, 8), 3)[0].shape == (1, 3)


@pytest.mark.parametrize("where", [None, "ids", "range"])
def test_many_queries_join_equals_numpy(where: str | None) -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 256, (120_000, 8), dtype=np.uint8)
    codes[60_000:90_000] = codes[:30_000]  # codes repeat
    queries = codes[rng.integers(0, len(codes), 60_000)]
    queries[:, 2] ^= 3
    index = ih.HammingIndex(64)
    index.add(codes)
    index.remove(np.arange(7, len(codes), 31))
    eligible = np.ones(len(codes), bool)
    eligible[7::31] = False
    selected = {None: None, "ids": np.arange(0, len(codes), 3), "range": range(40_000, 110_000)}[where]
    if where == "ids":
        eligible[np.arange(len(codes)) % 3 != 0] = False
    elif where == "range":
        eligible[:40_000] = eligible[110_000:] = False
    assert index.explain(radius=3, queries=len(queries), where=selected).path == "join"
    lims, distances, ids = index.range_search(queries, 3, where=selected)
    assert (index.count(queries, 3, where=selected) == np.diff(lims)).all()
    rows = np.flatnonzero(eligible)
    words, wanted = codes.view(np.uint64).ravel()[rows], queries.view(np.uint64).ravel()
    for q in range(0, len(queries), 4001):
        near = np.bitwise_count(words ^ wanted[q])
        hits = sorted((int(near[at]), int(rows[at])) for at in np.flatnonzero(near <= 3))
        found = slice(lims[q], lims[q + 1])
        assert list(zip(distances[found].tolist(), ids[found].tolist(), strict=True)) == hits
