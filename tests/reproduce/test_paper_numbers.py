"""The paper's numbers, compared with its source if that is stored beside the checkout, and with each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from idcwh_reproduce.tables import TABLES
from idcwh_train import methods

SOURCE = Path(__file__).parents[3] / "shared" / "paper.tex"


def rows_of(label: str) -> dict[str, list[str]]:
    """Returns the printed numbers of each row of a table of the paper, by name."""
    text = SOURCE.read_text(encoding="utf-8")
    bodies = [part for part in re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", text, re.S) if label in part]
    assert len(bodies) == 1
    result = {}
    for line in re.split(r"\\\\", bodies[0].split(r"\midrule")[-1]):
        name, *cells = line.split("&")
        numbers = [m for cell in cells if (m := re.search(r"0\.\d+", cell))]
        if numbers:
            result[name.split()[-1]] = [m.group() for m in numbers]
    return result


@pytest.mark.skipif(not SOURCE.exists(), reason="the paper's source is not here")
@pytest.mark.parametrize(
    ("label", "names"),
    [
        ("{table:map1}", ["cifar10-mini", "cifar10-full"]),
        ("{table:cifar100}", ["cifar100"]),
        ("{table:coco}", ["coco"]),
    ],
)
def test_tables_equal_the_paper(label, names):
    printed = rows_of(label)
    for half, name in enumerate(names):
        ours = {method: numbers.split() for method, numbers in TABLES[name].printed.items()}
        assert ours == {method: numbers[4 * half : 4 * half + 4] for method, numbers in printed.items()}


@pytest.mark.skipif(not SOURCE.exists(), reason="the paper's source is not here")
def test_ablation_equals_the_paper():
    printed = rows_of("{table:ablation}")
    for place, name in enumerate(("cifar10-mini", "cifar100", "coco")):
        ours = {method: numbers.split() for method, numbers in TABLES[name].ablation.items()}
        assert ours == {method: numbers[4 * place : 4 * place + 4] for method, numbers in printed.items()}


def test_rows_have_a_number_per_code_length():
    for table in TABLES.values():
        for numbers in (*table.printed.values(), *table.ablation.values()):
            assert len(table.by_bits(numbers)) == len(numbers.split()) == 4


def test_the_two_tables_with_idcwh_agree():
    for table in TABLES.values():
        if table.ablation:
            long, short = (table.by_bits(rows["IDCWH"]) for rows in (table.ablation, table.printed))
            assert all(abs(long[bits] - short[bits]) <= 0.0005 + 1e-9 for bits in table.bits)


def test_repeated_row_of_the_coco_table_is_doubtful():
    assert TABLES["coco"].printed["DCWH"] == TABLES["cifar100"].printed["DCWH"]
    assert TABLES["coco"].row("dcwh").doubtful and not TABLES["cifar100"].row("dcwh").doubtful


def test_row_of_a_method_prefers_asterisk_and_four_digits():
    mini = TABLES["cifar10-mini"].row("dpsh")
    assert (mini.name, mini.numbers[12], mini.digits) == ("DPSH*", 0.797, 3)
    paper = TABLES["cifar10-mini"].row("idcwh")
    assert (paper.numbers[48], paper.digits) == (0.8586, 4)
    assert TABLES["cifar10-full"].row("idcwh-single") is None
    assert TABLES["cifar100"].row("csq") is None


def test_every_row_has_a_method():
    for table in TABLES.values():
        named = {result.name.rstrip("*") for method in methods.MODULES if (result := table.row(method))}
        assert named >= {name.rstrip("*") for name in table.printed}
        assert set(table.all_methods) <= set(methods.MODULES)
