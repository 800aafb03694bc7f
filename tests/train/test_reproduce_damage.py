"""Files of idcwh-reproduce that are not as it wrote them: each is named once, and everything else is reported."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from idcwh_train.reproduce import cells, cli, figures, listing, report, tables
from idcwh_train.reproduce.results import gather

TABLE = tables.TABLES["cifar10-mini"]
WRONG: tuple[Any, ...] = (None, -1, "x", [], ["x"], {"x": [[1]]})


@pytest.fixture(scope="module")
def run(images, tmp_path_factory) -> Path:
    """A folder with a cell of two code lengths, and the same as if it were of a sweep."""
    out = tmp_path_factory.mktemp("run")
    settings = ["protocol=own", "weights=none", "resize=36", "crop=32", "epochs=1"]
    given = ["cifar10-mini", "--data", str(images), "--freeze", "--backbone", "timm:test_resnet", "--no-figures"]
    given += ["--device", "cpu", "--cache", str(out / "features"), "--out", str(out), "--seeds", "1", "--joint"]
    given += ["--methods", "idcwh", "--bits", "8", "12", *(f"--set={setting}" for setting in settings)]
    assert cli.main(given) == 0
    (own,) = (out / "cells").glob("*.json")
    content = json.loads(own.read_text())
    for found in content["evaluations"].values():  # short curves, for short tests
        for name in ("ranking", "pr_curve"):
            found[name] = {axis: values[-3:] for axis, values in found[name].items()}
    own.write_text(json.dumps(content))
    content["variant"] = {"kind": "sigma2", "value": 32.0}
    own.with_name(f"{own.stem}--sigma2-32.json").write_text(json.dumps(content))
    return out


@pytest.fixture
def out(run, tmp_path) -> Path:
    """A copy of it."""
    return shutil.copytree(run, tmp_path / "run")


def cell_files(out: Path) -> tuple[Path, Path]:
    """The cell of the table, and that of the sweep."""
    own, swept = sorted((out / "cells").glob("*.json"), key=lambda path: "sigma2" in path.name)
    return own, swept


def changes(value: Any) -> Iterator[tuple[str, Any]]:
    """What is wrong, and the value with that: each key gone, and each value of another kind."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"without {key}", {name: of for name, of in value.items() if name != key}
            for wrong in WRONG:
                yield f"{key} {wrong}", {**value, key: wrong}
            # the first two are read by nobody; one code length is as the other
            for name, changed in changes(inner) if key not in ("record", "variants", "12") else ():
                yield f"{key}: {name}", {**value, key: changed}
    elif isinstance(value, list) and value:
        yield "one less", value[1:]
        for wrong in WRONG[:4]:
            yield f"first {wrong}", [wrong, *value[1:]]


@pytest.mark.parametrize("of", ["the table", "a sweep"])
def test_cells_that_lack_something_or_hold_other_things(of, out, capsys, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # thousands of reports that nobody keeps
    damaged, other = cell_files(out) if of == "the table" else reversed(cell_files(out))
    left, number = set(), 0
    for name, changed in changes(json.loads(damaged.read_text())):
        if of == "a sweep" and name.split()[0] not in ("variant", "variant:"):
            continue
        number += 1
        damaged.write_text(json.dumps(changed))
        try:
            report.write(out, TABLE, None, figures=False)
            said = capsys.readouterr().err
            listed = listing.text(out)
            if damaged.stem + "  " not in listed:
                left.add(name)
            elif name.startswith(("evaluations", "options: method", "options: length", "variant")):
                for results in gather(cells.read_all(out / "cells")):
                    figures.sweeps(TABLE, results)
                    if name.startswith("evaluations"):
                        figures.lookup(TABLE, results), figures.curves(TABLE, results)
        except Exception as error:
            raise AssertionError(f"{damaged.name}, {name}") from error
        finally:
            capsys.readouterr()
        assert said.count("\n") == said.count(f"{damaged}: ") == (name in left), (name, said)
        assert other.stem + "  " in listed
    if of == "a sweep":
        assert {"variant: without kind", "variant: value x", "variant None"} < left  # None: of another name then
        return
    assert number > 600
    for key in ("recipe", "backbone", "freeze", "method", "bits", "seed", "variant", "status", "reason", "options",
                "evaluations", "dataset", "protocol", "seconds", "versions", "machine", "revision", "command",
                "unreadable", "options: length_options", "seconds: total"):  # fmt: skip
        *parents, last = key.split(": ")
        assert ": ".join([*parents, f"without {last}"]) in left, key
    assert not any(name.startswith(("record", "variants")) for name in left)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "empty"),
        (b"\xff\xfe\xfd", "codec can't decode"),
        (b'{"format": "idcwh', "Unterminated string"),
        (b"[" * 100_000, "lists in lists in lists"),
        (b"[]", "another format"),
        (b"3", "another format"),
        (b'{"format": "idcwh-reproduce-cell", "version": 2}', "version 2; this program reads version 1"),
        (None, "a directory or a device; expected a file"),
    ],
)
def test_files_that_are_no_cells(text, why, out, capsys):
    path = out / "cells" / "a.json"
    path.write_bytes(text) if text is not None else path.mkdir()
    assert cli.main(["--report-only", "--no-figures", "--out", str(out)]) == 0
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.startswith(f"{path}: not a cell of this program, left alone (") and why in first
    assert [line.split()[0] for line in rest] == ["wrote"] * 3
    assert "\n2 trained cells." in (out / "report.md").read_text()


def test_a_copy_of_a_cell_does_not_count_twice(out, capsys):
    own, _ = cell_files(out)
    copied = own.with_name("copy of it.json")
    copied.write_bytes(own.read_bytes())
    report.write(out, TABLE, None, figures=False)
    assert capsys.readouterr().err == f"{copied}: left alone, the file of this cell is {own.name}\n"
    assert "\n2 trained cells." in (out / "report.md").read_text()


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 30, "9" * 5000])
def test_numbers_that_are_none(number, out, capsys):
    own, _ = cell_files(out)
    text = own.read_text()
    own.write_text(text.replace('"training": ', f'"training": {number}, "before": ', 1))
    assert own.read_text() != text
    listing.text(out)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith(f"{own}: ") and len(said) < 600


def test_nests_that_json_can_read_are_not_followed(out):
    """json.loads goes deeper than what looks at its result."""
    own, _ = cell_files(out)
    whole = json.loads(own.read_text())
    for depth in range(20, 1000, 60):
        for changed in (
            {**whole, "extra": "NEST"},
            {**whole, "options": {**whole["options"], "extra": "NEST"}},
            {**whole, "options": {**whole["options"], "method_options": {"extra": "NEST"}}},
            {**whole, "machine": "NEST"},
        ):
            own.write_text(json.dumps(changed).replace('"NEST"', "[" * depth + "]" * depth))
            report.write(out, TABLE, None, figures=False)
            listing.text(out)


def test_cells_of_what_this_program_does_not_know(out, capsys):
    own, _ = cell_files(out)
    whole = json.loads(own.read_text())
    for key, value, why in (
        ("method", "nonesuch", "unknown method 'nonesuch'"),
        ("recipe", "nonesuch", "unknown recipe 'nonesuch'"),
        ("bits", [8, 5_000_000], "bits"),
        ("bits", [8, 8], "given twice"),
        ("variant", {"kind": "sigma2", "value": "much"}, "variant.value: expected a number of at least 0, not 'much'"),
    ):
        own.write_text(json.dumps({**whole, key: value}))
        report.write(out, TABLE, None, figures=False)
        assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            lambda of: of["12"]["ranking"].update(n=[], precision=[], recall=[]),
            "12.ranking: expected curves",
        ),
        (lambda of: of["12"]["pr_curve"].update(recall=[], precision=[]), "evaluations.12.pr_curve: expected curves"),
        (lambda of: of["12"]["pr_curve"]["recall"].pop(), "evaluations.12.pr_curve: expected curves of as many points"),
        (lambda of: of["12"].update(bits=8), "evaluations.12: of another length"),
        (lambda of: of.update({"12": of["8"]}), "evaluations.12: of another length"),
        (lambda of: of["12"]["lookup"]["recall"].pop(), "evaluations.12: of another length"),
        (lambda of: of.pop("12"), "evaluations: expected those of 8, 12, found 8"),
    ],
)
def test_numbers_of_another_length_or_without_their_curves(change, why, out, capsys):
    own, _ = cell_files(out)
    content = json.loads(own.read_text())
    change(content["evaluations"])
    own.write_text(json.dumps(content))
    report.write(out, TABLE, None, figures=False)
    assert why in capsys.readouterr().err


def test_outputs_beside_a_cell_that_are_damaged_are_not_drawn(out):
    own, _ = cell_files(out)
    kept = own.with_suffix(".npz")
    result = cells.read(own)
    h = np.zeros((9, 12), np.float32)
    good = {"h": h, "labels": np.arange(9) % 3, "classes": np.array(["a", "b", "c"])}
    np.savez(kept, **good)
    assert result.logits() is not None
    whole = kept.read_bytes()
    for damage in (b"", b"no archive", whole[:-60], whole[:200], whole[:100] + bytes(100) + whole[200:]):
        kept.write_bytes(damage)
        assert result.logits() is None
    for changed in ({"h": h[0]}, {"h": h.astype(str)}, {"labels": np.arange(3)}, {"classes": np.array("a")}):
        np.savez(kept, **{**good, **changed})
        assert result.logits() is None
    np.save(kept.with_suffix(".npy"), h)
    kept.with_suffix(".npy").replace(kept)
    assert result.logits() is None


@pytest.mark.parametrize(
    "text",
    ['{"table": ["x"]}', '{"table": {}, "unavailable": null}', '{"table": "nonesuch", "unavailable": null}', "[]", "1",
     '{"table": "cifar10-mini", "unavailable": 1}', '{"table": "cifar10-mini"}', "", "[" * 100_000, "\xff", None],
)  # fmt: skip
def test_what_says_which_table_a_folder_is_of(text, out, capsys):
    path = out / "table.json"
    path.unlink()
    path.write_bytes(text.encode("latin-1")) if text is not None else path.mkdir()
    assert cli.main(["cifar10-mini", "--report-only", "--no-figures", "--out", str(out)]) == 0
    assert capsys.readouterr().err.startswith(f"{path}: does not say which table the folder is of (")
    assert cli.main(["--list", "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and "2 cells" in said.out
    with pytest.raises(SystemExit) as usage:
        cli.main(["--report-only", "--no-figures", "--out", str(out)])
    assert usage.value.code == 2


def test_a_command_with_a_name_that_is_not_utf8(out):
    own, _ = cell_files(out)
    own.write_text(json.dumps({**json.loads(own.read_text()), "command": "idcwh-reproduce --data b\udcffd"}))
    assert "b\\udcffd" in report.write(out, TABLE, None, figures=False)[0].read_text()


def test_a_measure_that_only_some_seeds_have(out):
    """Precision at other ranks, of an earlier version: what all have is shown."""
    own, _ = cell_files(out)
    content = copy.deepcopy(json.loads(own.read_text()))
    content["seed"] = 1
    for of in content["evaluations"].values():
        of["precision_at"] = {}
    own.with_name(own.name.replace("seed0", "seed1")).write_text(json.dumps(content))
    assert "Other measures" in report.write(out, TABLE, None, figures=False)[0].read_text()
