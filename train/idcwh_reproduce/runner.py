"""Trains the cells that are missing, one after the other, so that it can be stopped at any time and started again.

DIR/cells/NAME.json   a finished cell, see experiments.py
DIR/runs/NAME/        a cell at work: what idcwh-train leaves; gone when the cell is done, unless asked to be kept
"""

from __future__ import annotations

import contextlib
import datetime
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from idcwh_search._util.console import describe, note
from idcwh_search._util.progress import duration
from idcwh_search.datasets import LabelledImages
from idcwh_search.errors import IdcwhError, NotWrittenError
from idcwh_search.metrics.result import Evaluation
from idcwh_search.splits import protocols
from idcwh_search.splits.options import SplitOptions
from idcwh_train.engine import resume as resuming
from idcwh_train.engine import session, training_curves
from idcwh_train.engine.run_dir import CHECKPOINT, LOG, PROTOCOL, model_names
from idcwh_train.models import backbones
from idcwh_train.recipes import Options

from . import embedding, experiments
from .environment import machine, revision, versions
from .experiments import Cell, Result

_A_CELL_FAILS = (IdcwhError, ValueError, TypeError, ArithmeticError, RuntimeError, MemoryError)
"""What is recorded as the failure of a cell. An OSError and NotWrittenError (a full disk) end the run instead; the same
command continues it when there is room."""


@dataclass(frozen=True)
class Tally:
    """Cells that are there now, by how they ended, and whether the run was interrupted before the last."""

    done: int
    failed: int
    unreadable: int
    interrupted: bool = False


class Runner:
    """Trains cells of one set into the folder `out`."""

    def __init__(
        self, out: Path, dataset: LabelledImages, device: torch.device, cache: Path | None, command: str
    ) -> None:
        self.out, self.dataset, self.device, self.cache, self.command = out, dataset, device, cache, command
        self.fingerprint = dataset.fingerprint()
        self.folder = out / "cells"

    def found(self, cell: Cell) -> Result | None:
        """The cell's result, when it is there and of the same options and set."""
        result = experiments.read(self.folder / f"{cell.name}.json")
        return result if result is not None and result.fits(cell.options, self.fingerprint) else None

    def run(self, planned: Sequence[Cell], retry: bool = False, keep: bool = False, keep_logits: int = 0) -> Tally:
        """Train what is missing; with `retry`, also what has failed. `keep`: leave the folders under runs/.

        keep_logits: the code length whose first seed keeps logits of queries, for pictures.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        before = {cell.name: self.found(cell) for cell in planned}
        missing = [cell for cell in planned if (r := before[cell.name]) is None or (retry and not r.done)]
        note(f"cells: {len(planned):,} planned, {len(planned) - len(missing):,} there already")
        if missing:
            self._check(missing[0].options)
        started = time.monotonic()
        for number, cell in enumerate(missing):
            left = (time.monotonic() - started) / number * (len(missing) - number) if number else None
            note("")
            remains = "" if left is None else f", {duration(left)} left"
            note(f"cell {number + 1} of {len(missing)}{remains}: {cell.title}")
            wanted = keep_logits if cell.variant is None and cell.seed == 0 and keep_logits in cell.bits else 0
            if not self._train(cell, keep, wanted):
                return self._tally(planned, interrupted=True)
        with contextlib.suppress(OSError):  # there is something in it
            (self.out / "runs").rmdir()
        return self._tally(planned)

    def _tally(self, planned: Sequence[Cell], interrupted: bool = False) -> Tally:
        there = [result for cell in planned if (result := self.found(cell)) is not None]
        done = [result for result in there if result.done]
        unreadable = len({key for result in done for key in result.content["unreadable"]})
        return Tally(len(done), len(there) - len(done), unreadable, interrupted)

    def _check(self, options: Options) -> None:
        """What would make every cell fail is said before the first one, as an IdcwhError."""
        protocols.split(self.dataset, SplitOptions.of(options), seed=options.seed)
        backbones.create(options.backbone, options.weights, options.crop)

    def _train(self, cell: Cell, keep: bool, keep_logits: int) -> bool:
        """Train a cell and write its file; False when interrupted."""
        folder = self.out / "runs" / cell.name
        resume = _resumable(folder, cell.options, self.dataset)
        before = _of_epochs(folder, "seconds") if resume else 0.0
        if resume:
            note("going on from its checkpoint")
        started = time.monotonic()
        content: dict[str, Any] = {
            "status": experiments.DONE,
            "reason": None,
            "dataset": {"spec": self.dataset.spec, "images": len(self.dataset), "sha256": self.fingerprint},
            "evaluations": {},
            "variants": {},
            "record": {},
            "unreadable": {},
        }
        try:
            outcome = session.train(
                cell.options, folder, self.device, self.cache, resume=resume, overwrite=not resume, evaluate=True
            )
            if not outcome.finished:
                return False
            if not outcome.evaluations:
                raise IdcwhError("; ".join(outcome.unmeasured.values()))
            content["evaluations"] = _plain(outcome.evaluations)
            content["variants"] = {title: _plain(of) for title, of in outcome.variants.items()}
            content["record"], content["unreadable"] = outcome.record, outcome.failed
            if keep_logits:
                file = folder / model_names(cell.bits)[keep_logits]
                arrays = embedding.query_logits(file, self.dataset, self.device, self.cache)
                experiments.write_logits(self.folder, cell, **arrays)
        except NotWrittenError:
            raise
        except _A_CELL_FAILS as error:
            content |= {"status": experiments.FAILED, "reason": describe(error), "evaluations": {}}
            note(f"failed: {content['reason']}")
        content |= {
            "protocol": _protocol(folder),
            "seconds": {
                "training": _of_epochs(folder, "seconds"),
                "training_cpu": _of_epochs(folder, "cpu_seconds"),
                "total": round(time.monotonic() - started + before, 3),
            },
            "resumed": resume,
            "versions": versions(),
            "machine": machine(self.device),
            "revision": revision(),
            "command": self.command,
            "finished_at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        }
        experiments.write(self.folder, cell, content)
        for bits, evaluation in content["evaluations"].items():
            note(f"{bits} bits: MAP {evaluation['map']:.4f}, {duration(content['seconds']['total'])}")
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
        return True


def _resumable(folder: Path, options: Options, dataset: LabelledImages) -> bool:
    """Whether the folder holds a checkpoint of just these options, and its protocol; what is damaged is begun anew."""
    try:
        saved = resuming.read(folder / CHECKPOINT)
        split = protocols.load(folder / PROTOCOL, dataset)
        resuming.check(folder, saved, resuming.identity(split, dataset, options.weights))
        return experiments.same_options(saved["options"], options.to_dict())
    except (IdcwhError, OSError, TypeError):
        return False


def _plain(evaluations: dict[int, Evaluation]) -> dict[str, Any]:
    """Code length -> plain Python."""
    return {str(bits): evaluation.to_dict() for bits, evaluation in evaluations.items()}


def _protocol(folder: Path) -> dict[str, Any] | None:
    """Name, seed, sizes and hashes of the split that was used."""
    try:
        content = json.loads((folder / PROTOCOL).read_bytes())
        sizes = {part: len(content[part]["rows"]) for part in ("query", "train", "database")}
        return {"name": content["protocol"], "seed": content["seed"], "sizes": sizes, "sha256": content["sha256"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None  # of a cell that failed before there was one


def _of_epochs(folder: Path, clock: str) -> float:
    """The sum over the epochs, whatever start of the program they were in."""
    try:
        records = training_curves.read(folder / LOG)
        return round(sum(float(record.get(clock, 0.0)) for record in records), 3)
    except (IdcwhError, TypeError, ValueError):
        return 0.0
