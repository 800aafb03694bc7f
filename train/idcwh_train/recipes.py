"""Every setting of a training run, and the named sets of them. The defaults are the paper's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from idcwh_search.codes import check_bits
from idcwh_search.errors import InvalidInputError
from idcwh_search.splits.options import SplitOptions

from . import option_types
from .methods import MODULES

SCHEDULES = ("step", "cosine", "linear")
PRECISIONS = ("float32", "bfloat16")
OPTIMIZERS = ("sgd", "adam")
KEEP = ("last", "best")
NO_FILES = ("imagenet", "none")
"""Of `weights`, what is not the name of a file."""
COMPACT = "compact"
"""Name of the backbone that nobody has trained: it begins from nothing, or from a file."""


@dataclass(frozen=True)
class Options:
    """One run, as model.pt and checkpoint.pt record it. ValueError for a value that is not of its KINDS."""

    data: str = ""
    protocol: str = "auto"
    query_per_class: int | None = None
    train_per_class: int | None = None
    query: int | None = None  # over all classes
    train: int | None = None
    database_without_train: bool = False
    unseen_classes: int | None = None
    seed: int = 0  # of the split, the first weights, the order of the batches, dropout, crops
    validation: float = 0.0  # share of the training images held out to be watched; they do not train
    keep: str = "last"  # epoch whose weights are the model's: the last, or the best on the held-out images

    backbone: str = "googlenet"
    weights: str = "imagenet"
    freeze: bool = False  # train the hash layer on features computed once, without augmentation
    precision: str = "float32"  # of the backbone while fine-tuning

    resize: int = 240  # of the shorter side
    crop: int = 224  # side of what the network sees: in training a random square, else the centre
    start_crop: int | None = None  # smaller side of the first epochs; it grows to `crop` by two thirds of the run
    pad: int = 0  # pixels that mirror the border, around what random crops are taken from
    flip: bool = False
    erase: float = 0.0  # side of a grey square put somewhere into a training image, as a share of the image's

    bits: tuple[int, ...] = (48,)  # ascending; several are trained together on one backbone
    method: str = "idcwh"
    method_options: dict[str, Any] = field(default_factory=dict)  # of the method; what is missing is its default
    length_options: dict[str, dict[str, Any]] = field(default_factory=dict)  # code length -> more of them

    epochs: int = 150
    min_steps: int = 0  # optimiser steps; a dataset too small for them in `epochs` trains for more epochs
    batch_size: int = 128
    optimizer: str = "sgd"
    lr: float = 1e-2
    head_lr: float | None = None  # of the hash layer; None: lr, in fine-tuning times the method's head_lr
    center_lr: float = 5e-3
    weight_decay: float = 5e-4
    momentum: float = 0.9
    nesterov: bool = False
    schedule: str = "step"  # x 0.1 after each third; or down to 0 by half a cosine or a straight line
    warmup: float = 0.0  # share of the run in which the learning rate rises from 0
    average: float = 0.0  # decay of a running mean of the weights, which is then the model; 0: none
    dropout: float = 0.0  # on the features, before the hash layer

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", _lengths(self.bits))
        for name, kind in KINDS.items():
            object.__setattr__(self, name, kind.checked(name, getattr(self, name)))
        for name in ("method_options", "length_options"):
            if not isinstance(getattr(self, name), dict):
                raise ValueError(f"{name}: expected a dictionary, not {getattr(self, name)!r}")
        SplitOptions.of(self)
        if self.crop > self.resize:
            raise ValueError(f"crop: expected at most resize ({self.resize}), not {self.crop}")
        if self.start_crop is not None and self.start_crop > self.crop:
            raise ValueError(f"start_crop: expected 8 to crop ({self.crop}), not {self.start_crop}")
        if self.pad and self.pad >= self.resize:
            raise ValueError(f"pad: expected less than resize ({self.resize}), not {self.pad}")
        if self.backbone == COMPACT and self.weights == "imagenet":
            raise ValueError("weights: there are none of compact on ImageNet; expected none, or a file")
        if self.keep == "best" and not self.validation:
            raise ValueError("keep: best needs held-out images (--validation SHARE); the queries never choose")
        if self.nesterov and (self.optimizer != "sgd" or not self.momentum):
            raise ValueError("nesterov: belongs to sgd with momentum")

    def of_method(self, bits: int) -> dict[str, Any]:
        """The options of the method for one code length."""
        return {**self.length_options.get(str(bits), {}), **self.method_options}

    def to_dict(self) -> dict[str, Any]:
        """Plain Python."""
        return {**asdict(self), "bits": list(self.bits)}


def _lengths(bits: int | Iterable[int]) -> tuple[int, ...]:
    lengths = tuple(bits) if isinstance(bits, Iterable) and not isinstance(bits, str) else (bits,)
    if not lengths:
        raise ValueError("bits: expected at least one code length")
    checked = sorted(check_bits(length) for length in lengths)
    if len(set(checked)) < len(checked):
        raise ValueError(f"bits: a code length is given twice: {', '.join(map(str, lengths))}")
    return tuple(checked)


def _kinds() -> dict[str, option_types.Kind]:
    by_type = {
        "bool": option_types.BOOLEAN,
        "int": option_types.whole(0),
        "float": option_types.AT_LEAST_0,
        "str": option_types.TEXT,
    }
    counts = (
        "train_per_class", "train", "unseen_classes",
        "resize", "crop", "epochs", "batch_size",
    )  # fmt: skip
    shares = ("validation", "erase", "warmup", "average", "dropout", "momentum")
    choices = {"schedule": SCHEDULES, "precision": PRECISIONS, "optimizer": OPTIMIZERS, "keep": KEEP}
    narrower = {
        **dict.fromkeys(counts, option_types.whole(1)),
        "start_crop": option_types.whole(8),
        "weights": option_types.NAME,
        **dict.fromkeys(shares, option_types.SHARE),
        **{name: option_types.one_of(allowed) for name, allowed in choices.items()},
    }
    found = {}
    for one in fields(Options):
        of, _, nothing = str(one.type).partition(" | ")
        if of in by_type:
            kind = narrower.get(one.name, by_type[of])
            found[one.name] = kind.or_none() if nothing else kind
    return found


KINDS = _kinds()
"""Field of Options -> what it takes; not of those that are no single value."""

RECIPES: dict[str, dict[str, Any]] = {
    # Section IV of the paper, as METHOD and docs/training.md read it: nothing differs from the defaults.
    "paper": {},
    # For --freeze. A linear layer on 1,280 features and a few hundred images a class over-fits with the paper's
    # settings, and the more so the longer the code. docs/training.md shows what each change is worth.
    "frozen": {
        "validation": 0.1,
        "epochs": 80,
        "min_steps": 2800,  # those of 80 epochs of cifar10-mini, where the recipe was tuned (benchmarks/small_sets.py)
        "schedule": "cosine",
        "lr": 0.05,
        "center_lr": 0.05,
        "weight_decay": 5e-3,
        "dropout": 0.5,
    },
    # For fine-tuning where every picture costs: ImageNet weights, pictures of 96 growing to 128 pixels, one rise and
    # fall of the learning rate, the mean of the last weights.
    "best": {
        "resize": 128,
        "crop": 128,
        "start_crop": 96,
        "pad": 12,
        "flip": True,
        "epochs": 16,
        "batch_size": 64,
        "nesterov": True,
        "schedule": "linear",
        "warmup": 0.1,
        "lr": 0.03,
        "center_lr": 0.03,
        "average": 0.99,
        "dropout": 0.2,
    },
    # For pictures of 32 x 32 and a network without weights, `compact`: bfloat16, which CPUs with AMX or a GPU make the
    # faster one, and many more epochs than fine-tuning needs.
    "scratch": {
        "backbone": COMPACT,
        "weights": "none",
        "precision": "bfloat16",
        "resize": 32,
        "crop": 32,
        "pad": 4,
        "flip": True,
        "epochs": 36,
        "batch_size": 128,
        "nesterov": True,
        "schedule": "linear",
        "warmup": 0.2,
        "lr": 0.2,
        "center_lr": 0.1,
        "average": 0.995,
    },
}
"""Name -> what differs from the defaults. What the command line says wins over the recipe."""


def options(recipe: str, given: dict[str, Any]) -> Options:
    """The options of a recipe with those `given` in their place; `method_options` are merged one by one.

    A given number of epochs is exact: the recipe's `min_steps` does not apply.
    """
    if recipe not in RECIPES:
        raise InvalidInputError(f"unknown recipe {recipe!r}; expected one of {', '.join(RECIPES)}")
    name = given.get("method", Options.method)
    if name not in MODULES:
        raise InvalidInputError(f"unknown method {name!r}; expected one of {', '.join(MODULES)}")
    own = MODULES[name].recipes.get(recipe, {})
    merged = {**RECIPES[recipe], **own, **given}
    if "epochs" in given and "min_steps" not in given:
        merged["min_steps"] = 0
    _follow(merged, given)
    if merged.get("backbone") == COMPACT:
        merged.setdefault("weights", "none")
    if both := {**own.get("method_options", {}), **given.get("method_options", {})}:
        merged["method_options"] = both
    if of := MODULES[name].with_bits.get(recipe):
        merged["length_options"] = {str(bits): of(bits) for bits in _lengths(merged.get("bits", Options.bits))}
    return Options(**merged)


def _follow(merged: dict[str, Any], given: dict[str, Any]) -> None:
    """Sizes of images that were not given follow those that were, so that no error names what nobody asked for."""
    resize, crop = (merged.get(name, getattr(Options, name)) for name in ("resize", "crop"))
    start, pad = merged.get("start_crop"), merged.get("pad", Options.pad)
    if not all(isinstance(value, int) for value in (resize, crop, pad)):
        return  # which is an error of its own
    if "resize" not in given and crop > resize:
        merged["resize"] = resize = crop
    elif "crop" not in given and crop > resize:
        merged["crop"] = crop = resize
    if start and "start_crop" not in given and start > crop:
        merged["start_crop"] = None
    if "pad" not in given and pad >= resize:
        merged["pad"] = 0
