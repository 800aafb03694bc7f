"""Which cells a table needs: its methods, lengths and seeds; the sweeps of sigma^2 and beta; the ablation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .. import recipes
from ..recipes import Options
from . import paper
from .cells import Cell, Setup, Variant

SIGMA2 = (*paper.SIGMA2, 16.0, 32.0)
"""The paper's values, and larger ones: with a frozen backbone the best is beyond them."""
BETA = (*paper.BETA, 0.03, 0.3)
SWEEPS = {"sigma2": SIGMA2, "beta": BETA}
DEFAULTS = {"sigma2": 4.0, "beta": 0.01}
"""Of the method, where a recipe says nothing."""
ABLATION = "without"
"""Kind of the variants that take back one setting of the recipe."""
WHOLE = "recipe"
"""Value of the variant that takes all of them back."""

_FIRST = ("idcwh", "idcwh-single", "dcwh")  # what one wants to see first
_NOT_TRAINING = {"data", "protocol", "query_per_class", "train_per_class", "seed", "backbone", "weights", "freeze"}
_NOT_TRAINING |= {"bits", "method", "method_options", "length_options", "query", "train"}
_NOT_TRAINING |= {"database_without_train", "unseen_classes"}


@dataclass(frozen=True)
class Grid:
    """What was asked for. given: options of every cell (data, protocol, and what --set says)."""

    setup: Setup
    methods: tuple[str, ...]
    bits: tuple[int, ...]
    seeds: int
    joint: bool  # all lengths in one training
    given: dict[str, Any]

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
            for bits in [grid.bits] if grid.joint else [(bits,) for bits in grid.bits]:
                yield grid.cell(method, bits, seed)


def sweeps(grid: Grid) -> Iterator[Cell]:
    """IDCWH with other sigma^2 and beta at the shortest and the longest length. The table has the recipe's own."""
    for kind, values in SWEEPS.items():
        for bits in _ends(grid.bits):
            for seed in range(grid.seeds):
                own = grid.cell("idcwh", (bits,), seed)
                for value in values:
                    if value != own.options.of_method(bits).get(kind, DEFAULTS[kind]):
                        yield grid.cell("idcwh", (bits,), seed, Variant(kind, value), method_options={kind: value})


def ablation(grid: Grid) -> Iterator[Cell]:
    """IDCWH with one setting of the recipe at a time as the paper has it, and with all of them, at the same lengths."""
    for bits in _ends(grid.bits):
        for seed in range(grid.seeds):
            own = grid.cell("idcwh", (bits,), seed).options
            plain = grid.cell("idcwh", (bits,), seed, recipe="paper").options
            for name, value in differences(own, plain).items():
                change = {name: value} if name not in DEFAULTS else {"method_options": {name: value}}
                yield grid.cell("idcwh", (bits,), seed, Variant(ABLATION, name), **change)
            if own != plain:
                yield grid.cell("idcwh", (bits,), seed, Variant(ABLATION, WHOLE), recipe="paper")


def differences(own: Options, plain: Options) -> dict[str, Any]:
    """What a recipe changes in training: name -> the value that `plain` has."""
    a, b = own.to_dict(), plain.to_dict()
    changed = {name: b[name] for name in b if name not in _NOT_TRAINING and a[name] != b[name]}
    bits = own.bits[0]
    a, b = {**DEFAULTS, **own.of_method(bits)}, {**DEFAULTS, **plain.of_method(bits)}
    return changed | {name: b[name] for name in DEFAULTS if a[name] != b[name]}


def _ends(bits: Sequence[int]) -> list[int]:
    return sorted({min(bits), max(bits)})
