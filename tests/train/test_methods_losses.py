"""Every loss compared with loops over scalars in float64, and its gradient with finite differences.

The IDCWH losses have a file of their own.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from idcwh_train.methods.base import create


def sign(x):
    return 1.0 if x >= 0 else -1.0


def signs(h):
    return np.array([[sign(x) for x in row] for row in h])


def dot(a, b):
    return sum(float(x) * float(z) for x, z in zip(a, b, strict=True))


def shares(a, b):
    return any(p and q for p, q in zip(a, b, strict=True))


def log1p_exp(x):
    return max(x, 0) + math.log1p(math.exp(-abs(x)))


def pair_loss(theta, s):
    return log1p_exp(theta) - (theta if s else 0)


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def quantization(h, b):
    return sum((x - z) ** 2 for row, signs in zip(h, b, strict=True) for x, z in zip(row, signs, strict=True))


class Reference:
    """A loss as its paper writes it. `see` updates the state by a batch, with h as constants. `loss` returns the terms
    as a function of h alone.
    """

    def __init__(self, method):
        self.m = method

    def epoch(self):
        pass

    def see(self, h, y, rows):
        self.b = signs(h)

    def mean_q(self, h):
        return quantization(h, self.b) / len(h)


class DCWH(Reference):
    def __init__(self, method):
        super().__init__(method)
        self.centers = method.centers.numpy().copy()
        self.seen, self.epochs = [], 0

    def epoch(self):
        if self.epochs and self.epochs % self.m.every == 0:
            for j in range(len(self.centers)):
                members = [h for h, labels in self.seen if labels[j]]
                if members:
                    self.centers[j] = [sum(h[v] for h in members) / len(members) for v in range(len(members[0]))]
        self.seen = []
        self.epochs += 1

    def see(self, h, y, rows):
        super().see(h, y, rows)
        self.seen += list(zip(h.copy(), y, strict=True))

    def loss(self, h, y, rows):
        l1 = cube = 0.0
        for x, labels in zip(h, y, strict=True):
            logits = [-sum((a - c) ** 2 for a, c in zip(x, mu, strict=True)) / 2 / self.m.sigma2 for mu in self.centers]
            top = max(logits)
            log_z = top + math.log(sum(math.exp(v - top) for v in logits))
            l1 -= sum(v - log_z for v, one in zip(logits, labels, strict=True) if one)
            cube += sum(max(0, -1.1 - v) + max(0, v - 1.1) for v in x)
        return {"L1": l1 / len(h), "cube": self.m.eta1 * cube / len(h), "Q": self.m.eta2 * self.mean_q(h)}


class DPSH(Reference):
    def __init__(self, method):
        super().__init__(method)
        self.u = [np.zeros(method.bits) for _ in range(method.images)]
        self.y = [np.zeros(method.classes, bool) for _ in range(method.images)]

    def see(self, h, y, rows):
        super().see(h, y, rows)
        for i, row in enumerate(rows):
            self.u[row], self.y[row] = h[i].copy(), y[i]

    def pairs(self, h, y):
        total = 0.0
        for x, labels in zip(h, y, strict=True):
            for u, other in zip(self.u, self.y, strict=True):
                total += pair_loss(dot(x, u) / 2, shares(labels, other))
        return total / (self.m.images * len(h))

    def loss(self, h, y, rows):
        q = self.m.eta * quantization(h, self.b) / (self.m.images * len(h))
        return {"pairs": self.pairs(h, y), "Q": q}


class DSDH(DPSH):
    def loss(self, h, y, rows):
        return {"pairs": self.pairs(h, y), "Q": self.m.eta * self.mean_q(h)}

    def __init__(self, method):
        super().__init__(method)
        self.codes = {}

    def epoch(self):
        rows = sorted(self.codes)
        if not rows:
            return
        b = np.array([self.codes[r] for r in rows])
        y = np.array([self.y[r] for r in rows], float)
        u = np.array([self.u[r] for r in rows])
        bits = b.shape[1]
        w = np.linalg.solve(self.m.mu * b.T @ b + self.m.nu * np.eye(bits), self.m.mu * b.T @ y)

        def objective(b):
            return self.m.mu * np.sum((y - b @ w) ** 2) + self.m.eta * np.sum((b - u) ** 2)

        for _ in range(self.m.sweeps):
            for k in range(bits):
                for i in range(len(rows)):  # the better value of one bit, by the objective itself
                    values = {}
                    for bit in (1.0, -1.0):
                        b[i, k] = bit
                        values[bit] = objective(b)
                    b[i, k] = 1.0 if values[1.0] <= values[-1.0] else -1.0
        self.codes = dict(zip(rows, b, strict=True))

    def see(self, h, y, rows):
        super().see(h, y, rows)
        for i, row in enumerate(rows):
            self.codes.setdefault(row, self.b[i])
        self.b = np.array([self.codes[row] for row in rows])


def distinct_pairs(y):
    """Returns (i, j, S_ij) of all pairs of two images."""
    return [(i, j, shares(y[i], y[j])) for i in range(len(y)) for j in range(len(y)) if i != j]


def all_triplets(y):
    s = [[shares(a, b) for b in y] for a in y]
    n = range(len(y))
    return [(q, p, m) for q in n for p in n for m in n if p != q and s[q][p] and not s[q][m]]


class DTSH(Reference):
    def loss(self, h, y, rows):
        result = all_triplets(y)
        total = 0.0
        for q, p, n in result:
            x = dot(h[q], h[p]) / 2 - dot(h[q], h[n]) / 2 - self.m.margin * self.m.bits
            total -= x - log1p_exp(x)
        return {"triplets": total / max(1, len(result)), "Q": self.m.eta * self.mean_q(h)}


class DNNH(Reference):
    def see(self, h, y, rows):
        """Updates s by a constant, since the gradient passes the threshold unchanged."""
        s = np.array([[sigmoid(x) for x in row] for row in h])
        e = self.m.epsilon
        g = np.array([[0.0 if x < 0.5 - e else 1.0 if x > 0.5 + e else x for x in row] for row in s])
        self.added = g - s

    def loss(self, h, y, rows):
        g = np.array([[sigmoid(x) for x in row] for row in h]) + self.added
        result = all_triplets(y)
        total = 0.0
        for q, p, n in result:
            total += max(0.0, self.m.margin + np.sum((g[q] - g[p]) ** 2) - np.sum((g[q] - g[n]) ** 2))
        return {"triplets": total / max(1, len(result))}


class HashNet(Reference):
    steps = -1

    def see(self, h, y, rows):
        self.steps += 1

    def loss(self, h, y, rows):
        at = self.steps // self.m.every * self.m.every
        beta = math.sqrt(1 + self.m.growth * at)
        g = [[math.tanh(beta * x) for x in row] for row in h]
        pairs = distinct_pairs(y)
        alike = sum(s for _, _, s in pairs)
        total = 0.0
        for i, j, s in pairs:
            w = len(pairs) / alike if s else len(pairs) / (len(pairs) - alike)
            total += w * pair_loss(self.m.scale / self.m.bits * dot(g[i], g[j]), s)
        return {"pairs": total / max(1, len(pairs))}


class DHN(Reference):
    def loss(self, h, y, rows):
        z = [[math.tanh(x) for x in row] for row in h]
        pairs = distinct_pairs(y)
        total = sum(pair_loss(self.m.scale * dot(z[i], z[j]), s) for i, j, s in pairs)
        q = sum(math.log(math.cosh(abs(x) - 1)) for row in z for x in row)
        return {"pairs": total / max(1, len(pairs)), "Q": self.m.lam * q / len(h)}


class CSQ(Reference):
    def loss(self, h, y, rows):
        bce = q = 0.0
        for x, labels in zip(h, y, strict=True):
            for v, value in enumerate(x):
                votes = sum(float(self.m.centers[j, v]) for j, one in enumerate(labels) if one)
                t = (votes if votes else float(self.m.tie[v])) > 0
                p = (math.tanh(value) + 1) / 2
                bce -= math.log(p if t else 1 - p)
                q += (abs(math.tanh(value)) - 1) ** 2
        return {"BCE": bce / h.size, "Q": self.m.lam * q / h.size}


class OrthoHash(Reference):
    def loss(self, h, y, rows):
        total = 0.0
        for x, labels in zip(h, y, strict=True):
            logits = []
            for c, one in zip(self.m.centers.tolist(), labels, strict=True):
                cosine = dot(x, c) / math.sqrt(dot(x, x) * dot(c, c))
                logits.append(self.m.scale * (cosine - (self.m.margin if one else 0)))
            log_z = math.log(sum(math.exp(v) for v in logits))
            total -= sum(v - log_z for v, one in zip(logits, labels, strict=True) if one) / sum(labels)
        return {"CE": total / len(h)}


class ClassCode(Reference):
    def loss(self, h, y, rows):
        total = 0.0
        for x, labels in zip(h, y, strict=True):
            if self.m.multi_label:
                total -= sum(math.log(sigmoid(v) if one else 1 - sigmoid(v)) for v, one in zip(x, labels, strict=True))
            else:
                log_z = math.log(sum(math.exp(v) for v in x))
                total -= sum(v - log_z for v, one in zip(x, labels, strict=True) if one) / sum(labels)
        return {"BCE" if self.m.multi_label else "CE": total / len(h)}


CASES = [
    ("dcwh", DCWH, {"sigma2": 1.7, "eta1": 0.6, "eta2": 0.3, "every": 2}),
    ("dpsh", DPSH, {"eta": 30.0}),
    ("dsdh", DSDH, {"mu": 0.7, "nu": 0.4, "eta": 0.5, "sweeps": 2}),
    ("dtsh", DTSH, {"eta": 0.2, "margin": 0.3}),
    ("dnnh", DNNH, {"epsilon": 0.2}),
    ("dnnh", DNNH, {"epsilon": 0.5, "margin": 0.4}),
    ("hashnet", HashNet, {"scale": 7.0, "growth": 0.3, "every": 2}),
    ("dhn", DHN, {"lam": 0.4, "scale": 0.6}),
    ("csq", CSQ, {"lam": 0.3}),
    ("orthohash", OrthoHash, {"scale": 5.0, "margin": 0.3}),
    ("class-code", ClassCode, {"multi_label": False}),
    ("class-code", ClassCode, {"multi_label": True}),
]
CLASSES, BITS, IMAGES = 4, 5, 14


def batches(name, multi_label):
    """Returns four epochs of two batches, with two images in no batch: (epoch starts here, h, y, rows)."""
    rng = np.random.default_rng(7)
    width = CLASSES if name == "class-code" else BITS
    y = rng.random((IMAGES, CLASSES)) < 0.35 if multi_label else np.eye(CLASSES, dtype=bool)[rng.integers(0, 4, IMAGES)]
    y[:4] = np.eye(CLASSES, dtype=bool)[[0, 0, 1, 1]]  # some alike and some not, for every seed
    if multi_label:
        y[5] = False
    for epoch in range(4):
        for start in (0, 6):
            rows = np.arange(start, start + 6)
            if epoch == 1:
                rows = rows[::-1].copy()
            yield start == 0, 1.3 * rng.standard_normal((6, width)), y[rows], rows


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize(("name", "reference", "options"), CASES)
def test_loss_and_gradient_equal_the_formula(name, reference, options, multi_label):
    torch.manual_seed(3)
    method = create(
        name, CLASSES, BITS, IMAGES, options, multi_label=None if "multi_label" in options else multi_label
    ).double()
    expected = reference(method)
    for starts, h, y, rows in batches(name, multi_label):
        if starts:
            method.start_epoch()
            expected.epoch()
        x = torch.from_numpy(h).requires_grad_()
        loss = method(x, torch.from_numpy(y), torch.from_numpy(rows))
        loss.total.backward()
        kept = y.any(axis=1)
        assert loss.skipped == int((~kept).sum())
        h, y, rows = h[kept], y[kept], rows[kept]
        expected.see(h, y, rows)
        terms = expected.loss(h, y, rows)
        assert {k: v.item() for k, v in loss.terms.items()} == pytest.approx(terms, rel=1e-9, abs=1e-12)
        assert loss.total.item() == pytest.approx(sum(terms.values()), rel=1e-9)
        assert x.grad[~torch.from_numpy(kept)].abs().sum() == 0
        result, step = x.grad[torch.from_numpy(kept)].numpy(), 1e-5
        for i, v in np.ndindex(h.shape):
            sides = []
            for d in (step, -step):
                moved = h.copy()
                moved[i, v] += d
                sides.append(sum(expected.loss(moved, y, rows).values()))
            assert result[i, v] == pytest.approx((sides[0] - sides[1]) / (2 * step), rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("name", ["dpsh", "dsdh"])
def test_memory_bank_of_single_labels_equals_multi_label(name):
    torch.manual_seed(0)
    one, multi = (create(name, CLASSES, BITS, IMAGES, {}, multi_label=flag).double() for flag in (False, True))
    assert one.memory.labels.ndim == 1 and multi.memory.labels.ndim == 2
    for starts, h, y, rows in batches(name, False):
        if starts:
            one.start_epoch()
            multi.start_epoch()
        a, b = (m(torch.from_numpy(h), torch.from_numpy(y), torch.from_numpy(rows)).total for m in (one, multi))
        assert a.item() == pytest.approx(b.item(), rel=1e-12)


def test_memory_bank_of_many_classes_is_small():
    """With 50,000 images and 40,000 classes, the labels of single-label images must not become a matrix."""
    method = create("dpsh", 40_000, 48, 50_000, {}, multi_label=False)
    assert sum(b.numel() * b.element_size() for b in method.buffers()) == 50_000 * (4 * 48 + 8)


def test_sampled_triplets_are_triplets():
    from idcwh_train.methods.pairwise import similar, triplets

    rng = np.random.default_rng(1)
    y = torch.from_numpy(np.eye(3, dtype=bool)[rng.integers(0, 3, 200)])
    s = similar(y, y)
    number = torch.arange(200.0)
    qp, qn, valid = triplets(200 * number[:, None] + number, s, max_pairs=7)  # the values identify their pair
    assert valid.shape == (200, 7, 7) and valid.all()
    for value, alike in ((qp[:, :, 0], True), (qn[:, 0, :], False)):
        q, other = (value // 200).long(), (value % 200).long()
        assert (q == torch.arange(200)[:, None]).all() and (other != q).all()
        assert (s[q, other] == alike).all()
        assert all(len(set(row.tolist())) == 7 for row in other)
    torch.manual_seed(5)
    a = triplets(200 * number[:, None] + number, s, max_pairs=7)[0]
    torch.manual_seed(5)
    b = triplets(200 * number[:, None] + number, s, max_pairs=7)[0]
    assert torch.equal(a, b) and not torch.equal(a, qp)
