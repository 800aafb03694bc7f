"""The lines of curves.png, compared with the records of log.jsonl."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from idcwh_search.errors import CorruptFileError
from idcwh_train.engine import training_curves
from support.errors import raises

ONE = [
    {"epoch": 1, "lr": 0.1, "loss": 4.0, "L1": 3.0, "Q": 1.0, "distinct_codes": 5, "encoded": 10, "bit_bias": 0.5,
     "unlabelled": 0, "seconds": 1.0, "collapse": "5 distinct codes"},
    {"epoch": 2, "lr": 0.1, "loss": 2.0, "L1": 1.5, "Q": 0.5, "distinct_codes": 8, "encoded": 10, "bit_bias": 0.25,
     "unlabelled": 0, "seconds": 1.0, "map": 0.75},
]  # fmt: skip
SEVERAL = [{"epoch": e, "L1@12": 1.0 / e, "L1@48": 2.0 / e, "map@12": 0.1 * e, "map@48": 0.2 * e} for e in (1, 2, 3)]


@pytest.fixture(autouse=True)
def unrendered() -> None:
    """Renders figures."""


def lines(axes) -> list[tuple[list[float], list[float]]]:
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines if len(line.get_xdata())]


def test_curves_of_one_code_length_equal_the_log():
    loss, codes, validation = training_curves.plot([training_curves.with_share(record) for record in ONE]).axes
    assert lines(loss) == [([1, 2], [4.0, 2.0]), ([1, 2], [3.0, 1.5]), ([1, 2], [1.0, 0.5])]
    assert lines(codes) == [([1, 2], [0.5, 0.25]), ([1, 2], [0.5, 0.8])]
    assert lines(validation) == [([2], [0.75])], "only epochs with a validation MAP"
    assert [text.get_text() for text in loss.get_legend().get_texts()] == ["loss", "L1", "Q"]


def test_curves_have_distinct_lines_and_whole_epochs():
    """In a short run too, terms differ by colour and dashes, and epochs are whole numbers."""
    loss, codes, _ = training_curves.plot([training_curves.with_share(record) for record in ONE]).axes
    for axes in (loss, codes):
        drawn = [line for line in axes.lines if len(line.get_xdata())]
        handles = axes.get_legend().legend_handles
        for of in (drawn, handles):
            assert len({(line.get_color(), line.get_linestyle()) for line in of}) == len(of)
            assert len({line.get_color() for line in of}) == len(of)
        assert [line.get_color() for line in drawn] == [line.get_color() for line in handles]
        assert all(float(tick).is_integer() for tick in axes.get_xticks())


def test_curves_of_several_code_lengths_equal_the_log():
    loss, codes, validation = training_curves.plot(SEVERAL).axes
    assert lines(loss) == [([1, 2, 3], [1.0, 0.5, 1 / 3]), ([1, 2, 3], [2.0, 1.0, 2 / 3])]
    assert lines(codes) == []
    assert [text.get_text() for text in validation.get_legend().get_texts()] == ["12 bits", "48 bits"]


def test_curves_are_drawn_from_a_valid_log(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps(ONE[0]) + "\n")
    assert training_curves.draw(tmp_path) is None, "nothing to connect"
    log.write_text("".join(json.dumps(record) + "\n" for record in ONE))
    path = training_curves.draw(tmp_path)
    assert np.asarray(Image.open(path).convert("L")).std() > 10
    log.write_text("no JSON\n")
    with raises(CorruptFileError, path=log):
        training_curves.draw(tmp_path)


def test_log_of_an_earlier_version_is_read_with_current_names(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"epoch": 1, "bit_balance": 0.5, "bit_balance@48": 0.25, "L1": 1.0}) + "\n")
    assert training_curves.read(log) == [{"epoch": 1, "bit_bias": 0.5, "bit_bias@48": 0.25, "L1": 1.0}]
