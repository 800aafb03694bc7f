"""idcwh-train that cannot go on: mistakes in the command, codes that collapse, losses and weights of no use."""

from __future__ import annotations

import pytest
import torch

from idcwh_search._util.wording import counted
from idcwh_train import cli
from idcwh_train.engine import checkpoint, divergence, session
from idcwh_train.engine.checkpoint import load_model
from idcwh_train.frozen import features
from idcwh_train.methods.idcwh import IDCWH


def test_collapse_is_said(images, net, tmp_path, cached, capsys, monkeypatch, log):
    """A network whose features are the same for every image gives every image the same code, whatever is dropped."""
    monkeypatch.setattr(features, "compute", lambda model, dataset, rows, *_, **options: constant(model, rows))

    def constant(model, rows):
        return features.Features(torch.ones(len(rows), model.features), rows, {})

    out = tmp_path / "run"
    command = ["--data", str(images), *net, "--freeze", "--epochs", "3", "--out", str(out), "--device", "cpu"]
    command += ["--dropout", "0"]
    assert cli.main([*command, "--cache", str(tmp_path / "cache")]) == 0
    assert "the codes have collapsed: the outputs are constant for" in capsys.readouterr().err
    assert "collapse" in log(out)[-1] and log(out)[-1]["distinct_codes"] == 1
    assert torch.isfinite(load_model(out / "model.pt")[0].hash.weight).all()


def test_a_finished_model_that_puts_out_one_code_is_said(images, net, tmp_path, cached, capsys, monkeypatch):
    command = ["--data", str(images), *net, "--freeze", "--epochs", "1", *cached]
    assert cli.main([*command, "--out", str(tmp_path / "good")]) == 0
    assert "the finished model" not in capsys.readouterr().err
    seen = []

    def constant(source, network, positions):
        seen.append(positions)
        return positions, {12: torch.full((len(positions), 12), 0.5)}

    monkeypatch.setattr(session, "encode", constant)
    assert cli.main([*command, "--out", str(tmp_path / "bad")]) == 0
    said = capsys.readouterr().err
    assert (
        "warning: the finished model of 12 bits: the codes have collapsed: the outputs are constant for 30 images"
        in said
    )
    assert len(seen[-1].unique()) == 30, "all that are not held out"


def test_a_loss_that_is_not_a_number_stops_and_keeps_the_last_checkpoint(
    images, net, tmp_path, cached, capsys, monkeypatch, log
):
    """The checkpoint is of the steps before it, whole: gone on from without the cause, the run is like any other."""
    command = ["--data", str(images), *net, "--freeze", "--epochs", "5", "--batch-size", "12", *cached]
    assert cli.main([*command, "--out", str(tmp_path / "whole")]) == 0
    out, terms, calls = tmp_path / "run", IDCWH.terms, []

    def broken(self, *given):
        calls.append(1)
        return {name: x * (torch.nan if len(calls) == 6 else 1) for name, x in terms(self, *given).items()}

    with monkeypatch.context() as patch:
        patch.setattr(IDCWH, "terms", broken)
        patch.setattr(session, "_CHECKPOINT_SECONDS", -1)
        assert cli.main([*command, "--out", str(out)]) == 1
    kept, said = capsys.readouterr().err.splitlines()[-2:]
    assert kept == "checkpoint.pt keeps what was sound, 2 epochs and 1 step"
    assert said.startswith("error: the loss is not finite in epoch 3, step 2 (loss nan, L1 nan")
    assert "; a lower --lr helps most often, in a new run: --resume keeps the rate" in said
    assert not (out / "model.pt").exists() and len(log(out)) == 2
    saved = checkpoint.read(out / "checkpoint.pt", checkpoint.CHECKPOINT)["trainer"]
    assert saved["position"]["epoch"] == 2 and saved["position"]["step"] == 1
    assert all(torch.isfinite(x).all() for x in saved["network"].values())
    assert cli.main(["--out", str(out), "--resume", *cached]) == 0
    assert (out / "model.pt").read_bytes() == (tmp_path / "whole" / "model.pt").read_bytes()


@pytest.mark.parametrize("how", [["--freeze"], [], ["--average", "0.9", "--freeze"]])
def test_weights_of_no_use_are_not_saved(images, net, tmp_path, cached, capsys, how, log):
    """After the only step there is no loss any more that could tell."""
    out = tmp_path / "run"
    command = ["--data", str(images), *net, *how, "--epochs", "1", "--batch-size", "200", "--lr", "1e38", *cached]
    assert cli.main([*command, "--out", str(out)]) == 1
    kept, said = capsys.readouterr().err.splitlines()[-2:]
    assert kept == "no checkpoint was written before"
    assert "after step 1 of epoch 1" in said and said.endswith("; a lower --lr helps most often")
    assert sorted(path.name for path in out.iterdir()) == ["log.jsonl", "protocol.json"] and not log(out)


def test_what_is_kept_of_a_run_that_diverges_is_sound(images, net, tmp_path, cached, capsys, monkeypatch, log):
    monkeypatch.setattr(session, "_CHECKPOINT_SECONDS", -1)
    out = tmp_path / "run"
    command = ["--data", str(images), *net, "--freeze", "--epochs", "50", "--batch-size", "12", "--lr", "1e5", *cached]
    assert cli.main([*command, "--out", str(out)]) == 1
    noted = capsys.readouterr().err.splitlines()[-2]
    kept = (out / "checkpoint.pt").read_bytes()
    saved = checkpoint.read(out / "checkpoint.pt", checkpoint.CHECKPOINT)["trainer"]
    at = saved["position"]
    assert (
        noted
        == f"checkpoint.pt keeps what was sound, {counted(at['epoch'], 'epoch')} and {counted(at['step'], 'step')}"
    )
    assert all(divergence.is_sound(x) for x in saved["network"].values())
    assert all(abs(x) < divergence.LARGEST**2 * 12 for x in at["sums"].values()) and len(log(out)) == at["epoch"]
    assert cli.main(["--out", str(out), "--resume", *cached]) == 1
    assert "--resume keeps the rate and comes to the same end" in capsys.readouterr().err
    assert (out / "checkpoint.pt").read_bytes() == kept and not (out / "model.pt").exists()


def test_a_model_whose_outputs_are_not_finite_is_not_written(images, net, tmp_path, cached, capsys, monkeypatch):
    def infinite(source, network, positions):
        return positions, {12: torch.full((len(positions), 12), torch.inf)}

    monkeypatch.setattr(session, "encode", infinite)
    command = ["--data", str(images), *net, "--freeze", "--epochs", "1", "--out", str(tmp_path / "run"), *cached]
    assert cli.main(command) == 1
    assert "error: the outputs of the finished model are not finite" in capsys.readouterr().err
    assert not (tmp_path / "run" / "model.pt").exists()


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--data", "nowhere"], "nowhere: "),
        (["--protocol", "cifar10-mini"], "60,000 images"),
        (["--train-per-class", "100"], "found 11, expected 100"),
    ],
)
def test_mistakes_are_one_line(images, net, tmp_path, cached, capsys, extra, message):
    command = ["--data", str(images), *net, "--freeze", "--epochs", "1", "--out", str(tmp_path / "run"), *cached]
    assert cli.main([*command, *extra]) == 1
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("error: ") and message in last


def test_keep_best_with_no_images_held_out_is_wrong_usage(images, net, tmp_path, cached, capsys):
    command = ["--data", str(images), *net, "--freeze", "--out", str(tmp_path / "run"), *cached]
    assert cli.main([*command, "--keep", "best", "--validation", "0.01"]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: --keep best: no images are held out: 0.01 of the largest class is less than one")
    assert not (tmp_path / "run" / "model.pt").exists()


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        (["--method", "idcwh-single", "--gamma", "1"], ["idcwh-single: gamma", "1.0"]),
        (["--sigma2", "-1"], ["--sigma2", "-1.0"]),
        (["--method", "dcwh", "--method-option", "every=0.5"], ["dcwh: every", "0.5"]),
        (["--method", "dpsh", "--method-option", "several=maybe"], ["dpsh: several", "'maybe'"]),
        (["--method-option", "foo=1"], ["idcwh", "'foo'", "sigma2, gamma, beta"]),
        (["--dropout", "1"], ["--dropout", "1.0"]),
        (["--momentum", "1.5"], ["--momentum", "1.5"]),
        (["--start-crop", "4"], ["--start-crop", "at least 8", "4"]),
        (["--crop", "64"], ["--crop", "36", "64"]),
        (["--weights", ""], ["--weights"]),
        (["--bits", "12", "12"], ["--bits", "12 12"]),
        (["--validation", "0", "--keep", "best"], ["--keep", "--validation"]),
        (["--query", "5", "--query-per-class", "5"], ["--query-per-class"]),
        (["--protocol", "own", "--unseen-classes", "1"], ["--unseen-classes"]),
        (["--backbone", "nope"], ["backbone", "'nope'"]),
        (["--backbone", "timm:nope"], ["backbone", "'timm:nope'"]),
        (["--backbone", "compact", "--weights", "imagenet"], ["--weights", "compact"]),
    ],
)
def test_train_invalid_option_is_wrong_usage(net, tmp_path, capsys, extra, named):
    """The dataset, which is missing, is not looked for."""
    command = ["--data", "nowhere", *net, "--freeze", "--epochs", "1", "--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as usage:
        cli.main([*command, *extra])
    line = capsys.readouterr().err
    assert usage.value.code == 2 and line.count("\n") == 1
    assert line.startswith("error: ") and all(name in line for name in named), line


def test_train_wrong_usage_has_a_traceback_on_request(net, tmp_path, monkeypatch):
    monkeypatch.setenv("IDCWH_TRACEBACK", "1")
    with pytest.raises(ValueError, match=r"^crop"):
        cli.main(["--data", "nowhere", *net, "--freeze", "--crop", "64", "--out", str(tmp_path / "run")])


def test_weights_that_are_not_there_are_said_before_the_set_is_read(net, tmp_path, capsys):
    command = ["--data", "nowhere", *net, "--freeze", "--out", str(tmp_path / "run"), "--weights", "missing.pt"]
    assert cli.main(command) == 1
    assert capsys.readouterr().err.endswith("error: missing.pt: no such weights file\n")


def test_cuda_that_is_not_there_is_an_error(images, net, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    command = ["--data", str(images), *net, "--freeze", "--device", "cuda", "--out", str(tmp_path / "run")]
    assert cli.main(command) == 1
    assert capsys.readouterr().err.startswith("error: --device cuda: ")
    assert not (tmp_path / "run").exists()
