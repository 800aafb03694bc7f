"""Named evaluation protocols and the options of a split. The rules that split a dataset are in protocols.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Preset:
    """A protocol: its rule, its numbers of images, and the size of the dataset that it is defined on.

    Attributes:
        own_split: True if the dataset itself marks queries and training images; otherwise they are drawn.
        counts: numbers of images, named as in SplitOptions.
        images, classes, tests: numbers of labelled images, classes and test images of the dataset; 0 allows any.
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
"""Protocol -> its title. The three share their training images, so that one model is evaluated on all of them."""

NAMES = (*PRESETS, *UNSEEN, "auto")
"""Names of all protocols. `auto` is per-class or overall if a number of queries is given, otherwise own."""


@dataclass(frozen=True)
class SplitOptions:
    """A protocol and its options. None stands for the protocol's own number, or for every image.

    With query_per_class or query 0 there are no queries. All images are then training images and in the database, and
    nothing can be evaluated.

    Attributes:
        protocol: one of NAMES.
        query_per_class, train_per_class: images per class, for `per-class` and `own`. `own` draws them from its test
            and training images.
        query, train: images over all classes, among those that have a label. For `overall`, for `own`, and for `coco`
            on a dataset of another size.
        database_without_train: True leaves the training images out of the database.
        unseen_classes: number of classes without training images, for the protocols in UNSEEN (default a quarter, at
            least one). The rest of the split is that of `auto`. An image with both seen and unseen labels is neither
            a training image nor a query. It stays in the database of unseen-all and seen-all.

    Raises:
        ValueError: the protocol is unknown, or options contradict it or each other.
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
            raise ValueError(f"{per_class[0]}: is not supported with query or train, which count over all classes")
        if self.unseen_classes and name not in UNSEEN:
            raise ValueError(f"unseen_classes: expected one of the protocols {', '.join(UNSEEN)}, not {name}")
        needed = {"per-class": "query_per_class", "overall": "query"}.get(name)
        if needed and needed not in given:
            raise ValueError(f"{needed}: is missing; the protocol {name} needs it")
        if name == "coco" and per_class:
            raise ValueError(f"{per_class[0]}: is not supported for coco, which is multi-label; give query and train")
        if name != "coco" and given and name in PRESETS and PRESETS[name].images:
            raise ValueError(f"{given[0]}: the numbers of {name} are fixed; use the protocol per-class for others")

    @classmethod
    def of(cls, source: object) -> SplitOptions:
        """Returns the options that `source`, such as parsed arguments, has as attributes. Missing ones are defaults."""
        return cls(**{name: getattr(source, name) for name in ("protocol", *OPTIONS) if hasattr(source, name)})

    def counts(self) -> dict[str, int]:
        """Returns the given numbers of images: name -> number."""
        names = ("query_per_class", "train_per_class", "query", "train")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


HELP = {
    "query_per_class": "queries per class; 0: none, training on all images",
    "train_per_class": "training images per class",
    "query": "queries over all classes; 0: none",
    "train": "training images over all classes",
    "database_without_train": "database without the training images",
    "unseen_classes": "number of unseen classes, protocol unseen (default a quarter)",
}
"""Option of a split -> its help text in commands."""

OPTIONS = tuple(HELP)
"""Names of the options of a split. The protocol and the seed are not among them."""
