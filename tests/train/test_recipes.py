"""Recipes: what is given wins over the method, the method over the recipe, the recipe over the paper."""

from __future__ import annotations

import pytest

from idcwh_search.errors import IdcwhError
from idcwh_train import methods, recipes
from idcwh_train.methods.base import create
from idcwh_train.recipes import Options


def test_the_paper_is_the_default() -> None:
    assert recipes.options("paper", {}) == Options()
    assert recipes.options("paper", {"bits": (12, 48)}).of_method(48) == {}


def test_what_wins() -> None:
    assert recipes.options("frozen", {"method": "csq"}).lr == methods.MODULES["csq"].recipes["frozen"]["lr"]
    assert recipes.options("frozen", {"method": "csq", "lr": 3.0}).lr == 3.0
    assert recipes.options("best", {"method": "csq"}).lr == recipes.RECIPES["best"]["lr"]


def test_options_of_the_method_are_merged_one_by_one() -> None:
    own = recipes.options("scratch", {"bits": 24}).of_method(24)
    assert own == {"sigma2": 8.0, "beta": 0.01, "start": "far", "smoothing": 0.1}
    changed = recipes.options("scratch", {"bits": 24, "method_options": {"start": "normal"}}).of_method(24)
    assert changed == {**own, "start": "normal"}


@pytest.mark.parametrize("recipe", recipes.RECIPES)
@pytest.mark.parametrize("name", methods.MODULES)
def test_every_recipe_fits_every_method(recipe: str, name: str) -> None:
    options = recipes.options(recipe, {"method": name, "bits": (12, 48)})
    for bits in options.bits:
        create(name, 3, bits, 10, options.of_method(bits))


def test_unknown_names() -> None:
    with pytest.raises(IdcwhError, match="unknown recipe 'worst'; expected one of paper, "):
        recipes.options("worst", {})
    with pytest.raises(IdcwhError, match="unknown method 'magic'; expected one of idcwh, "):
        recipes.options("paper", {"method": "magic"})
