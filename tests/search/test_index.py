"""HammingIndex compared with a dictionary of codes: ids, filters, removal, errors, and random histories."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import idcwh_search as ih


def index_of(codes, bits, ids=None):
    index = ih.HammingIndex(bits=bits)
    index.add(codes, ids)
    return index


def test_index_offers_every_method(rng, code_maker):
    codes, queries = code_maker.random(rng, 500, 48), code_maker.random(rng, 4, 48)
    index = ih.HammingIndex(bits=48)
    assert len(index) == 0 and index.bits == 48
    np.testing.assert_array_equal(index.add(codes), np.arange(500))
    expected_d, expected_i = code_maker.ranking(queries, codes)
    distances, ids = index.search(queries, k=10)
    np.testing.assert_array_equal(distances, expected_d[:, :10])
    np.testing.assert_array_equal(ids, expected_i[:, :10])
    np.testing.assert_array_equal(index.rank(queries)[1], expected_i)
    lims, distances, ids = index.range_search(queries, radius=18)
    np.testing.assert_array_equal(ids, expected_i[expected_d <= 18])
    np.testing.assert_array_equal(np.diff(lims), (expected_d <= 18).sum(axis=1))
    np.testing.assert_array_equal(index.get([3, 1]), codes[[3, 1]])
    np.testing.assert_array_equal(index.get(7), codes[7])
    assert index.remove([0, 5]) == 2 and len(index) == 498
    np.testing.assert_array_equal(index.codes, np.delete(codes, [0, 5], axis=0))
    assert "498" in repr(index)


@pytest.mark.parametrize("order", ["ascending", "with gaps", "descending", "shuffled"])
def test_ids_of_any_order_rank_by_id(order, rng, code_maker):
    codes = code_maker.random(rng, 600, 8)  # 8 bits, so that ties are frequent
    ids = {
        "ascending": np.arange(600),
        "with gaps": np.arange(600) * 1000 + 2**40,
        "descending": np.arange(600)[::-1],
        "shuffled": rng.permutation(600) + 5,
    }[order]
    index, queries = index_of(codes, 8, ids), codes[:3]
    expected_d, expected_i = code_maker.ranking(queries, codes, ids)
    for k in (1, 7, 300, 600):
        distances, result = index.search(queries, k)
        np.testing.assert_array_equal(distances, expected_d[:, :k])
        np.testing.assert_array_equal(result, expected_i[:, :k])
    np.testing.assert_array_equal(index.rank(queries)[1], expected_i)
    np.testing.assert_array_equal(index.range_search(queries, 2)[2], expected_i[expected_d <= 2])
    for where in (
        ids[100:130],
        ids[100:130].tolist(),
        ids % 3 == 0,
        range(50, 5000, 7),
        range(400, 10, -3),
        [],
        range(0),
    ):
        if isinstance(where, np.ndarray) and where.dtype == bool:
            rows = np.flatnonzero(where)
        else:
            rows = np.flatnonzero([number in set(where) for number in ids.tolist()])
        expected = code_maker.ranking(queries, codes, ids, rows)
        for result in (index.search(queries, 600, where=where), index.rank(queries, where=where)):
            np.testing.assert_array_equal(result[0], expected[0])
            np.testing.assert_array_equal(result[1], expected[1])
        lims, _, result = index.range_search(queries, 3, where=where)
        np.testing.assert_array_equal(result, expected[1][expected[0] <= 3])
        assert lims[-1] == len(result)


def test_default_ids_continue_and_are_never_reused(rng, code_maker):
    codes = code_maker.random(rng, 10, 16)
    index = index_of(codes[:3], 16)
    index.add(codes[3:5], ids=[100, 50])
    np.testing.assert_array_equal(index.add(codes[5:7]), [101, 102])
    index.remove(102)
    np.testing.assert_array_equal(index.add(codes[7:8]), [103])
    np.testing.assert_array_equal(index.ids, [0, 1, 2, 100, 50, 101, 103])
    index.remove(index.ids)
    assert len(index) == 0 and index.search(codes[:2], 3)[0].shape == (2, 0)
    np.testing.assert_array_equal(index.add(codes[:1]), [104])
    np.testing.assert_array_equal(index.search(codes[:1], 3)[1], [[104]])


def test_index_keeps_its_own_copy(rng, code_maker):
    codes = code_maker.random(rng, 20, 16)
    ids = np.arange(20)
    index = index_of(codes[::2], 16)  # strided input is copied in any case
    given_ids = index.add(codes[1::2], ids[10:])
    before = index.codes.copy()
    codes[:] = 0
    ids[:] = 0
    given_ids[:] = 0
    np.testing.assert_array_equal(index.codes, before)
    np.testing.assert_array_equal(index.ids, np.arange(20))
    with pytest.raises(ValueError, match="read-only"):
        index.codes[0] = 1


def test_many_small_adds_equal_one_large_add(rng, code_maker):
    codes = code_maker.random(rng, 300, 24)
    index = ih.HammingIndex(24)
    for start in range(0, 300, 7):
        index.add(codes[start : start + 7])
    np.testing.assert_array_equal(index.rank(codes[:3])[1], index_of(codes, 24).rank(codes[:3])[1])


@pytest.mark.parametrize(
    ("ids", "error"),
    [
        ([1, 1, 2], ValueError),
        ([7, 8, 0], ValueError),
        ([5, 6], ValueError),
        ([-1, 5, 6], ValueError),
        ([1.0, 2.0, 3.0], TypeError),
        ([[5], [6], [7]], ValueError),
        (np.array([2**63, 5, 6], np.uint64), ValueError),
    ],
)
def test_add_of_invalid_ids_changes_nothing(ids, error, rng, code_maker):
    codes = code_maker.random(rng, 3, 16)
    index = index_of(codes[:1], 16)
    with pytest.raises(error, match=r"^ids"):
        index.add(codes, ids)
    assert len(index) == 1
    np.testing.assert_array_equal(index.add(codes), [1, 2, 3])


@pytest.mark.parametrize("wanted", [-1, 10**6, [0, 10**6], [-(2**62)], 2**62])
def test_missing_ids_raise(wanted, rng, code_maker):
    index = index_of(code_maker.random(rng, 5, 16), 16)
    with pytest.raises(KeyError):
        index.get(wanted)
    with pytest.raises(KeyError):
        index.remove(wanted)
    assert len(index) == 5
    with pytest.raises(KeyError):
        ih.HammingIndex(8).get(0)


def test_invalid_queries_and_filters_raise(rng, code_maker):
    codes = code_maker.random(rng, 5, 12)
    index = index_of(codes, 12)
    broken = codes.copy()
    broken[2, 1] |= 0x40
    for queries, error in (
        (codes[0], ValueError),
        (codes.astype(np.int8), TypeError),
        (codes.tolist(), TypeError),
        (np.zeros((2, 3), np.uint8), ValueError),
        (broken, ValueError),
    ):
        for call in (lambda q: index.search(q, 3), lambda q: index.rank(q), lambda q: index.range_search(q, 1)):
            with pytest.raises(error, match=r"^queries"):
                call(queries)
    with pytest.raises(ValueError, match=r"^codes: row 2"):
        index.add(broken)
    with pytest.raises(ValueError, match=r"^where"):
        index.search(codes, 3, where=np.ones(4, bool))
    for where in ([1.5], np.ones(len(index), np.uint8)):  # bytes may be a mask or ids
        with pytest.raises(TypeError, match=r"^where"):
            index.search(codes, 3, where=where)
    for bits in (0, 65536, 1.5):
        with pytest.raises((ValueError, TypeError), match=r"^bits"):
            ih.HammingIndex(bits)
    np.testing.assert_array_equal(index.search(np.asfortranarray(codes), 1)[1], index.search(codes, 1)[1])


RANGES = [
    range(2**63 - 5, 2**64),
    range(0, 2**70, 2),
    range(-(2**70), 2**70, 2**69),
    range(2**63 - 1, 2**70, 7),
    range(-(2**70), 2**70),
    range(2**70, -(2**70), -3),
    range(-5, 40, 4),
    range(5, 5),
    range(2**63, 2**64),
    range(-9, -1),
]


@pytest.mark.parametrize("where", RANGES, ids=str)
def test_where_takes_ranges_of_any_size(where, rng, code_maker):
    codes = code_maker.random(rng, 40, 8)
    ids = np.concatenate([np.arange(37), [2**63 - 6, 2**63 - 3, 2**63 - 1]])
    index = index_of(codes, 8, ids)
    wanted = [number for number in ids.tolist() if number in where]
    assert sorted(index.rank(codes[:1], where=where)[1][0].tolist()) == wanted


def test_huge_numbers_are_taken_and_invalid_raise(rng, code_maker):
    codes = code_maker.random(rng, 6, 8)
    index = index_of(codes, 8)
    for huge in (2**63 - 1, 2**63, 2**64, np.uint64(2**64 - 1)):
        assert index.range_search(codes[:1], huge)[0].tolist() == [0, 6]
        assert index.count(codes[:1], huge).tolist() == [6]
        assert index.search(codes[:1], huge)[1].shape == (1, 6)
        index.optimize(memory=huge)
    for wrong in (-1, 1.5, 2000, True, "", [], "2"):
        with pytest.raises((TypeError, ValueError), match=r"^threads"):
            index.search(codes, 1, threads=wrong)
        with pytest.raises((TypeError, ValueError), match=r"^threads"):
            ih.HammingIndex(8, threads=wrong)
    for wrong in (-1, 1.5, True):
        with pytest.raises((TypeError, ValueError), match=r"^size"):
            index.reserve(wrong)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_history_equals_a_dictionary(data):
    """A random walk through add, remove and every search, compared with a plain dictionary."""
    bits = data.draw(st.integers(1, 80), label="bits")
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1), label="seed"))
    index, model = ih.HammingIndex(bits), {}
    for _ in range(data.draw(st.integers(1, 5), label="steps")):
        count = data.draw(st.integers(0, 40))
        bit_rows = rng.integers(0, 2, (count, bits), dtype=np.uint8) & rng.integers(0, 2, (1, bits), dtype=np.uint8)
        codes = np.packbits(bit_rows, axis=1, bitorder="little")
        free = np.setdiff1d(rng.integers(0, 500, 200), list(model))
        ids = None if data.draw(st.booleans()) or len(free) < count else rng.permutation(free)[:count]
        for number, code in zip(index.add(codes, ids).tolist(), codes, strict=True):
            assert number not in model
            model[number] = code
        gone = [number for number in model if rng.random() < 0.2]
        assert index.remove(gone) == len(gone)
        for number in gone:
            del model[number]
        assert len(index) == len(model) and index.ids.tolist() == list(model)

        queries = np.packbits(rng.integers(0, 2, (data.draw(st.integers(0, 12)), bits)), axis=1, bitorder="little")
        names = np.array(list(model), np.int64)
        stored = np.array(list(model.values()), np.uint8).reshape(len(model), -(-bits // 8))
        k, threads = data.draw(st.integers(0, 60), label="k"), data.draw(st.sampled_from([None, 1, 3]), label="threads")
        radius = data.draw(st.integers(0, bits + 1), label="radius")
        chosen = rng.random(len(model)) < data.draw(st.sampled_from([0.05, 0.5, 1.0]))
        distances, ids, lims = [], [], [0]
        for query in queries:
            measured = np.unpackbits(stored ^ query, axis=1).sum(axis=1, dtype=np.int64)[chosen]
            order = np.lexsort((names[chosen], measured))
            distances.append(measured[order])
            ids.append(names[chosen][order])
            lims.append(lims[-1] + int((measured <= radius).sum()))
        found_d, found_i = index.search(queries, k, where=chosen, threads=threads)
        ranked_d, ranked_i = index.rank(queries, where=names[chosen], threads=threads)
        found_lims, within_d, within_i = index.range_search(queries, radius, where=chosen, threads=threads)
        assert found_lims.tolist() == lims
        for q in range(len(queries)):
            np.testing.assert_array_equal(found_d[q], distances[q][:k])
            np.testing.assert_array_equal(found_i[q], ids[q][:k])
            np.testing.assert_array_equal(ranked_d[q], distances[q])
            np.testing.assert_array_equal(ranked_i[q], ids[q])
            np.testing.assert_array_equal(within_d[lims[q] : lims[q + 1]], distances[q][distances[q] <= radius])
            np.testing.assert_array_equal(within_i[lims[q] : lims[q + 1]], ids[q][distances[q] <= radius])
