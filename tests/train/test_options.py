"""The declarations of options: validation, texts of the command line, --help and the tables in the documents."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from idcwh_train import cli
from idcwh_train.option_types import AT_LEAST_0, SWITCH, declared, option, whole
from idcwh_train.options import GROUPS, OPTIONS, Options
from support import option_tables


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("flip", "False"),
        ("database_without_train", "no"),
        ("nesterov", 1),
        ("epochs", 2.5),
        ("epochs", "abc"),
        ("epochs", True),
        ("pad", -1),
        ("query", -3),
        ("start_crop", 7),
        ("weights", 5),
        ("weights", None),
        ("weights", ""),
        ("average", None),
        ("center_lr", None),
        ("head_lr", float("inf")),
        ("lr", float("nan")),
        ("momentum", 1.5),
        ("precision", "half"),
        ("method", "magic"),
        ("method_options", "beta"),
        ("bits", "12"),
        ("bits", 12.5),
        ("bits", None),
        ("bits", ()),
        ("bits", (12, 12)),
        ("bits", 65_536),
    ],
)
def test_options_invalid_value_names_the_option(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name}: expected "):
        Options(**{name: value})


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("crop", {"crop": 64, "resize": 32}),
        ("start_crop", {"start_crop": 300}),
        ("pad", {"pad": 240}),
        ("weights", {"backbone": "compact"}),
        ("keep", {"keep": "best"}),
        ("nesterov", {"nesterov": True, "optimizer": "adam"}),
        ("nesterov", {"nesterov": True, "momentum": 0.0}),
    ],
)
def test_options_that_contradict_name_the_option(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{name}: "):
        Options(**given)


def test_options_store_the_declared_types() -> None:
    options = Options(lr=1, epochs=np.int64(3), weight_decay=np.float32(0.5), query=None, bits=[24, np.int64(12)])
    assert [type(v) for v in (options.lr, options.epochs, options.weight_decay)] == [float, int, float]
    assert options.bits == (12, 24) and Options(bits=7).bits == (7,)
    assert Options(**options.to_dict()) == options


def test_options_are_all_declared() -> None:
    assert list(OPTIONS) == [field.name for field in fields(Options)]
    assert {one.group for one in OPTIONS.values()} == {*GROUPS, None}


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
def test_option_type_reads_texts(name: str, text: str, value: Any) -> None:
    result = OPTIONS[name].type.read(name, text)
    assert result == value and type(result) is type(value)


@pytest.mark.parametrize(
    ("name", "text"),
    [("flip", "1"), ("nesterov", "maybe"), ("epochs", "2.5"), ("average", "null"), ("lr", "nan"), ("query", "-3")],
)
def test_option_type_invalid_text_names_the_option(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: expected "):
        OPTIONS[name].type.read(name, text)
    with pytest.raises(argparse.ArgumentTypeError, match=r"^expected "):
        OPTIONS[name].type(text)


def test_declared_has_own_options_before_inherited_ones() -> None:
    class Base:
        lam: float = option(1.0, AT_LEAST_0, "weight")
        rounds: int = option(5, whole(1), "rounds")

    class Own(Base):
        fast: bool = option(False, SWITCH, "speed")
        lam: float = option(2.0, AT_LEAST_0, "weight")

    assert {name: one.default for name, one in declared(Own).items()} == {"fast": False, "lam": 2.0, "rounds": 5}


def test_help_shows_every_flag_with_its_default() -> None:
    shown = " ".join(cli.parser().format_help().split())
    for name, one in OPTIONS.items():
        flag = f"--{name.replace('_', '-')} "
        assert (flag in shown or flag[:-1] + "," in shown) == (one.group is not None), name
    assert "--crop PIXELS side of the square network input (default 224)" in shown
    assert "--beta X weight of the quantization term Q (default 0.01)" in shown


@pytest.mark.parametrize("name", ["training.md", "methods.md"])
def test_documents_have_the_declared_options(name: str) -> None:
    """`python tests/support/option_tables.py` writes the tables again."""
    text = (option_tables.DOCS / name).read_text("utf-8")
    assert text.count("<!-- options of ") == 1 and option_tables.with_tables(text) == text
