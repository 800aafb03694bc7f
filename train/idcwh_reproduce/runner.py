"""The runner, which trains the missing experiments one after the other and can be interrupted and continued.

DIR/experiments/NAME.json   a finished experiment, see experiments.py
DIR/runs/NAME/              the files of its training; deleted at the end, except with --keep-models
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
from idcwh_train.engine.run_dir import CHECKPOINT, LOG, PROTOCOL, RunDir, model_names
from idcwh_train.models import backbones
from idcwh_train.options import Options

from . import embedding, environment, experiments
from .experiments import Planned, Result
from .tables import SHOWN_BITS

_FAILURES = (IdcwhError, ValueError, TypeError, ArithmeticError, RuntimeError, MemoryError)
"""The exceptions that are recorded as the failure of an experiment. OSError and NotWrittenError (a full disk) end the
command instead, and the same command continues."""


@dataclass(frozen=True)
class Tally:
    """The numbers of finished and failed experiments and of unreadable images.

    interrupted: True if the user interrupted the command.
    """

    done: int
    failed: int
    unreadable: int
    interrupted: bool


class Runner:
    """The training of experiments on one dataset into the folder `out`."""

    def __init__(
        self, out: Path, dataset: LabelledImages, device: torch.device, cache: Path | None, command: str
    ) -> None:
        self.out, self.dataset, self.device, self.cache, self.command = out, dataset, device, cache, command
        self.fingerprint = dataset.fingerprint()
        self.folder = out / "experiments"

    def find(self, planned: Planned) -> Result | None:
        """Returns the existing result with the same options and dataset, or None."""
        result = experiments.read(self.folder / f"{planned.name}.json")
        return result if result is not None and result.fits(planned.options, self.fingerprint) else None

    def run(self, planned: Sequence[Planned], retry: bool = False, keep: bool = False) -> Tally:
        """Trains the missing experiments.

        Args:
            retry: trains failed experiments again.
            keep: keeps the folders in DIR/runs.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        missing = [one for one in planned if (r := self.find(one)) is None or (retry and not r.done)]
        note(f"experiments: {len(planned):,} planned, {len(planned) - len(missing):,} already exist")
        if missing:  # an error here would occur in every experiment
            options = missing[0].options
            protocols.split(self.dataset, SplitOptions.of(options), seed=options.seed)
            backbones.create(options.backbone, options.weights, options.crop)
        started = time.monotonic()
        finished = True
        for number, one in enumerate(missing):
            left = (time.monotonic() - started) / max(number, 1) * (len(missing) - number)
            note("")
            remaining = f", {duration(left)} left" if number else ""
            note(f"experiment {number + 1} of {len(missing)}{remaining}: {one.title} ({one.setup.title})")
            finished = self._train(one, keep)
            if not finished:
                break
        if finished:
            with contextlib.suppress(OSError):  # it is not empty
                (self.out / "runs").rmdir()
        results = [result for one in planned if (result := self.find(one)) is not None]
        unreadable = {key for result in results if result.done for key in result.content["unreadable"]}
        done = sum(result.done for result in results)
        return Tally(done, len(results) - done, len(unreadable), not finished)

    def _train(self, planned: Planned, keep: bool) -> bool:
        """Trains an experiment and writes its file. Returns False if it was interrupted."""
        folder = self.out / "runs" / planned.name
        resume = self._can_resume(folder, planned.options)
        before = _sum_of_epochs(folder, "seconds") if resume else 0.0
        if resume:
            note("continuing from its checkpoint")
        else:
            shutil.rmtree(folder, ignore_errors=True)  # an unfinished run, possibly with corrupt files
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
                planned.options, RunDir(folder), device=self.device, cache=self.cache, resume=resume, evaluate=True
            )
            if not outcome.finished:
                return False
            if not outcome.evaluations:
                raise IdcwhError("; ".join(outcome.unmeasured.values()))
            content["evaluations"] = _plain(outcome.evaluations)
            content["variants"] = {title: _plain(by_bits) for title, by_bits in outcome.variants.items()}
            content["record"], content["unreadable"] = outcome.record, outcome.failed
            if planned.variant is None and planned.seed == 0 and SHOWN_BITS in planned.bits:
                file = folder / model_names(planned.bits)[SHOWN_BITS]
                arrays = embedding.query_logits(file, self.dataset, self.device, self.cache)
                experiments.write_logits(self.folder, planned, **arrays)
        except NotWrittenError:
            raise
        except _FAILURES as error:
            content |= {"status": experiments.FAILED, "reason": describe(error), "evaluations": {}}
            note(f"failed: {content['reason']}")
        content |= {
            "protocol": _protocol(folder),
            "seconds": {
                "training": _sum_of_epochs(folder, "seconds"),
                "training_cpu": _sum_of_epochs(folder, "cpu_seconds"),
                "total": round(time.monotonic() - started + before, 3),
            },
            "resumed": resume,
            **environment.describe(self.device),
            "command": self.command,
            "finished_at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        }
        experiments.write(self.folder, planned, content)
        for bits, evaluation in content["evaluations"].items():
            note(f"{bits} bits: MAP {evaluation['map']:.4f}, {duration(content['seconds']['total'])}")
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
        return True

    def _can_resume(self, folder: Path, options: Options) -> bool:
        """Returns True if the folder has a usable checkpoint with the same options, and its protocol."""
        try:
            saved = resuming.read(folder / CHECKPOINT)
            split = protocols.load(folder / PROTOCOL, self.dataset)
            resuming.check(RunDir(folder), saved, resuming.identity(split, self.dataset, options.weights))
            return experiments.same_options(saved["options"], options.to_dict())
        except (IdcwhError, OSError, TypeError):
            return False


def _plain(evaluations: dict[int, Evaluation]) -> dict[str, Any]:
    return {str(bits): evaluation.to_dict() for bits, evaluation in evaluations.items()}


def _protocol(folder: Path) -> dict[str, Any] | None:
    """Returns name, seed, sizes and checksums of the split, or None if the experiment failed before it."""
    try:
        content = json.loads((folder / PROTOCOL).read_bytes())
        sizes = {part: len(content[part]["rows"]) for part in ("query", "train", "database")}
        return {"name": content["protocol"], "seed": content["seed"], "sizes": sizes, "sha256": content["sha256"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _sum_of_epochs(folder: Path, clock: str) -> float:
    """Returns the sum over all epochs of the log, including those before an interruption."""
    try:
        records = training_curves.read(folder / LOG)
        return round(sum(float(record.get(clock, 0.0)) for record in records), 3)
    except (IdcwhError, TypeError, ValueError):
        return 0.0
