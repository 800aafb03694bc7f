"""Wrong arguments of evaluate: an error that names what was expected and what came."""

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
    "width": (dict(x=np.zeros((5, 3), np.uint8)), r"database_codes.*12 bits, uint8 \[n, 2\], not uint8 \[5, 3\]"),
    "unpacked": (dict(x=np.ones((5, 12), np.uint8)), r"not uint8 \[5, 12\]; pack .*pack\(x.astype\(bool\)\)"),
    "bits": (dict(bits=24), r"query_codes.*24 bits, uint8 \[n, 3\], not uint8 \[3, 2\]"),
    "1-d": (dict(q=np.zeros(2, np.uint8)), r"query_codes.*not uint8 \[2\]"),
    "int8": (dict(q=Q.astype(np.int8)), r"query_codes.*not int8"),
    "bool": (dict(q=Q.astype(bool)), r"query_codes.*not bool"),
    "float": (dict(x=X.astype(float)), r"database_codes.*not float64"),
    "list": (dict(q=[[0, 0]]), r"query_codes.*not int64"),
    "no queries": (dict(q=Q[:0], ql=QL[:0]), r"query_codes: expected at least one code"),
    "empty database": (dict(x=X[:0], xl=XL[:0]), r"database_codes: expected at least one code"),
    "padding": (dict(x=HIGH), r"database_codes: expected zeros behind bit 12.*row 3 ends in byte 0x10"),
    "query labels": (dict(ql=QL[:2]), r"query_labels: expected one for each of the 3 codes, not 2"),
    "database labels": (dict(xl=[0, 1]), r"database_labels: expected one for each of the 5 codes, not 2"),
    "float labels": (dict(ql=[0.0, 1.0, 0.0]), r"query_labels.*not float64 \[3\]"),
    "string labels": (dict(ql=["a", "b", "c"]), r"query_labels.*not <U1 \[3\]"),
    "bool labels 1-d": (dict(ql=[True, False, True]), r"query_labels.*not bool \[3\]"),
    "3-d labels": (dict(ql=np.zeros((3, 1, 1), int)), r"query_labels.*\[3, 1, 1\]"),
    "negative": (dict(xl=[0, -1, 0, 1, 1]), r"database_labels.*>= 0, found -1"),
    "mixed forms": (dict(ql=np.eye(3, dtype=bool)), r"same form.*\[3, 3\] and \[5\]"),
    "classes": (dict(ql=np.ones((3, 2), bool), xl=np.ones((5, 4), bool)), r"same number of classes, not 2 and 4"),
    "counts": (dict(ql=np.full((3, 2), 2), xl=np.ones((5, 2), bool)), r"only 0 and 1.*found 2 to 2"),
    "nothing shared": (dict(ql=[7, 8, 9]), r"share a label.*none of the 3 does"),
    "bits 0": (dict(bits=0), "^bits "),
    "cut 0": (dict(at=(10, 0)), "^at "),
    "radius -1": (dict(radius=-1), "^radius "),
    "threads 0": (dict(threads=0), "^threads "),
}


@pytest.mark.parametrize("name", CASES)
def test_refused(name):
    options, message = CASES[name]
    with pytest.raises(ValueError, match=message) as raised:
        call(**options)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("options", [dict(radius=24.5), dict(bits="12"), dict(at=(1.5,)), dict(at=10)])
def test_not_numbers(options):
    with pytest.raises(TypeError, match=f"^{next(iter(options))}"):
        call(**options)


def test_any_memory_layout():
    rng = np.random.default_rng(0)
    q, x = rng.integers(0, 256, (4, 3), np.uint8), rng.integers(0, 256, (60, 3), np.uint8)
    ql, xl = rng.integers(0, 3, 4), rng.integers(0, 3, 60)
    plain = ih.evaluate(q, ql, x, xl, bits=24).to_dict()
    wide = np.repeat(x, 2, axis=1)[:, ::2]
    assert not wide.flags.c_contiguous
    assert ih.evaluate(np.asfortranarray(q), ql.tolist(), wide, xl.astype(np.uint8), bits=24).to_dict() == plain
    x.setflags(write=False)
    assert ih.evaluate(q, ql, x, xl, bits=np.int32(24)).to_dict() == plain
