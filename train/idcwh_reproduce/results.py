"""Experiments grouped by setup, method and code length, with means and deviations over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from idcwh_search.metrics.result import Evaluation

from .experiments import Result, Setup, Variant
from .tables import NAMES, SHOWN_BITS

Number = Callable[[Evaluation], float]


def _mean_and_deviation(numbers: list[float]) -> tuple[float, float | None]:
    """Returns the mean and the sample standard deviation (n - 1), which is None for a single value."""
    return statistics.fmean(numbers), statistics.stdev(numbers) if len(numbers) > 1 else None


@dataclass
class Runs:
    """The runs of one method, code length and variant, by seed: evaluations, and reasons of failures."""

    evaluations: dict[int, Evaluation] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    def mean(self, number: Number = lambda e: e.map) -> float:
        """Returns the mean over seeds."""
        return self.spread(number)[0]

    def spread(self, number: Number = lambda e: e.map) -> tuple[float, float | None]:
        """Returns mean and standard deviation over seeds."""
        return _mean_and_deviation(list(map(number, self.evaluations.values())))

    def against(self, base: Runs) -> tuple[float, float | None]:
        """Returns the mean difference in MAP to `base` and its standard deviation, over the common seeds.

        Differences are computed per seed, because a seed affects both. Without common seeds, the result is the
        difference of the means.
        """
        common = sorted(self.evaluations.keys() & base.evaluations.keys())
        if not common:
            return self.mean() - base.mean(), None
        return _mean_and_deviation([self.evaluations[seed].map - base.evaluations[seed].map for seed in common])

    @property
    def first(self) -> Evaluation:
        """The evaluation of the lowest seed, for curves."""
        return self.evaluations[min(self.evaluations)]


def with_common_seeds(points: dict[float, Runs]) -> dict[float, Runs]:
    """Returns the runs of the seeds that all points have, or all runs if there is no common seed."""
    common = set.intersection(*(set(runs.evaluations) for runs in points.values())) if points else set()
    if not common:
        return points
    return {value: Runs({seed: runs.evaluations[seed] for seed in common}) for value, runs in points.items()}


class Results:
    """The experiments of one setup."""

    def __init__(self, setup: Setup, experiments: Iterable[Result]) -> None:
        self.setup, self.experiments = setup, list(experiments)
        self._runs: dict[tuple[str, int, Variant | None], Runs] = {}
        for one in self.experiments:
            for bits in one.bits:
                runs = self._runs.setdefault((one.method, bits, one.variant), Runs())
                if bits in one.evaluations:
                    runs.evaluations[one.seed] = one.evaluations[bits]
                    # The time of a training is divided equally among its code lengths.
                    runs.seconds.append(one.content["seconds"]["training"] / len(one.bits))
                else:
                    runs.reasons[one.seed] = one.reason

    def runs(self, method: str, bits: int, variant: Variant | None = None) -> Runs:
        """Returns the runs of a method at a code length, which may be empty."""
        return self._runs.get((method, bits, variant), Runs())

    def measured(self, method: str, variant: Variant | None = None) -> dict[int, Runs]:
        """Returns the runs with an evaluation, by code length."""
        return {bits: runs for bits in self.bits() if (runs := self.runs(method, bits, variant)).evaluations}

    def main(self) -> list[Result]:
        """Returns the experiments of the table, without sweeps and ablation."""
        return [one for one in self.experiments if one.variant is None]

    def methods(self) -> list[str]:
        """Returns the methods of the table's experiments, in the order of NAMES."""
        order = {method: place for place, method in enumerate(NAMES)}
        return sorted({one.method for one in self.main()}, key=lambda method: (order.get(method, len(order)), method))

    def bits(self) -> list[int]:
        """Returns the code lengths of the table's experiments, shortest first."""
        return sorted({bits for one in self.main() for bits in one.bits})

    def shown_bits(self) -> int:
        """Returns the code length of curves and t-SNE, which is SHOWN_BITS if it was trained, else the longest."""
        return SHOWN_BITS if SHOWN_BITS in self.bits() else max(self.bits(), default=SHOWN_BITS)

    def variants(self, kind: str) -> dict[Variant, list[int]]:
        """Returns the variants of a kind with their code lengths."""
        lengths: dict[Variant, set[int]] = {}
        for one in self.experiments:
            if one.variant is not None and one.variant.kind == kind:
                lengths.setdefault(one.variant, set()).update(one.bits)
        return {variant: sorted(bits) for variant, bits in lengths.items()}


def gather(experiments: Iterable[Result]) -> list[Results]:
    """Returns the results per setup, in the order of their names."""
    by_setup: dict[Setup, list[Result]] = {}
    for one in experiments:
        by_setup.setdefault(one.setup, []).append(one)
    return [Results(setup, group) for setup, group in by_setup.items()]
