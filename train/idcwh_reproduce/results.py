"""Cells gathered: the runs of a method at a code length, their mean and their deviation."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from idcwh_search.metrics.result import Evaluation

from .experiments import Result, Setup, Variant
from .tables import NAMES

Number = Callable[[Evaluation], float]


@dataclass
class Runs:
    """Of one method, length and variant: an evaluation a seed, and why others failed."""

    evaluations: dict[int, Evaluation] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    def mean(self, number: Number = lambda e: e.map) -> float:
        """Over the seeds."""
        return statistics.fmean(map(number, self.evaluations.values()))

    def deviation(self, number: Number = lambda e: e.map) -> float | None:
        """Standard deviation of the sample (n - 1); None of a single seed."""
        return statistics.stdev(map(number, self.evaluations.values())) if len(self.evaluations) > 1 else None

    def against(self, base: Runs) -> tuple[float, float | None]:
        """Difference in MAP to `base`, and its standard deviation: over the seeds that both have, each with its own
        base, since a seed makes both easier or harder; None of fewer than two. Without a seed in common the
        difference of the means."""
        both = sorted(self.evaluations.keys() & base.evaluations.keys())
        if not both:
            return self.mean() - base.mean(), None
        found = [self.evaluations[seed].map - base.evaluations[seed].map for seed in both]
        return statistics.fmean(found), statistics.stdev(found) if len(found) > 1 else None

    @property
    def first(self) -> Evaluation:
        """Of the lowest seed, for curves."""
        return self.evaluations[min(self.evaluations)]


def of_the_same_seeds(points: dict[float, Runs]) -> dict[float, Runs]:
    """The runs of the seeds that all points have, since a seed makes all of them easier or harder; as they are where
    there is none."""
    shared = set.intersection(*(set(runs.evaluations) for runs in points.values())) if points else set()
    if not shared:
        return points
    return {
        value: Runs({seed: runs.evaluations[seed] for seed in sorted(shared)}, runs.reasons, runs.seconds)
        for value, runs in points.items()
    }


class Results:
    """The cells of one setup."""

    def __init__(self, setup: Setup, cells: Iterable[Result]) -> None:
        self.setup, self.cells = setup, list(cells)
        self._runs: dict[tuple[str, int, Variant | None], Runs] = {}
        for cell in self.cells:
            for bits in cell.bits:
                runs = self._runs.setdefault((cell.method, bits, cell.variant), Runs())
                if bits in cell.evaluations:
                    runs.evaluations[cell.seed] = cell.evaluations[bits]
                    # A training of several lengths cannot be told apart by length: each gets its share.
                    runs.seconds.append(cell.content["seconds"]["training"] / len(cell.bits))
                else:
                    runs.reasons[cell.seed] = cell.reason or "unknown"

    def runs(self, method: str, bits: int, variant: Variant | None = None) -> Runs:
        """Empty where there are none."""
        return self._runs.get((method, bits, variant), Runs())

    def main(self) -> list[Result]:
        """The cells of the table itself."""
        return [cell for cell in self.cells if cell.variant is None]

    def methods(self) -> list[str]:
        """Those with a cell in the table, in the order of NAMES."""
        names = list(NAMES)
        found = dict.fromkeys(cell.method for cell in self.main())
        return sorted(found, key=lambda m: names.index(m) if m in names else len(names))

    def bits(self) -> list[int]:
        """Code lengths with a cell in the table, shortest first."""
        return sorted({bits for cell in self.main() for bits in cell.bits})

    def variants(self, kind: str) -> dict[Variant, list[int]]:
        """Variants of a kind -> the code lengths that were trained."""
        found: dict[Variant, set[int]] = {}
        for cell in self.cells:
            if cell.variant is not None and cell.variant.kind == kind:
                found.setdefault(cell.variant, set()).update(cell.bits)
        return {variant: sorted(bits) for variant, bits in found.items()}


def gather(cells: Iterable[Result]) -> list[Results]:
    """By setup, in the order of their names."""
    by_setup: dict[Setup, list[Result]] = {}
    for cell in cells:
        by_setup.setdefault(cell.setup, []).append(cell)
    return [Results(setup, of_it) for setup, of_it in by_setup.items()]
