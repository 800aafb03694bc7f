"""The CIFAR sources without torchvision's reader, which checks its files by MD5 and so accepts no test files."""

from __future__ import annotations

import numpy as np
import pytest
import torchvision

from idcwh_search.errors import InvalidInputError, NotFoundError
from idcwh_search.images.preprocess import Preprocess
from idcwh_train.data.cifar import cifar10, cifar100
from support.errors import raises


class Fake:
    base_folder = "cifar-10-batches-py"
    classes = ("plane", "car")
    there = True

    def __init__(self, directory: str, train: bool, download: bool) -> None:
        if download:
            raise OSError("no network")
        if not self.there:
            raise RuntimeError("Dataset not found or corrupted. You can use download=True to download it")
        n = 4 if train else 2
        self.data = np.full((n, 32, 32, 3), 10 if train else 200, np.uint8)
        self.targets = [0, 1] * (n // 2)


@pytest.mark.parametrize(("source", "name"), [(cifar10, "CIFAR10"), (cifar100, "CIFAR100")])
def test_cifar_has_the_official_order_split_and_labels(source, name, monkeypatch):
    monkeypatch.setattr(torchvision.datasets, name, Fake)
    dataset = source("data")
    assert dataset.keys == ["train/00000", "train/00001", "train/00002", "train/00003", "test/00000", "test/00001"]
    assert dataset.split == ["train"] * 4 + ["test"] * 2
    assert dataset.labels.tolist() == [0, 1, 0, 1, 0, 1] and dataset.classes == ["plane", "car"]
    assert dataset.image(5, Preprocess(36, 32)).tolist() == np.full((32, 32, 3), 200).tolist()
    assert dataset.spec == f"{name.lower()}:data"


def test_cifar_that_cannot_be_downloaded_is_not_found(monkeypatch, tmp_path):
    monkeypatch.setattr(torchvision.datasets, "CIFAR10", type("Missing", (Fake,), {"there": False}))
    with raises(NotFoundError, path=f"cifar10:{tmp_path / 'data'}", problem="no network") as caught:
        cifar10(str(tmp_path / "data"))
    assert Fake.base_folder in caught.value.hint


def test_cifar_without_a_folder_is_invalid():
    with raises(InvalidInputError, path="cifar10:", expected="cifar10:DIR"):
        cifar10("")
