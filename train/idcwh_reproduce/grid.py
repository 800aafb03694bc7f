"""The plan of experiments: a table's methods, code lengths and seeds, the sweeps and the ablation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from idcwh_search.splits.options import OPTIONS
from idcwh_train import recipes
from idcwh_train.options import Options

from . import tables
from .experiments import Planned, Result, Setup, Variant

SWEEPS = {"sigma2": (*tables.SIGMA2, 16.0, 32.0), "beta": (*tables.BETA, 0.03, 0.3)}
"""The values of the sweeps: the paper's, and larger ones, which are better with a frozen backbone."""
DEFAULTS: dict[str, Any] = {"sigma2": 4.0, "beta": 0.01, "smoothing": 0.0, "start": "normal"}
"""The options of IDCWH that recipes change, with their defaults."""
ABLATION = "without"
"""The kind of the variants that set one setting of the recipe to the paper's value."""
WHOLE = "recipe"
"""The value of the variant that does so for all settings."""

_FIRST = ("idcwh", "idcwh-single", "dcwh")
# The ablation does not change the cost of training.
_COST = ("epochs", "min_steps", "resize", "crop", "start_crop", "precision")
_NOT_ABLATED = {"data", "protocol", *OPTIONS, "seed", "backbone", "weights", "freeze", "keep", "bits", *_COST}
_NOT_ABLATED |= {"method", "method_options", "length_options"}


@dataclass(frozen=True)
class Grid:
    """The requested experiments.

    joint: one training for all code lengths.
    given: options of every experiment: data, protocol, and those of --set.
    """

    setup: Setup
    methods: tuple[str, ...]
    bits: tuple[int, ...]
    seeds: int
    joint: bool
    given: dict[str, Any]

    def trainings(self) -> list[tuple[int, ...]]:
        """Returns the code lengths of each training."""
        return [self.bits] if self.joint else [(bits,) for bits in self.bits]

    def extremes(self) -> Iterator[tuple[tuple[int, ...], int]]:
        """Yields the trainings of sweeps and ablation: the shortest and the longest code length for each seed."""
        for bits in self.trainings():
            if min(self.bits) in bits or max(self.bits) in bits:
                yield from ((bits, seed) for seed in range(self.seeds))

    def plan(
        self, method: str, bits: tuple[int, ...], seed: int, variant: Variant | None = None, **more: Any
    ) -> Planned:
        """Returns one planned experiment. Raises ValueError or IdcwhError for invalid options."""
        recipe = more.pop("recipe", self.setup.recipe)
        given = {**self.given, "backbone": self.setup.backbone, "freeze": self.setup.freeze, **more}
        options = recipes.options(recipe, {**given, "method": method, "bits": bits, "seed": seed})
        return Planned(self.setup, method, bits, seed, variant, options)


def table(grid: Grid) -> Iterator[Planned]:
    """Yields the experiments of the table by seed, and IDCWH first, so that an interrupted run has the main results."""
    ordered = sorted(grid.methods, key=lambda m: _FIRST.index(m) if m in _FIRST else len(_FIRST))
    for seed in range(grid.seeds):
        for method in ordered:
            for bits in grid.trainings():
                yield grid.plan(method, bits, seed)


def sweeps(grid: Grid) -> Iterator[Planned]:
    """Yields IDCWH with values of sigma^2 and beta that differ from the recipe's."""
    for kind, values in SWEEPS.items():
        for bits, seed in grid.extremes():
            options = grid.plan("idcwh", bits, seed).options
            for value in values:
                if not all(math.isclose(value, _with_defaults(options, b)[kind]) for b in bits):
                    yield grid.plan("idcwh", bits, seed, Variant(kind, value), method_options={kind: value})


def ablation(grid: Grid) -> Iterator[Planned]:
    """Yields IDCWH with the paper's value of one setting at a time, and with those of all settings."""
    for bits, seed in grid.extremes():
        options = grid.plan("idcwh", bits, seed).options
        cost = {name: getattr(options, name) for name in _COST}
        plain = grid.plan("idcwh", bits, seed, recipe="paper", **cost).options
        for name, value in differences(options, plain).items():
            change = {name: value} if name not in DEFAULTS else {"method_options": {name: value}}
            yield grid.plan("idcwh", bits, seed, Variant(ABLATION, name), **change)
        if options != plain:
            yield grid.plan("idcwh", bits, seed, Variant(ABLATION, WHOLE), recipe="paper", **cost)


def differences(options: Options, plain: Options) -> dict[str, Any]:
    """Returns the training settings in which the two differ at any code length, with the values of `plain`."""
    a, b = options.to_dict(), plain.to_dict()
    changed = {name: b[name] for name in b if name not in _NOT_ABLATED and a[name] != b[name]}
    for bits in options.bits:
        a, b = _with_defaults(options, bits), _with_defaults(plain, bits)
        changed |= {name: b[name] for name in DEFAULTS if not _same(a[name], b[name])}
    return changed


def recipe(result: Result) -> dict[str, Any]:
    """Returns the recipe's options for the method and code lengths of an experiment, in the recorded form."""
    whole = result.variant is not None and result.variant.value == WHOLE
    setup = result.setup
    given = {"backbone": setup.backbone, "freeze": setup.freeze, "method": result.method, "bits": result.bits}
    if whole:
        given |= {name: getattr(recipes.options(setup.recipe, given), name) for name in _COST}
    return recipes.options("paper" if whole else setup.recipe, given).to_dict()


def _with_defaults(options: Options, bits: int) -> dict[str, Any]:
    return {**DEFAULTS, **options.of_method(bits)}


def _same(a: Any, b: Any) -> bool:
    return math.isclose(a, b) if isinstance(a, float) else bool(a == b)
