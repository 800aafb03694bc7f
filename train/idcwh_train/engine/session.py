"""One training run, from its options to the files of its folder. trainer.py has the training loop."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from idcwh_search import datasets
from idcwh_search._util.console import note, note_all
from idcwh_search._util.wording import counted
from idcwh_search.errors import (
    IdcwhError,
    InvalidInputError,
    MismatchError,
    NotFoundError,
    NotSupportedError,
    UsageError,
)
from idcwh_search.images.listing import LeftOut
from idcwh_search.metrics.result import Evaluation
from idcwh_search.splits import protocols
from idcwh_search.splits.protocols import Split, SplitOptions

from ..frozen.features import one_thread
from ..methods.base import create, find
from ..models import backbones
from ..options import NO_FILES, Options
from . import epoch_log, malloc, retrieval
from . import resume as resuming
from .checkpoint import CheckpointWriter
from .distributed import Workers
from .divergence import DivergedError
from .epoch_log import Record
from .model_writer import ModelWriter
from .retrieval import EvaluationError
from .run_dir import RunDir
from .setup import TrainingSetup
from .signals import GracefulStop
from .trainer import Trainer, mixed
from .validation import Validation

_REPORTS = 10  # epochs of a run that are validated and reported


@dataclass(frozen=True)
class Outcome:
    """The result of a run.

    finished: False if the run was interrupted.
    record: the log record of the last epoch.
    failed: images that could not be read, key -> reason.
    evaluations: the protocol's queries against its database, by code length; empty unless requested and finished.
    variants: the evaluations of the related protocols (protocols.variants), by title.
    unmeasured: the reasons why a split has no evaluation, by title.
    left_out: files of the dataset's folder that are not among its images.
    trained, validation: numbers of training images and of validation images.
    """

    finished: bool
    record: Record
    failed: dict[str, str]
    evaluations: dict[int, Evaluation]
    variants: dict[str, dict[int, Evaluation]]
    unmeasured: dict[str, str]
    left_out: LeftOut
    trained: int
    validation: int


def train(
    options: Options,
    run_dir: RunDir,
    *,
    device: torch.device,
    cache: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    evaluate: bool = False,
    workers: Workers | None = None,
) -> Outcome:
    """Trains a model and writes the files of the run.

    Args:
        options: with the current paths of dataset and weights. The files of a resumed run keep the paths that it was
            started with.
        cache: the folder of cached features; without it features are not cached.
        resume: continues the checkpoint, bit for bit.
        overwrite: replaces an earlier run, whose files do not change before the first step.
        evaluate: measures MAP of the protocol's queries at the end. The queries are not used for anything else.
        workers: the processes that train together. Each of them calls this function, and the first writes the files.

    Raises:
        UsageError: options contradict each other or the data.
        DivergedError: training diverged.
        IdcwhError: a file cannot be used.
    """
    workers = workers or Workers()
    try:
        check(options)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    except NotFoundError as error:
        raise error.about(hint="pass the new path with --weights") if resume else error from None
    _check_workers(options, workers)
    datasets.check_outside(options.data, run_dir.path, "--out")
    if device.type == "cpu":
        malloc.keep_freed()
    with contextlib.ExitStack() as stack:
        workers.run_on_rank0(lambda: stack.enter_context(run_dir.locked(resume, overwrite)))
        saved = resuming.read(run_dir.checkpoint) if resume else None
        recorded = options if saved is None else resuming.recorded(saved, run_dir.checkpoint)
        if replace(options, data=recorded.data, weights=recorded.weights) != recorded:
            raise MismatchError("does not match the options", path=run_dir.checkpoint)
        try:
            dataset = datasets.load(options.data)
        except IdcwhError as error:
            raise error.about(hint="pass the new path with --data") if resume else error from None
        if saved is None:
            split = protocols.split(dataset, SplitOptions.of(options), seed=options.seed)
        else:
            split = protocols.load(run_dir.protocol, dataset)
        identity = resuming.identity(split, dataset, options.weights)
        if saved is not None:
            resuming.check(run_dir, saved, identity)
        note_all([*dataset.remarks(), split.describe(), *split.remarks(dataset)])
        if evaluate and split.without_queries:
            raise UsageError("is not supported for a split without queries", path="--evaluate", hint="leave it out")
        splits = protocols.variants(dataset, split) if evaluate else {}
        backbone = backbones.create(options.backbone, options.weights, options.crop, options.seed)
        if options.weights != recorded.weights:
            backbone = replace(backbone, weights=recorded.weights)
        setup = TrainingSetup(options, dataset, split, backbone, device, cache, workers, splits)
        session = Session(setup, run_dir, recorded, identity)
        return _outcome(setup, session, session.run(saved))


def check(options: Options) -> None:
    """Checks the options without reading images.

    Raises:
        ValueError, TypeError: an unknown backbone, an invalid option of the method, or a missing --freeze.
        IdcwhError: a missing weights file.
    """
    if find(options.method).closed_form and not options.freeze:
        raise ValueError(f"method: {options.method} is not supported without fixed features; add --freeze")
    create(options.method, classes=2, bits=options.bits[0], images=2, options=options.of_method(options.bits[0]))
    if problem := backbones.unknown(options.backbone):
        raise ValueError(problem)
    if options.weights not in NO_FILES and not Path(options.weights).is_file():
        if Path(options.weights).is_dir():
            raise InvalidInputError(path=options.weights, found="a folder", expected="a weights file")
        raise NotFoundError(path=options.weights)


def _check_workers(options: Options, workers: Workers) -> None:
    if workers.count > 1 and options.freeze:
        problem = "is not supported in several processes"
        raise NotSupportedError(problem, path="--freeze", hint="start the run without torchrun")
    if workers.count > 1 and options.batch_size < 2 * workers.count:
        found, expected = options.batch_size, f"at least {2 * workers.count} for {workers.count} processes"
        raise InvalidInputError(path="--batch-size", found=found, expected=expected)


def _outcome(setup: TrainingSetup, session: Session, finished: bool) -> Outcome:
    """Returns the outcome of a run, with its evaluations if it is finished."""
    variants: dict[str, dict[int, Evaluation]] = {}
    unmeasured: dict[str, str] = {}
    for title, split in setup.splits.items() if finished else ():
        queries, database = setup.positions(split.query), setup.positions(split.database)
        try:
            variants[title] = retrieval.evaluate(setup.source, setup.network, queries, database, setup.labels.numpy())
        except EvaluationError as reason:  # the model is written in any case
            unmeasured[title] = str(reason)
    failed = dict(sorted(setup.workers.gather_dict(setup.source.failed).items()))
    counts = len(setup.train), len(setup.validation)
    evaluations = variants.pop(_title(setup.splits, setup.split), {})
    return Outcome(
        finished, session.record, failed, evaluations, variants, unmeasured, setup.dataset.left_out, *counts
    )  # fmt: skip


def _title(splits: Mapping[str, Split], trained: Split) -> str:
    """Returns the title of the split that the run trained on."""
    sha256 = trained.sha256()
    return next((title for title, split in splits.items() if split.sha256() == sha256), trained.name)


class Session:
    """The training loop with its log, validation and checkpoints, and the final model.

    options: the options that the files record, with the paths that the run was started with.
    """

    def __init__(self, setup: TrainingSetup, run_dir: RunDir, options: Options, identity: dict[str, Any]) -> None:
        self.setup, self.run_dir, self.options = setup, run_dir, options
        self.workers, self.source = setup.workers, setup.source
        self.trainer = Trainer(
            setup.network, setup.methods, setup.source, setup.options,
            positions=setup.train, labels=setup.labels[setup.train], workers=setup.workers,
        )  # fmt: skip
        self.validation = Validation(setup, self.trainer)
        self.checkpoint = CheckpointWriter(run_dir, options, identity)
        self.record: Record = {}

    def run(self, saved: dict[str, Any] | None) -> bool:
        """Trains and writes the models. Returns False if the training was interrupted."""
        if saved is not None:
            self._restore(saved)
        log = self._start_log(saved) if self.workers.first else Path(os.devnull)
        # The hash layer is too small for two threads, and one thread sums in the same order on every machine.
        threads = one_thread(self.setup.device) if self.options.freeze else contextlib.nullcontext()
        with threads, GracefulStop() as stop, log.open("ab", buffering=0) as self.log:
            try:
                self._train(stop)
                self._save_checkpoint()
                self._finish()
            except DivergedError:
                if not self.trainer.closed_form:
                    note(self.checkpoint.status)
                raise
        return self.trainer.finished

    def _start_log(self, saved: dict[str, Any] | None) -> Path:
        """Returns the path of log.jsonl, cut to the epochs of the checkpoint. A new run removes earlier files."""
        if saved is None:
            self.run_dir.clear()
            self.setup.split.save(self.run_dir.new(self.run_dir.protocol), self.setup.dataset)
            self.run_dir.log.write_bytes(b"")
        else:
            resuming.cut_log(self.run_dir.log, saved["log_bytes"])
        return self.run_dir.log

    def _train(self, stop: GracefulStop) -> None:
        trainer = self.trainer
        if trainer.closed_form:
            self._solve()
            return
        if trainer.epochs > self.options.epochs:
            steps = counted(trainer.epochs * trainer.steps, "step")
            note(f"{trainer.epochs:,} epochs, {steps} in total (set another number with --epochs)")
        trainer.run(stop, self._on_step, self._on_epoch)
        self.source.failed.update(self.workers.gather_dict(self.source.failed))

    def _solve(self) -> None:
        """Solves a method in closed form, with one pass over all training images."""
        setup, labels = self.setup, self.trainer.labels
        y = labels if labels.ndim == 2 else torch.nn.functional.one_hot(labels, len(setup.dataset.classes)).bool()
        _, x = self.source.embed(setup.network, setup.train)
        for bits, method in zip(self.options.bits, setup.methods, strict=True):
            generator = torch.Generator().manual_seed(mixed(self.options.seed, bits))
            setup.network.heads[str(bits)] = method.fit(setup.network.standard(x), y.to(setup.device), generator)
        self.trainer.position.epoch = self.trainer.epochs
        self._on_epoch({"epoch": self.trainer.epochs})

    def _on_step(self) -> None:
        if self.checkpoint.due():
            self._save_checkpoint()

    def _on_epoch(self, record: Record) -> None:
        epoch, epochs = record["epoch"], self.trainer.epochs
        if epoch == epochs or epoch * _REPORTS // epochs > (epoch - 1) * _REPORTS // epochs:
            self.validation.measure(record)
            note(epoch_log.line(record, epochs, self.setup.network.lengths))
        if untaken := record.get("untaken"):
            note(f"warning: epoch {epoch}: {counted(untaken, 'batch')} skipped, because too few images could be read")
        for name, problem in record.items():
            if name.startswith("collapse"):
                note(f"warning: epoch {epoch}: {problem}; try a lower learning rate or another sigma2")
        self.record = record
        self.log.write(json.dumps(record).encode() + b"\n")
        self._on_step()

    def _save_checkpoint(self) -> None:
        if self.workers.first:
            self.checkpoint.write(
                self.trainer, log_bytes=self.log.tell(), record=self.record, best=self.validation.best,
                failed=self.source.failed,
            )  # fmt: skip

    def _restore(self, saved: dict[str, Any]) -> None:
        try:
            self.trainer.restore(saved["trainer"])
            self.record = saved["record"]
            self.source.failed.update({str(key): str(why) for key, why in saved.get("failed", {}).items()})
            self.validation.restore(saved["best"])
        except (ValueError, RuntimeError) as error:  # raised by the trainer and by torch
            cause = " ".join(str(error).split())[:200]
            raise MismatchError(f"does not match this run ({cause})", path=self.run_dir.checkpoint) from None
        self.checkpoint.describe(self.trainer)

    def _finish(self) -> None:
        """Loads the final weights into the network, and writes the models."""
        trainer, best, kept = self.trainer, self.validation.best, self.trainer.position.epoch
        if best is not None:
            kept = best["epoch"]
            trainer.load(self.setup.network, best["weights"])
            trainer.load_methods(best["methods"])
            note(f"saved epoch {kept}, validation MAP {best['map']:.4f}")
        elif trainer.average is not None:
            trainer.load(self.setup.network, trainer.weights(trainer.result))
        models = ModelWriter(self.setup, trainer, self.options, self.record, kept)
        models.check_outputs()
        if self.workers.first:
            models.write(self.run_dir)
