"""idcwh-reproduce from its command line, on small pictures and a small random network."""

from __future__ import annotations

import json
import os
import resource
import signal
from pathlib import Path

import numpy as np
import pytest

from idcwh_reproduce import cli, experiments, tables
from idcwh_train.engine import epoch_log
from idcwh_train.methods.idcwh import IDCWH

SMALL = ["protocol=own", "weights=none", "resize=36", "crop=32", "epochs=4"]


@pytest.fixture
def command(images, tmp_path_factory):
    """The command with everything that all tests share; more arguments, and settings that differ, come behind."""

    def run(out: Path, *more: str, set: dict[str, object] | None = None) -> int:
        settings = [*SMALL, *(f"{name}={value}" for name, value in (set or {}).items())]
        cache = tmp_path_factory.getbasetemp() / "features"
        given = ["cifar10-mini", "--data", str(images), "--freeze", "--backbone", "timm:test_resnet", "--no-figures"]
        given += ["--device", "cpu", "--cache", str(cache), "--out", str(out)]
        return cli.main([*given, *(f"--set={setting}" for setting in settings), *more])

    return run


def files(out: Path) -> dict[str, dict]:
    return {path.stem: json.loads(path.read_text()) for path in sorted((out / "cells").glob("*.json"))}


def numbers(content: dict) -> dict:
    """What of a cell must not depend on when or how often it was interrupted."""
    record = {name: value for name, value in content["record"].items() if name not in epoch_log.CLOCKS}
    return {"evaluations": content["evaluations"], "record": record, "options": content["options"]}


def test_cells_and_the_report_of_them(command, tmp_path, capsys):
    out = tmp_path / "run"
    assert command(out, "--methods", "idcwh", "idcwh-single", "--bits", "12", "8", "--seeds", "2") == 0
    assert "\n\ncell 2 of 8, " in capsys.readouterr().err
    found = files(out)
    assert len(found) == 8
    left = {path.name for path in out.iterdir()}
    assert left == {"cells", "report.md", "report.html", "results.json", "table.json"}, "no folder of cells at work"
    for content in found.values():
        assert content["status"] == "done" and content["record"]["epoch"] == 4
        (evaluation,) = content["evaluations"].values()
        assert evaluation["map_pessimistic"] <= evaluation["map"] <= evaluation["map_optimistic"]
        assert {"precision_at", "pr_curve", "precision_within", "recall_within"} <= set(evaluation)
        assert {"d_w", "d_b"} <= set(evaluation["health"])
        assert content["versions"]["torch"] and content["versions"]["numpy"] and content["versions"]["idcwh"]
        assert content["machine"]["cpu"] and isinstance(content["machine"]["flags"], list)
        assert content["command"].startswith("idcwh-reproduce cifar10-mini --data ")
        assert content["seconds"]["total"] >= content["seconds"]["training"] > 0
        assert content["protocol"]["sizes"] == {"query": 9, "train": 33, "database": 33}

    text = (out / "report.md").read_text()
    for method, name in (("idcwh", "IDCWH"), ("idcwh-single", "IDCWH-Single")):
        row = next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
        for bits in ("8", "12"):
            maps = [
                c["evaluations"][bits]["map"]
                for c in found.values()
                if c["method"] == method and c["bits"] == [int(bits)]
            ]
            assert len(maps) == 2
            assert f"{np.mean(maps):.4f} ± {np.std(maps, ddof=1):.4f}" in row
    assert "Not the table's protocol" in text

    before = {path: path.stat().st_mtime_ns for path in (out / "cells").iterdir()}
    capsys.readouterr()
    assert command(out, "--methods", "idcwh", "idcwh-single", "--bits", "12", "8", "--seeds", "2") == 0
    assert "8 planned, 8 there already" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in (out / "cells").iterdir()} == before
    # one more seed and a changed option: only what that touches
    assert command(out, "--methods", "idcwh", "--bits", "12", "--seeds", "3", set={"lr": 0.01}) == 0
    after = {path: path.stat().st_mtime_ns for path in (out / "cells").iterdir()}
    assert {path.stem.split("--", 1)[1] for path in after if after[path] != before.get(path)} == {
        f"idcwh--12bits--seed{seed}" for seed in range(3)
    }


def test_a_cell_that_fails_is_recorded_and_the_others_go_on(command, tmp_path, capsys):
    out = tmp_path / "run"
    assert command(out, "--methods", "idcwh", "--bits", "8", "12", "--seeds", "1", set={"lr": 1e30}) == 3
    found = files(out)
    assert [c["status"] for c in found.values()] == ["failed", "failed"]
    assert all("nothing can be trained" in c["reason"] and c["evaluations"] == {} for c in found.values())
    assert all("--" not in c["reason"] for c in found.values()), "options of idcwh-train are none of this command"
    text = (out / "report.md").read_text()
    assert "failed (1)" in text and "Cells that failed" in text and "with which nothing can be trained" in text
    capsys.readouterr()
    assert command(out, "--methods", "idcwh", "--bits", "8", "12", "--seeds", "1", set={"lr": 1e30}) == 3
    assert "2 there already" in capsys.readouterr().err
    assert command(out, "--methods", "idcwh", "--bits", "8", "12", "--seeds", "1") == 0
    assert [c["status"] for c in files(out).values()] == ["done", "done"]
    assert "failed" not in (out / "report.md").read_text()


def test_interrupted_and_gone_on(command, tmp_path, monkeypatch, capsys):
    asked = ["--methods", "idcwh", "--bits", "12", "--seeds", "2"]
    assert command(tmp_path / "whole", *asked) == 0
    calls = []
    start = IDCWH.start_epoch

    def interrupted(self: IDCWH) -> None:
        calls.append(1)
        if len(calls) in (3, 6):  # the third epoch of either cell
            os.kill(os.getpid(), signal.SIGINT)
        start(self)

    monkeypatch.setattr(IDCWH, "start_epoch", interrupted)
    out = tmp_path / "parts"
    capsys.readouterr()
    assert command(out, *asked) == 130
    assert not files(out) and "0 of 2 cells are done" in capsys.readouterr().err
    assert command(out, *asked) == 130
    assert "going on from its checkpoint" in capsys.readouterr().err
    assert command(out, *asked) == 0
    whole, parts = files(tmp_path / "whole"), files(out)
    assert {name: numbers(c) for name, c in parts.items()} == {name: numbers(c) for name, c in whole.items()}
    assert parts.popitem()[1]["resumed"]


def test_a_checkpoint_of_other_options_is_not_gone_on_from(command, tmp_path, monkeypatch, capsys):
    asked = ["--methods", "idcwh", "--bits", "12", "--seeds", "1"]
    with monkeypatch.context() as patch:
        patch.setattr(IDCWH, "start_epoch", lambda self: os.kill(os.getpid(), signal.SIGINT))
        assert command(tmp_path / "run", *asked) == 130
    assert list((tmp_path / "run" / "runs").glob("*/checkpoint.pt"))
    capsys.readouterr()
    assert command(tmp_path / "run", *asked, set={"weight_decay": 0.1}) == 0
    assert "going on" not in capsys.readouterr().err
    assert command(tmp_path / "fresh", *asked, set={"weight_decay": 0.1}) == 0
    assert list(map(numbers, files(tmp_path / "run").values())) == list(
        map(numbers, files(tmp_path / "fresh").values())
    )


def test_data_that_is_not_there(tmp_path, capsys):
    out = tmp_path / "run"
    nowhere = ["--data", str(tmp_path / "nowhere")]
    assert cli.main(["coco", *nowhere, "--out", str(out), "--no-figures"]) == 1
    said = capsys.readouterr().err
    assert "MS-COCO 2014" in said and said.splitlines()[-1].startswith("error: ")
    text = (out / "report.md").read_text()
    assert text.count("data not available here") >= 4 * 11
    row = next(line for line in text.splitlines() if line.startswith("| DCWH | data"))
    assert "0.7227 (see below)" in row and "repeats its CIFAR-100 row" in text
    assert cli.main(["--report-only", "--out", str(out), "--no-figures"]) == 0
    assert (out / "report.md").read_text() == text
    # nothing of coco is in that folder, so it is free for another table
    assert cli.main(["cifar100", *nowhere, "--out", str(out), "--no-figures"]) == 1
    assert "CIFAR-100" in capsys.readouterr().err.splitlines()[-1]


def test_a_wrong_path_costs_nothing_where_cells_are(command, tmp_path, capsys):
    out = tmp_path / "run"
    assert command(out, "--methods", "idcwh", "--bits", "8", "--seeds", "1") == 0

    def kept() -> dict[Path, tuple[int, bytes]]:
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in out.rglob("*") if path.is_file()}

    before = kept()
    capsys.readouterr()
    assert command(out, "--data", str(tmp_path / "nowhere")) == 1
    (error,) = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("device")]
    assert error.startswith(f"error: {tmp_path / 'nowhere'}") and "CIFAR-10, all 60,000 images" in error
    with pytest.raises(SystemExit) as usage:
        cli.main(["cifar10-mini", "--out", str(out)])
    assert usage.value.code == 2
    assert kept() == before
    # as one that an earlier version had marked
    (out / "table.json").write_text(json.dumps({"table": "cifar10-mini", "unavailable": "nowhere: no such folder"}))
    assert cli.main(["--report-only", "--out", str(out), "--no-figures"]) == 0
    assert "ata not available" not in (out / "report.md").read_text()


def test_sweeps_and_ablation_vary_one_thing(command, tmp_path):
    out = tmp_path / "run"
    more = ["--methods", "idcwh", "--bits", "12", "--seeds", "1", "--sweeps", "--ablation"]
    command(out, *more, set={"epochs": 1})  # some of these settings may well end in a loss that is no number
    found = files(out)
    own = next(c for c in found.values() if c["variant"] is None)["options"]
    plain = {"sigma2": 4.0, "beta": 0.01, "smoothing": 0.0, "start": "normal"}
    seen = set()
    for content in found.values():
        if content["variant"] is None:
            continue
        kind, value = content["variant"]["kind"], content["variant"]["value"]
        options = content["options"]
        seen.add(kind if kind != "without" else value)
        if value == "recipe":
            assert options["dropout"] == 0.0 and options["lr"] == 1e-2 and options["epochs"] == 1, (
                "--set holds everywhere"
            )
            continue
        changed = {name for name in own if options[name] != own[name]}
        if kind == "without" and value not in plain:
            assert changed == {value}
        else:
            name = value if kind == "without" else kind
            assert changed == {"method_options"}
            mine = {**plain, **options["method_options"]}
            assert mine == {**plain, **own["method_options"], name: plain[name] if kind == "without" else value}
    assert {"sigma2", "beta", "smoothing", "start", "dropout", "lr", "weight_decay", "recipe"} <= seen
    assert "What IDCWH's parts are worth" in (out / "report.md").read_text()


def test_lengths_in_one_training(command, tmp_path):
    """With a frozen backbone, heads do not see each other: the numbers are those of a training each."""
    asked = ["--methods", "idcwh", "sdh", "--bits", "12", "8", "--seeds", "1"]
    assert command(tmp_path / "each", *asked) == 0
    assert command(tmp_path / "joint", *asked, "--joint") == 0
    each, joint = files(tmp_path / "each"), files(tmp_path / "joint")
    assert len(each) == 4 and len(joint) == 2
    for content in joint.values():
        assert content["bits"] == [8, 12] and set(content["evaluations"]) == {"8", "12"}
    alone = {(c["method"], bits): e["map"] for c in each.values() for bits, e in c["evaluations"].items()}
    together = {(c["method"], bits): e["map"] for c in joint.values() for bits, e in c["evaluations"].items()}
    assert together == pytest.approx(alone, abs=1e-6)
    text = (tmp_path / "joint" / "report.md").read_text()
    for value in together.values():
        assert f"{value:.4f}" in text


def test_mistakes_are_one_line(command, tmp_path, capsys):
    out = tmp_path / "run"
    for wrong, expected in (
        (["--methods", "dpsh", "nonesuch"], "unknown method 'nonesuch'"),
        (["--bits", "5000000"], "bits"),
    ):
        with pytest.raises(SystemExit) as usage:
            command(out, *wrong)
        assert usage.value.code == 2 and expected in capsys.readouterr().err
    with pytest.raises(SystemExit) as usage:
        command(out, "--set", "nonesuch=1")
    assert usage.value.code == 2 and "NAME=VALUE" in capsys.readouterr().err
    for wrong, expected in (
        ("nesterov=maybe", "nesterov: expected true or false, not 'maybe'"),
        ("epochs=abc", "epochs: expected a whole number of at least 1, not 'abc'"),
        ("center-lr=null", "center_lr: expected a number of at least 0, not 'null'"),
    ):
        with pytest.raises(SystemExit) as usage:
            command(out, "--set", wrong)
        assert usage.value.code == 2 and f"error: argument --set: {expected} (see" in capsys.readouterr().err
    with pytest.raises(SystemExit) as usage:
        cli.main(["cifar10-mini"])
    assert usage.value.code == 2 and "--out" in capsys.readouterr().err
    with pytest.raises(SystemExit) as usage:
        cli.main(["cifar10-mini", "--data", "x", "--methods", "sdh", "--out", str(out)])
    assert usage.value.code == 2 and "pass --freeze" in capsys.readouterr().err
    for wrong, expected in (
        ([], "--data is missing; cifar10-mini needs CIFAR-10, all 60,000 images"),
        (["--bits", "16", "8", "16"], "--bits: a code length is given twice: 16, 8, 16"),
        (["--set", "protocol=nonsense"], "protocol: "),
        (["--backbone", "nonsense"], "unknown backbone 'nonsense'; expected a torchvision classifier"),
        (["--backbone", "timm:nonsense"], "unknown backbone 'timm:nonsense'"),
        (["--methods", "all", "nonsense"], "unknown method 'nonsense'"),
    ):
        data = ["--data", str(tmp_path / "nowhere")] if wrong else []  # it is not looked for
        with pytest.raises(SystemExit) as usage:
            cli.main(["cifar10-mini", *data, *wrong, "--out", str(tmp_path / "untouched")])
        assert usage.value.code == 2 and f"error: {expected}" in capsys.readouterr().err
        assert not (tmp_path / "untouched").exists()
    (tmp_path / "file").write_text("")
    assert cli.main(["cifar10-mini", "--data", "x", "--out", str(tmp_path / "file")]) == 1
    assert "is a file" in capsys.readouterr().err


def test_settings_are_read_as_what_they_are(tmp_path):
    given = ["cifar10-mini", "--out", str(tmp_path), "--methods", "idcwh", "--bits", "12", "--seeds", "1"]
    given += [f"--set={text}" for text in ("flip=False", "database-without-train=no", "nesterov=Yes", "head_lr=None")]
    arguments = cli.parser().parse_args(given)
    (cell,) = cli._planned(arguments, tables.TABLES["cifar10-mini"])
    found = cell.options
    assert (found.flip, found.database_without_train, found.nesterov, found.head_lr) == (False, False, True, None)


@pytest.mark.parametrize("freeze", [False, True])
def test_all_methods_whatever_is_named_beside(freeze, tmp_path):
    def planned(*names: str) -> set[str]:
        given = ["cifar10-mini", "--out", str(tmp_path), "--methods", *names, *(["--freeze"] if freeze else [])]
        return {cell.method for cell in cli._planned(cli.parser().parse_args(given), tables.TABLES["cifar10-mini"])}

    every = planned("all")
    assert planned("idcwh", "all") == planned("all", "hashnet", "all") == every > set(tables.BEYOND)
    assert ("sdh" in every) == freeze


def test_a_folder_is_of_one_table_and_of_one_process(command, tmp_path, capsys):
    from idcwh_train.engine import run_dir

    out = tmp_path / "run"
    assert command(out, "--methods", "idcwh", "--bits", "8", "--seeds", "1") == 0
    assert cli.main(["coco", "--data", "x", "--out", str(out)]) == 1
    assert "holds cells of cifar10-mini" in capsys.readouterr().err
    with run_dir.alone(out, "idcwh-reproduce"):
        assert command(out, "--methods", "idcwh", "--bits", "8", "--seeds", "1") == 1
    assert "another idcwh-reproduce" in capsys.readouterr().err


def test_a_full_disk_is_no_failure_of_a_cell(command, tmp_path, capsys):
    """It ends the run, and when there is room the same command goes on."""
    out, asked = tmp_path / "run", ["--methods", "idcwh", "idcwh-single", "--bits", "8", "--seeds", "1"]
    assert command(tmp_path / "other", *asked) == 0
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    capsys.readouterr()
    for room in (1_000, 8_000, 20_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        try:
            assert command(out, *asked) == 1
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert "cannot be written: File too large" in capsys.readouterr().err.splitlines()[-1]
        assert not files(out)
    assert command(out, *asked) == 0
    assert {name: numbers(cell) for name, cell in files(out).items()} == {
        name: numbers(cell) for name, cell in files(tmp_path / "other").items()
    }


@pytest.mark.parametrize(
    ("file", "content"),
    [("protocol.json", "{}"), ("log.jsonl", "5\n"), ("log.jsonl", '{"seconds": "x"}\n'), ("checkpoint.pt", "x")],
)
def test_what_a_cell_at_work_has_left_damaged_is_begun_anew(command, tmp_path, file, content):
    out, asked = tmp_path / "run", ["--methods", "idcwh", "--bits", "8", "--seeds", "1", "--keep-models"]
    assert command(out, *asked) == 0
    (name, whole), *_ = files(out).items()
    (out / "cells" / f"{name}.json").unlink()
    (out / "runs" / name / file).write_text(content)
    assert command(out, *asked) == 0
    assert numbers(files(out)[name]) == numbers(whole)


def test_a_cell_at_work_with_the_protocol_of_another_is_begun_anew(command, tmp_path):
    """Its queries could be training images."""
    out, asked = tmp_path / "run", ["--methods", "idcwh", "--bits", "8", "--seeds", "2", "--keep-models"]
    assert command(out, *asked, set={"protocol": "per-class", "query_per_class": 3}) == 0
    (name, whole), (other, _) = files(out).items()
    (out / "cells" / f"{name}.json").unlink()
    protocol = out / "runs" / name / "protocol.json"
    protocol.write_bytes((out / "runs" / other / "protocol.json").read_bytes())
    assert command(out, *asked, set={"protocol": "per-class", "query_per_class": 3}) == 0
    assert numbers(files(out)[name]) == numbers(whole) and not files(out)[name]["resumed"]


def test_backbones_of_one_name_from_two_places_are_two_sets_of_cells():
    names = set()
    for backbone in ("resnet18", "timm:resnet18"):
        given = ["cifar10-mini", "--backbone", backbone, "--methods", "idcwh", "--bits", "8", "--seeds", "1"]
        (cell,) = cli._planned(cli.parser().parse_args(given), tables.TABLES["cifar10-mini"])
        names |= {cell.name, cell.setup.title}
    assert len(names) == 4


@pytest.mark.parametrize("asked", ["--sweeps", "--ablation"])
def test_sweeps_and_ablation_need_what_they_compare_with(command, tmp_path, asked, capsys):
    with pytest.raises(SystemExit) as usage:
        command(tmp_path / "run", "--methods", "dpsh", asked)
    assert usage.value.code == 2 and "compare with idcwh as it is: add it to --methods" in capsys.readouterr().err


def test_a_damaged_cell_is_made_again(command, tmp_path, capsys):
    out = tmp_path / "run"
    asked = ["--methods", "idcwh", "--bits", "8", "--seeds", "1"]
    assert command(out, *asked) == 0
    (path,) = (out / "cells").glob("*.json")
    whole = json.loads(path.read_text())
    path.write_bytes(path.read_bytes()[:-100])
    assert experiments.read(path) is None
    assert command(out, *asked) == 0
    assert numbers(json.loads(path.read_text())) == numbers(whole)


def test_list(command, tmp_path, capsys):
    out = tmp_path / "run"
    assert command(out, "--methods", "idcwh", "--bits", "8", "--seeds", "1") == 0
    capsys.readouterr()
    assert cli.main(["--list", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in ("cifar10-mini", "cifar10-full", "cifar100", "coco"))
    (content,) = files(out).values()
    assert f"{content['seconds']['total']:.1f}" in said.splitlines()[-2]
