"""Recipes: what is given wins over the method, the method over the recipe, the recipe over the paper."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch

from idcwh_search.errors import IdcwhError
from idcwh_train import methods, recipes
from idcwh_train.engine.distributed import Workers
from idcwh_train.engine.source import FeatureSource
from idcwh_train.engine.trainer import Trainer
from idcwh_train.methods.base import create
from idcwh_train.models.hash_model import Network
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


@pytest.mark.parametrize("name", methods.MODULES)
def test_options_by_length_are_of_every_recipe_but_the_papers(name: str) -> None:
    """A new recipe without them would train with the paper's sigma2 and say nothing."""
    assert set(methods.MODULES[name].with_bits) in (set(), set(recipes.RECIPES) - {"paper"})


def test_unknown_names() -> None:
    with pytest.raises(IdcwhError, match="unknown recipe 'worst'; expected one of paper, "):
        recipes.options("worst", {})
    with pytest.raises(IdcwhError, match="unknown method 'magic'; expected one of idcwh, "):
        recipes.options("paper", {"method": "magic"})


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("flip", "False", "true or false, not 'False'"),
        ("database_without_train", "no", "true or false, not 'no'"),
        ("nesterov", 1, "true or false, not 1"),
        ("epochs", 2.5, "a whole number of at least 1, not 2.5"),
        ("epochs", "abc", "a whole number of at least 1, not 'abc'"),
        ("epochs", True, "a whole number of at least 1, not True"),
        ("pad", -1, "a whole number of at least 0, not -1"),
        ("query", -3, "a whole number of at least 0, or none, not -3"),
        ("start_crop", 7, "a whole number of at least 8, or none, not 7"),
        ("weights", 5, "a name, not 5"),
        ("weights", None, "a name, not None"),
        ("weights", "", "a name, not ''"),
        ("average", None, "a share from 0 up to, not including, 1, not None"),
        ("center_lr", None, "a number of at least 0, not None"),
        ("head_lr", float("inf"), "a number of at least 0, or none, not inf"),
        ("lr", float("nan"), "a number of at least 0, not nan"),
        ("momentum", 1.5, "a share from 0 up to, not including, 1, not 1.5"),
        ("precision", "half", "one of float32, bfloat16, not 'half'"),
        ("method_options", "beta", "a dictionary, not 'beta'"),
    ],
)
def test_a_value_of_another_kind_is_named(name: str, value: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: expected {re.escape(expected)}$"):
        Options(**{name: value})


def test_numbers_are_kept_as_their_field_says() -> None:
    options = Options(lr=1, epochs=np.int64(3), weight_decay=np.float32(0.5), query=None)
    assert [type(v) for v in (options.lr, options.epochs, options.weight_decay)] == [float, int, float]
    assert Options(**options.to_dict()) == options
    assert set(recipes.KINDS) == {f.name for f in fields(Options)} - {"bits", "method_options", "length_options"}
    for bits in ("12", 12.5, None):
        with pytest.raises(TypeError, match="bits must be a whole number"):
            Options(bits=bits)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        *(("flip", text, False) for text in ("False", "false", "no", "NO")),
        *(("flip", text, True) for text in ("True", "true", "Yes", " yes")),
        *(("head_lr", text, None) for text in ("none", "None", "null")),
        ("weights", "none", "none"),
        ("weights", "5", "5"),
        ("epochs", "12", 12),
        ("lr", "1", 1.0),
        ("lr", "5e-3", 0.005),
    ],
)
def test_values_as_people_write_them(name: str, text: str, value: Any) -> None:
    found = recipes.KINDS[name].read(name, text)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("flip", "1", "true or false, not '1'"),
        ("nesterov", "maybe", "true or false, not 'maybe'"),
        ("epochs", "2.5", "a whole number of at least 1, not '2.5'"),
        ("average", "null", "a share from 0 up to, not including, 1, not 'null'"),
        ("lr", "nan", "a number of at least 0, not nan"),
        ("query", "-3", "a whole number of at least 0, or none, not -3"),
    ],
)
def test_what_people_write_wrong(name: str, text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: expected {re.escape(expected)}$"):
        recipes.KINDS[name].read(name, text)


@pytest.mark.parametrize("method", ["idcwh", "idcwh-single"])
@pytest.mark.parametrize("recipe", ["best", "scratch"])
def test_idcwh_quantizes_weakly_where_the_network_learns(recipe, method):
    """At every length, whatever the recipes have for each of them."""
    options = recipes.options(recipe, {"method": method, "bits": (12, 48)})
    for bits in (12, 48):
        found = options.of_method(bits)
        assert (found["beta"], found["start"], found["smoothing"], found["sigma2"]) == (0.01, "far", 0.1, bits / 3)
    frozen = recipes.options("frozen", {"method": method, "bits": (12,)}).of_method(12)
    assert (frozen["beta"], frozen["start"], frozen["sigma2"]) == (pytest.approx(0.05), "far", 7)


@pytest.mark.parametrize(("images", "epochs"), [(4_500, 80), (5_000, 80), (45_000, 80), (900, 400), (1_437, 255)])
def test_frozen_recipe_trains_small_datasets_longer(images, epochs):
    """cifar10-mini, with and without held-out images, and larger datasets keep the recipe's epochs."""
    assert _trainer(images, recipes.options("frozen", {"bits": 8})).epochs == epochs


def test_given_epochs_are_not_raised():
    options = recipes.options("frozen", {"bits": 8, "epochs": 3})
    assert options.min_steps == 0 and _trainer(900, options).epochs == 3


def test_frozen_options_of_mini_are_those_before_min_steps():
    """Every option but min_steps, as the tables in docs/results.md were trained with."""
    found = recipes.options("frozen", {"bits": (12, 48)}).to_dict()
    assert found.pop("min_steps") == 2_800
    expected = {
        **recipes.Options(bits=(12, 48)).to_dict(), "validation": 0.1, "epochs": 80, "schedule": "cosine", "lr": 0.05,
        "center_lr": 0.05, "weight_decay": 1.5e-3, "dropout": 0.3, "method_options": {"start": "far", "smoothing": 0.1},
        "length_options": {"12": {"sigma2": 7.0, "beta": 0.6 / 12}, "48": {"sigma2": 16.0, "beta": 0.6 / 48}},
    }  # fmt: skip
    del expected["min_steps"]
    assert found == expected


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
def test_sizes_that_are_not_given_follow_those_given(recipe, given, expected):
    found = recipes.options(recipe, given).to_dict()
    assert {name: found[name] for name in expected} == expected


def test_sizes_that_are_given_must_fit():
    with pytest.raises(ValueError, match=r"^crop: expected at most resize \(16\), not 32$"):
        recipes.options("best", {"resize": 16, "crop": 32})


def _trainer(images: int, options: Options) -> Trainer:
    labels = torch.arange(images) % 3
    method = create(options.method, 3, 8, images, options.of_method(8))
    network = Network(torch.nn.Identity(), 2, [0.0] * 3, [1.0] * 3, {8: method.head(2)})
    source = FeatureSource(network, torch.zeros(images, 2), torch.device("cpu"))
    return Trainer(
        network, [method], source, torch.arange(images), labels, 3, options, torch.device("cpu"), Workers()
    )  # fmt: skip
