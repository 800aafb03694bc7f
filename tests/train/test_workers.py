"""Training on two processes by torchrun, which equals that on one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from idcwh_train import cli
from idcwh_train.engine import checkpoint, epoch_log

SCRIPT = """
import json, os, signal, sys
from torch import distributed
from idcwh_train import cli
from idcwh_train.engine import trainer

distributed.init_process_group("gloo")  # once for all the commands

step = trainer.Trainer._step

def interrupted(self, own, x):
    step(self, own, x)
    if (self.position.epoch, self.position.step, self.workers.rank) == (1, 1, 1):
        os.kill(os.getpid(), signal.SIGTERM)  # a signal to one process must stop both

for command in json.load(open(sys.argv[1])):
    trainer.Trainer._step = interrupted if "interrupt" in command else step
    status = cli.main([word for word in command if word != "interrupt"])
    assert status == 0, status
distributed.destroy_process_group()
"""
STEPS = ["--resize", "36", "--crop", "32", "--bits", "12", "24", "--weights", "none", "--batch-size", "7",
         "--epochs", "3", "--lr", "0.001", "--flip", "--device", "cpu"]  # fmt: skip
VIT = [*STEPS, "--backbone", "timm:test_vit"]  # no output depends on the rest of a batch
# batch norm depends on it
RESNET = [*STEPS, "--backbone", "timm:test_resnet", "--average", "0.9", "--validation", "0.2"]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """30 images as .png files, one of them corrupt."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    for i in range(30):
        path = folder / "train" / f"class{i % 3}" / f"{i:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (40, 40, 3), np.uint8)).save(path)
    (folder / "train" / "class0" / "broken.png").write_bytes(b"no image")
    for c in range(3):
        path = folder / "test" / f"class{c}" / "0.png"
        path.parent.mkdir(parents=True)
        Image.fromarray(rng.integers(0, 256, (40, 40, 3), np.uint8)).save(path)
    return folder


def state(path: Path) -> dict[str, torch.Tensor]:
    return checkpoint.read(path, checkpoint.MODEL)["state"]


def log(out: Path) -> list[dict]:
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in epoch_log.CLOCKS} for line in lines]


def torchrun(script: Path, commands: list[list[str]]) -> subprocess.CompletedProcess[str]:
    (script.parent / "commands.json").write_text(json.dumps(commands))
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*run, str(script.parent / "commands.json")], env=env, capture_output=True, text=True, timeout=600
    )


@pytest.mark.slow
def test_two_processes_train_what_one_trains(data, tmp_path):
    (tmp_path / "run.py").write_text(SCRIPT)
    given = ["--data", str(data), "--evaluate"]
    done = torchrun(
        tmp_path / "run.py",
        [
            [*VIT, *given, "--out", str(tmp_path / "vit")],
            [*RESNET, *given, "--out", str(tmp_path / "whole")],
            [*RESNET, *given, "--out", str(tmp_path / "parts"), "interrupt"],
            ["--device", "cpu", "--resume", "--evaluate", "--out", str(tmp_path / "parts")],
        ],
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("epoch 3/3") == 3, "only the first process speaks"
    assert done.stderr.count("broken.png: ") >= 3 and " --resume\n" in done.stderr

    assert cli.main([*VIT, *given, "--out", str(tmp_path / "alone")]) == 3
    for bits in (12, 24):
        name = f"model-{bits}.pt"
        one, two = state(tmp_path / "alone" / name), state(tmp_path / "vit" / name)
        assert one.keys() == two.keys()
        for key in one:
            torch.testing.assert_close(two[key], one[key], rtol=1e-4, atol=1e-5, msg=key)
        whole, parts = state(tmp_path / "whole" / name), state(tmp_path / "parts" / name)
        assert all(torch.equal(whole[key], parts[key]) for key in whole), "resumed bit for bit"
    for one, two in zip(log(tmp_path / "alone"), log(tmp_path / "vit"), strict=True):
        assert one == pytest.approx(two, rel=1e-4, abs=1e-5)
    assert log(tmp_path / "whole") == log(tmp_path / "parts")


@pytest.mark.slow
def test_workers_whose_folder_is_in_use_report_it_once(data, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model.pt").write_text("mine")
    command = ["--data", str(data), *VIT, "--out", str(tmp_path / "out")]
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([*run, "-m", "idcwh_train", *command], env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode != 0
    assert done.stderr.count("model.pt") == 1
    assert "rank1" not in done.stderr and "all_reduce" not in done.stderr
    assert (tmp_path / "out" / "model.pt").read_text() == "mine"


@pytest.mark.parametrize(
    "more, option",
    [
        (["--freeze"], "--freeze: "),
        (["--batch-size", "3"], "--batch-size: "),
        (["--backbone", "timm:test_resnet", "--train-per-class", "1"], "--batch-size: "),
    ],
)
def test_workers_that_cannot_share_are_refused(data, tmp_path, more, option, monkeypatch, capsys):
    from idcwh_train.engine import distributed

    class Two(distributed.Workers):
        count = 2

    monkeypatch.setattr(distributed, "Workers", Two)
    assert cli.main(["--data", str(data), *VIT, *more, "--out", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"error: {option}")
    assert not (tmp_path / "out").exists()
