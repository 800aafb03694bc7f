"""The protocols by name, and the options of a split. The rules that split a dataset are in protocols.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Preset:
    """A rule with its numbers, and the dataset that the protocol is defined on.

    own_split: queries and training images are those that the dataset marks; otherwise they are drawn.
    counts: the numbers of images it takes, as in SplitOptions.
    images, classes, tests: size of that dataset, in images with a label, classes and test images; 0 allows any.
    """

    own_split: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)
    images: int = 0
    classes: int = 0
    tests: int = 0


PRESETS = {
    "cifar10-mini": Preset(counts={"query_per_class": 100, "train_per_class": 500}, images=60_000, classes=10),
    "cifar10-full": Preset(own_split=True, images=60_000, classes=10, tests=10_000),
    "cifar100": Preset(own_split=True, images=60_000, classes=100, tests=10_000),
    "coco": Preset(counts={"query": 5_000, "train": 10_000}, images=122_218, classes=80),
    "own": Preset(own_split=True),
    "per-class": Preset(),
    "overall": Preset(),
}

UNSEEN = {"unseen": "unseen@unseen", "unseen-all": "unseen@all", "seen-all": "seen@all"}
"""The protocols that share their training images, so that one model is evaluated on all three, and their titles."""

NAMES = (*PRESETS, *UNSEEN, "auto")
"""Every protocol. `auto` is per-class or overall if a number of queries is given, else own."""


@dataclass(frozen=True)
class SplitOptions:
    """A protocol and its options. None is the protocol's own number, or every image.

    query_per_class or query 0: no queries. Every image trains and is in the database, and nothing can be evaluated.
    query_per_class, train_per_class: for `per-class`, and for `own`, which takes that many of its test and training
        images per class.
    query, train: the same over all classes, among images that have a label. For `overall`, for `own`, and for `coco`
        on a dataset of another size.
    database_without_train: leaves the training images out of the database.
    unseen_classes: number of classes that do not train, for the protocols in UNSEEN. By default a quarter, at least
        one. Otherwise they split as `auto` does. An image of seen and unseen classes neither trains nor is a query; it
        stays in the whole database.

    Raises ValueError for an unknown protocol, and for options that contradict it or each other.
    """

    protocol: str = "auto"
    query_per_class: int | None = None
    train_per_class: int | None = None
    query: int | None = None
    train: int | None = None
    database_without_train: bool = False
    unseen_classes: int | None = None

    def __post_init__(self) -> None:
        name, given = self.protocol, list(self.counts())
        per_class = [one for one in given if one.endswith("_per_class")]
        if name not in NAMES:
            raise ValueError(f"protocol: expected one of {', '.join(NAMES)}, not {name!r}")
        if 0 < len(per_class) < len(given):
            raise ValueError(f"{per_class[0]}: excludes numbers over all classes (query, train); give one kind")
        if self.unseen_classes and name not in UNSEEN:
            raise ValueError(f"unseen_classes: expected one of the protocols {', '.join(UNSEEN)}, not {name}")
        needed = {"per-class": "query_per_class", "overall": "query"}.get(name)
        if needed and needed not in given:
            raise ValueError(f"{needed}: is missing; the protocol {name} needs it")
        if name == "coco" and per_class:
            raise ValueError(f"{per_class[0]}: images of coco have several labels; give query and train instead")
        if name != "coco" and given and name in PRESETS and PRESETS[name].images:
            raise ValueError(f"{given[0]}: the numbers of {name} are fixed; use the protocol per-class for others")

    @classmethod
    def of(cls, source: object) -> SplitOptions:
        """Returns the options among the attributes of `source`, such as parsed arguments; others are defaults."""
        return cls(**{name: getattr(source, name) for name in ("protocol", *OPTIONS) if hasattr(source, name)})

    def counts(self) -> dict[str, int]:
        """Returns the numbers of images that are given, by their names."""
        names = ("query_per_class", "train_per_class", "query", "train")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


HELP = {
    "query_per_class": "queries per class; 0: none, all images train",
    "train_per_class": "training images per class",
    "query": "queries over all classes; 0: none",
    "train": "training images over all classes",
    "database_without_train": "database without the training images",
    "unseen_classes": "classes that do not train, of protocol unseen (default a quarter)",
}
"""The help text of each option of a split in commands."""

OPTIONS = tuple(HELP)
"""The options of a protocol beside its seed."""
