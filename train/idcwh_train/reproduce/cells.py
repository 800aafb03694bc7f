"""A cell: one training, measured; and the file that it leaves, DIR/cells/NAME.json.

A file is written when its cell is done or has failed, at once and whole, and holds everything that the report says of
it. Beside the JSON of some cells is NAME.npz, the logits of queries for the pictures of t-SNE.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from idcwh_search import npz
from idcwh_search.cli.common import note
from idcwh_search.errors import IdcwhError
from idcwh_search.evaluation import Evaluation
from idcwh_search.files import replacing

from ..recipes import Options
from . import schema
from .schema import DONE, FAILED, FORMAT, VERSION

__all__ = [
    "DONE", "FAILED", "Cell", "Result", "Setup", "Variant", "read", "read_all", "same_options", "write", "write_logits",
]  # fmt: skip


@dataclass(frozen=True)
class Setup:
    """What all methods of a table share: a table of the report each."""

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
    """How a cell of a sweep or of the ablation differs from the one of the table: kind "sigma2" and its value, say."""

    kind: str
    value: str | float

    @property
    def slug(self) -> str:
        return _slug(f"{self.kind}-{self.value:g}" if isinstance(self.value, float) else f"{self.kind}-{self.value}")


@dataclass(frozen=True)
class Cell:
    """One training to be done. Several `bits` are code lengths that one training yields together."""

    setup: Setup
    method: str
    bits: tuple[int, ...]
    seed: int
    options: Options = field(compare=False)
    variant: Variant | None = None

    @property
    def name(self) -> str:
        """Of its files."""
        return _name(self)

    @property
    def title(self) -> str:
        """For the person at the terminal."""
        lengths = ", ".join(map(str, self.bits))
        varied = f", {self.variant.kind} {self.variant.value}" if self.variant else ""
        return f"{self.method}{varied}, {lengths} bits, seed {self.seed} ({self.setup.title})"


@dataclass(frozen=True, eq=False)
class Result:
    """A cell's file as read. `content` is the JSON without what the fields hold; see `schema.py` for its keys."""

    setup: Setup
    method: str
    bits: tuple[int, ...]
    seed: int
    variant: Variant | None
    status: str
    reason: str | None
    evaluations: dict[int, Evaluation]
    content: dict[str, Any]
    path: Path

    @property
    def done(self) -> bool:
        return self.status == DONE

    def method_options(self, bits: int) -> dict[str, Any]:
        """What its method was given for one of its code lengths."""
        options = self.content["options"]
        return {**options["length_options"].get(str(bits), {}), **options["method_options"]}

    def fits(self, options: Options, dataset: str) -> bool:
        """Whether it is of these options and of the set with this SHA-256, wherever the set lies."""
        return same_options(self.content["options"], options.to_dict()) and self.content["dataset"]["sha256"] == dataset

    def logits(self) -> dict[str, np.ndarray] | None:
        """h float32 [m, bits], labels int64 [m] and classes str [C] of some queries, where they were kept."""
        names = ("h", "labels", "classes")
        try:
            found, _ = npz.read(self.path.with_suffix(".npz"), names, "logits")
        except (FileNotFoundError, IdcwhError):
            return None  # the pictures are done without
        if len(found) < len(names):
            return None
        h, labels, classes = found["h"], found["labels"], found["classes"]
        fit = h.ndim == 2 and labels.shape == h.shape[:1] and classes.ndim == 1
        return found if fit and h.dtype.kind == "f" and labels.dtype.kind == "i" else None


def same_options(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether two dictionaries of Options ask for the same training, wherever the data lies."""
    return _comparable(a) == _comparable(b)


def write(folder: Path, cell: Cell, content: dict[str, Any]) -> None:
    """The cell's file, whole or not at all. `content`: everything that Result has beside what the cell itself says."""
    whole = {
        "format": FORMAT,
        "version": VERSION,
        "recipe": cell.setup.recipe,
        "backbone": cell.setup.backbone,
        "freeze": cell.setup.freeze,
        "method": cell.method,
        "bits": list(cell.bits),
        "seed": cell.seed,
        "variant": {"kind": cell.variant.kind, "value": cell.variant.value} if cell.variant else None,
        "options": cell.options.to_dict(),
        **content,
    }
    with replacing(folder / f"{cell.name}.json") as file:
        file.write(json.dumps(whole, indent=1, allow_nan=False).encode())


def write_logits(folder: Path, cell: Cell, **arrays: np.ndarray) -> None:
    """NAME.npz, before NAME.json."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    with replacing(folder / f"{cell.name}.npz") as file:
        file.write(buffer.getbuffer())


def read(path: Path) -> Result | None:
    """A cell's file, or None where there is none, or one that is not ours; the latter is said."""
    try:
        content = schema.checked(schema.load(path))
        variant = content["variant"]
        evaluations = {int(bits): Evaluation.from_dict(e) for bits, e in content.pop("evaluations").items()}
        result = Result(
            setup=Setup(content["recipe"], content["backbone"], content["freeze"]),
            method=content["method"],
            bits=tuple(content["bits"]),
            seed=content["seed"],
            variant=Variant(variant["kind"], variant["value"]) if variant else None,
            status=content["status"],
            reason=content["reason"],
            evaluations=evaluations,
            content=content,
            path=path,
        )
        _check_evaluations(result)
        return result
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = error.strerror or str(error)
    except RecursionError:
        reason = "lists in lists in lists"
    except (IdcwhError, ValueError, TypeError) as error:
        reason = str(error)
    note(f"{path}: not a cell of this program, left alone ({reason[:200]})")
    return None


def _check_evaluations(result: Result) -> None:
    """ValueError unless there is one of each length of a cell that is done, of none else, and its curves fit it."""
    expected = sorted(result.bits) if result.done else []
    if sorted(result.evaluations) != expected:
        found = ", ".join(map(str, sorted(result.evaluations))) or "none"
        raise ValueError(f"evaluations: expected those of {', '.join(map(str, expected)) or 'none'}, found {found}")
    for bits, of_it in result.evaluations.items():
        points = {
            name: {len(curve) for curve in vars(getattr(of_it, name)).values()}
            for name in ("lookup", "ranking", "pr_curve")
        }
        if of_it.bits != bits or points["lookup"] != {bits + 1}:
            raise ValueError(f"evaluations.{bits}: of another length")
        for name, lengths in points.items():
            if len(lengths) > 1 or lengths == {0}:
                raise ValueError(f"evaluations.{bits}.{name}: expected curves of as many points each")


def read_all(folder: Path) -> Iterator[Result]:
    """Every cell of a folder, in the order of their names."""
    for path in sorted(folder.glob("*.json")):
        if (result := read(path)) is not None:
            if path.stem == _name(result):
                yield result
            else:  # a copy, which would count twice
                note(f"{path}: left alone, the file of this cell is {_name(result)}.json")


def _name(of: Cell | Result) -> str:
    lengths = "+".join(f"{bits:02d}" for bits in of.bits)
    parts = [of.setup.slug, of.method, f"{lengths}bits", f"seed{of.seed}"]
    return "--".join(parts + ([of.variant.slug] if of.variant else []))


def _comparable(options: dict[str, Any]) -> Any:
    return json.loads(json.dumps({name: value for name, value in options.items() if name != "data"}))


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.=+-]+", "_", text)
