"""Every method on a small dataset: the codes of new images retrieve images of their classes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import idcwh_search as ih
from idcwh_train.methods import MODULES
from idcwh_train.methods.base import create

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("name", list(MODULES))
def test_method_learns_a_small_dataset(name, multi_label):
    """Checks the MAP of new images of Gaussian classes in 40 dimensions at 12 bits.

    A multi-label image is the sum of its classes.
    """
    classes, features, n = 5, 40, 400
    rng = np.random.default_rng(0)
    means = 2.0 * rng.standard_normal((classes, features))
    y = np.eye(classes, dtype=bool)[np.arange(n) % classes]
    if multi_label:
        y |= rng.random((n, classes)) < 0.15
    x = torch.from_numpy(y @ means + rng.standard_normal((n, features))).float()
    labels = torch.from_numpy(y)
    train = 200
    torch.manual_seed(0)
    method = create(name, classes, 12, train, {}, multi_label=multi_label)
    if method.closed_form:
        head = method.fit(x[:train], labels[:train], torch.Generator().manual_seed(0))
    else:
        head = method.head(features)
        optimizer = torch.optim.Adam([*head.parameters(), *method.parameters()], lr=0.02)
        for _ in range(60):
            method.start_epoch()
            head.train()
            for rows in torch.randperm(train).split(50):
                optimizer.zero_grad()
                method(head(x[rows]), labels[rows], rows).total.backward()
                optimizer.step()
    with torch.inference_mode():
        codes = ih.pack(head.eval()(x[train:]).numpy())
    score = ih.evaluate(codes[:50], y[train : train + 50], codes[50:], y[train + 50 :], bits=12, at=()).map
    assert score > (0.8 if multi_label else 0.9)  # by chance 0.51 and 0.2
