"""The training loop: epochs, batches, learning rates, and a state from which it continues bit for bit.

The order of the images, dropout and crops are functions of (seed, epoch, step). The state of a training is therefore
its position, the weights, the optimizer's momentum and the states of the methods.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from idcwh_search._util.console import progress_bar
from idcwh_search._util.wording import counted

from ..methods.base import Loss, Method
from ..models.backbones import versioned
from ..models.hash_model import Network
from ..options import Options
from . import averaging, divergence, optim
from .code_stats import Codes, class_count
from .distributed import Workers
from .divergence import DivergedError
from .epoch_log import Record, named
from .signals import GracefulStop
from .source import Source


@dataclass
class Position:
    """The position of a training, and the sums of the current epoch.

    epoch, step: numbers of completed epochs, and of completed steps of the current epoch.
    taken: number of steps of this epoch that had enough images.
    sums: sum of each term of the loss over the steps taken.
    unlabelled: number of images of this epoch that the method skipped.
    """

    epoch: int = 0
    step: int = 0
    taken: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    unlabelled: int = 0


class Trainer:
    """The training of a network with one or several code lengths.

    network, methods: the trained network, and one method per code length.
    source, positions: the source, and the positions [N] of the training images in it.
    labels: their labels, int64 [N] or bool [N, C].
    workers: the processes that train together; by default this one.
    """

    def __init__(
        self,
        network: Network,
        methods: list[Method],
        source: Source,
        options: Options,
        *,
        positions: Tensor,
        labels: Tensor,
        workers: Workers | None = None,
    ) -> None:
        self.network, self.methods, self.source, self.options = network, methods, source, options
        self.positions, self.labels, self.classes = positions, labels, methods[0].classes
        self.workers = workers or Workers()
        self.device = next(network.parameters()).device
        self.images = len(positions)
        self.batch = min(options.batch_size, self.images)
        self.steps = self.images // self.batch
        self.closed_form = any(method.closed_form for method in methods)  # solved in one pass, without steps
        self.epochs = options.epochs if self.closed_form else max(options.epochs, -(-options.min_steps // self.steps))
        self.position = Position()
        self.codes = [Codes(bits) for bits in network.lengths]
        self._index = torch.full((source.size,), -1, dtype=torch.int64)  # position in the source -> training image
        self._index[positions] = torch.arange(self.images)
        self.optimizer = optim.optimizer(network, methods, options)
        self._full_lr = [group["lr"] for group in self.optimizer.param_groups]
        self.average: AveragedModel | None = None
        self.result = network  # the network that encodes and is saved: the EMA if there is one
        if options.average and not self.closed_form:
            self.average = averaging.of_weights(network, options.average)
            self.result = cast(Network, self.average.module)
        self.warmup = averaging.BatchNormWarmup(network) if options.weights == "none" else None

    @property
    def finished(self) -> bool:
        return self.position.epoch >= self.epochs

    def run(self, stop: GracefulStop, on_step: Callable[[], None], on_epoch: Callable[[Record], None]) -> None:
        """Trains until the last epoch ends or a stop is requested.

        Args:
            stop: the request to stop, which takes effect after the current step.
            on_step: called after each step except the last of an epoch; it may save `state`.
            on_epoch: called with the log record of each completed epoch.

        Raises DivergedError for a diverged loss, output or weight.
        """
        done = self.position.epoch * self.steps + self.position.step
        with progress_bar(total=self.epochs * self.steps, initial=done, desc="training", unit="step") as bar:
            while not self.finished and not self.workers.any_rank(stop.requested):
                record = self._epoch(stop, on_step, bar)
                if record is not None:
                    on_epoch(record)
                    shown = {name: record[name] for name in ("loss", "L1", "L2", "Q", "map") if name in record}
                    bar.set_postfix({name: f"{value:.3g}" for name, value in shown.items()}, refresh=False)

    def _epoch(self, stop: GracefulStop, on_step: Callable[[], None], bar: Any) -> Record | None:
        """Trains the rest of the current epoch. Returns its log record, or None if it was stopped before the end."""
        position, started, worked = self.position, time.monotonic(), time.process_time()
        if position.step == 0:
            for method, codes in zip(self.methods, self.codes, strict=True):
                method.start_epoch()
                codes.clear()
        generator = torch.Generator().manual_seed(mixed(self.options.seed, position.epoch))
        order = torch.randperm(self.images, generator=generator)
        batches = (order[i * self.batch : (i + 1) * self.batch] for i in range(position.step, self.steps))
        plan = [self.positions[self.workers.shard(batch)] for batch in batches]
        for positions, x in self.source.batches(plan, position.epoch):
            rank = (self.workers.rank,) if self.workers.rank else ()
            self._seed(mixed(self.options.seed, position.epoch, position.step, *rank))
            self._step(self._index[positions], x)
            position.step += 1
            bar.update()
            if position.step < self.steps:
                on_step()
                if self.workers.any_rank(stop.requested):
                    return None
        self.check_weights()
        record = {
            "epoch": position.epoch + 1,
            "lr": self.optimizer.param_groups[0]["lr"],
            **{name: value / position.taken for name, value in position.sums.items()},
            **({"untaken": self.steps - position.taken} if position.taken < self.steps else {}),
            "unlabelled": position.unlabelled,
            **self._code_statistics(),
            "seconds": round(time.monotonic() - started, 3),
            "cpu_seconds": round(time.process_time() - worked, 3),
        }
        self.position = Position(position.epoch + 1)
        return record

    def _step(self, local: Tensor, x: Tensor) -> None:
        """Takes one step on the training images `local` of this worker, and on those of the other workers."""
        images = self.workers.gather(local)
        if not len(images):
            return
        if self.source.min_batch > 1 and self.workers.any_rank(0 < len(local) < self.source.min_batch):
            return  # too few images could be read
        if self.warmup is not None:
            self.warmup.before_step(self.position.epoch * self.steps + self.position.step)
        factor = optim.learning_rate_factor(
            self.options, self.position.epoch, self.position.step, self.epochs, self.steps
        )
        for group, lr in zip(self.optimizer.param_groups, self._full_lr, strict=True):
            group["lr"] = factor * lr
        targets, rows = self._targets(images).to(self.device), images.to(self.device)
        outputs = [self.workers.gather(h) for h in self._outputs(local, x)]
        losses = [method(h, targets, rows) for method, h in zip(self.methods, outputs, strict=True)]
        self._count(losses, outputs)
        self.position.taken += 1
        for codes, h in zip(self.codes, outputs, strict=True):
            codes.add(h)
        self.optimizer.zero_grad(set_to_none=True)
        torch.stack([loss.total for loss in losses]).sum().backward()
        self.workers.sync_gradients(
            (p for p in self.network.parameters() if p.requires_grad),
            (p for method in self.methods for p in method.parameters()),
            self.network.buffers(),
        )
        self.optimizer.step()
        if self.average is not None:
            self.average.update_parameters(self.network)
        self.position.unlabelled += losses[0].skipped

    def _outputs(self, local: Tensor, x: Tensor) -> list[Tensor]:
        if not len(local):  # no image of this worker's shard could be read, but it takes part in the step
            return [torch.zeros(0, bits, device=self.device, requires_grad=True) for bits in self.network.lengths]
        return self.source.logits(self.network, x)

    def _seed(self, seed: int) -> None:
        """Seeds the generators of dropout.

        torch.manual_seed is slow if CUDA is not initialized, because it queues each call with a stack trace.
        """
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def _targets(self, images: Tensor) -> Tensor:
        labels = self.labels[images]
        return labels if labels.ndim == 2 else F.one_hot(labels, self.classes).bool()

    def _count(self, losses: list[Loss], outputs: list[Tensor]) -> None:
        """Adds the terms of the losses to the sums of the epoch.

        Raises DivergedError for a diverged loss or output, before the weights change.
        """
        position = self.position
        values = {}
        for bits, loss in zip(self.network.lengths, losses, strict=True):
            terms = {"loss": loss.total.detach(), **loss.terms}
            values.update({named(name, bits, self.network.lengths): float(term) for name, term in terms.items()})
        problem = None if all(map(math.isfinite, values.values())) else "the loss is not finite"
        for h in outputs if problem is None else ():
            if not divergence.is_sound(h):
                problem = f"the outputs reach {float(h.detach().abs().max()):.3g}"
        if problem is not None:
            terms_seen = ", ".join(f"{name} {value:g}" for name, value in values.items())
            raise DivergedError(f"{problem} in epoch {position.epoch + 1}, step {position.step + 1} ({terms_seen})")
        for name, value in values.items():
            position.sums[name] = position.sums.get(name, 0.0) + value

    def _code_statistics(self) -> Record:
        """Returns the statistics of the codes in this epoch, from the outputs of its steps."""
        classes = class_count(self.labels)
        record: Record = {}
        for codes in self.codes:
            statistics = codes.summary(classes)
            record.update({named(name, codes.bits, self.network.lengths): value for name, value in statistics.items()})
        return record

    # ------------------------------------------------------------------------------------------------------ resuming

    def weights(self, network: Network) -> dict[str, Tensor]:
        """Returns the tensors of a network that training changes, which are the heads if the backbone is frozen."""
        state = network.state_dict()
        return {name: value for name, value in state.items() if name.startswith("heads.") or not self.options.freeze}

    def check_weights(self) -> None:
        """Raises DivergedError if a tensor that training changes has diverged, in network, methods or EMA."""
        trained = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
        epoch, step = self.position.epoch, self.position.step
        when = f"after step {step} of epoch {epoch + 1}" if step else f"after epoch {epoch}"
        states = [(self.network, self.weights(self.network)), *zip(self.methods, self.method_state(), strict=True)]
        if self.average is not None:
            states.append((self.result, self.weights(self.result)))
        for module, state in states:
            divergence.check(state, {name for name, p in module.named_parameters() if id(p) in trained}, when)

    def method_state(self) -> list[dict[str, Tensor]]:
        """Returns the learned tensors and the buffers of each method."""
        return [method.state_dict() for method in self.methods]

    def load_methods(self, states: list[dict[str, Tensor]]) -> None:
        """Restores the result of `method_state`. Raises RuntimeError for tensors of other names or shapes."""
        for method, state in zip(self.methods, states, strict=True):
            method.load_state_dict(state)

    def state(self) -> dict[str, Any]:
        """Returns the state for `restore`, as tensors and plain Python, without the weights of a frozen backbone."""
        return {
            "position": asdict(self.position),
            "network": self.weights(self.network),
            "average": None if self.average is None else self.weights(self.result),
            "averaged": 0 if self.average is None else int(self.average.n_averaged),
            "methods": self.method_state(),
            "optimizer": self.optimizer.state_dict(),
            "codes": [codes.state() for codes in self.codes],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restores the result of `state`, whose parts resume.read has checked.

        Raises ValueError or RuntimeError for the state of another run, which has other tensors or a later position.
        """
        # old checkpoints do not record `taken`, because those versions took all steps
        position = Position(**{"taken": state["position"]["step"], **state["position"]})
        if not (0 <= position.epoch <= self.epochs and 0 <= position.step < self.steps):
            found = f"epoch {position.epoch}, step {position.step}"
            raise ValueError(f"position: found {found}, expected at most epoch {self.epochs}, step {self.steps - 1}")
        self.load(self.network, state["network"])
        if self.average is not None:
            self.load(self.result, state["average"] or {})
            self.average.n_averaged.fill_(state["averaged"])
        self.load_methods(state["methods"])
        self.optimizer.load_state_dict(state["optimizer"])
        for codes, saved in zip(self.codes, state["codes"], strict=True):
            codes.restore(saved)
        self.position = position

    def load(self, network: Network, weights: dict[str, Tensor]) -> None:
        """Loads the result of `weights` into a network. Raises ValueError for tensors of another network."""
        self.check_fits(weights)
        network.load_state_dict(versioned(weights, network.state_dict()), strict=False)

    def check_fits(self, weights: dict[str, Tensor]) -> None:
        """Raises ValueError unless these tensors have the names and shapes of `weights` of this network."""
        expected = {name: tuple(value.shape) for name, value in self.weights(self.network).items()}
        given = {name: tuple(value.shape) for name, value in weights.items()}
        if other := sorted(name for name in expected.keys() | given.keys() if expected.get(name) != given.get(name)):
            raise ValueError(f"{counted(len(other), 'tensor')} of another network, {other[0]} first")


def mixed(*numbers: int) -> int:
    """Returns a seed that differs for every tuple of numbers and is the same on every machine."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, numbers)).encode()).digest()[:7], "little")
