"""Recipes: given options win over those of the method, which win over the recipe, which wins over the paper."""

from __future__ import annotations

import pytest
import torch

from idcwh_search.errors import InvalidInputError
from idcwh_train import methods, recipes
from idcwh_train.engine.source import FeatureSource
from idcwh_train.engine.trainer import Trainer
from idcwh_train.methods.base import create
from idcwh_train.models.hash_model import Network
from idcwh_train.options import Options
from support.errors import raises


def test_recipe_paper_has_the_default_options() -> None:
    assert recipes.options("paper", {}) == Options()
    assert recipes.options("paper", {"bits": (12, 48)}).of_method(48) == {}


def test_recipe_given_options_win_over_method_and_recipe() -> None:
    assert recipes.options("frozen", {"method": "csq"}).lr == methods.MODULES["csq"].recipes["frozen"]["lr"]
    assert recipes.options("frozen", {"method": "csq", "lr": 3.0}).lr == 3.0
    assert recipes.options("best", {"method": "csq"}).lr == recipes.RECIPES["best"]["lr"]


def test_recipe_method_options_are_merged_one_by_one() -> None:
    scratch = recipes.options("scratch", {"bits": 24}).of_method(24)
    assert scratch == {"sigma2": 8.0, "beta": 0.01, "start": "far", "smoothing": 0.1}
    changed = recipes.options("scratch", {"bits": 24, "method_options": {"start": "normal"}}).of_method(24)
    assert changed == {**scratch, "start": "normal"}


@pytest.mark.parametrize("recipe", recipes.RECIPES)
@pytest.mark.parametrize("name", methods.MODULES)
def test_recipe_and_method_in_every_pair_fit(recipe: str, name: str) -> None:
    options = recipes.options(recipe, {"method": name, "bits": (12, 48)})
    for bits in options.bits:
        create(name, 3, bits, 10, options.of_method(bits))


@pytest.mark.parametrize("name", methods.MODULES)
def test_recipe_length_options_exist_except_for_paper(name: str) -> None:
    """A new recipe without them would silently train with the paper's sigma2."""
    assert set(methods.MODULES[name].with_bits) in (set(), set(recipes.RECIPES) - {"paper"})


def test_recipe_or_method_unknown_is_refused() -> None:
    with raises(InvalidInputError, path="recipe", found="worst"):
        recipes.options("worst", {})
    with raises(InvalidInputError, path="method", found="magic"):
        recipes.options("paper", {"method": "magic"})


@pytest.mark.parametrize("method", ["idcwh", "idcwh-single"])
@pytest.mark.parametrize("recipe", ["best", "scratch"])
def test_recipe_fine_tuning_quantizes_weakly(recipe, method):
    """Holds at every code length, whatever options the recipes have per length."""
    options = recipes.options(recipe, {"method": method, "bits": (12, 48)})
    for bits in (12, 48):
        result = options.of_method(bits)
        assert (result["beta"], result["start"], result["smoothing"], result["sigma2"]) == (0.01, "far", 0.1, bits / 3)
    frozen = recipes.options("frozen", {"method": method, "bits": (12,)}).of_method(12)
    assert (frozen["beta"], frozen["start"], frozen["sigma2"]) == (pytest.approx(0.05), "far", 7)


@pytest.mark.parametrize(("images", "epochs"), [(4_500, 80), (5_000, 80), (45_000, 80), (900, 400), (1_437, 255)])
def test_recipe_frozen_trains_small_datasets_longer(images, epochs):
    """cifar10-mini, with and without validation images, and larger datasets keep the recipe's epochs."""
    assert _trainer(images, recipes.options("frozen", {"bits": 8})).epochs == epochs


def test_recipe_given_epochs_are_not_raised():
    options = recipes.options("frozen", {"bits": 8, "epochs": 3})
    assert options.min_steps == 0 and _trainer(900, options).epochs == 3


def test_recipe_frozen_options_are_those_of_the_results():
    """Every option but min_steps is that of the tables in docs/results.md."""
    options = recipes.options("frozen", {"bits": (12, 48)}).to_dict()
    assert options.pop("min_steps") == 2_800
    expected = {
        **Options(bits=(12, 48)).to_dict(), "validation": 0.1, "epochs": 80, "schedule": "cosine", "lr": 0.05,
        "center_lr": 0.05, "weight_decay": 1.5e-3, "dropout": 0.3, "method_options": {"start": "far", "smoothing": 0.1},
        "length_options": {"12": {"sigma2": 7.0, "beta": 0.6 / 12}, "48": {"sigma2": 16.0, "beta": 0.6 / 48}},
    }  # fmt: skip
    del expected["min_steps"]
    assert options == expected


@pytest.mark.parametrize(
    ("recipe", "given", "expected"),
    [
        ("best", {"crop": 32}, {"resize": 128, "crop": 32, "start_crop": None, "pad": 12}),
        ("best", {"resize": 8}, {"resize": 8, "crop": 8, "start_crop": None, "pad": 0}),
        ("paper", {"resize": 32}, {"resize": 32, "crop": 32}),
        ("paper", {"crop": 300}, {"resize": 300, "crop": 300}),
        ("best", {"crop": 112}, {"resize": 128, "crop": 112, "start_crop": 96, "pad": 12}),
    ],
)
def test_recipe_sizes_not_given_follow_those_given(recipe, given, expected):
    options = recipes.options(recipe, given).to_dict()
    assert {name: options[name] for name in expected} == expected


def test_recipe_sizes_given_must_fit():
    with pytest.raises(ValueError, match=r"^crop"):
        recipes.options("best", {"resize": 16, "crop": 32})


def _trainer(images: int, options: Options) -> Trainer:
    labels = torch.arange(images) % 3
    method = create(options.method, 3, 8, images, options.of_method(8))
    network = Network(torch.nn.Identity(), 2, [0.0] * 3, [1.0] * 3, {8: method.head(2)})
    source = FeatureSource(network, torch.zeros(images, 2), torch.device("cpu"))
    return Trainer(network, [method], source, options, positions=torch.arange(images), labels=labels)
