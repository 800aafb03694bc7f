"""Invalid arguments of evaluate: a ValueError or TypeError that begins with the name of the argument."""

from __future__ import annotations

import numpy as np
import pytest

import idcwh_search as ih

Q, QL = np.zeros((3, 2), np.uint8), np.array([0, 1, 0])
X, XL = np.zeros((5, 2), np.uint8), np.array([0, 1, 0, 1, 1])


def call(q=Q, ql=QL, x=X, xl=XL, **options):
    return ih.evaluate(q, ql, x, xl, **{"bits": 12, **options})


HIGH = X.copy()
HIGH[3, 1] = 0x10

CASES = {
    "width": ("database_codes", dict(x=np.zeros((5, 3), np.uint8))),
    "unpacked": ("database_codes", dict(x=np.ones((5, 12), np.uint8))),
    "bits": ("query_codes", dict(bits=24)),
    "1-d": ("query_codes", dict(q=np.zeros(2, np.uint8))),
    "int8": ("query_codes", dict(q=Q.astype(np.int8))),
    "bool": ("query_codes", dict(q=Q.astype(bool))),
    "float": ("database_codes", dict(x=X.astype(float))),
    "list": ("query_codes", dict(q=[[0, 0]])),
    "no queries": ("query_codes", dict(q=Q[:0], ql=QL[:0])),
    "empty database": ("database_codes", dict(x=X[:0], xl=XL[:0])),
    "padding": ("database_codes", dict(x=HIGH)),
    "query labels": ("query_labels", dict(ql=QL[:2])),
    "database labels": ("database_labels", dict(xl=[0, 1])),
    "float labels": ("query_labels", dict(ql=[0.0, 1.0, 0.0])),
    "string labels": ("query_labels", dict(ql=["a", "b", "c"])),
    "bool labels 1-d": ("query_labels", dict(ql=[True, False, True])),
    "3-d labels": ("query_labels", dict(ql=np.zeros((3, 1, 1), int))),
    "negative": ("database_labels", dict(xl=[0, -1, 0, 1, 1])),
    "mixed forms": ("query_labels", dict(ql=np.eye(3, dtype=bool))),
    "classes": ("query_labels", dict(ql=np.ones((3, 2), bool), xl=np.ones((5, 4), bool))),
    "counts": ("query_labels", dict(ql=np.full((3, 2), 2), xl=np.ones((5, 2), bool))),
    "nothing shared": ("query_labels", dict(ql=[7, 8, 9])),
    "bits 0": ("bits", dict(bits=0)),
    "cut 0": ("at", dict(at=(10, 0))),
    "radius -1": ("radius", dict(radius=-1)),
    "threads 0": ("threads", dict(threads=0)),
}


@pytest.mark.parametrize("name", CASES)
def test_evaluate_of_a_wrong_value_names_the_argument(name):
    argument, options = CASES[name]
    with pytest.raises(ValueError, match=rf"^{argument}\b") as raised:
        call(**options)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("options", [dict(radius=24.5), dict(bits="12"), dict(at=(1.5,)), dict(at=10)])
def test_evaluate_of_a_wrong_type_names_the_argument(options):
    with pytest.raises(TypeError, match=f"^{next(iter(options))}"):
        call(**options)


def test_evaluate_takes_any_memory_layout():
    rng = np.random.default_rng(0)
    q, x = rng.integers(0, 256, (4, 3), np.uint8), rng.integers(0, 256, (60, 3), np.uint8)
    ql, xl = rng.integers(0, 3, 4), rng.integers(0, 3, 60)
    plain = ih.evaluate(q, ql, x, xl, bits=24).to_dict()
    wide = np.repeat(x, 2, axis=1)[:, ::2]
    assert not wide.flags.c_contiguous
    assert ih.evaluate(np.asfortranarray(q), ql.tolist(), wide, xl.astype(np.uint8), bits=24).to_dict() == plain
    x.setflags(write=False)
    assert ih.evaluate(q, ql, x, xl, bits=np.int32(24)).to_dict() == plain
