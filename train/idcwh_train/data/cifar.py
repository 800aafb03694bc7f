"""CIFAR-10 and CIFAR-100 from torchvision, the datasets `cifar10:DIR` and `cifar100:DIR`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from idcwh_search.datasets import LabelledImages
from idcwh_search.errors import InvalidInputError, NotFoundError


def cifar10(directory: str) -> LabelledImages:
    """Returns CIFAR-10, 60,000 images in the official order and split. Downloads it if `directory` lacks it."""
    return _load("CIFAR10", directory)


def cifar100(directory: str) -> LabelledImages:
    """Returns CIFAR-100 with its 100 fine labels, in the same way as `cifar10`."""
    return _load("CIFAR100", directory)


def _load(name: str, directory: str) -> LabelledImages:
    spec = f"{name.lower()}:{directory}"
    if not directory:
        raise InvalidInputError(
            "is invalid: the folder is missing", path=spec, expected=f"{spec}DIR", hint="name a folder"
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
    except RuntimeError:  # it is missing or incomplete
        pass
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
        return source(directory, train=train, download=True)
    except (OSError, RuntimeError, ValueError) as error:  # without a network, torchvision raises any of these
        cause = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise NotFoundError(
            f"is missing and could not be downloaded: {cause}",
            path=f"{name.lower()}:{directory}",
            hint=f"copy torchvision's {source.base_folder} into the folder",
        ) from None
