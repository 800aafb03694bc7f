"""One training run from the options to the files: set, split, network, loop, model.pt.

DIR/protocol.json    which images are queries, training and database
DIR/log.jsonl        a line an epoch
DIR/checkpoint.pt    what --resume goes on from
DIR/model.pt         the model
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from idcwh_search import datasets, metrics, protocols
from idcwh_search.cli.common import note
from idcwh_search.codes import pack
from idcwh_search.datasets import LabelledImages
from idcwh_search.errors import IdcwhError
from idcwh_search.evaluation import Evaluation
from idcwh_search.images import Preprocess, UnreadableImage
from idcwh_search.protocols import Split

from . import backbones, checkpoint
from .backbones import Backbone
from .features import extract, one_thread
from .interrupt import Stop
from .loop import Record, Trainer, mixed
from .methods.base import create
from .model import HashModel
from .recipes import Options
from .sources import FeatureSource, ImageSource, Source
from .validation import Watch, hold_out, watch

_SAMPLE = 32
_CHECKPOINT_SECONDS = 30.0
_WATCHES = 10  # times in a run that the held-out images are looked at


@dataclass(frozen=True)
class Outcome:
    """finished: False when it was interrupted; failed: pictures that could not be read, key -> reason.

    evaluation: of the protocol's queries against its database, None unless asked for (or interrupted).
    """

    finished: bool
    record: Record
    failed: dict[str, str]
    evaluation: Evaluation | None


def train(
    options: Options,
    out: Path,
    device: torch.device,
    cache: Path | None,
    resume: bool = False,
    evaluate: bool = False,
) -> Outcome:
    """Train and write the four files into the folder `out`. With `resume`, go on from its checkpoint, bit for bit.

    With `evaluate`, the finished model's codes of the queries are searched in those of the database. That is the only
    time the queries are looked at, and nothing follows from it.
    """
    dataset = datasets.load(options.data)
    saved = checkpoint.read(out / "checkpoint.pt", checkpoint.CHECKPOINT) if resume else None
    if saved is not None:
        split = protocols.load(out / "protocol.json", dataset)
    else:
        split = protocols.split(
            dataset, options.protocol, seed=options.seed,
            query_per_class=options.query_per_class, train_per_class=options.train_per_class,
        )  # fmt: skip
        out.mkdir(parents=True, exist_ok=True)
        split.save(out / "protocol.json", dataset)
    note(split.describe())
    run = _Run(options, out, dataset, split)
    run.prepare(device, cache, evaluate)
    finished = run.go(saved)
    evaluation = run.evaluate() if evaluate and finished else None
    return Outcome(finished, run.record, run.failed(), evaluation)


class _Run:
    def __init__(self, options: Options, out: Path, dataset: LabelledImages, split: Split) -> None:
        self.options, self.out, self.dataset, self.split = options, out, dataset, split
        self.preprocess = Preprocess(options.resize, options.crop)
        torch.manual_seed(options.seed)
        self.backbone = backbones.create(options.backbone, options.weights, options.crop)
        torch.manual_seed(options.seed)  # again, whatever it took to get the backbone
        self.model = _model(self.backbone, options)

    def prepare(self, device: torch.device, cache: Path | None, evaluate: bool) -> None:
        """Everything up to the first step; features take the time."""
        options, split, dataset = self.options, self.split, self.dataset
        self.device = device
        self.model.to(device)
        rows = _labelled(dataset, split.train)
        wanted = np.union1d(rows, np.union1d(split.query, split.database)) if evaluate else rows
        self.source, self.rows = self._source(wanted, device, cache)
        rows = rows[np.isin(rows, self.rows)]
        if not len(rows):
            raise IdcwhError("none of the training images could be read")
        train, held = hold_out(dataset, rows, options.validation, options.seed)
        if options.validation and not len(held):
            note(f"no images held out: {options.validation:g} of the largest class is less than one image")
        self.labels = torch.from_numpy(dataset.labels[self.rows])
        self.train_positions, self.held_positions = self._positions(train), self._positions(held)
        classes = len(dataset.classes)
        torch.manual_seed(mixed(options.seed, options.bits))  # the centers, whatever was drawn before them
        self.method = create(options.method, classes, options.bits, len(train), options.method_options).to(device)
        labels = self.labels[self.train_positions]
        self.trainer = Trainer(
            self.model, self.method, self.source, self.train_positions, labels, classes, options, device
        )
        self.record: Record = {}
        self._saved_at = time.monotonic()

    def _source(self, rows: np.ndarray, device: torch.device, cache: Path | None) -> tuple[Source, np.ndarray]:
        if not self.options.freeze:
            return ImageSource(self.model, self.dataset, rows, self.options, device), rows
        found = extract(self.model, self.dataset, rows, self.preprocess, device, cache)
        source = FeatureSource(self.model, found.x, device)
        source.failed.update(found.failed)
        return source, found.rows

    def _positions(self, rows: np.ndarray) -> torch.Tensor:
        """Where these rows of the set are in the source; those that could not be read are left out."""
        return torch.from_numpy(np.searchsorted(self.rows, rows[np.isin(rows, self.rows)]))

    def failed(self) -> dict[str, str]:
        return dict(sorted(self.source.failed.items()))

    def evaluate(self) -> Evaluation:
        """The protocol's queries against its database."""
        (queries, h_queries), (database, h_database) = (
            self.source.encode(self._positions(rows)) for rows in (self.split.query, self.split.database)
        )
        labels = self.labels.numpy()
        return metrics.evaluate(
            pack(h_queries.numpy()),
            labels[queries.numpy()],
            pack(h_database.numpy()),
            labels[database.numpy()],
            bits=self.options.bits,
        )

    def go(self, saved: dict[str, Any] | None) -> bool:
        """Train to the end, or until interrupted (then False), and write model.pt."""
        log = self.out / "log.jsonl"
        if saved is None:
            for name in ("model.pt", "checkpoint.pt"):  # of an earlier run: never to be taken for this one's
                (self.out / name).unlink(missing_ok=True)
            log.write_bytes(b"")
        else:
            self._restore(saved)
            with log.open("ab") as file:  # lines of epochs that the checkpoint does not know are run again
                file.truncate(saved["log_bytes"])
        # The hash layer alone is too small for two threads, and one thread adds up in the same order on every machine.
        threads = one_thread(self.device) if self.options.freeze else contextlib.nullcontext()
        with threads, Stop() as stop, log.open("ab", buffering=0) as self.log:
            self.trainer.run(stop, self._on_step, self._on_epoch)
            self._save_checkpoint()
            self._save_model()
        return self.trainer.finished

    def _on_step(self) -> None:
        if time.monotonic() - self._saved_at > _CHECKPOINT_SECONDS:
            self._save_checkpoint()

    def _on_epoch(self, record: Record) -> None:
        epoch, epochs = record["epoch"], self.options.epochs
        if epoch == epochs or epoch * _WATCHES // epochs > (epoch - 1) * _WATCHES // epochs:
            seen = watch(self.source, self.train_positions, self.held_positions, self.labels.numpy())
            record.update(_watched(seen))
            note(_line(record, epochs))
            if seen.collapse:
                note(f"warning: {seen.collapse}; a lower learning rate or another sigma2 may help")
        self.record = record
        self.log.write(json.dumps(record).encode() + b"\n")
        self._on_step()

    # ------------------------------------------------------------------------------------------------------- files

    def _save_checkpoint(self) -> None:
        content = {
            "format": checkpoint.CHECKPOINT,
            "version": checkpoint.VERSION,
            "options": self.options.to_dict(),
            "trainer": self.trainer.state(),
            "log_bytes": self.log.tell(),
            "record": self.record,
        }
        checkpoint.write(self.out / "checkpoint.pt", content)
        self._saved_at = time.monotonic()

    def _restore(self, saved: dict[str, Any]) -> None:
        try:
            self.trainer.restore(saved["trainer"])
            self.record = saved["record"]
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            cause = " ".join(str(error).split())[:200]
            raise IdcwhError(f"{self.out / 'checkpoint.pt'}: does not fit this run ({cause})") from None

    def _save_model(self) -> None:
        centers = self.method.class_centers()
        content = {
            "classes": list(self.dataset.classes),
            "backbone": self.backbone.config,
            "method": {"name": self.method.name, **self.method.options()},
            "preprocess": self.preprocess.to_dict(),
            "normalize": {"mean": list(self.backbone.mean), "std": list(self.backbone.std)},
            "centers": None if centers is None else centers.detach().cpu().clone(),
            "sample": self._sample(),
            "training": {
                "seed": self.options.seed,
                "epochs": self.trainer.position.epoch,
                "finished": self.trainer.finished,
                "protocol": {"name": self.split.name, "sha256": self.split.sha256()},
                "options": self.options.to_dict(),
                "weights": self.backbone.weights,
                "metrics": {name: value for name, value in self.record.items() if name != "seconds"},
                "torch": str(torch.__version__),
            },
        }
        checkpoint.save_model(self.out / "model.pt", self.model, content)

    def _sample(self) -> dict[str, Any]:
        """Pixels of a few training images: real pictures for the check of the exported model."""
        rows = sorted(self.split.train, key=lambda row: protocols.draw(self.options.seed, self.dataset.keys[row]))
        images: list[np.ndarray] = []
        keys: list[str] = []
        for row in rows:
            if len(images) == _SAMPLE:
                break
            try:
                images.append(self.dataset.image(int(row), self.preprocess))
                keys.append(self.dataset.keys[row])
            except UnreadableImage:
                continue
        return {"images": torch.from_numpy(np.stack(images)), "keys": keys}


def _model(backbone: Backbone, options: Options) -> HashModel:
    return HashModel(
        backbone.network, backbone.features, options.bits, backbone.mean, backbone.std, dropout=options.dropout
    )


def _labelled(dataset: LabelledImages, rows: np.ndarray) -> np.ndarray:
    if not dataset.multi_label:
        return rows
    kept = rows[dataset.labels[rows].any(axis=1)]
    if len(kept) < len(rows):
        note(f"{len(rows) - len(kept):,} training images have no label: skipped")
    return kept


def _watched(seen: Watch) -> Record:
    record: Record = {"distinct_codes": seen.distinct, "encoded": seen.encoded}
    if seen.map is not None:
        record["map"] = seen.map
    if seen.collapse:
        record["collapse"] = seen.collapse
    return record


def _line(record: Record, epochs: int) -> str:
    terms = " ".join(f"{name} {record[name]:.4g}" for name in record if name in ("loss", "L1", "L2", "Q"))
    found = f", MAP {record['map']:.4f} on held-out images" if "map" in record else ""
    codes = f"{record['distinct_codes']:,} distinct codes of {record['encoded']:,} images"
    return f"epoch {record['epoch']}/{epochs}: {terms}{found}, {codes}"
