"""Experiments, which are one training and its evaluation, and their files DIR/experiments/NAME.json.

A file is written atomically when its experiment is done or has failed, and has everything that the report needs. Some
experiments also have a file NAME.npz with the logits of queries for t-SNE.
"""

from __future__ import annotations

import io
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from idcwh_search._util import npz
from idcwh_search._util.atomic import OWN_NAME, replacing
from idcwh_search._util.console import note
from idcwh_search.errors import CorruptFileError, IdcwhError, NotSupportedError
from idcwh_search.metrics.result import Evaluation
from idcwh_train import recipes
from idcwh_train.options import Options

FORMAT, VERSION = "idcwh-reproduce-experiment", 1
DONE, FAILED = "done", "failed"


@dataclass(frozen=True)
class Setup:
    """The settings that all methods of a table share. Each setup is a section of the report."""

    recipe: str
    backbone: str
    freeze: bool

    @property
    def title(self) -> str:
        trained = "Frozen" if self.freeze else "From scratch" if self.recipe == "scratch" else "Fine-tuned"
        return f"{trained} {self.backbone}, recipe {self.recipe}"

    @property
    def slug(self) -> str:
        return _slug(f"{self.backbone}-{'frozen' if self.freeze else 'tuned'}-{self.recipe}")


@dataclass(frozen=True)
class Variant:
    """The setting in which an experiment of a sweep or the ablation differs from the table, such as sigma2 = 8."""

    kind: str
    value: str | float

    @property
    def slug(self) -> str:
        return _slug(f"{self.kind}-{self.value:g}" if isinstance(self.value, float) else f"{self.kind}-{self.value}")


@dataclass(frozen=True)
class Experiment:
    """The identity of an experiment. `bits` are the code lengths of its training."""

    setup: Setup
    method: str
    bits: tuple[int, ...]
    seed: int
    variant: Variant | None

    @property
    def name(self) -> str:
        """The stem of its file names."""
        lengths = "+".join(f"{bits:02d}" for bits in self.bits)
        parts = [self.setup.slug, self.method, f"{lengths}bits", f"seed{self.seed}"]
        return "--".join(parts + ([self.variant.slug] if self.variant else []))

    @property
    def title(self) -> str:
        """The name of the experiment in messages and in the report."""
        varied = f", {self.variant.kind} {self.variant.value}" if self.variant else ""
        return f"{self.method}{varied}, {', '.join(map(str, self.bits))} bits, seed {self.seed}"


@dataclass(frozen=True)
class Planned(Experiment):
    """An experiment with the options of its training."""

    options: Options = field(compare=False)


@dataclass(frozen=True, eq=False)
class Result(Experiment):
    """The result of an experiment, from its file.

    evaluations: the evaluations by code length.
    content: the JSON without the evaluations.
    """

    evaluations: dict[int, Evaluation]
    content: dict[str, Any]
    path: Path

    @property
    def done(self) -> bool:
        return bool(self.content["status"] == DONE)

    @property
    def reason(self) -> str:
        """The reason of a failure."""
        return self.content["reason"] or "unknown"

    def method_options(self, bits: int) -> dict[str, Any]:
        """Returns the options of the method for one code length."""
        options = self.content["options"]
        return {**options["length_options"].get(str(bits), {}), **options["method_options"]}

    def fits(self, options: Options, dataset: str) -> bool:
        """Returns True if the options and the SHA-256 of the dataset match. The path of the dataset may differ."""
        return same_options(self.content["options"], options.to_dict()) and self.content["dataset"]["sha256"] == dataset

    def logits(self) -> dict[str, np.ndarray] | None:
        """Returns h float32 [m, bits], labels int64 [m] and classes str [C] of some queries, or None without them.

        Only the checksums of the archive are checked.
        """
        try:
            arrays, _ = npz.read(self.path.with_suffix(".npz"), ("h", "labels", "classes"), "logits")
        except (FileNotFoundError, IdcwhError):
            return None
        return arrays if len(arrays) == 3 else None


def same_options(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Returns True if two dictionaries of Options are equal. The path of the dataset may differ."""
    first, second = (json.loads(json.dumps({**options, "data": ""})) for options in (a, b))
    return bool(first == second)


def write(folder: Path, planned: Planned, content: dict[str, Any]) -> None:
    """Writes the file of an experiment. `content` is everything except its identity and options."""
    whole = {
        "format": FORMAT,
        "version": VERSION,
        **asdict(planned.setup),
        "method": planned.method,
        "bits": planned.bits,
        "seed": planned.seed,
        "variant": asdict(planned.variant) if planned.variant else None,
        "options": planned.options.to_dict(),
        **content,
    }
    whole = json.loads(json.dumps(whole, allow_nan=False))  # the checksum is of the content as it is read
    with replacing(folder / f"{planned.name}.json", OWN_NAME) as file:
        file.write(json.dumps(whole | {"crc32": _checksum(whole)}, indent=1).encode())


def write_logits(folder: Path, experiment: Experiment, **arrays: np.ndarray) -> None:
    """Writes the logits to NAME.npz. NAME.json is written afterwards."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    with replacing(folder / f"{experiment.name}.npz", OWN_NAME) as file:
        file.write(buffer.getbuffer())


def read(path: Path) -> Result | None:
    """Returns the result in an experiment's file, or None if it is missing or unusable. Reports an unusable file.

    Only the checksum of the content is checked, since `write` writes complete files. Files of earlier versions have no
    checksum and are not checked.
    """
    try:
        return _parsed(path, json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
    except IdcwhError as error:
        reason = str(error)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        reason = f"is corrupt ({error or type(error).__name__})"
    note(f"{path}: {reason[:200]}; it is ignored")
    return None


def _parsed(path: Path, content: Any) -> Result:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CorruptFileError("is not an experiment")
    if content.get("version") != VERSION:
        raise NotSupportedError("version is not supported", found=content.get("version"), expected=VERSION)
    if content.pop("crc32", None) not in (None, _checksum(content)):
        raise CorruptFileError("is corrupt: its checksum does not match")
    settings = {name: content[name] for name in ("backbone", "freeze", "method", "bits", "seed")}
    recipes.options(content["recipe"], settings)  # raises an error for a method or recipe of a later version
    return Result(
        setup=Setup(content["recipe"], content["backbone"], content["freeze"]),
        method=content["method"],
        bits=tuple(content["bits"]),
        seed=content["seed"],
        variant=Variant(**content["variant"]) if content["variant"] else None,
        evaluations={int(bits): Evaluation.from_dict(e) for bits, e in content.pop("evaluations").items()},
        content=content,
        path=path,
    )


def read_all(folder: Path) -> Iterator[Result]:
    """Yields the results of all experiments in a folder, in the order of their names."""
    for path in sorted(folder.glob("*.json")):
        if (result := read(path)) is not None:
            if path.stem == result.name:
                yield result
            else:  # the result would count twice
                note(f"{path}: is a copy of {result.name}.json; it is ignored")


def _checksum(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.=+-]+", "_", text)
