"""The paper's numbers: against its source where that lies beside the checkout, and against each other everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from idcwh_reproduce import published, tables
from idcwh_train import methods

SOURCE = Path(__file__).parents[3] / "shared" / "paper.tex"


def rows_of(label: str) -> dict[str, list[str]]:
    """Name of each row of a table of the paper -> its numbers as printed."""
    text = SOURCE.read_text(encoding="utf-8")
    bodies = [part for part in re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", text, re.S) if label in part]
    assert len(bodies) == 1
    found = {}
    for line in re.split(r"\\\\", bodies[0].split(r"\midrule")[-1]):
        name, *cells = line.split("&")
        numbers = [m for cell in cells if (m := re.search(r"0\.\d+", cell))]
        if numbers:
            found[name.split()[-1]] = [m.group() for m in numbers]
    return found


def as_printed(row: tuple[float, ...], digits: int) -> list[str]:
    return [f"{number:.{digits}f}" for number in row]


@pytest.mark.skipif(not SOURCE.exists(), reason="the paper's source is not here")
@pytest.mark.parametrize(
    ("label", "names", "digits"),
    [
        ("{table:map1}", ["cifar10-mini", "cifar10-full"], 3),
        ("{table:cifar100}", ["cifar100"], 4),
        ("{table:coco}", ["coco"], 4),
    ],
)
def test_numbers_are_the_papers(label, names, digits):
    printed = rows_of(label)
    for half, name in enumerate(names):
        ours = {method: as_printed(row, digits) for method, row in published.TABLES[name].items()}
        assert ours == {method: numbers[4 * half : 4 * half + 4] for method, numbers in printed.items()}


@pytest.mark.skipif(not SOURCE.exists(), reason="the paper's source is not here")
def test_ablation_is_the_papers():
    printed = rows_of("{table:ablation}")
    for place, name in enumerate(("cifar10-mini", "cifar100", "coco")):
        ours = {method: as_printed(row, 4) for method, row in published.ABLATION[name].items()}
        assert ours == {method: numbers[4 * place : 4 * place + 4] for method, numbers in printed.items()}


def test_the_two_tables_with_idcwh_agree():
    for name, rows in published.ABLATION.items():
        for long, short in zip(rows["IDCWH"], published.TABLES[name]["IDCWH"], strict=True):
            assert abs(long - short) <= 0.0005 + 1e-9


def test_the_slip_of_the_coco_table_is_marked():
    assert published.TABLES["coco"]["DCWH"] == published.TABLES["cifar100"]["DCWH"]
    found = published.row("coco", "dcwh")
    assert found is not None and found.doubtful
    usable = published.row("cifar100", "dcwh")
    assert usable is not None and not usable.doubtful


def test_rows_beside_ours():
    mini = published.row("cifar10-mini", "dpsh")
    assert mini is not None and (mini.name, mini.numbers[0], mini.digits) == ("DPSH*", 0.797, 3)
    own = published.row("cifar10-mini", "idcwh")
    assert own is not None and (own.numbers[3], own.digits) == (0.8586, 4)
    assert published.row("cifar10-full", "idcwh-single") is None
    assert published.row("cifar100", "csq") is None
    for table in tables.TABLES.values():
        named = {found.name.rstrip("*") for m in methods.MODULES if (found := published.row(table.name, m))}
        assert named >= {name.rstrip("*") for name in published.TABLES[table.name]}, (
            "a row that nothing of ours answers"
        )
        assert all(method in methods.MODULES for method in table.every_method)
