"""Which cells a table needs: its methods, lengths and seeds; the sweeps of sigma^2 and beta; the ablation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from idcwh_search.splits.options import OPTIONS
from idcwh_train import recipes
from idcwh_train.recipes import Options

from . import published
from .experiments import Cell, Result, Setup, Variant

SIGMA2 = (*published.SIGMA2, 16.0, 32.0)
"""The paper's values, and larger ones: with a frozen backbone the best is beyond them."""
BETA = (*published.BETA, 0.03, 0.3)
SWEEPS = {"sigma2": SIGMA2, "beta": BETA}
DEFAULTS: dict[str, Any] = {"sigma2": 4.0, "beta": 0.01, "smoothing": 0.0, "start": "normal"}
"""Of IDCWH, where a recipe says nothing: what recipes change."""
ABLATION = "without"
"""Kind of the variants that take back one setting of the recipe."""
WHOLE = "recipe"
"""Value of the variant that takes all of them back."""

_FIRST = ("idcwh", "idcwh-single", "dcwh")  # what one wants to see first
# What decides how long a cell takes stays as it is: the ablation compares at equal cost.
_COST = ("epochs", "min_steps", "min_steps", "resize", "crop", "start_crop", "precision")
_NOT_ABLATED = {"data", "protocol", *OPTIONS, "seed", "backbone", "weights", "freeze", "keep", "bits", *_COST}
_NOT_ABLATED |= {"method", "method_options", "length_options"}


@dataclass(frozen=True)
class Grid:
    """What was asked for. given: options of every cell (data, protocol, and what --set says)."""

    setup: Setup
    methods: tuple[str, ...]
    bits: tuple[int, ...]
    seeds: int
    joint: bool  # all lengths in one training
    given: dict[str, Any]

    def trainings(self) -> list[tuple[int, ...]]:
        """The lengths that one training yields, for each training."""
        return [self.bits] if self.joint else [(bits,) for bits in self.bits]

    def ends(self) -> list[tuple[int, ...]]:
        """The same of the sweeps and the ablation: the shortest and the longest; all where they come at once."""
        return [t for t in self.trainings() if min(self.bits) in t or max(self.bits) in t]

    def cell(self, method: str, bits: tuple[int, ...], seed: int, variant: Variant | None = None, **more: Any) -> Cell:
        """One of its cells. ValueError or IdcwhError for options out of range."""
        recipe = more.pop("recipe", self.setup.recipe)
        given = {**self.given, "backbone": self.setup.backbone, "freeze": self.setup.freeze, **more}
        options = recipes.options(recipe, {**given, "method": method, "bits": bits, "seed": seed})
        return Cell(self.setup, method, bits, seed, options, variant)


def table(grid: Grid) -> Iterator[Cell]:
    """The table itself: first seed first, IDCWH first, so that an unfinished run tells the most."""
    ordered = sorted(grid.methods, key=lambda m: _FIRST.index(m) if m in _FIRST else len(_FIRST))
    for seed in range(grid.seeds):
        for method in ordered:
            for bits in grid.trainings():
                yield grid.cell(method, bits, seed)


def sweeps(grid: Grid) -> Iterator[Cell]:
    """IDCWH with other sigma^2 and beta at the shortest and the longest length. The table has the recipe's own."""
    for kind, values in SWEEPS.items():
        for bits in grid.ends():
            for seed in range(grid.seeds):
                own = grid.cell("idcwh", bits, seed).options
                for value in values:
                    if not all(math.isclose(value, with_defaults(own, b)[kind]) for b in bits):
                        yield grid.cell("idcwh", bits, seed, Variant(kind, value), method_options={kind: value})


def ablation(grid: Grid) -> Iterator[Cell]:
    """IDCWH with one setting of the recipe at a time as the paper has it, and with all of them, at the same lengths."""
    for bits in grid.ends():
        for seed in range(grid.seeds):
            own = grid.cell("idcwh", bits, seed).options
            cost = {name: getattr(own, name) for name in _COST}
            plain = grid.cell("idcwh", bits, seed, recipe="paper", **cost).options
            for name, value in differences(own, plain).items():
                change = {name: value} if name not in DEFAULTS else {"method_options": {name: value}}
                yield grid.cell("idcwh", bits, seed, Variant(ABLATION, name), **change)
            if own != plain:
                yield grid.cell("idcwh", bits, seed, Variant(ABLATION, WHOLE), recipe="paper", **cost)


def differences(own: Options, plain: Options) -> dict[str, Any]:
    """What a recipe changes in training, at whatever length: name -> the value that `plain` has."""
    a, b = own.to_dict(), plain.to_dict()
    changed = {name: b[name] for name in b if name not in _NOT_ABLATED and a[name] != b[name]}
    for bits in own.bits:
        mine, theirs = with_defaults(own, bits), with_defaults(plain, bits)
        changed |= {name: theirs[name] for name in DEFAULTS if not _same(mine[name], theirs[name])}
    return changed


def recipe(cell: Result) -> dict[str, Any]:
    """The options that the recipe has for a cell's method and lengths, as they are recorded."""
    whole = cell.variant is not None and cell.variant.value == WHOLE
    name = "paper" if whole else cell.setup.recipe
    given = {"backbone": cell.setup.backbone, "freeze": cell.setup.freeze, "method": cell.method, "bits": cell.bits}
    if whole:
        given |= {name: getattr(recipes.options(cell.setup.recipe, given), name) for name in _COST}
    return recipes.options(name, given).to_dict()


def with_defaults(options: Options, bits: int) -> dict[str, Any]:
    """The method's options at one length, those of DEFAULTS even where unsaid."""
    return {**DEFAULTS, **options.of_method(bits)}


def _same(a: Any, b: Any) -> bool:
    return math.isclose(a, b) if isinstance(a, float) else bool(a == b)
