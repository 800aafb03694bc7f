"""CIFAR-10 and CIFAR-100 through torchvision: the sources `cifar10:DIR` and `cifar100:DIR`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from idcwh_search.datasets import LabelledImages
from idcwh_search.errors import InvalidInputError, NotFoundError


def cifar10(directory: str) -> LabelledImages:
    """Returns CIFAR-10, 60,000 images in the official order and split, from `directory` or downloaded into it."""
    return _load("CIFAR10", directory)


def cifar100(directory: str) -> LabelledImages:
    """Returns CIFAR-100 with its 100 fine labels, as `cifar10`."""
    return _load("CIFAR100", directory)


def _load(name: str, directory: str) -> LabelledImages:
    spec = f"{name.lower()}:{directory}"
    if not directory:
        raise InvalidInputError(
            "names no folder", path=spec, expected=f"{spec}DIR", hint="name the folder of the images"
        )
    train, test = _read(name, directory, True), _read(name, directory, False)
    parts = ("train", train), ("test", test)
    return LabelledImages(
        keys=[f"{part}/{i:05d}" for part, images in parts for i in range(len(images.data))],
        labels=np.array([*train.targets, *test.targets], np.int64),
        classes=list(train.classes),
        images=np.concatenate([train.data, test.data]),
        split=[part for part, images in parts for _ in range(len(images.data))],
        spec=spec,
    )


def _read(name: str, directory: str, train: bool) -> Any:
    from torchvision import datasets

    source = getattr(datasets, name)
    try:
        return source(directory, train=train, download=False)
    except RuntimeError:  # not there, or incomplete
        pass
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
        return source(directory, train=train, download=True)
    except (OSError, RuntimeError, ValueError) as error:  # a missing network shows as any of these
        cause = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise NotFoundError(
            f"is missing and could not be downloaded: {cause}",
            path=f"{name.lower()}:{directory}",
            hint=f"put torchvision's {source.base_folder} there",
        ) from None
