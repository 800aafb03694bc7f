"""One training run from the options to the files of `folder`: set, split, network, loop, model.pt."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from idcwh_search import datasets
from idcwh_search._util.console import note, note_all
from idcwh_search._util.wording import counted
from idcwh_search.datasets import LabelledImages, training_images
from idcwh_search.errors import IdcwhError, InvalidInputError, MismatchError, NotSupportedError, UsageError
from idcwh_search.images.listing import LeftOut
from idcwh_search.metrics.result import Evaluation
from idcwh_search.splits import protocols
from idcwh_search.splits.protocols import Split, SplitOptions

from ..data import kept_images
from ..frozen.features import one_thread
from ..methods.base import Method, create, find
from ..models import backbones
from ..options import NO_FILES, Options
from . import checkpoint, epoch_log, malloc, retrieval, run_dir
from . import resume as resuming
from .code_stats import class_count, summary
from .distributed import Workers
from .divergence import Diverged
from .epoch_log import CLOCKS, Record, named
from .retrieval import Unmeasurable
from .setup import Prepared
from .signals import Stop
from .source import encode
from .trainer import Trainer, mixed
from .validation import held_out_map

_CHECKPOINT_SECONDS = 30.0
_LOOKED_AT = 32  # training images whose outputs a model must have before it is written
_WATCHES = 10  # times in a run that the held-out images are looked at


@dataclass(frozen=True)
class Outcome:
    """finished: False when it was interrupted; failed: pictures that could not be read, key -> reason.

    evaluations: code length -> of the protocol's queries against its database; empty unless asked for (or interrupted).
    variants: of the other splits of the protocol's family (protocols.variants), by title, likewise.
    unmeasured: of either, by title, why there is no evaluation.
    left_out: files of the dataset's folder that are not among its images.
    trained, held: numbers of training images, and of images that were held out.
    """

    finished: bool
    record: Record
    failed: dict[str, str]
    evaluations: dict[int, Evaluation]
    variants: dict[str, dict[int, Evaluation]]
    unmeasured: dict[str, str]
    left_out: LeftOut
    trained: int
    held: int


def train(
    options: Options,
    out: Path,
    device: torch.device,
    cache: Path | None,
    resume: bool = False,
    overwrite: bool = False,
    evaluate: bool = False,
    workers: Workers | None = None,
    data: str | None = None,
    weights: str | None = None,
) -> Outcome:
    """Train and write the files of a run into the folder `out`. With `resume`, go on from its checkpoint, bit for bit;
    with `overwrite`, replace an earlier run, of which nothing is touched until the first step.

    With `evaluate`, the finished model's codes of the queries are searched in those of the database. That is the only
    time the queries are looked at, and nothing follows from it.

    workers: the processes that train together, each of which calls this; the first one writes the files.
    data, weights: current paths of dataset and weights of a resumed run. The recorded paths are kept, so that model.pt
    is unchanged.
    """
    workers = workers or Workers()
    weights = weights or options.weights
    try:
        check(replace(options, weights=weights))
    except IdcwhError as error:
        if not resume or weights in NO_FILES or Path(weights).is_file():
            raise
        raise error.about(hint="if the weights have moved, pass --weights") from None
    _check_workers(options, workers)
    if device.type == "cpu":
        malloc.keep_freed()
    spec = options.data if data is None else data
    datasets.check_outside(spec, out, "--out")
    with contextlib.ExitStack() as held:

        def take() -> None:
            run_dir.check_folder(out)
            held.enter_context(run_dir.alone(out, "idcwh-train"))
            run_dir.check(out, overwrite or resume)

        workers.first_does(take)
        saved = resuming.read(out / run_dir.CHECKPOINT) if resume else None
        dataset = _dataset(spec, moved=resume and data is None)
        split = _split(options, out, dataset, saved)
        identity = resuming.identity(split, dataset, weights)
        if saved is not None:
            resuming.check(out, saved, identity)
        note_all([*dataset.remarks(), split.describe(), *split.remarks(dataset)])
        if evaluate and split.without_queries:
            raise UsageError("--evaluate: this split has no queries; leave --evaluate out, or ask for queries")
        to_evaluate = protocols.variants(dataset, split) if evaluate else {}
        backbone = backbones.create(options.backbone, weights, options.crop, options.seed)
        if weights != options.weights:
            backbone = replace(backbone, weights=options.weights)
        prepared = Prepared(options, dataset, split, backbone, device, cache, workers, to_evaluate)
        run = _Run(prepared, out, split, workers, to_evaluate, identity)
        return run.outcome(run.go(saved))


def check(options: Options) -> None:
    """What can be said of a run before a picture is read. ValueError or TypeError for a backbone that nobody knows, an
    option that its method does not take, and a method that needs --freeze; IdcwhError for a file of weights that is not
    there.
    """
    if find(options.method).closed_form and not options.freeze:
        raise ValueError(f"--method {options.method} has a closed form and needs fixed features; add --freeze")
    create(options.method, classes=2, bits=options.bits[0], images=2, options=options.of_method(options.bits[0]))
    if problem := backbones.unknown(options.backbone):
        raise ValueError(problem)
    weights = Path(options.weights)
    if options.weights not in NO_FILES and not weights.is_file():
        problem = "is a folder; expected a file of weights" if weights.is_dir() else "no such weights file"
        raise InvalidInputError(f"{problem}", path=weights)


def _dataset(spec: str, moved: bool) -> LabelledImages:
    """The set; `moved`: it was there when the run began, so if it is not now, somebody may know where it is."""
    try:
        return datasets.load(spec)
    except IdcwhError as error:
        if not moved:
            raise
        raise error.about(hint="if the dataset has moved, pass --data") from None


def _split(options: Options, out: Path, dataset: LabelledImages, saved: dict[str, Any] | None) -> Split:
    """As the options say; that of a run that goes on lies beside its checkpoint."""
    if saved is None:
        return protocols.split(dataset, SplitOptions.of(options), seed=options.seed)
    return protocols.load(out / run_dir.PROTOCOL, dataset)


def _check_workers(options: Options, workers: Workers) -> None:
    if workers.count > 1 and options.freeze:
        raise NotSupportedError("--freeze trains in seconds in one process; start it without torchrun")
    if workers.count > 1 and options.batch_size < 2 * workers.count:
        need = 2 * workers.count
        raise InvalidInputError(
            f"--batch-size {options.batch_size} for {workers.count} processes: it is shared by them; {need} or more"
        )


class _Run:
    """From what is prepared to the files in `out`."""

    def __init__(
        self,
        prepared: Prepared,
        out: Path,
        split: Split,
        workers: Workers,
        to_evaluate: Mapping[str, Split],
        identity: dict[str, Any],
    ) -> None:
        self.prepared, self.out, self.split, self.workers = prepared, out, split, workers
        self.to_evaluate, self.identity = to_evaluate, identity
        self.options, self.dataset, self.source = prepared.options, prepared.dataset, prepared.source
        self.network, self.labels = prepared.network, prepared.labels
        self.trainer = Trainer(
            self.network, prepared.methods, self.source, prepared.train, self.labels[prepared.train],
            len(self.dataset.classes), self.options, prepared.device, workers,
        )  # fmt: skip
        self.record: Record = {}
        self.modes: dict[str, int] = {}  # permissions of the files that this run replaces
        self.best: dict[str, Any] | None = None
        self._saved_at = time.monotonic()
        self._kept = "no checkpoint was written before"

    def outcome(self, finished: bool) -> Outcome:
        """What there is to say at the end; the queries are looked at if that was asked for and training is finished."""
        found: dict[str, dict[int, Evaluation]] = {}
        unmeasured: dict[str, str] = {}
        for title, of in self.to_evaluate.items() if finished else ():
            queries, database = self.prepared.positions(of.query), self.prepared.positions(of.database)
            try:
                found[title] = retrieval.evaluate(self.source, self.network, queries, database, self.labels.numpy())
            except Unmeasurable as why:  # the model is written all the same
                unmeasured[title] = str(why)
        split, failed = self.split.sha256(), dict(sorted(self.workers.merged(self.source.failed).items()))
        own = next((title for title, of in self.to_evaluate.items() if of.sha256() == split), self.split.name)
        left_out, counts = self.dataset.left_out, (len(self.prepared.train), len(self.prepared.held))
        return Outcome(finished, self.record, failed, found.pop(own, {}), found, unmeasured, left_out, *counts)

    def go(self, saved: dict[str, Any] | None) -> bool:
        """Train to the end, or until interrupted (then False), and write model.pt."""
        if saved is not None:
            self._restore(saved)
        log = self._log(saved) if self.workers.first else Path(os.devnull)
        # The hash layer alone is too small for two threads, and one thread adds up in the same order on every machine.
        threads = one_thread(self.prepared.device) if self.options.freeze else contextlib.nullcontext()
        with threads, Stop() as stop, log.open("ab", buffering=0) as self.log:
            try:
                if self.trainer.closed_form:
                    self._solve()
                else:
                    if self.trainer.epochs > self.options.epochs:
                        steps = counted(self.trainer.epochs * self.trainer.steps, "step")
                        note(f"{self.trainer.epochs:,} epochs, for {steps} (--epochs sets another number)")
                    self.trainer.run(stop, self._on_step, self._on_epoch)
                    self.source.failed.update(self.workers.merged(self.source.failed))
                self._save_checkpoint()
                self._finish()
            except Diverged:
                if not self.trainer.closed_form:
                    note(self._kept)
                raise
        return self.trainer.finished

    def _log(self, saved: dict[str, Any] | None) -> Path:
        """log.jsonl as the checkpoint knows it; in a new run empty, and files of an earlier one gone."""
        log = self.out / run_dir.LOG
        if saved is None:
            for earlier in (*run_dir.results(self.out), self.out / run_dir.PROTOCOL):
                with contextlib.suppress(FileNotFoundError):
                    self.modes[earlier.name] = earlier.stat().st_mode & 0o777
                earlier.unlink(missing_ok=True)  # never to be taken for this one's
            self.split.save(self._place(run_dir.PROTOCOL), self.dataset)
            log.write_bytes(b"")
        else:
            resuming.cut_log(log, saved["log_bytes"])
        return log

    def _place(self, name: str) -> Path:
        """The path of a file of the run, which has the permissions of the one that it replaces."""
        path = self.out / name
        mode = self.modes.pop(name, None)
        if mode is not None and not path.exists():
            path.touch(mode=0o600)
            path.chmod(mode)
        return path

    def _solve(self) -> None:
        """A method in closed form: one pass over all training images instead of epochs."""
        options, labels = self.options, self.labels[self.prepared.train]
        y = labels if labels.ndim == 2 else torch.nn.functional.one_hot(labels, len(self.dataset.classes)).bool()
        _, x = self.source.embed(self.network, self.prepared.train)
        for bits, method in zip(options.bits, self.trainer.methods, strict=True):
            generator = torch.Generator().manual_seed(mixed(options.seed, bits))
            self.network.heads[str(bits)] = method.fit(self.network.standard(x), y.to(self.prepared.device), generator)
        self.trainer.position.epoch = self.trainer.epochs
        self._on_epoch({"epoch": self.trainer.epochs})

    def _on_step(self) -> None:
        if time.monotonic() - self._saved_at > _CHECKPOINT_SECONDS:
            self._save_checkpoint()

    def _on_epoch(self, record: Record) -> None:
        epoch, epochs = record["epoch"], self.trainer.epochs
        if epoch == epochs or epoch * _WATCHES // epochs > (epoch - 1) * _WATCHES // epochs:
            if len(self.prepared.held):
                self._watch(record)
            note(epoch_log.line(record, epochs, self.network.lengths))
        if untaken := record.get("untaken"):
            batches = counted(untaken, "batch")
            note(f"warning: epoch {epoch}: {batches} trained nothing: too few of their images could be read")
        for name, problem in record.items():
            if name.startswith("collapse"):
                note(f"warning: epoch {epoch}: {problem}; a lower learning rate or another sigma2 may help")
        self.record = record
        self.log.write(json.dumps(record).encode() + b"\n")
        self._on_step()

    def _watch(self, record: Record) -> None:
        """MAP on the held-out images; with `keep best`, these weights if they are the best so far."""
        result, labels = self.trainer.result, self.labels.numpy()
        found = held_out_map(self.source, result, self.prepared.train, self.prepared.held, labels)
        record.update({named("map", bits, self.network.lengths): value for bits, value in found.items()})
        mean = sum(found.values()) / len(found) if found else 0.0
        if self.options.keep == "best" and (self.best is None or mean > self.best["map"]):
            weights = {name: value.clone() for name, value in self.trainer.weights(result).items()}
            methods = [{name: value.clone() for name, value in state.items()} for state in self.trainer.method_state()]
            self.best = {"map": mean, "epoch": record["epoch"], "weights": weights, "methods": methods}

    # ------------------------------------------------------------------------------------------------------- files

    def _save_checkpoint(self) -> None:
        """What there is, if it is sound: every loss until here was, or it would have stopped the training."""
        if not self.workers.first:
            return
        self.trainer.check_weights()
        content = {
            "format": checkpoint.CHECKPOINT,
            "version": checkpoint.VERSION,
            "options": self.options.to_dict(),
            "protocol": self.identity,
            "trainer": self.trainer.state(),
            "log_bytes": self.log.tell(),
            "record": self.record,
            "best": self.best,
            "failed": self.source.failed,
        }
        checkpoint.write(self._place(run_dir.CHECKPOINT), content)
        self._saved_at = time.monotonic()
        self._note_kept()

    def _note_kept(self) -> None:
        at = self.trainer.position
        self._kept = (
            f"{run_dir.CHECKPOINT} keeps what was sound, {counted(at.epoch, 'epoch')} and {counted(at.step, 'step')}"
        )

    def _restore(self, saved: dict[str, Any]) -> None:
        try:
            self.trainer.restore(saved["trainer"])
            self.record, self.best = saved["record"], saved["best"]
            self.source.failed.update({str(key): str(why) for key, why in saved.get("failed", {}).items()})
            if self.best is not None:
                float(self.best["map"]), int(self.best["epoch"])
                self.trainer.check_fits(self.best["weights"])
            self._note_kept()
        except (KeyError, ValueError, TypeError, RuntimeError, AttributeError, IndexError) as error:
            cause = " ".join(str(error).split())[:200]
            raise MismatchError(f"{self.out / run_dir.CHECKPOINT}: does not fit this run ({cause})") from None

    def _finish(self) -> None:
        """The weights to keep, in `network`, and the models' files."""
        if self.best is not None:
            self.trainer.load(self.network, self.best["weights"])
            self.trainer.load_methods(self.best["methods"])
            note(f"kept epoch {self.best['epoch']}, MAP {self.best['map']:.4f} on held-out images")
        elif self.trainer.average is not None:
            self.trainer.load(self.network, self.trainer.weights(self.trainer.result))
        images = len(self.prepared.train)
        looked_at = torch.linspace(0, images - 1, min(images, _LOOKED_AT), dtype=torch.float64).long()
        kept, outputs = encode(self.source, self.network, self.prepared.train[looked_at])
        if not all(h.isfinite().all() for h in outputs.values()):
            raise Diverged("the outputs of the finished model are not finite; it is not written")
        if not self.workers.first:
            return
        for bits, h in outputs.items():
            problem = summary(h, class_count(self.labels[kept])).get("collapse")
            if problem and named("collapse", bits, self.network.lengths) not in self.record:
                note(f"warning: the finished model of {bits} bits: {problem}, which did not show while it was trained")
        pictures = kept_images.pick(self.dataset, self.split.train, self.prepared.preprocess, self.options.seed)
        names = run_dir.model_names(self.options.bits)
        for (bits, name), method in zip(names.items(), self.trainer.methods, strict=True):
            self._save_model(self._place(name), bits, method, pictures)

    def _save_model(self, path: Path, bits: int, method: Method, pictures: dict[str, Any]) -> None:
        content = {
            "classes": list(self.dataset.classes),
            "backbone": self.prepared.backbone.config,
            "method": {"name": method.name, **method.options()},
            "preprocess": self.prepared.preprocess.to_dict(),
            "normalize": {"mean": list(self.prepared.backbone.mean), "std": list(self.prepared.backbone.std)},
            "centers": self._centers(method),
            "sample": pictures,
            "training": {
                "seed": self.options.seed,
                "epochs": self.trainer.position.epoch,
                "finished": self.trainer.finished,
                "kept": self.trainer.position.epoch if self.best is None else self.best["epoch"],
                "protocol": {"name": self.split.name, "sha256": self.split.sha256()},
                "options": self.options.to_dict(),
                "images": training_images.record(self.dataset, self.prepared.rows[self._trained()]),
                "weights": self.prepared.backbone.weights,
                "metrics": {name: value for name, value in self.record.items() if name not in CLOCKS},
                "torch": str(torch.__version__),
            },
        }
        checkpoint.save_model(path, self.network.model(bits), content)

    def _trained(self) -> np.ndarray:
        """Positions of the training images, those that were held out included: `--keep best` chose by them."""
        return torch.cat([self.prepared.train, self.prepared.held]).sort().values.numpy()

    def _centers(self, method: Method) -> torch.Tensor | None:
        """The centers that training moved; NaN for a class without a training image, which has only what it started
        from."""
        centers = method.class_centers()
        if centers is None:
            return None
        labels = self.labels[self.prepared.train]
        trained = labels.any(dim=0) if labels.ndim == 2 else torch.bincount(labels, minlength=len(centers)) > 0
        return torch.where(trained[:, None], centers.detach().cpu(), torch.nan)
