"""Every setting of a training run, and the named sets of them. The defaults are the paper's."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from idcwh_search.codes import check_bits
from idcwh_search.errors import IdcwhError

SCHEDULES = ("step", "cosine")
PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class Options:
    """One run, as model.pt and checkpoint.pt record it. ValueError for a value out of range."""

    data: str = ""
    protocol: str = "auto"
    query_per_class: int | None = None
    train_per_class: int | None = None
    seed: int = 0  # of the split, the first weights, the order of the batches, dropout, crops
    validation: float = 0.0  # share of the training images held out to be watched; they do not train

    backbone: str = "googlenet"
    weights: str = "imagenet"
    freeze: bool = False  # train the hash layer on features computed once, without augmentation
    resize: int = 240
    crop: int = 224
    flip: bool = False
    precision: str = "float32"  # of the backbone while fine-tuning

    bits: int = 48
    method: str = "idcwh"
    method_options: dict[str, Any] = field(default_factory=dict)  # of the method; what is missing is its default

    epochs: int = 150
    batch_size: int = 128
    lr: float = 1e-2
    center_lr: float = 5e-3
    weight_decay: float = 5e-4
    momentum: float = 0.9
    schedule: str = "step"  # x 0.1 after each third, or a half cosine down to 0
    dropout: float = 0.0  # on the features, before the hash layer

    def __post_init__(self) -> None:
        for name in ("bits", "epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, not {getattr(self, name)}")
        check_bits(self.bits)
        for name in ("lr", "center_lr", "weight_decay", "momentum"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name}: expected a number of at least 0, not {getattr(self, name)}")
        for name in ("dropout", "validation"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}: expected a share from 0 up to, not including, 1, not {getattr(self, name)}")
        for name, allowed in (("schedule", SCHEDULES), ("precision", PRECISIONS)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}: expected one of {', '.join(allowed)}, not {getattr(self, name)!r}")

    def to_dict(self) -> dict[str, Any]:
        """Plain Python."""
        return asdict(self)


_WITH_BITS = "with_bits"  # in a recipe: options of the method that depend on the code length

RECIPES: dict[str, dict[str, Any]] = {
    # Section IV of the paper, as METHOD and docs/training.md read it: nothing differs from the defaults.
    "paper": {},
    # For --freeze. A linear layer on 1,280 features and a few hundred images a class over-fits with the paper's
    # settings, and the more so the longer the code. docs/training.md shows what each change is worth.
    "frozen": {
        "validation": 0.1,
        "epochs": 80,
        "schedule": "cosine",
        "lr": 0.05,
        "center_lr": 0.05,
        "weight_decay": 5e-3,
        "dropout": 0.5,
        # ||h - mu||^2 and Q are sums over the bits: so that no code length weighs them otherwise
        _WITH_BITS: lambda bits: {"sigma2": bits / 3, "beta": 1.2 / bits},
    },
}
"""Name -> what differs from the defaults. What the command line says wins over the recipe."""


def options(recipe: str, given: dict[str, Any]) -> Options:
    """The options of a recipe with those `given` in their place; `method_options` are merged one by one."""
    if recipe not in RECIPES:
        raise IdcwhError(f"unknown recipe {recipe!r}; expected one of {', '.join(RECIPES)}")
    merged = {**RECIPES[recipe], **given}
    with_bits = merged.pop(_WITH_BITS, lambda bits: {})
    merged["method_options"] = {**with_bits(merged.get("bits", Options.bits)), **given.get("method_options", {})}
    return Options(**merged)
