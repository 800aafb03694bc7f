"""Searches without excluded items, and with one filter per query, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import idcwh_search as ih

FAR = np.iinfo(np.int32).max


def ranking(code, codes, ids, kept):
    """Returns (distances, ids) of the kept rows, ordered by (distance, id)."""
    distances = np.unpackbits(codes[kept] ^ code, axis=1).sum(axis=1, dtype=np.int64)
    order = np.lexsort((ids[kept], distances))
    return distances[order], ids[kept][order]


def compare(index, codes, ids, queries, kept, bits, **options):
    """Compares all searches with rankings of the rows `kept`, bool (nq, n)."""
    expected = [ranking(q, codes, ids, rows) for q, rows in zip(queries, kept, strict=True)]
    longest = max(len(d) for d, _ in expected)
    for k in (0, 1, 3, len(ids), len(ids) + 2):
        found = index.search(queries, k, **options)
        assert found[0].shape == found[1].shape == (len(queries), min(k, longest))
        lims, ties, tied = index.search_ties(queries, k, **options)
        for n, (d, i) in enumerate(expected):
            rest = max(0, found[0].shape[1] - len(d))
            assert found[0][n].tolist() == d[:k].tolist() + [FAR] * rest
            assert found[1][n].tolist() == i[:k].tolist() + [-1] * rest
            last = int((d <= d[min(k, len(d)) - 1]).sum()) if k and len(d) else 0
            assert ties[lims[n] : lims[n + 1]].tolist() == d[:last].tolist()
            assert tied[lims[n] : lims[n + 1]].tolist() == i[:last].tolist()
    whole = index.rank(queries, **options)
    histogram = index.histogram(queries, **options)
    for radius in (0, bits // 2, bits):
        lims, near, names = index.range_search(queries, radius, **options)
        counts = index.count(queries, radius, **options)
        for n, (d, i) in enumerate(expected):
            assert near[lims[n] : lims[n + 1]].tolist() == d[d <= radius].tolist()
            assert names[lims[n] : lims[n + 1]].tolist() == i[d <= radius].tolist()
            assert counts[n] == (d <= radius).sum() == histogram[n, : radius + 1].sum()
    for n, (d, i) in enumerate(expected):
        assert whole[0][n].tolist() == d.tolist() + [FAR] * (longest - len(d))
        assert whole[1][n].tolist() == i.tolist() + [-1] * (longest - len(i))


@st.composite
def contents(draw):
    """Returns an index with repeated codes, ids in any order and removed items, its bits, and queries."""
    bits = draw(st.sampled_from([1, 7, 8, 12, 32, 48, 64, 100, 256]))
    n, nq = draw(st.integers(1, 40)), draw(st.integers(1, 5))
    palette = draw(hnp.arrays(bool, (draw(st.integers(1, 4)), bits)))
    rows = draw(hnp.arrays(np.int64, n + nq, elements=st.integers(0, len(palette) - 1)))
    codes = np.packbits(palette[rows], axis=1, bitorder="little")
    codes, queries = codes[:n], codes[n:]
    ids = np.array(draw(st.permutations(range(0, 3 * n, 3))))
    if draw(st.booleans()):
        ids = np.sort(ids)
    index = ih.HammingIndex(bits)
    half = draw(st.integers(0, n))
    index.add(codes[:half], ids[:half])
    if draw(st.booleans()):
        index.optimize()
    index.add(codes[half:], ids[half:])
    gone = np.array(draw(st.lists(st.integers(0, n - 1), max_size=n - 1, unique=True)), np.int64)
    index.remove(ids[gone])
    return index, np.delete(codes, gone, axis=0), np.delete(ids, gone), queries, bits


@given(contents(), st.data())
@settings(max_examples=120, deadline=None, derandomize=True)
def test_excluded_items_are_in_no_result(case, data):
    index, codes, ids, queries, bits = case
    known = st.sampled_from([*ids.tolist(), -1, 1, 3 * len(ids) + 300])
    exclude = data.draw(hnp.arrays(np.int64, (len(queries), data.draw(st.integers(0, 4))), elements=known))
    where = data.draw(st.sampled_from(["all", "ids", "mask", "range"]))
    kept = np.ones(len(ids), bool)
    options = {}
    if where != "all":
        kept = data.draw(hnp.arrays(bool, len(ids)))
        options["where"] = {"ids": ids[kept][::-1], "mask": kept, "range": range(4, 40)}[where]
    if where == "range":
        kept = (ids >= 4) & (ids < 40)
    allowed = np.array([kept & ~np.isin(ids, row) for row in exclude])
    compare(index, codes, ids, queries, allowed, bits, exclude=exclude, **options)


@given(contents(), st.data())
@settings(max_examples=80, deadline=None, derandomize=True)
def test_one_filter_per_query_equals_single_searches(case, data):
    index, codes, ids, queries, bits = case
    filters, allowed = [], []
    for _ in queries:
        kept = data.draw(hnp.arrays(bool, len(ids)))
        kind = data.draw(st.sampled_from(["all", "ids", "list", "mask", "range"]))
        filters.append(
            {"all": None, "ids": ids[kept], "list": ids[kept].tolist(), "mask": kept, "range": range(3, 30)}[kind]
        )
        allowed.append({"all": np.ones(len(ids), bool), "range": (ids >= 3) & (ids < 30)}.get(kind, kept))
    exclude = None
    if data.draw(st.booleans()):
        exclude = ids[data.draw(hnp.arrays(np.int64, len(queries), elements=st.integers(0, len(ids) - 1)))]
        allowed = [rows & (ids != its) for rows, its in zip(allowed, exclude, strict=True)]
    compare(index, codes, ids, queries, np.array(allowed), bits, where=filters, exclude=exclude)


def test_exclude_self_among_equal_codes_gives_the_others():
    index = ih.HammingIndex(64)
    ids = index.add(np.zeros((50, 8), np.uint8))
    for structures in (False, True):
        if structures:
            index.optimize()
        found = index.search(np.zeros((50, 8), np.uint8), 49, exclude=ids)[1]
        for query, others in enumerate(found.tolist()):
            assert others == [i for i in range(50) if i != query]


@pytest.mark.parametrize("bits", [12, 64])
def test_exclude_on_an_optimised_index_equals_faiss(bits):
    faiss = pytest.importorskip("faiss")
    rng = np.random.default_rng(bits)
    codes = ih.pack(rng.integers(0, 2, (5000, bits)) >= 1)
    index = ih.HammingIndex(bits)
    ids = index.add(codes)
    index.optimize()
    peer = faiss.IndexBinaryFlat(8 * codes.shape[1])
    peer.add(codes)
    lims, distances, names = peer.range_search(codes[:100], bits // 4 + 1)  # faiss: smaller than the radius
    mine = index.range_search(codes[:100], bits // 4, exclude=ids[:100])
    for query in range(100):
        part = slice(int(lims[query]), int(lims[query + 1]))
        pairs = sorted(zip(distances[part].tolist(), names[part].tolist(), strict=True))
        own = slice(mine[0][query], mine[0][query + 1])
        assert [pair for pair in pairs if pair[1] != query] == [
            *zip(mine[1][own].tolist(), mine[2][own].tolist(), strict=True)
        ]


@pytest.mark.parametrize(
    ("exclude", "error"),
    [
        ([1], ValueError),
        (5, ValueError),
        (np.zeros((2, 1, 1), int), ValueError),
        ([[1], [1, 2]], ValueError),
        ([0.5, 1.0], TypeError),
        ([True, False], TypeError),
    ],
)
def test_exclude_of_a_wrong_form_raises(exclude, error):
    index = ih.HammingIndex(8)
    index.add(np.zeros((3, 1), np.uint8))
    with pytest.raises(error, match="exclude"):
        index.search(np.zeros((2, 1), np.uint8), 1, exclude=exclude)


@pytest.mark.parametrize("where", [[None], [None, [1], [2]], [None, [0.5]], [[0], [0.0]], [[1], 2], [range(3), "a"]])
def test_where_list_of_a_wrong_form_raises(where):
    index = ih.HammingIndex(8)
    index.add(np.zeros((3, 1), np.uint8))
    with pytest.raises((TypeError, ValueError), match="where"):
        index.search(np.zeros((2, 1), np.uint8), 1, where=where)


@pytest.mark.parametrize("where", [[None, [1]], [[1], [1, 2]]])
def test_filter_per_query_in_a_join_raises(where):
    index = ih.HammingIndex(8)
    index.add(np.zeros((3, 1), np.uint8))
    with pytest.raises(TypeError, match="where"):
        index.self_join(1, where=where)


def test_exclude_in_a_database_of_segments(tmp_path):
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 4, (300, 2)).astype(np.uint8)
    with ih.Database.create(tmp_path / "codes.bin", 16) as database:
        for start in range(0, 300, 60):
            database.add(codes[start : start + 60])
        database.remove(range(5, 300, 7))
        ids = database.ids
        kept = ids[:, None] != ids[None]
        compare(database, database.codes, ids, database.codes[:20], kept[:20], 16, exclude=ids[:20])
