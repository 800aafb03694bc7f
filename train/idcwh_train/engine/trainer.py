"""The training loop: epochs, batches, learning rates, and a position from which it continues bit for bit.

Everything random is a function of (seed, epoch, step): the order of the images, dropout, crops. The position, the
weights, the optimizer's momentum and the methods' states are therefore the whole state of a training.
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

    epoch, step: `epoch` epochs, and `step` steps of the current epoch, are done.
    taken: the steps of this epoch that had enough images.
    sums: sum of each term of the loss over the steps taken.
    unlabelled: images of this epoch that the method skipped.
    """

    epoch: int = 0
    step: int = 0
    taken: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    unlabelled: int = 0


class Trainer:
    """The training of a network with one or several code lengths.

    network, methods: the trained network, and one method per code length.
    source, positions, labels: the training images are those at `positions` [N] of `source`; `labels` is int64 [N] or
        bool [N, C].
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
        self.batch = min(options.batch_size, self.images)  # fewer images than a batch: one batch of all of them
        self.steps = self.images // self.batch
        self.closed_form = any(method.closed_form for method in methods)  # a head that is solved has no steps
        self.epochs = options.epochs if self.closed_form else max(options.epochs, -(-options.min_steps // self.steps))
        self.position = Position()
        self.codes = [Codes(bits) for bits in network.lengths]
        self._index = torch.full((source.size,), -1, dtype=torch.int64)  # position in the source -> training image
        self._index[positions] = torch.arange(self.images)
        self.optimizer = optim.optimizer(network, methods, options)
        self._full_lr = [group["lr"] for group in self.optimizer.param_groups]
        self.average: AveragedModel | None = None
        self.result = network  # to encode with and to save: the running mean of the weights where there is one
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
            stop: the request to stop; the current step ends first.
            on_step: called after each step but the last of an epoch, when `state` may be saved.
            on_epoch: called with the log record of each epoch that ends.

        Raises DivergedError for a loss, outputs or weights that are not sound.
        """
        done = self.position.epoch * self.steps + self.position.step
        with progress_bar(total=self.epochs * self.steps, initial=done, desc="training", unit="step") as bar:
            while not self.finished and not self.workers.any_rank(stop.asked):
                record = self._epoch(stop, on_step, bar)
                if record is not None:
                    on_epoch(record)
                    shown = {name: record[name] for name in ("loss", "L1", "L2", "Q", "map") if name in record}
                    bar.set_postfix({name: f"{value:.3g}" for name, value in shown.items()}, refresh=False)

    def _epoch(self, stop: GracefulStop, on_step: Callable[[], None], bar: Any) -> Record | None:
        """Trains the rest of the current epoch. Returns its log record, or None if it was stopped before its end."""
        at, started, worked = self.position, time.monotonic(), time.process_time()
        if at.step == 0:
            for method, codes in zip(self.methods, self.codes, strict=True):
                method.start_epoch()
                codes.clear()
        generator = torch.Generator().manual_seed(mixed(self.options.seed, at.epoch))
        order = torch.randperm(self.images, generator=generator)
        batches = (order[i * self.batch : (i + 1) * self.batch] for i in range(at.step, self.steps))
        plan = [self.positions[self.workers.shard(batch)] for batch in batches]
        for positions, x in self.source.batches(plan, at.epoch):
            own = (self.workers.rank,) if self.workers.rank else ()
            self._seed(mixed(self.options.seed, at.epoch, at.step, *own))
            self._step(self._index[positions], x)
            at.step += 1
            bar.update()
            if at.step < self.steps:
                on_step()
                if self.workers.any_rank(stop.asked):
                    return None
        self.check_weights()
        record = {
            "epoch": at.epoch + 1,
            "lr": self.optimizer.param_groups[0]["lr"],
            **{name: value / at.taken for name, value in at.sums.items()},
            **({"untaken": self.steps - at.taken} if at.taken < self.steps else {}),
            "unlabelled": at.unlabelled,
            **self._health(),
            "seconds": round(time.monotonic() - started, 3),
            "cpu_seconds": round(time.process_time() - worked, 3),
        }
        self.position = Position(at.epoch + 1)
        return record

    def _step(self, own: Tensor, x: Tensor) -> None:
        """Takes one step on the training images `own`, and on those of the other workers."""
        images = self.workers.gather(own)
        if not len(images):
            return
        if self.source.min_batch > 1 and self.workers.any_rank(0 < len(own) < self.source.min_batch):
            return  # too few images could be read
        if self.warmup is not None:
            self.warmup.before_step(self.position.epoch * self.steps + self.position.step)
        factor = optim.learning_rate_factor(
            self.options, self.position.epoch, self.position.step, self.epochs, self.steps
        )
        for group, lr in zip(self.optimizer.param_groups, self._full_lr, strict=True):
            group["lr"] = factor * lr
        targets, rows = self._targets(images).to(self.device), images.to(self.device)
        outputs = [self.workers.gather(h) for h in self._outputs(own, x)]
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

    def _outputs(self, own: Tensor, x: Tensor) -> list[Tensor]:
        if not len(own):  # no image of this worker's shard could be read; it still takes part in the step
            return [torch.zeros(0, bits, device=self.device, requires_grad=True) for bits in self.network.lengths]
        return self.source.logits(self.network, x)

    def _seed(self, seed: int) -> None:
        """Seeds the generators of dropout. torch.manual_seed is slow where CUDA is not in use: it queues each call for
        later, with a stack trace.
        """
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def _targets(self, images: Tensor) -> Tensor:
        labels = self.labels[images]
        return labels if labels.ndim == 2 else F.one_hot(labels, self.classes).bool()

    def _count(self, losses: list[Loss], outputs: list[Tensor]) -> None:
        """Adds the terms of the losses to the sums of the epoch.

        Raises DivergedError for a loss that is not finite, or outputs that are not sound, before the weights change.
        """
        at = self.position
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
            raise DivergedError(f"{problem} in epoch {at.epoch + 1}, step {at.step + 1} ({terms_seen})")
        for name, value in values.items():
            at.sums[name] = at.sums.get(name, 0.0) + value

    def _health(self) -> Record:
        """Returns the statistics of the codes in this epoch, from the outputs of its steps."""
        classes = class_count(self.labels)
        found: Record = {}
        for codes in self.codes:
            seen = codes.summary(classes)
            found.update({named(name, codes.bits, self.network.lengths): value for name, value in seen.items()})
        return found

    # ------------------------------------------------------------------------------------------------------ resuming

    def weights(self, network: Network) -> dict[str, Tensor]:
        """Returns the tensors of a network that training changes: all, or only the heads if the backbone is frozen."""
        whole = network.state_dict()
        return {name: value for name, value in whole.items() if name.startswith("heads.") or not self.options.freeze}

    def check_weights(self) -> None:
        """Raises DivergedError unless all tensors that training changes are sound, in network, methods and average."""
        trained = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
        at = self.position
        when = f"after step {at.step} of epoch {at.epoch + 1}" if at.step else f"after epoch {at.epoch}"
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
        """Returns the state for `restore`, tensors and plain Python. It has no weights of a frozen backbone."""
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

        Raises ValueError or RuntimeError for the state of another run: other tensors, or a position beyond the end.
        """
        # an older checkpoint does not count the steps taken: it has taken all of them
        position = Position(**{"taken": state["position"]["step"], **state["position"]})
        if not (0 <= position.epoch <= self.epochs and 0 <= position.step < self.steps):
            raise ValueError(f"step {position.step} of epoch {position.epoch}, of {self.epochs}")
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
        own = {name: tuple(value.shape) for name, value in self.weights(self.network).items()}
        given = {name: tuple(value.shape) for name, value in weights.items()}
        if other := sorted(name for name in own.keys() | given.keys() if own.get(name) != given.get(name)):
            raise ValueError(f"{counted(len(other), 'tensor')} of another network, {other[0]} first")


def mixed(*numbers: int) -> int:
    """Returns a seed that differs for every tuple of numbers and is the same on every machine."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, numbers)).encode()).digest()[:7], "little")
