"""The options of a training run, with one declaration per option. recipes.py has the named sets of values.

A method declares its own options in its class, or in methods/*_options.py if idcwh-train has flags for them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from idcwh_search.codes import MAX_BITS
from idcwh_search.splits.options import HELP, NAMES, SplitOptions

from .methods import MODULES
from .models import COMPACT
from .option_types import AT_LEAST_0, DICTIONARY, NAME, SHARE, SWITCH, TEXT, declared, one_of, option, whole

NO_FILES = ("imagenet", "none")
"""Values of `weights` that are not the name of a file."""

_RUN, _DATA, _NETWORK, _IMAGES, _LOSS, _STEPS = "run", "data", "network", "images", "method", "optimization"
GROUPS = (_RUN, _DATA, _NETWORK, _IMAGES, _LOSS, _STEPS)
"""Titles of the groups in --help, in order."""
_COUNT, _NUMBER = whole(1).or_none(), whole(0).or_none()


@dataclass(frozen=True)
class Options:
    """The options of one run, as model.pt and checkpoint.pt record them. The defaults are the paper's.

    A flag has the name of its option, such as `--start-crop` for start_crop. Raises ValueError for an invalid value.
    """

    data: str = option("", TEXT, "labelled images, see below", _DATA, metavar="DATA")
    protocol: str = option("auto", one_of(*NAMES), "split protocol", _DATA, metavar="NAME")
    query_per_class: int | None = option(None, _NUMBER, HELP["query_per_class"], _DATA)
    train_per_class: int | None = option(None, _COUNT, HELP["train_per_class"], _DATA)
    query: int | None = option(None, _NUMBER, HELP["query"], _DATA)
    train: int | None = option(None, _COUNT, HELP["train"], _DATA)
    database_without_train: bool = option(False, SWITCH, HELP["database_without_train"], _DATA)
    unseen_classes: int | None = option(
        None, _COUNT, "number of unseen classes, protocol unseen", _DATA, unset="a quarter"
    )
    seed: int = option(0, whole(0), "seed of split, weights and batches", _RUN)
    validation: float = option(0.0, SHARE, "validation share of the training images", _DATA)
    keep: str = option("last", one_of("last", "best"), "epoch to save: last, or best validation MAP", _RUN)

    backbone: str = option("googlenet", TEXT, "torchvision name, timm:NAME or compact", _NETWORK, metavar="NAME")
    weights: str = option("imagenet", NAME, "initial weights: imagenet, none or a file", _NETWORK, metavar="FILE")
    freeze: bool = option(False, SWITCH, "frozen backbone: only the hash layer trains", _NETWORK)
    precision: str = option("float32", one_of("float32", "bfloat16"), "fine-tuning precision", _NETWORK)

    resize: int = option(240, whole(1), "shorter side of the resized images", _IMAGES, metavar="PIXELS")
    crop: int = option(224, whole(1), "side of the square network input", _IMAGES, metavar="PIXELS")
    start_crop: int | None = option(
        None,
        whole(8).or_none(),
        "initial crop; grows to --crop in 2/3 of the run",
        _IMAGES,
        metavar="PIXELS",
    )
    pad: int = option(0, whole(0), "reflected border of random crops", _IMAGES, metavar="PIXELS")
    flip: bool = option(False, SWITCH, "random horizontal flips", _IMAGES, negatable=True)
    erase: float = option(0.0, SHARE, "random erasing: share of the image side", _IMAGES)

    bits: tuple[int, ...] = option(
        (48,), whole(1, MAX_BITS), "code length in bits; several share a run", _NETWORK, repeated=True
    )
    method: str = option("idcwh", one_of(*MODULES), "loss function, see below", _LOSS, metavar="METHOD")
    method_options: dict[str, Any] = option({}, DICTIONARY, "options of the method that differ from its defaults")  # noqa: RUF009
    length_options: dict[str, dict[str, Any]] = option({}, DICTIONARY, "the same, by code length")  # noqa: RUF009

    epochs: int = option(150, whole(1), "passes over the training images", _STEPS)
    min_steps: int = option(0, whole(0), "minimum number of steps; raises the epochs of small datasets")
    batch_size: int = option(128, whole(1), "images per step over all processes", _STEPS)
    optimizer: str = option("sgd", one_of("sgd", "adam"), "optimizer; adam is AdamW", _STEPS)
    lr: float = option(1e-2, AT_LEAST_0, "learning rate of the network", _STEPS)
    head_lr: float | None = option(
        None, AT_LEAST_0.or_none(), "hash-layer learning rate", _STEPS, unset="--lr, scaled per method"
    )
    center_lr: float = option(5e-3, AT_LEAST_0, "learning rate of the centers", _STEPS)
    weight_decay: float = option(5e-4, AT_LEAST_0, "weight decay, also of the centers", _STEPS)
    momentum: float = option(0.9, SHARE, "momentum of sgd", _STEPS)
    nesterov: bool = option(False, SWITCH, "Nesterov momentum", _STEPS, negatable=True)
    schedule: str = option("step", one_of("step", "cosine", "linear"), "learning-rate schedule", _STEPS)
    warmup: float = option(0.0, SHARE, "learning-rate warmup, share of the run", _STEPS)
    average: float = option(0.0, SHARE, "decay of the EMA of the weights", _STEPS)
    dropout: float = option(0.0, SHARE, "dropout before the hash layer", _STEPS)

    def __post_init__(self) -> None:
        for name, one in OPTIONS.items():
            object.__setattr__(self, name, one.checked(name, getattr(self, name)))
        SplitOptions.of(self)  # its checks
        if self.crop > self.resize:
            raise ValueError(f"crop: expected at most resize ({self.resize}), not {self.crop}")
        if self.start_crop is not None and self.start_crop > self.crop:
            raise ValueError(f"start_crop: expected 8 to crop ({self.crop}), not {self.start_crop}")
        if self.pad and self.pad >= self.resize:
            raise ValueError(f"pad: expected less than resize ({self.resize}), not {self.pad}")
        if self.backbone == COMPACT and self.weights == "imagenet":
            raise ValueError("weights: imagenet is not supported for compact; expected none, or a file")
        if self.keep == "best" and not self.validation:
            raise ValueError("keep: best is not supported without validation images; pass --validation SHARE")
        if self.nesterov and (self.optimizer != "sgd" or not self.momentum):
            raise ValueError("nesterov: is not supported without sgd and momentum")

    def of_method(self, bits: int) -> dict[str, Any]:
        """Returns the method's options for one code length that differ from its defaults."""
        return {**self.length_options.get(str(bits), {}), **self.method_options}

    def to_dict(self) -> dict[str, Any]:
        """Returns the options as plain Python, for the files of the run."""
        return {**asdict(self), "bits": list(self.bits)}


OPTIONS = declared(Options)
"""The declaration of each option, by name."""
