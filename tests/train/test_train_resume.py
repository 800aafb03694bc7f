"""idcwh-train interrupted, resumed and replaced: the bytes of an uninterrupted run, or one line and no change."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from idcwh_search.errors import CorruptFileError, MismatchError, NotSupportedError
from idcwh_train import RunDir, cli, load_model, train
from idcwh_train.engine import checkpoint, resume, trainer
from idcwh_train.models import backbones
from support.errors import raises

FINE_TUNING = [
    *("--lr", "0.001", "--head-lr", "0.01", "--nesterov", "--schedule", "linear", "--warmup", "0.2"),
    *("--average", "0.9", "--start-crop", "16", "--pad", "2", "--erase", "0.3", "--dropout", "0.3", "--flip"),
]


@pytest.mark.slow
@pytest.mark.parametrize("how", [["--freeze"], FINE_TUNING, ["--freeze", "--bits", "12", "20", "--optimizer", "adam"]])
def test_resume_within_an_epoch_is_bit_for_bit(images, net, tmp_path, cached, how, monkeypatch, log):
    """Stopped after every few steps and resumed, the run ends with the bytes of an uninterrupted one."""
    command = ["--data", str(images), *net, *how, "--epochs", "3", "--batch-size", "8", *cached]
    assert cli.main([*command, "--out", str(tmp_path / "whole")]) == 0
    models = sorted(path.name for path in (tmp_path / "whole").glob("model*.pt"))

    steps = 0
    step = trainer.Trainer._step

    def stopping(self, *arguments):
        nonlocal steps
        step(self, *arguments)
        steps += 1
        if steps % 2 == 0:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(trainer.Trainer, "_step", stopping)
    out = tmp_path / "pieces"
    assert cli.main([*command, "--out", str(out)]) == 130
    assert load_model(out / models[-1])[1]["training"]["finished"] is False
    for _ in range(20):
        if cli.main(["--out", str(out), "--resume", *cached]) == 0:
            break
    assert steps in (9, 12), "no step is run twice"
    for model in models:
        assert (out / model).read_bytes() == (tmp_path / "whole" / model).read_bytes()
    assert log(out) == log(tmp_path / "whole")


def test_resume_checkpoint_of_an_older_version_continues(images, net, tmp_path, cached, monkeypatch, log):
    command = ["--data", str(images), *net, "--freeze", "--epochs", "2", "--batch-size", "8", *cached]
    assert cli.main([*command, "--out", str(tmp_path / "whole")]) == 0
    step, out = trainer.Trainer._step, tmp_path / "old"

    def stopping(self, *arguments):
        step(self, *arguments)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(trainer.Trainer, "_step", stopping)
        assert cli.main([*command, "--out", str(out)]) == 130
    saved = checkpoint.read(out / "checkpoint.pt", checkpoint.CHECKPOINT)
    assert saved["trainer"]["position"].pop("taken") == 1
    # options that the older version did not have
    assert saved["options"].pop("min_steps") == saved["options"].pop("erase") == 0
    checkpoint.write(out / "checkpoint.pt", saved)
    assert cli.main(["--out", str(out), "--resume", *cached]) == 0
    assert log(out) == log(tmp_path / "whole")


@pytest.mark.slow
def test_train_process_with_ctrl_c_writes_the_model(images, net, tmp_path, cached, log):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "idcwh_train", "--data", str(images), *net, "--freeze", "--epochs", "1000000"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen([*command, "--out", str(out), *cached], env=env, stderr=subprocess.PIPE, text=True)
    log_file = out / "log.jsonl"
    while process.poll() is None and not (log_file.exists() and log_file.stat().st_size > 2000):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, output = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "Traceback" not in output and "--resume" in output
    assert "\n\n" in output, "a line of its own below ^C"
    model, content = load_model(out / "model.pt")
    assert content["training"]["finished"] is False and content["training"]["epochs"] > 1
    position = checkpoint.read(out / "checkpoint.pt", checkpoint.CHECKPOINT)["trainer"]["position"]
    assert position["epoch"] == content["training"]["epochs"] == len(log(out))
    assert model.bits == 12


def test_train_into_an_earlier_run_is_refused(images, net, tmp_path, cached, capsys):
    out = tmp_path / "run"
    command = ["--data", str(images), *net, "--freeze", "--epochs", "1", "--out", str(out), *cached]
    assert cli.main(["--out", str(out), "--resume", *cached]) == 1
    assert f"{out / 'checkpoint.pt'}: " in capsys.readouterr().err
    assert cli.main(command) == 0
    before = (out / "model.pt").read_bytes()
    assert cli.main(command) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"error: {out}: ") and "checkpoint.pt" in error
    assert cli.main([*command, "--overwrite", "--data", "nowhere"]) == 1
    assert (out / "model.pt").read_bytes() == before, "nothing is removed before the new run can start"
    assert cli.main(["--out", str(out), "--resume", *cached]) == 0
    assert (out / "model.pt").read_bytes() == before
    assert cli.main([*command, "--overwrite"]) == 0


def test_overwrite_that_fails_leaves_the_earlier_run(images, net, tmp_path, cached, capsys):
    out = tmp_path / "run"
    command = ["--data", str(images), *net, "--query-per-class", "2", "--epochs", "2", "--out", str(out), *cached]
    assert cli.main([*command, "--freeze"]) == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    again = [*command, "--overwrite", "--seed", "7"]
    for mistake in (
        ["--freeze", "--backbone", "compact", "--crop", "4"],
        ["--freeze", "--train-per-class", "99"],
    ):
        assert cli.main([*again, *mistake]) == 1
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert cli.main([*again, "--freeze"]) == 0
    assert {name for name, content in before.items() if (out / name).read_bytes() != content} == set(before)


def test_resume_with_another_protocol_is_refused(images, net, tmp_path, cached, capsys):
    """With another seed, the run would train on images that may be queries."""
    for name, seed in (("a", "0"), ("b", "7")):
        command = ["--data", str(images), *net, "--freeze", "--query-per-class", "2", "--epochs", "2", "--seed", seed]
        assert cli.main([*command, "--out", str(tmp_path / name), *cached]) == 0
    model, protocol = (tmp_path / "a" / "model.pt").read_bytes(), (tmp_path / "a" / "protocol.json").read_bytes()
    (tmp_path / "a" / "protocol.json").write_bytes((tmp_path / "b" / "protocol.json").read_bytes())
    capsys.readouterr()
    assert cli.main(["--out", str(tmp_path / "a"), "--resume", "--evaluate", *cached]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"error: {tmp_path}/a/protocol.json: ")
    assert (tmp_path / "a" / "model.pt").read_bytes() == model
    (tmp_path / "a" / "protocol.json").write_bytes(protocol)
    assert cli.main(["--out", str(tmp_path / "a"), "--resume", "--evaluate", *cached]) == 0
    assert (tmp_path / "a" / "model.pt").read_bytes() == model


def test_resume_corrupt_or_incomplete_checkpoint_is_refused(finished, cached, capsys):
    out = finished
    path = out / "checkpoint.pt"
    whole = path.read_bytes()
    saved = checkpoint.read(path, checkpoint.CHECKPOINT)
    weight = whole.index(saved["trainer"]["network"]["heads.12.weight"].numpy().tobytes())
    flipped = bytearray(whole)
    flipped[weight + 100] ^= 1
    for content in (whole[: len(whole) // 2], whole[:-1], bytes(flipped)):
        path.write_bytes(content)
        assert cli.main(["--out", str(out), "--resume", *cached]) == 1
        assert capsys.readouterr().err.splitlines()[-1].startswith(f"error: {path}: ")
    for lacking, content in (
        ("log_bytes", {name: value for name, value in saved.items() if name != "log_bytes"}),
        ("protocol", {name: value for name, value in saved.items() if name != "protocol"}),
    ):
        checkpoint.write(path, content)
        assert cli.main(["--out", str(out), "--resume", *cached]) == 1
        output = capsys.readouterr().err.strip()
        assert output.startswith(f"error: {path}: ") and lacking in output and "\n" not in output


def test_checkpoint_option_of_a_newer_version_is_not_supported(finished, cached, capsys):
    path = finished / "checkpoint.pt"
    saved = checkpoint.read(path, checkpoint.CHECKPOINT)
    saved["options"]["mixup"] = 0.2
    checkpoint.write(path, saved)
    with raises(NotSupportedError, path=path, problem="option mixup of a newer version"):
        resume.recorded(resume.read(path), path)
    assert cli.main(["--out", str(finished), "--resume", *cached]) == 1
    assert "__init__" not in capsys.readouterr().err


def test_checkpoint_position_of_a_newer_version_is_not_supported(finished):
    path = finished / "checkpoint.pt"
    saved = checkpoint.read(path, checkpoint.CHECKPOINT)
    saved["trainer"]["position"]["shard"] = 1
    checkpoint.write(path, saved)
    with raises(NotSupportedError, path=path, problem="trainer.position.shard of a newer version"):
        resume.read(path)


@pytest.mark.parametrize(
    "name",
    ["best", "log_bytes", "trainer.position", "trainer.position.epoch", "trainer.network", "trainer.codes.0.packed"],
)
def test_checkpoint_without_a_part_is_corrupt(finished, name):
    path = finished / "checkpoint.pt"
    saved = checkpoint.read(path, checkpoint.CHECKPOINT)
    *parents, last = name.split(".")
    part = saved
    for key in parents:
        part = part[int(key)] if key.isdigit() else part[key]
    del part[last]
    checkpoint.write(path, saved)
    with raises(CorruptFileError, path=path, problem=f"{name} is missing"):
        resume.read(path)


@pytest.mark.parametrize(
    ("change", "name", "found"),
    [
        (lambda saved: saved["trainer"].update(position=[1]), "trainer.position", "list"),
        (lambda saved: saved["trainer"].update(optimizer=5), "trainer.optimizer", "int"),
        (lambda saved: saved["trainer"]["position"].update(epoch="x"), "trainer.position.epoch", "str"),
        (lambda saved: saved["trainer"]["network"].update({"heads.12.bias": 1}), "network.heads.12.bias", "int"),
        (lambda saved: saved.update(best=3), "best", "int"),
    ],
)
def test_checkpoint_with_a_part_of_another_type_is_corrupt(finished, change, name, found):
    path = finished / "checkpoint.pt"
    saved = checkpoint.read(path, checkpoint.CHECKPOINT)
    change(saved)
    checkpoint.write(path, saved)
    with raises(CorruptFileError, path=path, found=found, problem=f"{name} is invalid"):
        resume.read(path)


def test_checkpoint_with_tensors_of_another_shape_does_not_match(finished, cached):
    path = finished / "checkpoint.pt"
    saved = checkpoint.read(path, checkpoint.CHECKPOINT)
    saved["trainer"]["network"]["heads.12.bias"] = torch.zeros(5)
    checkpoint.write(path, saved)
    options = resume.recorded(saved, path)
    with raises(MismatchError, path=path, problem="heads.12.bias"):
        train(options, RunDir(finished), device=torch.device("cpu"), cache=Path(cached[1]), resume=True)


@pytest.mark.parametrize(
    "given",
    [
        ["--epochs", "3"],
        ["--sigma2", "4"],
        ["--method-option", "beta=0.05"],
        ["--recipe", "frozen"],
        ["--freeze"],
        ["--overwrite"],
    ],
)
def test_resume_with_an_option_of_a_new_run_is_wrong_usage(tmp_path, capsys, given):
    with pytest.raises(SystemExit) as usage:
        cli.main(["--out", str(tmp_path / "run"), "--resume", *given])
    assert usage.value.code == 2 and capsys.readouterr().err.startswith(f"error: {given[0]}: ")


@pytest.mark.parametrize(
    "change",
    [
        lambda saved: saved["trainer"].update(network={}),
        lambda saved: saved["trainer"]["network"].pop("heads.12.bias"),
        lambda saved: saved["trainer"].update(optimizer=5),
        lambda saved: saved["trainer"].update(codes=5),
        lambda saved: saved["trainer"]["position"].update(epoch=-1),
        lambda saved: saved["trainer"]["position"].update(step=10**9),
        lambda saved: saved["trainer"]["position"].update(epoch="x"),
        lambda saved: saved["trainer"].update(position=[1]),
        lambda saved: saved.update(best={}),
        lambda saved: saved.update(best={"map": 1.0, "epoch": 1, "weights": {}, "methods": []}),
        lambda saved: saved.update(best=3),
    ],
)
def test_resume_checkpoint_that_does_not_fit_is_refused(finished, cached, capsys, change):
    """No model is written from an incomplete checkpoint."""
    out = finished
    path, model = out / "checkpoint.pt", (out / "model.pt").read_bytes()
    saved = checkpoint.read(path, checkpoint.CHECKPOINT)
    change(saved)
    checkpoint.write(path, saved)
    capsys.readouterr()
    assert cli.main(["--out", str(out), "--resume", *cached]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"error: {path}: ")
    assert (out / "model.pt").read_bytes() == model


@pytest.mark.slow
def test_resume_with_moved_weights_needs_their_path(images, net, tmp_path, cached, capsys, monkeypatch):
    """Other weights are refused, because a frozen backbone is built from them again."""
    torch.manual_seed(0)
    for name in ("w.pt", "other.pt"):
        network = backbones.create("timm:test_resnet", "none", 32).network
        torch.save(network.state_dict(), tmp_path / name)
    monkeypatch.chdir(tmp_path)
    for how in (["--freeze"], []):
        out = tmp_path / ("frozen" if how else "tuned")
        command = ["--data", str(images), *net, *how, "--weights", "w.pt", "--epochs", "2", "--out", str(out), *cached]
        assert cli.main(command) == 0
        model, resume = (out / "model.pt").read_bytes(), ["--out", str(out), "--resume", *cached]
        (tmp_path / "w.pt").rename(tmp_path / "moved.pt")
        assert cli.main(resume) == 1
        line = capsys.readouterr().err.splitlines()[-1]
        assert line.startswith("error: w.pt: ") and "--weights" in line
        assert cli.main([*resume, "--weights", "moved.pt"]) == 0
        assert (out / "model.pt").read_bytes() == model
        assert cli.main([*resume, "--weights", "other.pt"]) == 1
        assert "checkpoint.pt: " in capsys.readouterr().err.splitlines()[-1]
        assert cli.main([*resume, "--weights", "none"]) == 1
        assert "checkpoint.pt: " in capsys.readouterr().err.splitlines()[-1]
        (tmp_path / "moved.pt").rename(tmp_path / "w.pt")
        saved = checkpoint.read(out / "checkpoint.pt", checkpoint.CHECKPOINT)
        del saved["protocol"]["weights"]  # an earlier version did not store them
        checkpoint.write(out / "checkpoint.pt", saved)
        assert cli.main(resume) == 0


def test_resume_with_an_invalid_log_draws_no_curves(finished, cached, capsys):
    out = finished
    model = (out / "model.pt").read_bytes()
    lines = (out / "log.jsonl").read_bytes().splitlines(keepends=True)
    for first in (b"5", b'{"epoch": 1, "distinct_codes": "x"}', b'{"epoch": 1, "loss": [1]}'):
        (out / "log.jsonl").write_bytes(b"".join([first.ljust(len(lines[0]) - 1) + b"\n", *lines[1:]]))
        capsys.readouterr()
        assert cli.main(["--out", str(out), "--resume", *cached]) == 0
        output = capsys.readouterr().err
        assert f"wrote {out / 'model.pt'}" in output
        assert f"warning: curves.png is not written: {out / 'log.jsonl'}: " in output
        assert (out / "model.pt").read_bytes() == model


def test_train_interrupted_prints_the_quoted_command(images, net, tmp_path, cached, capsys, monkeypatch):
    monkeypatch.setattr(trainer.Trainer, "_step", lambda *_: signal.raise_signal(signal.SIGINT))
    out = tmp_path / "my run"
    assert cli.main(["--data", str(images), *net, "--freeze", "--epochs", "3", "--out", str(out), *cached]) == 130
    assert f" idcwh-train --out '{out}' --resume\n" in capsys.readouterr().err


def test_resume_with_an_incomplete_log_warns_and_continues(finished, cached, capsys):
    out = finished
    model, lines = (out / "model.pt").read_bytes(), (out / "log.jsonl").read_bytes().splitlines(keepends=True)
    kept = (out / "checkpoint.pt").read_bytes()
    for content, left in ((None, []), (b"".join(lines)[:-5], lines[:2]), (lines[0] + lines[1][:30], lines[:1])):
        (out / "checkpoint.pt").write_bytes(kept)
        (out / "log.jsonl").unlink()
        if content is not None:
            (out / "log.jsonl").write_bytes(content)
        capsys.readouterr()
        assert cli.main(["--out", str(out), "--resume", *cached]) == 0
        problem = "is missing (found " if content is None else f"is incomplete (found {sum(map(len, left)):,} bytes"
        warning = f"warning: {out / 'log.jsonl'}: {problem}"
        assert warning in capsys.readouterr().err
        assert (out / "log.jsonl").read_bytes() == b"".join(left)
        assert (out / "model.pt").read_bytes() == model


@pytest.mark.slow
def test_resume_with_a_moved_dataset_needs_its_path(make_images, images, net, tmp_path, cached, capsys, monkeypatch):
    out, here = tmp_path / "run", tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(images.parent)
    assert cli.main(["--data", images.name, *net, "--freeze", "--epochs", "3", "--out", str(out), *cached]) == 0
    model = (out / "model.pt").read_bytes()
    monkeypatch.chdir(here)
    resume = ["--out", str(out), "--resume", *cached]
    assert cli.main(resume) == 1
    assert "--data" in capsys.readouterr().err
    (here / "there").symlink_to(images)
    for data in (str(images), "there", "./there"):
        assert cli.main([*resume, "--data", data]) == 0
        assert (out / "model.pt").read_bytes() == model, "the model does not depend on the path of the dataset"
    other = make_images(tmp_path / "other", each=13)
    assert cli.main([*resume, "--data", str(other)]) == 1
    assert "protocol.json: " in capsys.readouterr().err
    assert (out / "model.pt").read_bytes() == model
