"""What each table of the paper asks for: data, protocol, code lengths, methods."""

from __future__ import annotations

from dataclasses import dataclass

from . import published

_CIFAR10 = "CIFAR-10, all 60,000 images: cifar10:DIR (torchvision's files) or a .npz file of x_train, y_train, ..."


@dataclass(frozen=True)
class Table:
    """title: for people; needs: what --data has to name; bits: the four code lengths; methods: the paper's rows;
    sizes: how many images its protocol has in each part, first as this toolkit reads the paper."""

    name: str
    title: str
    needs: str
    bits: tuple[int, int, int, int]
    methods: tuple[str, ...]
    sizes: tuple[dict[str, int], ...]

    @property
    def shown_bits(self) -> int:
        """The code length of the curves and pictures; 48, as in most of the paper's."""
        return 48

    @property
    def every_method(self) -> tuple[str, ...]:
        """The paper's rows, then what the paper does not compare with."""
        return self.methods + BEYOND


BEYOND = ("csq", "orthohash", "class-code")
"""Later methods, and the plain classifier with a random code a class."""

CLOSED_FORM = ("sdh", "fsdh")
"""Fitted without gradients on features of a frozen backbone."""

_CLASSWISE = ("dcwh", "idcwh-single", "idcwh")
_ON_CIFAR = ("sdh", "fsdh", "dpsh", "dtsh", "dsdh", *_CLASSWISE)

# Section IV-A of the paper, as docs/training.md reads it: training images are part of the database, COCO's images
# without a label of nothing. A protocol draws before images are read, so unreadable ones change none of these.
_MINI = ({"query": 1_000, "train": 5_000, "database": 59_000},)
_OFFICIAL = ({"query": 10_000, "train": 50_000, "database": 50_000},)
_COCO = tuple({"query": 5_000, "train": 10_000, "database": n} for n in (117_218, 107_218))  # the latter is its letter

TABLES = {
    table.name: table
    for table in (
        Table("cifar10-mini", "CIFAR-10 (mini)", _CIFAR10, (12, 24, 32, 48), _ON_CIFAR, _MINI),
        Table("cifar10-full", "CIFAR-10 (full)", _CIFAR10, (12, 24, 32, 48), _ON_CIFAR, _OFFICIAL),
        Table(
            "cifar100",
            "CIFAR-100",
            "CIFAR-100: cifar100:DIR (torchvision's files)",
            (12, 24, 32, 48),
            _ON_CIFAR,
            _OFFICIAL,
        ),
        Table(
            "coco",
            "MS-COCO",
            "MS-COCO 2014, train and val: coco:DIR (annotations/instances_*.json beside the images)",
            (16, 32, 48, 64),
            ("dpsh", "dsdh", "dnnh", "dhn", "hashnet", *_CLASSWISE),
            _COCO,
        ),
    )
}

NAMES = {
    **published.ROWS,
    "csq": "CSQ",
    "orthohash": "OrthoHash",
    "class-code": "class code",
}
"""A method as the report calls it."""


def display(method: str) -> str:
    return NAMES.get(method, method)
