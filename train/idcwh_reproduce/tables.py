"""The paper's tables: dataset, protocol, code lengths and methods of each, and the printed values.

The values are MAP by Hamming ranking from Zhang and Yan, arXiv 2103.09442, Tables I to IV. As in the paper, an asterisk
marks baselines that its authors ran with GoogLeNet. The other baselines have the network of their authors.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SHOWN_BITS = 48
"""The code length of curves and t-SNE, as in most of the paper's figures."""

BEYOND = ("csq", "orthohash", "class-code")
"""The methods that the paper does not compare with: later methods, and a classifier with one random code per class."""

CLOSED_FORM = ("sdh", "fsdh")
"""The methods that are fitted in closed form, on features of a frozen backbone."""

NAMES = {
    "idcwh": "IDCWH",
    "idcwh-single": "IDCWH-Single",
    "dcwh": "DCWH",
    "dpsh": "DPSH",
    "dtsh": "DTSH",
    "dsdh": "DSDH",
    "hashnet": "HashNet",
    "dhn": "DHN",
    "dnnh": "DNNH",
    "sdh": "SDH+CNN",
    "fsdh": "FSDH+CNN",
    "csq": "CSQ",
    "orthohash": "OrthoHash",
    "class-code": "class code",
}
"""The name of each method in the paper and in the report."""

SIGMA2 = (0.5, 1.0, 2.0, 4.0, 8.0)
BETA = (0.001, 0.01, 0.1)
"""The values in Fig. 6, a sweep on CIFAR-100."""


@dataclass(frozen=True)
class Printed:
    """A row of the paper, with its values by code length.

    digits: number of decimal places.
    doubtful: True for a row that is shown, but not used for comparisons.
    """

    name: str
    numbers: dict[int, float]
    digits: int
    doubtful: bool


@dataclass(frozen=True)
class Table:
    """One table of the paper.

    Attributes:
        title, label: its dataset, and its name in the paper.
        needs: the dataset for --data.
        bits: the four code lengths, shortest first.
        methods: the methods of the paper's rows.
        sizes: the possible numbers of images per part of the protocol; the first is that of docs/training.md.
        printed: name of a row -> its values as printed.
        ablation: the rows of Table IV, with and without the centers similarity.
        doubtful: name of a row -> the reason why its values cannot be used.
    """

    name: str
    title: str
    label: str
    needs: str
    bits: tuple[int, int, int, int]
    methods: tuple[str, ...]
    sizes: tuple[dict[str, int], ...]
    printed: dict[str, str]
    ablation: dict[str, str] = field(default_factory=dict)
    doubtful: dict[str, str] = field(default_factory=dict)

    @property
    def all_methods(self) -> tuple[str, ...]:
        """The methods of the paper's rows, and those of BEYOND."""
        return self.methods + BEYOND

    def row(self, method: str) -> Printed | None:
        """Returns the paper's row to compare a method with, or None.

        Rows of Table IV are preferred, since they have four digits, and then rows with GoogLeNet.
        """
        name = NAMES.get(method, "")
        for rows in (self.ablation, self.printed):
            for candidate in (f"{name}*", name):
                if numbers := rows.get(candidate):
                    digits = len(numbers.split()[0]) - len("0.")
                    return Printed(candidate, self.by_bits(numbers), digits, candidate in self.doubtful)
        return None

    def by_bits(self, numbers: str) -> dict[int, float]:
        """Returns the values of a row by code length. An empty row has none."""
        return dict(zip(self.bits, map(float, numbers.split()), strict=False))


_CIFAR10 = "CIFAR-10, all 60,000 images: cifar10:DIR (torchvision's files) or a .npz file of x_train, y_train, ..."
_LENGTHS = (12, 24, 32, 48)
_CLASSWISE = ("dcwh", "idcwh-single", "idcwh")
_ON_CIFAR = ("sdh", "fsdh", "dpsh", "dtsh", "dsdh", *_CLASSWISE)
_OFFICIAL = ({"query": 10_000, "train": 50_000, "database": 50_000},)

_TABLES = (
    Table(
        name="cifar10-mini",
        title="CIFAR-10 (mini)",
        label="Table I, CIFAR-10 (mini)",
        needs=_CIFAR10,
        bits=_LENGTHS,
        methods=_ON_CIFAR,
        sizes=({"query": 1_000, "train": 5_000, "database": 59_000},),
        printed={
            "SDH+CNN": "0.207 0.218 0.223 0.210",
            "FSDH+CNN": "0.196 0.220 0.203 0.212",
            "DPSH": "0.713 0.727 0.744 0.757",
            "DPSH*": "0.797 0.806 0.820 0.802",
            "DTSH": "0.710 0.750 0.765 0.774",
            "DTSH*": "0.790 0.797 0.794 0.775",
            "DSDH": "0.740 0.786 0.801 0.820",
            "DSDH*": "0.800 0.802 0.804 0.808",
            "DCWH": "0.818 0.840 0.848 0.850",
            "IDCWH": "0.828 0.865 0.868 0.859",
        },
        ablation={"IDCWH-Single": "0.7944 0.8239 0.8416 0.8420", "IDCWH": "0.8284 0.8650 0.8681 0.8586"},
    ),
    Table(
        name="cifar10-full",
        title="CIFAR-10 (full)",
        label="Table I, CIFAR-10 (full)",
        needs=_CIFAR10,
        bits=_LENGTHS,
        methods=_ON_CIFAR,
        sizes=_OFFICIAL,
        printed={
            "SDH+CNN": "0.364 0.433 0.405 0.414",
            "FSDH+CNN": "0.374 0.443 0.410 0.446",
            "DPSH": "0.763 0.781 0.795 0.807",
            "DPSH*": "0.908 0.922 0.925 0.935",
            "DTSH": "0.915 0.923 0.925 0.926",
            "DTSH*": "0.928 0.935 0.940 0.942",
            "DSDH": "0.935 0.940 0.939 0.939",
            "DSDH*": "0.913 0.925 0.943 0.930",
            "DCWH": "0.940 0.950 0.954 0.952",
            "IDCWH": "0.964 0.969 0.967 0.968",
        },
    ),
    Table(
        name="cifar100",
        title="CIFAR-100",
        label="Table II, CIFAR-100",
        needs="CIFAR-100: cifar100:DIR (torchvision's files)",
        bits=_LENGTHS,
        methods=_ON_CIFAR,
        sizes=_OFFICIAL,
        printed={
            "SDH+CNN": "0.0617 0.0624 0.0610 0.0668",
            "FSDH+CNN": "0.0596 0.0618 0.0650 0.0665",
            "DPSH": "0.0597 0.1008 0.1196 0.1587",
            "DTSH": "0.6070 0.7056 0.7122 0.7252",
            "DSDH": "0.0784 0.1495 0.1868 0.2272",
            "DCWH": "0.7227 0.7441 0.7570 0.7658",
            "IDCWH": "0.7642 0.8130 0.8236 0.8351",
        },
        ablation={"IDCWH-Single": "0.7015 0.7393 0.7638 0.7701", "IDCWH": "0.7642 0.8130 0.8236 0.8351"},
    ),
    Table(
        name="coco",
        title="MS-COCO",
        label="Table III, MS-COCO",
        needs="MS-COCO 2014, train and val: coco:DIR (with annotations/instances_*.json)",
        bits=(16, 32, 48, 64),
        methods=("dpsh", "dsdh", "dnnh", "dhn", "hashnet", *_CLASSWISE),
        # Images without a label belong to no part. The second size is the paper's wording, without the training
        # images in the database.
        sizes=tuple({"query": 5_000, "train": 10_000, "database": n} for n in (117_218, 107_218)),
        printed={
            "DPSH": "0.3493 0.3545 0.3595 0.3670",
            "DSDH": "0.3470 0.3587 0.3661 0.3703",
            "DNNH": "0.5932 0.6034 0.6045 0.6099",
            "DHN": "0.6774 0.7013 0.6948 0.6944",
            "HashNet": "0.6873 0.7184 0.7301 0.7362",
            "DCWH": "0.7227 0.7441 0.7570 0.7658",
            "IDCWH": "0.7321 0.7597 0.7636 0.7698",
        },
        ablation={"IDCWH-Single": "0.6963 0.7125 0.7490 0.7529", "IDCWH": "0.7321 0.7597 0.7636 0.7698"},
        doubtful={
            "DCWH": "The paper's row of DCWH is identical to its CIFAR-100 row, so it is not used for comparisons."
        },
    ),
)

TABLES = {table.name: table for table in _TABLES}


def display(method: str) -> str:
    """Returns the name of a method in the report."""
    return NAMES.get(method, method)
