"""The numbers that the paper printed: MAP by Hamming ranking (Zhang and Yan, arXiv 2103.09442, Tables I to IV).

Digits are the paper's. An asterisk is the paper's own mark for a baseline run anew on GoogLeNet; without it, the
baseline's network is that of its authors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Row = tuple[float, float, float, float]
"""At the four code lengths of the table, shortest first."""

_CIFAR10_MINI: dict[str, Row] = {
    "SDH+CNN": (0.207, 0.218, 0.223, 0.210),
    "FSDH+CNN": (0.196, 0.220, 0.203, 0.212),
    "DPSH": (0.713, 0.727, 0.744, 0.757),
    "DPSH*": (0.797, 0.806, 0.820, 0.802),
    "DTSH": (0.710, 0.750, 0.765, 0.774),
    "DTSH*": (0.790, 0.797, 0.794, 0.775),
    "DSDH": (0.740, 0.786, 0.801, 0.820),
    "DSDH*": (0.800, 0.802, 0.804, 0.808),
    "DCWH": (0.818, 0.840, 0.848, 0.850),
    "IDCWH": (0.828, 0.865, 0.868, 0.859),
}
_CIFAR10_FULL: dict[str, Row] = {
    "SDH+CNN": (0.364, 0.433, 0.405, 0.414),
    "FSDH+CNN": (0.374, 0.443, 0.410, 0.446),
    "DPSH": (0.763, 0.781, 0.795, 0.807),
    "DPSH*": (0.908, 0.922, 0.925, 0.935),
    "DTSH": (0.915, 0.923, 0.925, 0.926),
    "DTSH*": (0.928, 0.935, 0.940, 0.942),
    "DSDH": (0.935, 0.940, 0.939, 0.939),
    "DSDH*": (0.913, 0.925, 0.943, 0.930),
    "DCWH": (0.940, 0.950, 0.954, 0.952),
    "IDCWH": (0.964, 0.969, 0.967, 0.968),
}
_CIFAR100: dict[str, Row] = {
    "SDH+CNN": (0.0617, 0.0624, 0.0610, 0.0668),
    "FSDH+CNN": (0.0596, 0.0618, 0.0650, 0.0665),
    "DPSH": (0.0597, 0.1008, 0.1196, 0.1587),
    "DTSH": (0.6070, 0.7056, 0.7122, 0.7252),
    "DSDH": (0.0784, 0.1495, 0.1868, 0.2272),
    "DCWH": (0.7227, 0.7441, 0.7570, 0.7658),
    "IDCWH": (0.7642, 0.8130, 0.8236, 0.8351),
}
_COCO: dict[str, Row] = {
    "DPSH": (0.3493, 0.3545, 0.3595, 0.3670),
    "DSDH": (0.3470, 0.3587, 0.3661, 0.3703),
    "DNNH": (0.5932, 0.6034, 0.6045, 0.6099),
    "DHN": (0.6774, 0.7013, 0.6948, 0.6944),
    "HashNet": (0.6873, 0.7184, 0.7301, 0.7362),
    "DCWH": (0.7227, 0.7441, 0.7570, 0.7658),
    "IDCWH": (0.7321, 0.7597, 0.7636, 0.7698),
}

TABLES: dict[str, dict[str, Row]] = {
    "cifar10-mini": _CIFAR10_MINI,
    "cifar10-full": _CIFAR10_FULL,
    "cifar100": _CIFAR100,
    "coco": _COCO,
}
"""Tables I (its two halves), II and III."""

ABLATION: dict[str, dict[str, Row]] = {
    "cifar10-mini": {
        "IDCWH-Single": (0.7944, 0.8239, 0.8416, 0.8420),
        "IDCWH": (0.8284, 0.8650, 0.8681, 0.8586),
    },
    "cifar100": {
        "IDCWH-Single": (0.7015, 0.7393, 0.7638, 0.7701),
        "IDCWH": (0.7642, 0.8130, 0.8236, 0.8351),
    },
    "coco": {
        "IDCWH-Single": (0.6963, 0.7125, 0.7490, 0.7529),
        "IDCWH": (0.7321, 0.7597, 0.7636, 0.7698),
    },
}
"""Table IV: with and without the centers similarity. It gives CIFAR-10 (mini) one digit more than Table I."""

LABELS: Mapping[str, str] = {
    "cifar10-mini": "Table I, CIFAR-10 (mini)",
    "cifar10-full": "Table I, CIFAR-10 (full)",
    "cifar100": "Table II, CIFAR-100",
    "coco": "Table III, MS-COCO",
}

DOUBTFUL: dict[tuple[str, str], str] = {
    (
        "coco",
        "DCWH",
    ): "The paper's row of DCWH repeats its CIFAR-100 row digit for digit, so it cannot be compared with.",
}
"""(table, row) -> why the paper's numbers there are not used."""

SIGMA2 = (0.5, 1.0, 2.0, 4.0, 8.0)
BETA = (0.001, 0.01, 0.1)
"""What Fig. 6 sweeps, on CIFAR-100."""

ROWS = {
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
}


@dataclass(frozen=True)
class Printed:
    """A row of the paper. digits: how many it prints; doubtful: not to be compared with, see DOUBTFUL."""

    name: str
    numbers: Row
    digits: int
    doubtful: bool


def row(table: str, method: str) -> Printed | None:
    """What to print beside our `method`, or None.

    The row with an asterisk where there is one, since all of ours share a backbone; the four-digit numbers of Table IV
    where it has them.
    """
    name = ROWS.get(method)
    for rows in (ABLATION.get(table, {}), TABLES[table]):
        for candidate in (f"{name}*", name):
            if candidate in rows:
                numbers = rows[candidate]
                return Printed(candidate, numbers, digits(numbers), (table, candidate) in DOUBTFUL)
    return None


def digits(numbers: Row) -> int:
    """How many digits a row prints behind the point."""
    return 3 if all(round(number, 3) == number for number in numbers) else 4
