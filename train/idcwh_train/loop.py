"""The training loop: epochs, batches, learning rates, and a position from which it goes on bit for bit.

Everything random is a function of (seed, epoch, step): the order of the images, dropout, crops. So the position, the
weights, the optimizer's momentum and the method's state are all there is to save.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from idcwh_search.cli.common import progress_bar
from idcwh_search.errors import IdcwhError

from .interrupt import Stop
from .methods.base import Loss, Method
from .model import HashModel
from .recipes import Options
from .sources import Source

Record = dict[str, Any]
"""What is known at the end of an epoch; a line of log.jsonl."""


@dataclass
class Position:
    """Where training stands: `step` steps of `epoch` are done (both from 0), and what the epoch has summed up."""

    epoch: int = 0
    step: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    unlabelled: int = 0  # rows that a method skipped in this epoch


class Trainer:
    """Trains `model` and `method` on the N pictures `positions` of `source`, labelled int64 [N] or bool [N, C]."""

    def __init__(
        self,
        model: HashModel,
        method: Method,
        source: Source,
        positions: Tensor,
        labels: Tensor,
        classes: int,
        options: Options,
        device: torch.device,
    ) -> None:
        self.model, self.method, self.source, self.options, self.device = model, method, source, options, device
        self.positions, self.labels, self.classes = positions, labels, classes
        self.images = len(positions)
        self.batch = min(options.batch_size, self.images)  # fewer images than a batch: one batch of all of them
        self.steps = self.images // self.batch
        self.position = Position()
        self._index = torch.full((source.size,), -1, dtype=torch.int64)  # position in the source -> training image
        self._index[positions] = torch.arange(self.images)
        groups = [{"params": [p for p in model.parameters() if p.requires_grad], "lr": options.lr}]
        if centers := list(method.parameters()):
            groups.append({"params": centers, "lr": options.center_lr})
        self.optimizer = torch.optim.SGD(groups, momentum=options.momentum, weight_decay=options.weight_decay)
        self._full_lr = [group["lr"] for group in self.optimizer.param_groups]

    @property
    def finished(self) -> bool:
        return self.position.epoch >= self.options.epochs

    def run(self, stop: Stop, on_step: Callable[[], None], on_epoch: Callable[[Record], None]) -> None:
        """Train until finished or asked to stop. `on_step` is called within an epoch whenever the state is whole,
        `on_epoch` with the record of every epoch that ends.
        """
        done = self.position.epoch * self.steps + self.position.step
        with progress_bar(total=self.options.epochs * self.steps, initial=done, desc="training", unit=" steps") as bar:
            while not self.finished and not stop.asked:
                record = self._epoch(stop, on_step, bar)
                if record is not None:
                    on_epoch(record)
                    shown = {name: record[name] for name in ("loss", "L1", "L2", "Q", "map") if name in record}
                    bar.set_postfix({name: f"{value:.3g}" for name, value in shown.items()}, refresh=False)

    def _epoch(self, stop: Stop, on_step: Callable[[], None], bar: Any) -> Record | None:
        """The rest of the current epoch; its record, or None when it was stopped before its end."""
        at, started = self.position, time.monotonic()
        if at.step == 0:
            self.method.start_epoch()
        generator = torch.Generator().manual_seed(mixed(self.options.seed, at.epoch))
        order = torch.randperm(self.images, generator=generator)
        plan = [self.positions[order[i * self.batch : (i + 1) * self.batch]] for i in range(at.step, self.steps)]
        for positions, x in self.source.batches(plan, at.epoch):
            self._seed(mixed(self.options.seed, at.epoch, at.step))
            if len(positions):
                self._step(self._index[positions], x)
            at.step += 1
            bar.update()
            if at.step < self.steps:
                on_step()
                if stop.asked:
                    return None
        record = {
            "epoch": at.epoch + 1,
            "lr": self.optimizer.param_groups[0]["lr"],
            **{name: value / self.steps for name, value in at.sums.items()},
            "unlabelled": at.unlabelled,
            "seconds": round(time.monotonic() - started, 3),
        }
        self.position = Position(at.epoch + 1)
        return record

    def _step(self, images: Tensor, x: Tensor) -> None:
        at = self.position
        factor = self._lr_factor()
        for group, lr in zip(self.optimizer.param_groups, self._full_lr, strict=True):
            group["lr"] = factor * lr
        loss = self.method(self.source.logits(x), self._targets(images).to(self.device), images.to(self.device))
        self._count(loss)
        self.optimizer.zero_grad(set_to_none=True)
        loss.total.backward()
        self.optimizer.step()
        at.unlabelled += loss.skipped

    def _seed(self, seed: int) -> None:
        """Dropout's generator. torch.manual_seed would do, but where CUDA is not in use it queues the call for later,
        with a stack trace, every time.
        """
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def _targets(self, images: Tensor) -> Tensor:
        labels = self.labels[images]
        return labels if labels.ndim == 2 else F.one_hot(labels, self.classes).bool()

    def _count(self, loss: Loss) -> None:
        """Add the terms to the epoch's sums; a loss that is no number stops everything before it reaches a weight."""
        at = self.position
        values = {"loss": float(loss.total.detach()), **{name: float(term) for name, term in loss.terms.items()}}
        if not math.isfinite(values["loss"]):
            terms = ", ".join(f"{name} {value:g}" for name, value in values.items())
            where = f"epoch {at.epoch + 1}, step {at.step + 1}"
            raise IdcwhError(f"the loss is not finite in {where} ({terms}); a lower --lr helps most often")
        for name, value in values.items():
            at.sums[name] = at.sums.get(name, 0.0) + value

    def _lr_factor(self) -> float:
        epochs, at = self.options.epochs, self.position
        if self.options.schedule == "step":
            return float(0.1 ** (3 * at.epoch // epochs))
        return 0.5 + 0.5 * math.cos(math.pi * (at.epoch * self.steps + at.step) / (epochs * self.steps))

    # ------------------------------------------------------------------------------------------------------ resuming

    def state(self) -> dict[str, Any]:
        """All that `restore` needs; tensors and plain Python. The weights of a frozen backbone are not in it."""
        trained = {name for name, p in self.model.named_parameters() if p.requires_grad}
        frozen = {name for name, _ in self.model.named_parameters()} - trained
        whole = self.model.state_dict()
        if frozen:  # its batch norm statistics do not move either
            whole = {name: whole[name] for name in trained}
        return {
            "position": asdict(self.position),
            "model": whole,
            "method": self.method.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a saved state. KeyError, ValueError, TypeError or RuntimeError when it is of another run."""
        _, unexpected = self.model.load_state_dict(state["model"], strict=False)
        if unexpected:
            raise ValueError(f"unknown tensor {unexpected[0]}")
        self.method.load_state_dict(state["method"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.position = Position(**state["position"])


def mixed(*numbers: int) -> int:
    """A seed that differs for every tuple of numbers, the same on every machine."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, numbers)).encode()).digest()[:7], "little")
