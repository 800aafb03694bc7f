"""SDH, FSDH and their steps compared with numpy, discrete cyclic coordinate descent, and codes for classes."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
import torch

from idcwh_search.errors import InvalidInputError
from idcwh_train.methods.base import create
from idcwh_train.methods.discrete_cyclic import descend, ridge, solve
from idcwh_train.methods.hash_centers import hadamard_rows, rows_of_hadamard, spread
from support.errors import raises


def signs(x):
    return np.where(x >= 0, 1.0, -1.0)


def problem(seed, n=40, classes=4, bits=6):
    rng = np.random.default_rng(seed)
    y = np.eye(classes)[rng.integers(0, classes, n)]
    return (
        signs(rng.standard_normal((n, bits))),
        y,
        rng.standard_normal((bits, classes)),
        rng.standard_normal((n, bits)),
    )


@pytest.mark.parametrize("seed", range(5))
def test_descent_never_raises_the_objective(seed):
    b, y, w, f = problem(seed)
    nu = 0.3

    def objective(b):
        return np.sum((y - b @ w) ** 2) + nu * np.sum((b - f) ** 2)

    values = [objective(b)]
    for sweeps in range(1, 6):
        result = descend(torch.from_numpy(b), torch.from_numpy(y @ w.T + nu * f), torch.from_numpy(w), sweeps).numpy()
        assert set(np.unique(result)) == {-1, 1}
        values.append(objective(result))
    assert all(after <= before + 1e-9 for before, after in itertools.pairwise(values))
    assert values[1] < values[0]
    last = descend(torch.from_numpy(b), torch.from_numpy(y @ w.T + nu * f), torch.from_numpy(w), 100).numpy()
    for i, k in itertools.product(range(len(b)), range(b.shape[1])):  # no flip of a single bit is better
        other = last.copy()
        other[i, k] *= -1
        assert objective(other) >= objective(last) - 1e-9


def test_ridge_equals_least_squares():
    rng = np.random.default_rng(0)
    a, c = rng.standard_normal((30, 5)), rng.standard_normal((30, 3))
    for weight in (0.0, 0.7):
        stacked = np.vstack([a, np.sqrt(weight) * np.eye(5)]), np.vstack([c, np.zeros((5, 3))])
        expected = np.linalg.lstsq(*stacked, rcond=None)[0]
        np.testing.assert_allclose(ridge(torch.from_numpy(a), torch.from_numpy(c), weight).numpy(), expected, rtol=1e-9)
    twice = np.hstack([a, a])  # not invertible, so the solution is that of least norm
    expected = np.linalg.lstsq(twice, c, rcond=None)[0]
    np.testing.assert_allclose(ridge(torch.from_numpy(twice), torch.from_numpy(c), 0.0).numpy(), expected, atol=1e-6)
    assert torch.equal(solve(torch.zeros(2, 2), torch.zeros(2, 1), 0.0), torch.zeros(2, 1))


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("name", ["sdh", "fsdh"])
def test_fit_equals_the_algorithm_in_numpy(name, multi_label):
    rng = np.random.default_rng(4)
    n, features, classes, bits, anchors = 60, 7, 3, 5, 11
    x = rng.standard_normal((n, features)).astype(np.float32)
    y = rng.random((n, classes)) < 0.4 if multi_label else np.eye(classes, dtype=bool)[rng.integers(0, classes, n)]
    if multi_label:
        y[0], y[1:, 0] = False, True  # an image without a label has no influence
    options = {"lam": 0.8, "nu": 0.2, "anchors": anchors, "width": 0.9, "shrink": 0.01, "iterations": 3, "sweeps": 2}
    if name == "fsdh":
        options.pop("sweeps")
    method = create(name, classes, bits, n, options)
    head = method.fit(torch.from_numpy(x), torch.from_numpy(y), torch.Generator().manual_seed(6)).eval()

    kept = y.any(axis=1)
    points, t = x[kept].astype(float), y[kept].astype(float)
    m = len(points)
    generator = torch.Generator().manual_seed(6)
    chosen = points[torch.randperm(m, generator=generator)[:anchors].numpy()]
    b = signs(torch.randn(m, bits, dtype=torch.float64, generator=generator).numpy())
    d2 = np.array([[np.sum((p - a) ** 2) for a in chosen] for p in points])
    width = 0.9 * np.sqrt(d2.mean())
    phi = np.exp(-d2 / (2 * width**2))
    mean = phi.mean(axis=0)

    def regress():
        a = phi - mean
        return np.linalg.solve(a.T @ a + 0.01 * m * np.eye(anchors), a.T @ b)

    p = regress()
    for _ in range(3):
        f = (phi - mean) @ p
        if name == "sdh":
            w = np.linalg.solve(b.T @ b + 0.8 * np.eye(bits), b.T @ t)
            for _ in range(2):
                for k in range(bits):
                    rest = [j for j in range(bits) if j != k]
                    b[:, k] = signs(t @ w[k] + 0.2 * f[:, k] - b[:, rest] @ w[rest] @ w[k])
        else:
            w = np.linalg.solve(t.T @ t + 0.8 * np.eye(classes), t.T @ b)
            b = signs(t @ w + 0.2 * f)
        p = regress()
    assert head.width.item() == pytest.approx(width, rel=1e-5)
    with torch.inference_mode():
        np.testing.assert_allclose(head(torch.from_numpy(x[kept])).numpy(), (phi - mean) @ p, atol=2e-4)
    again = method.fit(torch.from_numpy(x), torch.from_numpy(y), torch.Generator().manual_seed(6))
    assert all(torch.equal(u, v) for u, v in zip(head.state_dict().values(), again.state_dict().values(), strict=True))
    fresh = method.head(features)
    assert {k: v.shape for k, v in fresh.state_dict().items()} == {k: v.shape for k, v in head.state_dict().items()}


@pytest.mark.parametrize("name", ["sdh", "fsdh"])
def test_fit_of_few_or_equal_images_is_finite(name):
    method = create(name, 3, 8, 1, {"lam": 0.0, "shrink": 0.0})
    y = torch.eye(3, dtype=torch.bool)
    for x, labels in ((torch.randn(1, 6), y[:1]), (torch.ones(5, 6), y[[0, 0, 1, 2, 2]])):
        head = method.fit(x, labels, torch.Generator().manual_seed(0))
        assert torch.isfinite(head(x)).all()
    with raises(InvalidInputError, path=name):
        method.fit(torch.randn(4, 6), torch.zeros(4, 3, dtype=torch.bool), torch.Generator())


# ------------------------------------------------------------------------------------------------- codes for classes


@pytest.mark.parametrize("order", [1, 2, 8, 64])
def test_hadamard_rows_are_orthogonal(order):
    h = hadamard_rows(torch.arange(order), order).long().numpy()
    np.testing.assert_array_equal(h @ h.T, order * np.eye(order))


@pytest.mark.parametrize(
    ("classes", "bits", "possible"), [(10, 16, True), (32, 16, True), (33, 16, False), (3, 12, False)]
)
def test_rows_of_hadamard_have_no_positive_products(classes, bits, possible):
    rows = rows_of_hadamard(classes, bits)
    assert (rows is not None) == possible
    if rows is not None:
        products = (rows.long() @ rows.long().T).fill_diagonal_(0)
        assert rows.shape == (classes, bits) and (products <= 0).all()


@pytest.mark.parametrize(
    ("classes", "bits", "least"),
    [(1, 7, 7), (2, 12, 12), (10, 12, 5), (10, 48, 20), (100, 48, 14), (80, 64, 22), (4, 2, 1)],
)
def test_class_codes_are_far_apart(classes, bits, least):
    torch.manual_seed(0)
    codes = spread(classes, bits).long()
    assert codes.shape == (classes, bits) and set(codes.unique().tolist()) <= {-1, 1}
    distances = ((bits - codes @ codes.T) // 2).fill_diagonal_(bits)
    assert distances.min() >= least


@pytest.mark.parametrize(("classes", "bits"), [(5, 1), (9, 2), (40_000, 12), (40_000, 15)])
def test_more_classes_than_codes_use_them_evenly(classes, bits):
    numbers = (spread(classes, bits) > 0).long() @ (2 ** torch.arange(bits))
    counts = torch.bincount(numbers, minlength=2**bits)
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("bits", [16, 48, 100])
def test_forty_thousand_codes_differ(bits):
    torch.manual_seed(0)
    codes = spread(40_000, bits)
    assert len(torch.unique(codes, dim=0)) == len(codes) == 40_000
    torch.manual_seed(0)
    assert torch.equal(codes, spread(40_000, bits))
    torch.manual_seed(1)
    assert not torch.equal(codes, spread(40_000, bits))


@pytest.mark.slow
def test_long_codes_take_memory_linear_in_bits():
    """Codebooks and evaluation at 65,535 bits, which once took 5 and 32 GB."""
    script = """
import resource, torch, numpy as np, idcwh_search as ih
from idcwh_train.methods.hash_centers import rows_of_hadamard, spread
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert spread(3, 65535).shape == (3, 65535) and rows_of_hadamard(3, 32768).shape == (3, 32768)
codes, labels = ih.pack(np.random.default_rng(0).standard_normal((30, 65535))), np.arange(30) % 3
ih.evaluate(codes, labels, codes, labels, bits=65535)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 400_000  # kilobytes
