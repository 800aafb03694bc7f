"""A cell: one training, measured; and the file that it leaves, DIR/cells/NAME.json.

A file is written when its cell is done or has failed, at once and whole, and holds everything that the report says of
it. Beside the JSON of some cells is NAME.npz, the logits of queries for the pictures of t-SNE.
"""

from __future__ import annotations

import io
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from idcwh_search._util import npz
from idcwh_search._util.atomic import OWN_NAME, replacing
from idcwh_search._util.console import note
from idcwh_search.errors import CorruptFileError, IdcwhError, NotSupportedError
from idcwh_search.metrics.result import Evaluation
from idcwh_train import recipes
from idcwh_train.recipes import Options

__all__ = [
    "DONE",
    "FAILED",
    "Cell",
    "Result",
    "Setup",
    "Variant",
    "read",
    "read_all",
    "same_options",
    "write",
    "write_logits",
]

FORMAT, VERSION = "idcwh-reproduce-cell", 1
DONE, FAILED = "done", "failed"


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
    """A cell's file as read. `content` is the JSON as `write` took it."""

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
    whole = json.loads(json.dumps(whole, allow_nan=False))  # as it will be read
    with replacing(folder / f"{cell.name}.json", OWN_NAME) as file:
        file.write(json.dumps(whole | {"crc32": _checksum(whole)}, indent=1).encode())


def write_logits(folder: Path, cell: Cell, **arrays: np.ndarray) -> None:
    """NAME.npz, before NAME.json."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    with replacing(folder / f"{cell.name}.npz", OWN_NAME) as file:
        file.write(buffer.getbuffer())


def read(path: Path) -> Result | None:
    """Reads a cell's file. Returns None where there is none, or none that can be used, which is reported.

    The checksum in the file is the only check of its contents: what `write` wrote is complete. A file of an earlier
    version has no checksum and is trusted.
    """
    try:
        content = json.loads(path.read_bytes())
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise CorruptFileError("is not a cell")
        if content.get("version") != VERSION:
            raise NotSupportedError(f"has another version (found {content.get('version')}, expected {VERSION})")
        if content.pop("crc32", None) not in (None, _checksum(content)):
            raise CorruptFileError("is corrupt (its checksum does not match)")
        settings = {name: content[name] for name in ("backbone", "freeze", "method", "bits", "seed")}
        recipes.options(content["recipe"], settings)  # raises for a method or recipe of a later version
        variant = content["variant"]
        return Result(
            setup=Setup(content["recipe"], content["backbone"], content["freeze"]),
            method=content["method"],
            bits=tuple(content["bits"]),
            seed=content["seed"],
            variant=Variant(variant["kind"], variant["value"]) if variant else None,
            status=content["status"],
            reason=content["reason"],
            evaluations={int(bits): Evaluation.from_dict(e) for bits, e in content.pop("evaluations").items()},
            content=content,
            path=path,
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
    except (IdcwhError, ValueError, TypeError) as error:
        reason = str(error) if isinstance(error, IdcwhError) else f"is corrupt ({error})"
    except (KeyError, RecursionError) as error:
        reason = f"is corrupt ({type(error).__name__} {error})"
    note(f"{path}: {reason[:200]}; ignored")
    return None


def _checksum(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def read_all(folder: Path) -> Iterator[Result]:
    """Every cell of a folder, in the order of their names."""
    for path in sorted(folder.glob("*.json")):
        if (result := read(path)) is not None:
            if path.stem == _name(result):
                yield result
            else:  # a copy, which would count twice
                note(f"{path}: is a copy of {_name(result)}.json; ignored")


def _name(of: Cell | Result) -> str:
    lengths = "+".join(f"{bits:02d}" for bits in of.bits)
    parts = [of.setup.slug, of.method, f"{lengths}bits", f"seed{of.seed}"]
    return "--".join(parts + ([of.variant.slug] if of.variant else []))


def _comparable(options: dict[str, Any]) -> Any:
    return json.loads(json.dumps({name: value for name, value in options.items() if name != "data"}))


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.=+-]+", "_", text)
