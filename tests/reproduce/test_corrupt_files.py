"""Corrupt files of idcwh-reproduce: each is reported once, and the report uses the others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from idcwh_reproduce import cli, experiments, report, tables

TABLE = tables.TABLES["cifar10-mini"]


@pytest.fixture(scope="module")
def run(reproduce, tmp_path_factory) -> Path:
    """A folder with an experiment of two code lengths, and the same experiment as if of a sweep."""
    out = tmp_path_factory.mktemp("run")
    assert reproduce(out, "--seeds", "1", "--joint", "--methods", "idcwh", "--bits", "8", "12", epochs=1) == 0
    (table_file,) = (out / "experiments").glob("*.json")
    swept = table_file.with_name(f"{table_file.stem}--sigma2-32.json")
    swept.write_bytes(table_file.read_bytes())
    edit(swept, variant={"kind": "sigma2", "value": 32.0})
    return out


@pytest.fixture
def out(run, tmp_path) -> Path:
    """A copy of the folder of `run`."""
    return shutil.copytree(run, tmp_path / "run")


def experiment_files(out: Path) -> tuple[Path, Path]:
    """Returns the experiment of the table, and that of the sweep."""
    table_file, swept = sorted((out / "experiments").glob("*.json"), key=lambda path: "sigma2" in path.name)
    return table_file, swept


def edit(path: Path, **changes: Any) -> None:
    """Changes an experiment's file and removes its checksum, as a user with an editor may do."""
    content = {**json.loads(path.read_text()), **changes}
    content.pop("crc32", None)
    path.write_text(json.dumps(content))


def test_experiment_with_a_changed_byte_is_not_used(out, capsys):
    table_file, _ = experiment_files(out)
    whole, before = table_file.read_bytes(), experiments.read(table_file)
    assert before is not None
    for position in np.random.default_rng(0).choice(len(whole), 300, replace=False):
        changed = bytearray(whole)
        changed[position] ^= 1 << int(position) % 7
        table_file.write_bytes(changed)
        result = experiments.read(table_file)
        reported = capsys.readouterr().err
        if result is None:
            assert reported.count("\n") == 1 and reported.startswith(f"{table_file}: ")
        else:  # white space between the values
            assert result.content == before.content and reported == ""


def test_experiment_of_an_earlier_version_is_read(out):
    table_file, _ = experiment_files(out)
    before = experiments.read(table_file)
    edit(table_file)
    assert "crc32" not in json.loads(table_file.read_text())
    after = experiments.read(table_file)
    assert after.content == before.content and after.evaluations.keys() == before.evaluations.keys()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe\xfd",
        b'{"format": "idcwh',
        b"[" * 100_000,
        b"[]",
        b"3",
        b'{"format": "idcwh-reproduce-experiment", "version": 2}',
        b'{"format": "idcwh-reproduce-experiment", "version": 1}',
        None,
    ],
)
def test_other_file_is_reported_and_ignored(text, out, capsys):
    path = out / "experiments" / "a.json"
    path.write_bytes(text) if text is not None else path.mkdir()
    assert cli.main(["--report-only", "--no-figures", "--out", str(out)]) == 0
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.startswith(f"{path}: ")
    assert [line.split()[0] for line in rest] == ["wrote"] * 3
    assert "\n2 trained experiments." in (out / "report.md").read_text()


def test_copy_of_an_experiment_does_not_count_twice(out, capsys):
    table_file, _ = experiment_files(out)
    copied = table_file.with_name("copy of it.json")
    copied.write_bytes(table_file.read_bytes())
    report.write(out, TABLE, None, figures=False)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{copied}: ") and table_file.name in line
    assert "\n2 trained experiments." in (out / "report.md").read_text()


@pytest.mark.parametrize(
    ("key", "value"),
    [("method", "nonesuch"), ("recipe", "nonesuch"), ("bits", [8, 5_000_000]), ("bits", [8, 8])],
)
def test_experiment_of_a_later_version_is_reported_and_ignored(key, value, out, capsys):
    table_file, _ = experiment_files(out)
    edit(table_file, **{key: value})
    report.write(out, TABLE, None, figures=False)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{table_file}: ") and ("nonesuch" in line or key in line or "code length" in line)


def test_corrupt_logits_are_not_drawn(out):
    table_file, _ = experiment_files(out)
    kept = table_file.with_suffix(".npz")
    result = experiments.read(table_file)
    h = np.zeros((9, 12), np.float32)
    good = {"h": h, "labels": np.arange(9) % 3, "classes": np.array(["a", "b", "c"])}
    np.savez(kept, **good)
    assert result.logits() is not None
    whole = kept.read_bytes()
    for content in (b"", b"no archive", whole[:-60], whole[:200], whole[:100] + bytes(100) + whole[200:]):
        kept.write_bytes(content)
        assert result.logits() is None
    np.savez(kept, h=h)
    assert result.logits() is None
    np.save(kept.with_suffix(".npy"), h)
    kept.with_suffix(".npy").replace(kept)
    assert result.logits() is None


@pytest.mark.parametrize(
    "text",
    ['{"table": ["x"]}', '{"table": {}, "unavailable": null}', '{"table": "nonesuch", "unavailable": null}', "[]", "1",
     '{"table": "cifar10-mini", "unavailable": 1}', '{"table": "cifar10-mini"}', "", "[" * 100_000, "\xff", None],
)  # fmt: skip
def test_corrupt_table_json_is_reported(text, out, capsys):
    path = out / "table.json"
    path.unlink()
    path.write_bytes(text.encode("latin-1")) if text is not None else path.mkdir()
    assert cli.main(["cifar10-mini", "--report-only", "--no-figures", "--out", str(out)]) == 0
    assert capsys.readouterr().err.startswith(f"{path}: ")
    assert cli.main(["--list", "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1 and "2 experiments" in printed.out
    with pytest.raises(SystemExit) as usage:
        cli.main(["--report-only", "--no-figures", "--out", str(out)])
    assert usage.value.code == 2


def test_command_that_is_not_utf8_is_escaped(out):
    table_file, _ = experiment_files(out)
    edit(table_file, command="idcwh-reproduce --data b\udcffd")
    assert "b\\udcffd" in report.write(out, TABLE, None, figures=False)[0].read_text()


def test_measure_of_some_seeds_only_is_left_out(out):
    """Earlier versions measured precision at other ranks. The report shows the ranks that all experiments have."""
    table_file, _ = experiment_files(out)
    other = table_file.with_name(table_file.name.replace("seed0", "seed1"))
    other.write_bytes(table_file.read_bytes())
    evaluations = json.loads(table_file.read_text())["evaluations"]
    edit(other, seed=1, evaluations={bits: {**of, "precision_at": {}} for bits, of in evaluations.items()})
    assert "Other metrics" in report.write(out, TABLE, None, figures=False)[0].read_text()
