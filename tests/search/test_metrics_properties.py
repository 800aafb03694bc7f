"""Properties of the metrics for any codes and labels."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import idcwh_search as ih

SLACK = 1e-12


@st.composite
def cases(draw):
    bits = draw(st.sampled_from([1, 5, 8, 12, 24, 48, 100]))
    nq, n = draw(st.integers(1, 4)), draw(st.integers(1, 40))
    few = draw(st.integers(1, 4))  # few distinct codes, so that ties are frequent
    palette = draw(hnp.arrays(bool, (few, bits)))
    chosen = draw(hnp.arrays(np.int64, nq + n, elements=st.integers(0, few - 1)))
    codes = np.packbits(palette[chosen], axis=1, bitorder="little")
    if draw(st.booleans()):
        labels = draw(hnp.arrays(np.int64, nq + n, elements=st.integers(0, 2)))
    else:
        labels = draw(hnp.arrays(bool, (nq + n, 3)))
    a, b = labels[:nq, None], labels[None, nq:]
    assume((a == b).any() if labels.ndim == 1 else (a & b).any())
    return bits, codes[:nq], labels[:nq], codes[nq:], labels[nq:]


@given(cases(), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_metrics_have_bounds_and_ignore_item_order(case, random):
    bits, q, ql, x, xl = case
    r = ih.evaluate(q, ql, x, xl, bits=bits, at=(1, 3, 50), threads=1)
    assert 0 <= r.map_pessimistic <= r.map + SLACK
    assert r.map <= r.map_optimistic + SLACK
    assert r.map_pessimistic - SLACK <= r.map_ranked <= r.map_optimistic + SLACK
    for k in (1, 3, 50):
        at = r.map_at[k]
        assert 0 <= at.relevant <= at.min_relevant_k <= at.retrieved + SLACK  # hits <= min(R, K) <= R
        assert at.relevant_tie_aware <= at.min_relevant_k_tie_aware <= 1
        assert 0 <= r.precision_at[k] <= 1 and 0 <= r.recall_at[k] <= 1
    for values in (r.lookup.precision, r.lookup.recall, r.lookup.empty, r.pr_curve.precision, r.health.bit_balance):
        assert np.all((values >= 0) & (values <= 1))
    assert np.all(np.diff(r.lookup.recall) >= 0) and r.lookup.recall[-1] == 1
    for value in (r.map, r.map_optimistic, r.map_pessimistic, r.map_ranked, r.map_at[50].retrieved):
        assert value <= 1

    order = list(range(len(x)))
    random.shuffle(order)
    shuffled = ih.evaluate(q, ql, x[order], xl[order], bits=bits, at=(1, 3, 50), threads=1)
    by_id = {"map_ranked"}
    a, b = r.to_dict(), shuffled.to_dict()
    assert {k: v for k, v in a.items() if k not in by_id | {"map_at"}} == {
        k: v for k, v in b.items() if k not in by_id | {"map_at"}
    }
    for k in ("1", "3", "50"):
        for name in ("min_relevant_k_tie_aware", "relevant_tie_aware"):
            assert a["map_at"][k][name] == b["map_at"][k][name]


@given(cases())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_evaluate_does_not_depend_on_query_order(case):
    bits, q, ql, x, xl = case
    forth = ih.evaluate(q, ql, x, xl, bits=bits, threads=1)
    back = ih.evaluate(q[::-1], ql[::-1], x, xl, bits=bits, threads=2)
    assert forth.map == back.map and forth.map_ranked == back.map_ranked
    assert np.array_equal(forth.average_precision, back.average_precision[::-1], equal_nan=True)
