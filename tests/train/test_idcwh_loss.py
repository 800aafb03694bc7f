"""The IDCWH loss, compared with loops in float64 over the paper's formulas and with finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from idcwh_search.errors import InvalidInputError
from idcwh_train.methods.base import create
from idcwh_train.methods.idcwh import IDCWH, IDCWHSingle, sgn
from support.errors import raises


def sign(x: float) -> int:
    return 1 if x >= 0 else -1


def reference(h, centers, y, votes, *, sigma2=4.0, gamma=1.0, beta=0.01, l2_reduction="sum/Z", reduction="mean"):
    """Returns the terms (L1, L2, Q) of the loss and the new votes, by scalars: eqs. 3, 7, 10, 11, 13, 14."""
    rows = [i for i in range(len(h)) if any(y[i])]
    classes, bits = centers.shape
    l1 = q = 0.0
    for i in rows:
        d = [sum((h[i][v] - centers[j][v]) ** 2 for v in range(bits)) for j in range(classes)]
        least = min(d)
        log_z = math.log(sum(math.exp(-(x - least) / (2 * sigma2)) for x in d)) - least / (2 * sigma2)
        for j in range(classes):
            if y[i][j]:
                l1 -= -d[j] / (2 * sigma2) - log_z
        q += sum((sign(h[i][v]) - h[i][v]) ** 2 for v in range(bits))
    votes = [list(row) for row in votes]
    for i in rows:
        for j in range(classes):
            if y[i][j]:
                for v in range(bits):
                    votes[j][v] += sign(h[i][v])
    present = [j for j in range(classes) if any(y[i][j] for i in rows)]
    l2 = 0.0
    for i in present:
        u = [sign(x) for x in votes[i]]
        for j in range(classes):
            dot = sum(u[v] * centers[j][v] for v in range(bits))
            cos = dot / (math.sqrt(bits) * math.sqrt(sum(x * x for x in centers[j])))
            theta = 0.5 * bits * cos
            s = 1 if i == j else 0
            softplus = max(theta, 0) + math.log1p(math.exp(-abs(theta)))
            l2 -= s * theta - softplus
    over = len(rows) if reduction == "mean" else 1
    divisor = {"sum/Z": len(present), "sum": 1, "sum/ZC": len(present) * classes, "sum/n": len(rows)}[l2_reduction]
    return l1 / over, gamma * l2 / divisor, beta * q / over, np.array(votes)


def batch(seed: int, n: int, classes: int, bits: int, multi: bool):
    rng = np.random.default_rng(seed)
    h = 3 * rng.standard_normal((n, bits))
    h[0, 0] = 0.0  # sgn(0) = +1
    centers = rng.standard_normal((classes, bits))
    y = rng.random((n, classes)) < 0.4 if multi else np.eye(classes, dtype=bool)[rng.integers(0, classes, n)]
    return h, centers, y


def method_with(centers: np.ndarray, **options) -> IDCWH:
    method = create("idcwh", *centers.shape, 100, options)
    with torch.no_grad():
        method.centers.copy_(torch.from_numpy(centers))
    return method


@pytest.mark.parametrize("l2_reduction", ["sum/Z", "sum", "sum/ZC", "sum/n"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("multi", [False, True])
def test_loss_equals_the_formula(l2_reduction, reduction, multi):
    options = {"sigma2": 3.0, "gamma": 0.7, "beta": 0.2, "l2_reduction": l2_reduction, "reduction": reduction}
    for seed in range(3):
        h, centers, y = batch(seed, 9, 4, 6, multi)
        method = method_with(centers, **options)
        method.start_epoch()
        votes = np.zeros((4, 6), int)
        for step in range(2):  # the second batch adds its votes to those of the first
            h = h + step
            loss = method(torch.from_numpy(h).float(), torch.from_numpy(y), torch.arange(9))
            l1, l2, q, votes = reference(h.astype(np.float32), centers.astype(np.float32), y, votes, **options)
            assert loss.terms["L1"].item() == pytest.approx(l1, rel=2e-5)
            assert loss.terms["L2"].item() == pytest.approx(l2, rel=2e-5)
            assert loss.terms["Q"].item() == pytest.approx(q, rel=2e-5)
            assert loss.total.item() == pytest.approx(l1 + l2 + q, rel=2e-5)
            assert loss.skipped == int((~y.any(1)).sum())
            np.testing.assert_array_equal(method.votes.numpy(), votes)


def test_loss_gradients_equal_finite_differences():
    h, centers, y = batch(5, 6, 3, 4, multi=False)
    options = {"sigma2": 2.0, "gamma": 0.9, "beta": 0.3}
    x = torch.from_numpy(h).float().requires_grad_()
    method = method_with(centers, **options)
    method(x, torch.from_numpy(y), torch.arange(6)).total.backward()

    def value(h, centers):
        l1, l2, q, _ = reference(h, centers, y, np.zeros((3, 4), int), **options)
        return l1 + l2 + q

    step = 1e-6
    for got, which in ((x.grad, 0), (method.centers.grad, 1)):
        arrays = [h.astype(np.float32).astype(float), centers.astype(np.float32).astype(float)]
        for index in np.ndindex(got.shape):
            if which == 0 and abs(arrays[0][index]) < 1e-3:
                continue  # at 0 the sign jumps, so there is no difference quotient
            sides = []
            for d in (step, -step):
                moved = [a.copy() for a in arrays]
                moved[which][index] += d
                sides.append(value(*moved))
            assert got[index].item() == pytest.approx((sides[0] - sides[1]) / (2 * step), rel=1e-3, abs=1e-5)


def test_l2_moves_only_centers_and_not_binary_centers():
    h, centers, y = batch(1, 8, 3, 5, multi=False)
    x = torch.from_numpy(h).float().requires_grad_()
    method = method_with(centers)
    present, u = method.vote(sgn(x.detach()), torch.from_numpy(y))
    loss = method.centers_similarity(present, u, n=8)
    loss.backward()
    assert x.grad is None
    assert method.centers.grad.abs().sum() > 0


@pytest.mark.parametrize("bits", [1, 12, 48, 512])
@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0, 1e4])
def test_loss_of_extreme_logits_is_finite(bits, scale):
    """Covers ||h - mu||^2 up to 512 * 1e8, and outputs that are constant or exactly zero."""
    method = create("idcwh", 7, bits, 32, {})
    h = torch.full((32, bits), scale, requires_grad=True)
    y = torch.nn.functional.one_hot(torch.arange(32) % 7, 7).bool()
    loss = method(h, y, torch.arange(32)).total
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(h.grad).all() and torch.isfinite(method.centers.grad).all()


def test_loss_of_a_far_center_has_a_gradient():
    """exp before log would lose the gradient: exp(-1e4 / 8) is 0."""
    method = create("idcwh", 2, 100, 1, {"gamma": 0.0, "beta": 0.0})
    with torch.no_grad():
        method.centers[0], method.centers[1] = -10.0, 10.0
    h = torch.full((1, 100), 10.0, requires_grad=True)
    loss = method(h, torch.tensor([[True, False]]), torch.arange(1)).total
    loss.backward()
    assert loss.item() == pytest.approx(100 * 20**2 / (2 * 4), rel=1e-5)
    assert h.grad.abs().min() > 1


def test_loss_of_zero_centers_is_finite():
    method = method_with(np.zeros((3, 8)))
    loss = method(torch.randn(4, 8), torch.eye(3).bool()[[0, 1, 2, 0]], torch.arange(4))
    loss.total.backward()
    assert torch.isfinite(method.centers.grad).all()


def test_rows_without_a_label_are_skipped_and_counted():
    h, centers, y = batch(2, 6, 3, 4, multi=True)
    y[1] = y[4] = False
    keep = y.any(1)
    whole, part = method_with(centers), method_with(centers)
    a = whole(torch.from_numpy(h).float(), torch.from_numpy(y), torch.arange(6))
    b = part(torch.from_numpy(h[keep]).float(), torch.from_numpy(y[keep]), torch.arange(int(keep.sum())))
    assert a.skipped == int((~keep).sum()) >= 2
    assert b.skipped == 0
    assert a.total.item() == b.total.item()
    none = whole(torch.from_numpy(h).float(), torch.zeros(6, 3, dtype=torch.bool), torch.arange(6))
    none.total.backward()
    assert none.skipped == 6 and none.total.item() == 0 and not none.terms


def test_votes_are_reset_every_epoch():
    h, centers, y = batch(3, 5, 3, 4, multi=False)
    method = method_with(centers)
    method(torch.from_numpy(h).float(), torch.from_numpy(y), torch.arange(5))
    assert method.votes.abs().sum() > 0
    assert method.votes.dtype == torch.int32
    method.start_epoch()
    assert method.votes.abs().sum() == 0


@pytest.mark.parametrize(("classes", "n"), [(1, 4), (3, 4)])
def test_loss_of_one_class_is_finite(classes, n):
    method = create("idcwh", classes, 8, n, {})
    before = method.centers.detach().clone()
    optimizer = torch.optim.SGD(method.parameters(), lr=0.1)
    y = torch.zeros(n, classes, dtype=torch.bool)
    y[:, 0] = True
    loss = method(torch.randn(n, 8), y, torch.arange(n)).total
    loss.backward()
    optimizer.step()
    assert torch.isfinite(loss)
    assert not torch.equal(before[0], method.centers[0]), "centers have to move in the first step"


def test_loss_of_more_classes_than_codes_is_finite():
    method = create("idcwh", 40_000, 12, 128, {})
    y = torch.zeros(128, 40_000, dtype=torch.bool)
    y[torch.arange(128), torch.arange(128) * 300] = True
    loss = method(torch.randn(128, 12, requires_grad=True), y, torch.arange(128)).total
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(method.centers.grad).all()


@pytest.mark.parametrize("multi", [False, True])
def test_loss_of_smoothed_labels_equals_the_formula(multi):
    """A label counts 1 - s, and s is spread over all classes: written as sums over classes."""
    h, centers, y = batch(6, 9, 4, 6, multi)
    y[0] = True
    loss = method_with(centers, smoothing=0.3)(torch.from_numpy(h).float(), torch.from_numpy(y), torch.arange(9))
    total, rows = 0.0, 0
    for i in range(9):
        if y[i].any():
            rows += 1
            p = np.exp([-np.sum((h[i] - mu) ** 2) / (2 * 4.0) for mu in centers])
            p /= p.sum()
            for label in np.flatnonzero(y[i]):
                total -= sum((0.7 * (j == label) + 0.3 / 4) * np.log(p[j]) for j in range(4))
    assert loss.terms["L1"].item() == pytest.approx(total / rows, rel=2e-5)


def test_centers_with_start_far_are_far_apart():
    torch.manual_seed(0)
    method = create("idcwh", 10, 48, 6, {"start": "far"})
    assert method.centers.abs().unique().tolist() == [1.0] and method.options()["start"] == "far"
    distances = (48 - method.centers @ method.centers.T) / 2
    assert distances[~torch.eye(10, dtype=torch.bool)].min() >= 20
    assert create("idcwh", 10, 48, 6, {}).options()["start"] == "normal"


def test_idcwh_single_equals_gamma_0():
    h, centers, y = batch(4, 6, 3, 4, multi=False)
    single = create("idcwh-single", 3, 4, 6, {})
    with torch.no_grad():
        single.centers.copy_(torch.from_numpy(centers))
    loss = single(torch.from_numpy(h).float(), torch.from_numpy(y), torch.arange(6))
    l1, _, q, _ = reference(h, centers, y, np.zeros((3, 4), int))
    assert set(loss.terms) == {"L1", "Q"}
    assert loss.total.item() == pytest.approx(l1 + q, rel=1e-5)
    assert isinstance(single, IDCWHSingle) and single.name == "idcwh-single"


@pytest.mark.parametrize(
    "options",
    [{"sigma2": 0.0}, {"sigma2": -1.0}, {"gamma": -1.0}, {"beta": -0.1}, {"l2_reduction": "?"}, {"reduction": "max"},
     {"smoothing": 1.0}, {"smoothing": -0.1}, {"start": "near"}],
)  # fmt: skip
def test_options_out_of_range_are_invalid(options):
    with pytest.raises(ValueError, match=f"^idcwh: {next(iter(options))}: expected "):
        create("idcwh", 3, 4, 6, options)


def test_create_unknown_method_is_refused():
    with raises(InvalidInputError, path="method", found="nope"):
        create("nope", 3, 4, 6, {})


def test_idcwh_single_gamma_above_0_is_refused():
    with pytest.raises(ValueError, match=r"^idcwh-single: gamma"):
        create("idcwh-single", 3, 4, 6, {"gamma": 1.0})
