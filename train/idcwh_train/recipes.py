"""The recipes, named sets of options. options.py declares the options, whose defaults are the paper's."""

from __future__ import annotations

from typing import Any

from idcwh_search.errors import InvalidInputError

from .methods import MODULES
from .models import COMPACT
from .options import OPTIONS, Options

RECIPES: dict[str, dict[str, Any]] = {
    # Section IV of the paper, as docs/training.md interprets it, which is what the defaults are.
    "paper": {},
    # For --freeze. A linear layer on 1,280 features and a few hundred images per class overfits with the paper's
    # settings, and more so with longer codes. benchmarks/ablation.py measures the effect of each change.
    "frozen": {
        "validation": 0.1,
        "epochs": 80,
        "min_steps": 2800,  # 80 epochs of cifar10-mini, on which the recipe was tuned (benchmarks/small_sets.py)
        "schedule": "cosine",
        "lr": 0.05,
        "center_lr": 0.05,
        "weight_decay": 5e-3,
        "dropout": 0.5,
    },
    # For fine-tuning of ImageNet weights in little time. Images grow from 96 to 128 pixels, the learning rate rises
    # and falls once, and the saved weights are an EMA.
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
    # For images of 32 x 32 pixels and the backbone `compact`, which has no pretrained weights. bfloat16 is the faster
    # precision on GPUs and on CPUs with AMX. Training from scratch takes more epochs than fine-tuning.
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
"""The options of each recipe that differ from the defaults, by name."""


def options(recipe: str, given: dict[str, Any]) -> Options:
    """Returns the options of a recipe, updated with the options `given`; `method_options` are merged one by one.

    A given number of epochs is exact, because the recipe's `min_steps` does not apply then.
    """
    if recipe not in RECIPES:
        raise InvalidInputError(path="recipe", found=recipe, expected=f"one of {', '.join(RECIPES)}")
    name = given.get("method", Options.method)
    if name not in MODULES:
        raise InvalidInputError(path="method", found=name, expected=f"one of {', '.join(MODULES)}")
    of_method = MODULES[name].recipes.get(recipe, {})
    merged = {**RECIPES[recipe], **of_method, **given}
    if "epochs" in given and "min_steps" not in given:
        merged["min_steps"] = 0
    _follow(merged, given)
    if merged.get("backbone") == COMPACT:
        merged.setdefault("weights", "none")
    if both := {**of_method.get("method_options", {}), **given.get("method_options", {})}:
        merged["method_options"] = both
    if with_bits := MODULES[name].with_bits.get(recipe):
        merged["length_options"] = {
            str(bits): with_bits(bits) for bits in OPTIONS["bits"].checked("bits", merged.get("bits", Options.bits))
        }
    return Options(**merged)


def _follow(merged: dict[str, Any], given: dict[str, Any]) -> None:
    """Adapts the recipe's image sizes to the given ones, so that no error names an option that the user did not set."""
    resize, crop = (merged.get(name, getattr(Options, name)) for name in ("resize", "crop"))
    start, pad = merged.get("start_crop"), merged.get("pad", Options.pad)
    if not all(isinstance(value, int) for value in (resize, crop, pad)):
        return  # Options reports the invalid one
    if "resize" not in given and crop > resize:
        merged["resize"] = resize = crop
    elif "crop" not in given and crop > resize:
        merged["crop"] = crop = resize
    if start and "start_crop" not in given and start > crop:
        merged["start_crop"] = None
    if "pad" not in given and pad >= resize:
        merged["pad"] = 0
