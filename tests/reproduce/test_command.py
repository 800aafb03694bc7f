"""idcwh-reproduce from its command line, on small images and a small random network."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

from idcwh_reproduce import cli, tables
from idcwh_train.engine import epoch_log, run_dir
from idcwh_train.methods.idcwh import IDCWH

REPORT = {"experiments", "report.md", "report.html", "results.json", "table.json"}
ONE = ["--methods", "idcwh", "--bits", "8", "--seeds", "1"]


def files(out: Path) -> dict[str, dict]:
    """Returns the experiments of a folder as JSON, by name without the setup."""
    experiments = (out / "experiments").glob("*.json")
    return {path.stem.partition("--")[2]: json.loads(path.read_text()) for path in sorted(experiments)}


def experiment(out: Path, name: str) -> Path:
    (path,) = (out / "experiments").glob(f"*--{name}.json")
    return path


def numbers(content: dict) -> dict:
    """Returns the content that does not depend on when or how often an experiment was interrupted."""
    record = {name: value for name, value in content["record"].items() if name not in epoch_log.CLOCKS}
    return {"evaluations": content["evaluations"], "record": record, "options": content["options"]}


def times(out: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (out / "experiments").iterdir()}


def usage(capsys, *given: object) -> str:
    """Returns the error of a command that ends with the exit code of wrong usage."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        cli.main(["cifar10-mini", *map(str, given)])
    assert end.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_experiment_files_hold_measures_versions_and_machine(finished_run):
    experiments = files(finished_run)
    assert len(experiments) == 8
    for content in experiments.values():
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


def test_report_has_means_and_deviations_of_the_experiments(finished_run):
    experiments, text = files(finished_run), (finished_run / "report.md").read_text()
    for method, name in (("idcwh", "IDCWH"), ("idcwh-single", "IDCWH-Single")):
        row = next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
        for bits in ("8", "12"):
            maps = [experiments[f"{method}--{bits:0>2}bits--seed{seed}"]["evaluations"][bits]["map"] for seed in (0, 1)]
            assert f"{np.mean(maps):.4f} ± {np.std(maps, ddof=1):.4f}" in row


def test_same_command_again_trains_nothing(reproduce, out):
    before = times(out)
    assert reproduce(out, "--methods", "idcwh", "idcwh-single", "--bits", "12", "8", "--seeds", "2") == 0
    assert times(out) == before


def test_new_seed_and_option_train_only_their_experiments(reproduce, out):
    before = times(out)
    assert reproduce(out, "--methods", "idcwh", "--bits", "12", "--seeds", "3", lr=0.01) == 0
    changed = {name.split("--", 1)[1] for name, time in times(out).items() if time != before.get(name)}
    assert changed == {f"idcwh--12bits--seed{seed}.json" for seed in range(3)}


def test_failed_experiment_is_recorded_and_the_others_continue(reproduce, tmp_path):
    out, asked = tmp_path / "run", ["--methods", "idcwh", "--bits", "8", "12", "--seeds", "1"]
    assert reproduce(out, *asked, lr=1e30) == 3
    experiments = files(out)
    assert [c["status"] for c in experiments.values()] == ["failed", "failed"]
    assert all(c["reason"] and c["evaluations"] == {} for c in experiments.values())
    assert all("--" not in c["reason"] for c in experiments.values()), "options of idcwh-train are not of this command"
    text = (out / "report.md").read_text()
    assert "failed (1)" in text
    before = times(out)
    assert reproduce(out, *asked, lr=1e30) == 3 and times(out) == before
    assert reproduce(out, *asked) == 0
    assert [c["status"] for c in files(out).values()] == ["done", "done"]
    assert "failed (1)" not in (out / "report.md").read_text()


def test_interrupted_run_continues_bit_for_bit(reproduce, finished_run, tmp_path, monkeypatch):
    asked = ["--methods", "idcwh", "--bits", "12", "--seeds", "2"]
    calls = []
    start = IDCWH.start_epoch

    def interrupted(self: IDCWH) -> None:
        calls.append(1)
        if len(calls) in (3, 6):  # the third epoch of either experiment
            os.kill(os.getpid(), signal.SIGINT)
        start(self)

    monkeypatch.setattr(IDCWH, "start_epoch", interrupted)
    out = tmp_path / "parts"
    assert reproduce(out, *asked) == 130 and not files(out)
    assert reproduce(out, *asked) == 130 and len(files(out)) == 1
    assert reproduce(out, *asked) == 0
    whole, parts = files(finished_run), files(out)
    assert len(parts) == 2 and all(content["resumed"] for content in parts.values())
    assert all(numbers(content) == numbers(whole[name]) for name, content in parts.items())
    assert {path.name for path in out.iterdir()} == REPORT, "the folders of runs are deleted"


def test_checkpoint_of_other_options_is_not_resumed(reproduce, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(IDCWH, "start_epoch", lambda self: os.kill(os.getpid(), signal.SIGINT))
        assert reproduce(tmp_path / "run", *ONE) == 130
    assert list((tmp_path / "run" / "runs").glob("*/checkpoint.pt"))
    assert reproduce(tmp_path / "run", *ONE, weight_decay=0.1) == 0
    assert reproduce(tmp_path / "fresh", *ONE, weight_decay=0.1) == 0
    (run,), (fresh,) = files(tmp_path / "run").values(), files(tmp_path / "fresh").values()
    assert numbers(run) == numbers(fresh) and not run["resumed"]


def test_missing_data_is_reported_with_what_the_table_needs(tmp_path, capsys):
    out = tmp_path / "run"
    nowhere = ["--data", str(tmp_path / "nowhere")]
    assert cli.main(["coco", *nowhere, "--out", str(out), "--no-figures"]) == 1
    assert tables.TABLES["coco"].needs in capsys.readouterr().err.splitlines()[-1]
    text = (out / "report.md").read_text()
    assert text.count("data not available") >= 4 * 11
    row = next(line for line in text.splitlines() if line.startswith("| DCWH | data"))
    assert "0.7227 (see below)" in row and tables.TABLES["coco"].doubtful["DCWH"] in text
    assert cli.main(["--report-only", "--out", str(out), "--no-figures"]) == 0
    assert (out / "report.md").read_text() == text
    # the folder has nothing of coco, so another table may use it
    assert cli.main(["cifar100", *nowhere, "--out", str(out), "--no-figures"]) == 1
    assert tables.TABLES["cifar100"].needs in capsys.readouterr().err.splitlines()[-1]


def test_wrong_data_path_leaves_experiments_and_report(reproduce, out, tmp_path, capsys):
    def kept() -> dict[Path, tuple[int, bytes]]:
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in out.rglob("*") if path.is_file()}

    before = kept()
    capsys.readouterr()
    assert reproduce(out, "--data", str(tmp_path / "nowhere")) == 1
    (error,) = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("device")]
    assert error.startswith(f"error: {tmp_path / 'nowhere'}") and tables.TABLES["cifar10-mini"].needs in error
    assert kept() == before
    # the folder of an earlier version with a mark
    (out / "table.json").write_text(json.dumps({"table": "cifar10-mini", "unavailable": "nowhere: no such folder"}))
    assert cli.main(["--report-only", "--out", str(out), "--no-figures"]) == 0
    assert "ata not available" not in (out / "report.md").read_text()


@pytest.mark.slow
def test_sweeps_and_ablation_change_one_option(reproduce, tmp_path):
    out = tmp_path / "run"
    more = ["--methods", "idcwh", "--bits", "12", "--seeds", "1", "--sweeps", "--ablation"]
    reproduce(out, *more, epochs=1)  # some of these settings may end in a loss that is not finite
    experiments = files(out)
    recipe = next(c for c in experiments.values() if c["variant"] is None)["options"]
    plain = {"sigma2": 4.0, "beta": 0.01, "smoothing": 0.0, "start": "normal"}
    seen = set()
    for content in experiments.values():
        if content["variant"] is None:
            continue
        kind, value = content["variant"]["kind"], content["variant"]["value"]
        options = content["options"]
        seen.add(kind if kind != "without" else value)
        if value == "recipe":
            assert (options["dropout"], options["lr"], options["epochs"]) == (0.0, 1e-2, 1), "--set holds everywhere"
            continue
        changed = {name for name in recipe if options[name] != recipe[name]}
        if kind == "without" and value not in plain:
            assert changed == {value}
        else:
            name = value if kind == "without" else kind
            assert changed == {"method_options"}
            mine = {**plain, **options["method_options"]}
            assert mine == {**plain, **recipe["method_options"], name: plain[name] if kind == "without" else value}
    assert {"sigma2", "beta", "smoothing", "start", "dropout", "lr", "weight_decay", "recipe"} <= seen
    assert "### Ablation" in (out / "report.md").read_text()


def test_joint_training_equals_one_training_per_code_length(reproduce, finished_run, tmp_path):
    """With a frozen backbone, heads do not depend on each other."""
    asked = ["--methods", "idcwh", "sdh", "--bits", "12", "8", "--seeds", "1"]
    shutil.copytree(finished_run, tmp_path / "each")
    assert reproduce(tmp_path / "each", *asked) == 0 and reproduce(tmp_path / "joint", *asked, "--joint") == 0
    each, joint = files(tmp_path / "each"), files(tmp_path / "joint")
    assert list(joint) == ["idcwh--08+12bits--seed0", "sdh--08+12bits--seed0"]
    text = (tmp_path / "joint" / "report.md").read_text()
    for content in joint.values():
        assert content["bits"] == [8, 12] and set(content["evaluations"]) == {"8", "12"}
        for bits, evaluation in content["evaluations"].items():
            alone = each[f"{content['method']}--{bits:0>2}bits--seed0"]["evaluations"][bits]
            assert evaluation["map"] == pytest.approx(alone["map"], abs=1e-6)
            assert f"{evaluation['map']:.4f}" in text


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        (["--methods", "dpsh", "nonesuch"], "nonesuch"),
        (["--methods", "all", "nonesuch"], "nonesuch"),
        (["--methods", "sdh"], "--freeze"),
        (["--methods", "dpsh", "--sweeps"], "--methods"),
        (["--methods", "dpsh", "--ablation"], "--methods"),
        (["--bits", "5000000"], "bits"),
        (["--bits", "16", "8", "16"], "16 8 16"),
        (["--set", "nonesuch=1"], "NAME=VALUE"),
        (["--set", "nesterov=maybe"], "nesterov"),
        (["--set", "epochs=abc"], "epochs"),
        (["--set", "center-lr=null"], "center_lr"),
        (["--set", "protocol=nonsense"], "nonsense"),
        (["--backbone", "nonsense"], "nonsense"),
        (["--backbone", "timm:nonsense"], "timm:nonsense"),
    ],
)
def test_wrong_option_is_one_line_of_usage(wrong, names, tmp_path, capsys):
    out = tmp_path / "untouched"
    assert names in usage(capsys, "--data", tmp_path / "nowhere", "--out", out, *wrong)
    assert not out.exists()


def test_missing_option_is_one_line_of_usage(tmp_path, capsys):
    assert "--out" in usage(capsys, "--data", "x")
    error = usage(capsys, "--out", tmp_path / "untouched")
    assert "--data" in error and tables.TABLES["cifar10-mini"].needs in error
    assert not (tmp_path / "untouched").exists()


def test_out_that_is_a_file_fails(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert cli.main(["cifar10-mini", "--data", "x", "--out", str(tmp_path / "file")]) == 1
    assert str(tmp_path / "file") in capsys.readouterr().err


def plan(*given: str) -> list:
    return cli.plan(cli.parser().parse_args(["cifar10-mini", *given]), tables.TABLES["cifar10-mini"])


def test_settings_are_converted_to_their_types():
    texts = ("flip=False", "database-without-train=no", "nesterov=Yes", "head_lr=None")
    (planned,) = plan(*ONE, *(f"--set={text}" for text in texts))
    experiments = planned.options
    assert (experiments.flip, experiments.database_without_train, experiments.nesterov, experiments.head_lr) == (
        False,
        False,
        True,
        None,
    )


@pytest.mark.parametrize("freeze", [False, True])
def test_methods_all_beside_names_is_every_method(freeze):
    def planned(*names: str) -> set[str]:
        return {one.method for one in plan("--methods", *names, *(["--freeze"] if freeze else []))}

    every = planned("all")
    assert planned("idcwh", "all") == planned("all", "hashnet", "all") == every > set(tables.BEYOND)
    assert ("sdh" in every) == freeze


def test_backbones_of_one_name_from_two_sources_differ():
    names = set()
    for backbone in ("resnet18", "timm:resnet18"):
        (planned,) = plan(*ONE, "--backbone", backbone)
        names |= {planned.name, planned.setup.title}
    assert len(names) == 4


def test_folder_belongs_to_one_table_and_one_process(reproduce, out, capsys):
    assert cli.main(["coco", "--data", "x", "--out", str(out)]) == 1
    error = capsys.readouterr().err
    assert str(out) in error and "cifar10-mini" in error and "coco" in error
    with run_dir.alone(out, "idcwh-reproduce"):
        assert reproduce(out, *ONE) == 1
    assert str(out) in capsys.readouterr().err.splitlines()[-1]


def test_full_disk_ends_the_run_and_the_same_command_continues(reproduce, finished_run, tmp_path, capsys):
    out, asked = tmp_path / "run", ["--methods", "idcwh", "idcwh-single", "--bits", "8", "--seeds", "1"]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for size in (1_000, 8_000, 20_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            assert reproduce(out, *asked) == 1
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert str(out) in capsys.readouterr().err.splitlines()[-1]
        assert not files(out)
    assert reproduce(out, *asked) == 0
    whole = files(finished_run)
    assert len(files(out)) == 2
    assert all(numbers(content) == numbers(whole[name]) for name, content in files(out).items())


@pytest.mark.parametrize(
    ("file", "content"),
    [("protocol.json", "{}"), ("log.jsonl", "5\n"), ("log.jsonl", '{"seconds": "x"}\n'), ("checkpoint.pt", "x")],
)
def test_corrupt_file_of_an_unfinished_run_starts_it_again(reproduce, out, finished_run, file, content):
    path = experiment(out, "idcwh--08bits--seed0")
    path.unlink()
    (out / "runs" / path.stem / file).write_text(content)
    assert reproduce(out, *ONE) == 0
    name = "idcwh--08bits--seed0"
    assert numbers(files(out)[name]) == numbers(files(finished_run)[name])


def test_unfinished_run_with_another_protocol_starts_again(reproduce, tmp_path):
    """Its queries could be training images."""
    out, asked = tmp_path / "run", ["--methods", "idcwh", "--bits", "8", "--seeds", "2", "--keep-models"]
    settings = {"protocol": "per-class", "query_per_class": 3}
    assert reproduce(out, *asked, **settings) == 0
    first, second = experiment(out, "idcwh--08bits--seed0"), experiment(out, "idcwh--08bits--seed1")
    whole = json.loads(first.read_text())
    first.unlink()
    shutil.copy(out / "runs" / second.stem / "protocol.json", out / "runs" / first.stem)
    assert reproduce(out, *asked, **settings) == 0
    again = json.loads(first.read_text())
    assert numbers(again) == numbers(whole) and not again["resumed"]


def test_corrupt_experiment_is_trained_again(reproduce, out):
    path = experiment(out, "idcwh--08bits--seed0")
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    assert reproduce(out, *ONE) == 0
    assert numbers(json.loads(path.read_text())) == numbers(json.loads(whole))


def test_list_names_tables_and_seconds_of_experiments(out, capsys):
    assert cli.main(["--list", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert all(table.needs in printed for table in tables.TABLES.values())
    content = files(out)["idcwh--08bits--seed0"]
    line = next(line for line in printed.splitlines() if "idcwh--08bits--seed0" in line)
    assert f"{content['seconds']['total']:.1f}" in line
