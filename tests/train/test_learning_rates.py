"""The learning rates of head and backbone over a run, compared with values computed by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from idcwh_train.engine import optim
from idcwh_train.engine import trainer as loop
from idcwh_train.engine.signals import GracefulStop
from idcwh_train.engine.source import FeatureSource
from idcwh_train.methods.base import create
from idcwh_train.models.hash_model import Network
from idcwh_train.options import Options


@pytest.mark.parametrize(
    ("method", "given", "factor"),
    [("idcwh", {}, 1), ("dhn", {}, 10), ("dhn", {"freeze": True}, 1), ("dhn", {"head_lr": 0.03}, 3)],
)
def test_learning_rate_of_the_head_has_its_factor(method, given, factor):
    of = create(method, 3, 4, 10, {})
    network = Network(nn.Linear(5, 5), 5, (0, 0, 0), (1, 1, 1), {4: of.head(5)})
    groups = optim.optimizer(network, [of], Options(bits=4, lr=0.01, **given)).param_groups
    assert groups[0]["lr"] == 0.01 and groups[1]["lr"] == pytest.approx(0.01 * factor)
    assert {id(p) for p in groups[1]["params"]} == {id(p) for p in network.heads.parameters()}


def rates(epochs: int, **given: object) -> tuple[list[list[float]], list[float]]:
    """Trains the given number of epochs of two steps. Returns the rates of backbone, head and centers per step, and the
    rates in the record of each epoch.
    """
    options = Options(bits=4, epochs=epochs, batch_size=2, lr=0.04, head_lr=0.02, center_lr=0.005, **given)
    device, of = torch.device("cpu"), create("idcwh", 2, 4, 4, {})
    network = Network(nn.Linear(5, 5), 5, (0, 0, 0), (1, 1, 1), {4: of.head(5)})
    source = FeatureSource(network, torch.eye(4, 5), device)
    network.requires_grad_(True)  # so that the backbone has a rate too
    labels = torch.tensor([0, 1, 0, 1])
    trainer = loop.Trainer(network, [of], source, options, positions=torch.arange(4), labels=labels)
    steps: list[list[float]] = []
    records: list[float] = []
    trainer.optimizer.register_step_post_hook(
        lambda optimizer, *_: steps.append([group["lr"] for group in optimizer.param_groups])
    )
    trainer.run(GracefulStop(), lambda: None, lambda record: records.append(record["lr"]))
    return steps, records


ROOT_2, ROOT_3 = 2**0.5, 3**0.5


@pytest.mark.parametrize(
    ("epochs", "given", "factors"),
    [
        # x 0.1 from the first epoch that begins at or after a third: 2 and 4 of 6; 7 / 3 = 2.3, so 3 and 5 of 7
        (6, {"schedule": "step"}, [1, 1, 1, 1, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.01]),
        (7, {"schedule": "step"}, [1, 1, 1, 1, 1, 1, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.01]),
        (1, {"schedule": "step"}, [1, 1]),
        # 1 - t at t = 0, 1/10, ...: the eleventh step would be at 0
        (5, {"schedule": "linear"}, [1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]),
        # (1 + cos(pi t)) / 2 at t = 0, 1/6, ...: the seventh step would be at 0
        (3, {"schedule": "cosine"}, [1, (2 + ROOT_3) / 4, 0.75, 0.5, 0.25, (2 - ROOT_3) / 4]),
        # up during 4 of 10 steps, to the full rate in the last; then 1 - t at t = 0, 1/6, ... of the remaining steps
        (5, {"schedule": "linear", "warmup": 0.4}, [0.25, 0.5, 0.75, 1, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]),
        # up during 2 of 6 steps; then half a cosine over the other four
        (3, {"schedule": "cosine", "warmup": 1 / 3}, [0.5, 1, 1, (2 + ROOT_2) / 4, 0.5, (2 - ROOT_2) / 4]),
        # up during 4 of 12 steps; the thirds are those of the whole run
        (6, {"schedule": "step", "warmup": 1 / 3}, [0.25, 0.5, 0.75, 1, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.01]),
        (5, {"schedule": "step", "warmup": 0.2}, [0.5, 1, 1, 1, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01]),
    ],
)
def test_every_rate_follows_the_schedule(epochs, given, factors):
    steps, records = rates(epochs, **given)
    assert len(steps) == 2 * epochs
    for result, factor in zip(steps, factors, strict=True):
        assert result == pytest.approx([0.04 * factor, 0.02 * factor, 0.005 * factor])
    assert records == [backbone for backbone, _, _ in steps[1::2]], "a record has the rate of the epoch's last step"
