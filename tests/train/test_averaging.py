"""The averages after a short training, which must not depend on the initial values."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from idcwh_train.cli import main
from idcwh_train.engine import averaging
from idcwh_train.engine.checkpoint import load_model


@pytest.mark.parametrize(
    ("limit", "steps", "expected"), [(0.99, 0, 0.1), (0.99, 8, 0.5), (0.99, 890, 0.99), (0.3, 8, 0.3)]
)
def test_decay_follows_limit_and_steps(limit, steps, expected):
    assert averaging.decay(limit, steps) == pytest.approx(expected)


def test_batch_norm_warmup_forgets_initial_statistics():
    layers = nn.Sequential(nn.BatchNorm1d(2, momentum=0.01), nn.BatchNorm1d(2, momentum=None))
    fresh = averaging.BatchNormWarmup(layers)
    expected = torch.tensor([0.0, 0.0], dtype=torch.float64)
    for step in range(30):
        x = torch.tensor([[5.0, -3.0], [7.0, 1.0]]) + step / 10
        fresh.before_step(step)
        layers(x)
        added = 1 - min(0.99, (1 + step) / (10 + step))
        expected = (1 - added) * expected + added * x.double().mean(dim=0)
    torch.testing.assert_close(layers[0].running_mean.double(), expected, rtol=1e-6, atol=1e-6)
    assert layers[0].running_mean[0] > 8, "the last steps' means are 8.2 to 8.9; with momentum 0.01 it would be 2"
    assert layers[1].momentum is None, "a mean over all batches stays one"


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--average", "0.995"]])
def test_train_few_steps_with_slow_batch_norm_succeeds(images, tmp_path, cached, capsys, more):
    """MobileNetV3 keeps 0.99 of batch norm's statistics per step. After twelve steps these were nearly the initial
    ones, and every image got the same code.
    """
    command = ["--data", str(images), "--backbone", "mobilenet_v3_small", "--weights", "none", "--bits", "12", *more]
    command += ["--resize", "36", "--crop", "32", "--epochs", "3", "--batch-size", "8", "--out", str(tmp_path / "run")]
    assert main([*command, *cached]) == 0
    assert "the finished model" not in capsys.readouterr().err
    model, content = load_model(tmp_path / "run" / "model.pt")
    with torch.no_grad():
        h = model(content["sample"]["images"].permute(0, 3, 1, 2))
    assert len((h >= 0).unique(dim=0)) > 3
