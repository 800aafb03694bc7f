"""Metrics compared with every order of ties in exact fractions, and with plain loops over explicit sorts."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search.metrics.average_precision import harmonic_difference

CUTS = (1, 2, 3, 5, 100)


def pack(bits_matrix):
    return np.packbits(np.asarray(bits_matrix, bool), axis=1, bitorder="little")


def at_distances(distances, bits=6):
    """Returns database codes at these distances from the all-zero query."""
    return pack([[i < d for i in range(bits)] for d in distances])


def orders(distances):
    """Yields every order of the items that sorts them by distance."""
    buckets = [[i for i, d in enumerate(distances) if d == value] for value in sorted(set(distances))]
    for parts in product(*(permutations(bucket) for bucket in buckets)):
        yield [i for part in parts for i in part]


def exact_ap_sum(flags, cut=None):
    hits, total = 0, Fraction(0)
    for rank, flag in enumerate(flags[:cut], 1):
        if flag:
            hits += 1
            total += Fraction(hits, rank)
    return total


def mean(values):
    values = list(values)
    return sum(values, Fraction(0)) / len(values)


def test_map_variants_equal_the_mean_over_orders_of_ties():
    rng = np.random.default_rng(1)
    for _ in range(150):
        n = int(rng.integers(1, 7))
        distances = rng.integers(0, 4, n).tolist()
        flags = rng.integers(0, 2, n)
        flags[rng.integers(n)] = 1
        r = ih.evaluate(np.zeros((1, 1), np.uint8), [1], at_distances(distances), flags, bits=6, at=CUTS, threads=1)
        lists = [[bool(flags[i]) for i in order] for order in orders(distances)]
        relevant = int(flags.sum())
        aps = [exact_ap_sum(x) / relevant for x in lists]
        assert r.map == pytest.approx(float(mean(aps)), abs=1e-13)
        assert r.map_optimistic == pytest.approx(float(max(aps)), abs=1e-13)
        assert r.map_pessimistic == pytest.approx(float(min(aps)), abs=1e-13)
        for k in CUTS:
            partial = mean(exact_ap_sum(x, k) for x in lists)
            result = mean(Fraction(sum(x[:k])) for x in lists)
            assert r.map_at[k].relevant_tie_aware == pytest.approx(float(partial / relevant), abs=1e-13)
            assert r.map_at[k].min_relevant_k_tie_aware == pytest.approx(float(partial / min(relevant, k)), abs=1e-13)
            assert r.precision_at[k] == pytest.approx(float(result / min(k, n)), abs=1e-13)
            assert r.recall_at[k] == pytest.approx(float(result / relevant), abs=1e-13)


def sample(bits, nq=23, n=400, classes=4, noise=0.15, seed=0):
    """Returns codes of medium quality with many ties, and their labels."""
    rng = np.random.default_rng([seed, bits])
    labels = rng.integers(0, classes, nq + n)
    codes = rng.integers(0, 2, (classes, bits))[labels] ^ (rng.random((nq + n, bits)) < noise)
    return codes[:nq], labels[:nq], codes[nq:], labels[nq:]


@pytest.mark.parametrize("bits", [1, 7, 12, 24, 48, 64, 100, 255, 256, 300])
@pytest.mark.parametrize("threads", [1, 2])
def test_evaluate_random_codes_equals_plain_loops(bits, threads):
    q, ql, x, xl = sample(bits)
    r = ih.evaluate(pack(q), ql, pack(x), xl, bits=bits, at=(1, 10, 100, 1000), radius=3, threads=threads)
    n = len(x)
    tie_aware, best, worst, ranked, precision_in, recall_in, empty = [], [], [], [], [], [], []
    at = {k: [] for k in (1, 10, 100, 1000)}
    for code, label in zip(q, ql, strict=True):
        distance = (code != x).sum(axis=1)
        relevant = xl == label
        total = relevant.sum()
        ap = 0.0
        for d in np.unique(distance):
            tied = distance == d
            count, hits = tied.sum(), (tied & relevant).sum()
            near, near_hits = (distance < d).sum(), ((distance < d) & relevant).sum()
            other = (hits - 1) / (count - 1) if count > 1 else 0.0
            ap += hits / count * sum((near_hits + 1 + other * t) / (near + 1 + t) for t in range(count))
        tie_aware.append(ap / total)
        for values, tie_break in ((best, ~relevant), (worst, relevant), (ranked, np.arange(n))):
            flags = relevant[np.lexsort((tie_break, distance))]
            values.append(np.sum(np.cumsum(flags)[flags] / (np.flatnonzero(flags) + 1)) / total)
        flags = relevant[np.lexsort((np.arange(n), distance))]
        for k, values in at.items():
            hits, ap_sum = 0, 0.0
            for rank in range(min(k, n)):
                if flags[rank]:
                    hits += 1
                    ap_sum += hits / (rank + 1)
            values.append((ap_sum / hits if hits else 0.0, ap_sum / min(total, k), ap_sum / total))
        ball = distance <= 3
        precision_in.append((ball & relevant).sum() / ball.sum() if ball.any() else 0.0)
        recall_in.append((ball & relevant).sum() / total)
        empty.append(not ball.any())

    assert np.allclose(r.average_precision, tie_aware, rtol=0, atol=1e-12)
    assert r.map == pytest.approx(np.mean(tie_aware), abs=1e-12)
    assert r.map_optimistic == pytest.approx(np.mean(best), abs=1e-12)
    assert r.map_pessimistic == pytest.approx(np.mean(worst), abs=1e-12)
    assert r.map_ranked == pytest.approx(np.mean(ranked), abs=1e-12)
    assert r.spread == r.map_optimistic - r.map_pessimistic
    for k, values in at.items():
        names = ("retrieved", "min_relevant_k", "relevant")
        assert [getattr(r.map_at[k], name) for name in names] == pytest.approx(np.mean(values, axis=0), abs=1e-12)
    assert r.precision_within == pytest.approx(np.mean(precision_in), abs=1e-12)
    assert r.recall_within == pytest.approx(np.mean(recall_in), abs=1e-12)
    assert r.empty_within == np.mean(empty)


def test_lookup_equals_loops_at_every_radius():
    q, ql, x, xl = sample(12)
    r = ih.evaluate(pack(q), ql, pack(x), xl, bits=12)
    distance = (q[:, None] != x[None]).sum(axis=2)
    relevant = ql[:, None] == xl[None]
    for radius in range(13):
        ball = distance <= radius
        hits = (ball & relevant).sum(axis=1)
        share = np.divide(hits, ball.sum(axis=1), out=np.zeros(len(q)), where=ball.any(axis=1))
        assert r.lookup.precision[radius] == pytest.approx(share.mean(), abs=1e-12)
        assert r.lookup.recall[radius] == pytest.approx((hits / relevant.sum(axis=1)).mean(), abs=1e-12)
        assert r.lookup.empty[radius] == pytest.approx(1 - ball.any(axis=1).mean(), abs=1e-12)
    assert len(r.lookup.precision) == len(r.lookup.recall) == len(r.lookup.empty) == 13


def test_pr_curve_without_ties_is_precision_at_each_hit():
    """100 relevant items at distinct distances: recall i/100 is reached at hit i."""
    rng = np.random.default_rng(3)
    flags = np.zeros(150, int)
    flags[rng.choice(150, 100, replace=False)] = 1
    x = at_distances(range(150), bits=160)
    r = ih.evaluate(np.zeros((1, 20), np.uint8), [1], x, flags, bits=160)
    assert np.array_equal(r.pr_curve.recall, np.arange(1, 101) / 100)
    assert np.allclose(r.pr_curve.precision, np.arange(1, 101) / (np.flatnonzero(flags) + 1), rtol=0, atol=1e-14)


def test_pr_curve_spreads_ties_evenly():
    """One tie of 10 items with 4 relevant, behind 5 others: every recall is reached at the same slope."""
    x = at_distances([0] * 5 + [1] * 10)
    r = ih.evaluate(np.zeros((1, 1), np.uint8), [1], x, [0] * 5 + [1] * 4 + [0] * 6, bits=6)
    hits = 4 * r.pr_curve.recall
    assert np.allclose(r.pr_curve.precision, hits / (5 + hits * 10 / 4))


@pytest.mark.parametrize("start", [0, 1, 5, 63, 64, 65, 1000, 10**6 - 3, 10**6])
@pytest.mark.parametrize("count", [0, 1, 2, 63, 64, 1000, 10**6])
def test_harmonic_difference_of_large_numbers_keeps_digits(start, count):
    expected = math.fsum(1 / t for t in range(start + 1, start + count + 1))  # fsum: no rounding but that of 1/t
    assert harmonic_difference(np.array(start), np.array(count)) == pytest.approx(expected, rel=1e-13, abs=0)


def test_harmonic_difference_equals_fractions():
    for start, count in ((0, 200), (3, 7), (60, 10), (64, 1), (500, 300)):
        exact = sum((Fraction(1, t) for t in range(start + 1, start + count + 1)), Fraction(0))
        assert harmonic_difference(np.array(start), np.array(count)) == pytest.approx(float(exact), rel=2e-15, abs=0)


def test_million_equal_codes_have_exact_map():
    """One tie of 10^6 items: the closed form compared with the sum of its million terms."""
    n, p = 10**6, 1000
    labels = np.zeros(n, int)
    labels[-p:] = 1
    r = ih.evaluate(np.zeros((1, 2), np.uint8), [1], np.zeros((n, 2), np.uint8), labels, bits=12, at=(10,))
    t = np.arange(n)
    assert r.map == pytest.approx(math.fsum((1 + t * (p - 1) / (n - 1)) / (t + 1)) / n, rel=1e-12)
    assert r.map_optimistic == 1.0
    assert r.map_ranked == pytest.approx(math.fsum(np.arange(1, p + 1) / np.arange(n - p + 1, n + 1)) / p, rel=1e-12)
    assert r.map_pessimistic == pytest.approx(r.map_ranked, rel=1e-12)


def test_perfect_codes_have_map_of_exactly_one():
    labels = np.repeat(np.arange(7), 137)
    codes = pack((labels[:, None] >> np.arange(3)) & 1)
    r = ih.evaluate(codes, labels, codes, labels, bits=3, at=(1, 137))
    assert r.map == r.map_optimistic == r.map_pessimistic == r.map_ranked == 1.0
    assert r.map_at[137].relevant == r.map_at[137].relevant_tie_aware == r.precision_at[137] == r.recall_at[137] == 1.0


def test_map_of_a_sorted_database_equals_the_shuffled_one():
    """For equal codes sorted by class, ranking by id makes class 0 perfect and the last class worst. Tie-aware MAP is
    chance.
    """
    labels = np.repeat(np.arange(10), 50)
    codes = np.full((500, 2), 0x0F, np.uint8)
    shuffled = np.random.default_rng(0).permutation(500)
    first, last = (ih.evaluate(codes[:1], [c], codes, labels, bits=12, at=(5,)) for c in (0, 9))
    assert first.map == last.map
    assert first.map_ranked == 1.0 and last.map_ranked == pytest.approx(last.map_pessimistic)
    assert first.precision_at[5] == pytest.approx(0.1)
    a = ih.evaluate(codes[:10], labels[::50], codes, labels, bits=12)
    b = ih.evaluate(codes[:10], labels[::50], codes, labels[shuffled], bits=12)
    assert a.map == b.map and a.spread == b.spread


def test_queries_without_labels_are_left_out_and_counted():
    q, ql, x, xl = sample(24)
    hot = np.eye(4, dtype=np.uint8)
    alone = ih.evaluate(pack(q), hot[ql], pack(x), hot[xl], bits=24)
    padded_labels = np.concatenate([hot[ql], np.zeros((3, 4), np.uint8)])
    more = ih.evaluate(pack(np.concatenate([q, q[:3]])), padded_labels, pack(x), hot[xl], bits=24)
    assert (alone.queries_without_relevant, more.queries_without_relevant) == (0, 3)
    assert more.queries == alone.queries + 3
    assert more.map == alone.map and more.precision_within == alone.precision_within
    assert np.isnan(more.average_precision[-3:]).all() and not np.isnan(more.average_precision[:-3]).any()

    more_codes, more_labels = np.concatenate([x, x[:50]]), np.concatenate([hot[xl], np.zeros((50, 4), np.uint8)])
    wider = ih.evaluate(pack(q), hot[ql], pack(more_codes), more_labels, bits=24)
    assert wider.map < alone.map  # in the database, but not relevant to any query
    assert wider.recall_within == alone.recall_within


def test_single_labels_as_integers_or_bool_are_equal():
    q, ql, x, xl = sample(24)
    single = ih.evaluate(pack(q), ql, pack(x), xl, bits=24)
    multi = ih.evaluate(pack(q), np.eye(4, dtype=bool)[ql], pack(x), np.eye(4, dtype=bool)[xl], bits=24)
    assert single.to_dict() == multi.to_dict()


def test_items_that_share_any_label_are_relevant():
    rng = np.random.default_rng(5)
    q, x = rng.integers(0, 2, (9, 16)), rng.integers(0, 2, (80, 16))
    ql, xl = rng.random((9, 6)) < 0.4, rng.random((80, 6)) < 0.3
    ql[:, 0] |= ~ql.any(axis=1)
    ql[0] = False
    r = ih.evaluate(pack(q), ql, pack(x), xl, bits=16)
    expected = []
    for code, label in zip(q[1:], ql[1:], strict=True):
        distance, relevant = (code != x).sum(axis=1), (label & xl).any(axis=1)
        flags = relevant[np.argsort(distance, kind="stable")]
        expected.append(np.mean(np.cumsum(flags)[flags] / (np.flatnonzero(flags) + 1)))
    assert r.map_ranked == pytest.approx(np.mean(expected), abs=1e-12)
    assert r.queries_without_relevant == 1
    assert np.isnan(r.average_precision).tolist() == [True] + [False] * 8


@pytest.mark.parametrize("bits", [255, 256, 512, 1024])
def test_all_ones_against_all_zeros_do_not_overflow(bits):
    """No counter overflows at the largest distance."""
    x = pack([[1] * bits, [0] * bits, [0] * (bits - 1) + [1]])
    r = ih.evaluate(pack([[0] * bits]), [1], x, [1, 0, 0], bits=bits)
    assert [r.map, r.map_ranked] == pytest.approx([1 / 3, 1 / 3], rel=1e-15)
    assert np.flatnonzero(r.health.distances_within).tolist() == [bits]
    assert r.lookup.recall[-2:].tolist() == [0, 1]


def test_class_numbers_of_any_size_are_taken():
    q, ql, x, xl = sample(24)
    big = np.array([5, 2**62, 0, 40_000])
    a, b = ih.evaluate(pack(q), ql, pack(x), xl, bits=24), ih.evaluate(pack(q), big[ql], pack(x), big[xl], bits=24)
    assert a.to_dict() == b.to_dict()


def test_forty_thousand_classes_are_taken():
    labels = np.arange(40_000)
    codes = pack((labels[:, None] >> np.arange(16)) & 1)
    r = ih.evaluate(codes[:50], labels[:50], codes, labels, bits=16)
    assert r.map == 1.0


def test_health_of_known_codes_is_known():
    """Bit 0 is constant, bit 1 is bit 2 inverted, and bit 3 is independent of both."""
    x = np.array([[1, 0, 1, 0], [1, 0, 1, 1], [1, 1, 0, 0], [1, 1, 0, 1]])
    r = ih.evaluate(pack(x[:1]), [0], pack(x), [0, 0, 1, 1], bits=4)
    h = r.health
    assert (h.distinct_database, h.distinct_queries, h.constant_bits) == (4, 1, 1)
    assert h.bit_balance.tolist() == [1.0, 0.5, 0.5, 0.5]
    assert h.bit_correlation == pytest.approx(1 / 3)
    assert (h.d_w, h.d_b) == (0.5, 2.5)


def test_health_equals_numpy():
    q, ql, x, xl = sample(48, n=1500)
    h = ih.evaluate(pack(q), ql, pack(x), xl, bits=48).health
    correlation = np.abs(np.corrcoef(x.T))
    assert h.bit_correlation == pytest.approx(correlation[~np.eye(48, dtype=bool)].mean(), abs=1e-9)
    assert np.allclose(h.bit_balance, x.mean(axis=0))
    assert h.distinct_database == len({tuple(row) for row in x.tolist()})
    distance, relevant = (q[:, None] != x[None]).sum(axis=2), ql[:, None] == xl[None]
    assert h.d_w == pytest.approx(distance[relevant].mean())
    assert h.d_b == pytest.approx(distance[~relevant].mean())
    assert np.array_equal(h.distances_within, np.bincount(distance[relevant], minlength=49))


def test_health_of_long_codes_samples_bits_for_correlation(monkeypatch):
    monkeypatch.setattr("idcwh_search.metrics.code_stats.MOST_CORRELATED", 24)
    q, ql, x, xl = sample(48, n=1500)
    h = ih.evaluate(pack(q), ql, pack(x), xl, bits=48).health
    chosen = np.linspace(0, 47, 24).round().astype(int)
    correlation = np.abs(np.corrcoef(x[:, chosen].T))
    assert h.bit_correlation == pytest.approx(correlation[~np.eye(24, dtype=bool)].mean(), abs=1e-9)
    assert np.allclose(h.bit_balance, x.mean(axis=0))


def test_constant_codes_of_one_class_are_measured():
    codes = np.zeros((30, 2), np.uint8)
    r = ih.evaluate(codes[:4], [0] * 4, codes, [0] * 30, bits=12)
    assert r.map == r.map_pessimistic == 1.0
    h = r.health
    assert (h.constant_bits, h.distinct_database) == (12, 1)
    assert math.isnan(h.bit_correlation) and math.isnan(h.d_b) and h.d_w == 0.0
    written = json.loads(json.dumps(r.to_dict(), allow_nan=False))
    assert written["health"]["d_b"] is None and written["health"]["bit_correlation"] is None


def test_cuts_beyond_the_database_equal_its_size():
    q, ql, x, xl = sample(24)
    r = ih.evaluate(pack(q), ql, pack(x), xl, bits=24, at=(10**9, len(x), 10**9))
    assert list(r.map_at) == [len(x), 10**9]
    assert r.map_at[10**9] == r.map_at[len(x)]
    assert r.map_at[10**9].relevant_tie_aware == r.map and r.map_at[10**9].relevant == r.map_ranked
    assert r.recall_at[10**9] == 1.0 and r.precision_at[10**9] == r.precision_at[len(x)]


def test_radius_beyond_the_bits_finds_everything():
    q, ql, x, xl = sample(1)
    r = ih.evaluate(pack(q), ql, pack(x), xl, bits=1, radius=7)
    assert r.recall_within == 1.0 and r.empty_within == 0.0


def test_table_and_json_have_the_same_numbers():
    q, ql, x, xl = sample(24)
    r = ih.evaluate(pack(q), ql, pack(x), xl, bits=24, at=(50,), radius=1)
    text = r.table()
    for value in (r.map, r.map_optimistic, r.map_pessimistic, r.spread, r.map_ranked, r.map_at[50].retrieved):
        assert f"{value:.4f}" in text
    assert "P@50" in text and "P@H<=1" in text and "24 bits" in text
    assert len({len(line) for line in text.splitlines()}) == 1
    content = json.loads(json.dumps(r.to_dict(), allow_nan=False))
    assert content["map"] == r.map and content["map_at"]["50"]["retrieved"] == r.map_at[50].retrieved
