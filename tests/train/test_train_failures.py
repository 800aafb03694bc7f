"""idcwh-train that cannot continue: wrong usage, collapsed codes, and losses and weights that are not finite."""

from __future__ import annotations

import pytest
import torch

from idcwh_search._util.wording import counted
from idcwh_train import cli
from idcwh_train.engine import checkpoint, divergence, model_writer
from idcwh_train.engine.checkpoint import load_model
from idcwh_train.frozen import features
from idcwh_train.methods.idcwh import IDCWH


def test_train_collapsed_codes_are_reported(images, net, tmp_path, cached, capsys, monkeypatch, log):
    """A network with the same features for every image gives every image the same code, with or without dropout."""
    monkeypatch.setattr(features, "compute", lambda model, dataset, rows, *_, **options: constant(model, rows))

    def constant(model, rows):
        return features.Features(torch.ones(len(rows), model.features), rows, {})

    out = tmp_path / "run"
    command = ["--data", str(images), *net, "--freeze", "--epochs", "3", "--out", str(out), "--device", "cpu"]
    command += ["--dropout", "0"]
    assert cli.main([*command, "--cache", str(tmp_path / "cache")]) == 0
    assert "constant" in capsys.readouterr().err
    assert "collapse" in log(out)[-1] and log(out)[-1]["distinct_codes"] == 1
    assert torch.isfinite(load_model(out / "model.pt")[0].hash.weight).all()


def test_train_model_of_one_code_is_reported(images, net, tmp_path, cached, capsys, monkeypatch):
    command = ["--data", str(images), *net, "--freeze", "--epochs", "1", *cached]
    assert cli.main([*command, "--out", str(tmp_path / "good")]) == 0
    assert "the finished model" not in capsys.readouterr().err
    seen = []

    def constant(source, network, positions):
        seen.append(positions)
        return positions, {12: torch.full((len(positions), 12), 0.5)}

    monkeypatch.setattr(model_writer, "encode", constant)
    assert cli.main([*command, "--out", str(tmp_path / "bad")]) == 0
    output = capsys.readouterr().err
    assert any(
        line.startswith("warning: ") and "12 bits" in line and "30 images" in line for line in output.splitlines()
    )
    assert len(seen[-1].unique()) == 30, "all that are not held out"


def test_train_loss_not_finite_stops_and_keeps_the_checkpoint(images, net, tmp_path, cached, capsys, monkeypatch, log):
    """The checkpoint holds the steps before the failure. Resumed without the cause, the run ends like any other."""
    command = ["--data", str(images), *net, "--freeze", "--epochs", "5", "--batch-size", "12", *cached]
    assert cli.main([*command, "--out", str(tmp_path / "whole")]) == 0
    out, terms, calls = tmp_path / "run", IDCWH.terms, []

    def broken(self, *given):
        calls.append(1)
        return {name: x * (torch.nan if len(calls) == 6 else 1) for name, x in terms(self, *given).items()}

    with monkeypatch.context() as patch:
        patch.setattr(IDCWH, "terms", broken)
        patch.setattr(checkpoint, "SECONDS_BETWEEN_CHECKPOINTS", -1)
        assert cli.main([*command, "--out", str(out)]) == 1
    kept, output = capsys.readouterr().err.splitlines()[-2:]
    assert "checkpoint.pt" in kept and "2 epochs and 1 step" in kept
    assert all(word in output for word in ("error: ", "epoch 3, step 2", "loss nan", "--lr", "--resume"))
    assert not (out / "model.pt").exists() and len(log(out)) == 2
    saved = checkpoint.read(out / "checkpoint.pt", checkpoint.CHECKPOINT)["trainer"]
    assert saved["position"]["epoch"] == 2 and saved["position"]["step"] == 1
    assert all(torch.isfinite(x).all() for x in saved["network"].values())
    assert cli.main(["--out", str(out), "--resume", *cached]) == 0
    assert (out / "model.pt").read_bytes() == (tmp_path / "whole" / "model.pt").read_bytes()


@pytest.mark.parametrize("how", [["--freeze"], [], ["--average", "0.9", "--freeze"]])
def test_train_weights_not_finite_are_not_saved(images, net, tmp_path, cached, capsys, how, log):
    """After the only step, no later loss could show the failure."""
    out = tmp_path / "run"
    command = ["--data", str(images), *net, *how, "--epochs", "1", "--batch-size", "200", "--lr", "1e38", *cached]
    assert cli.main([*command, "--out", str(out)]) == 1
    kept, output = capsys.readouterr().err.splitlines()[-2:]
    assert "checkpoint.pt" not in kept
    assert "step 1 of epoch 1" in output and "--lr" in output and "--resume" not in output
    assert sorted(path.name for path in out.iterdir()) == ["log.jsonl", "protocol.json"] and not log(out)


def test_train_that_diverges_keeps_finite_weights(images, net, tmp_path, cached, capsys, monkeypatch, log):
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN_CHECKPOINTS", -1)
    out = tmp_path / "run"
    command = ["--data", str(images), *net, "--freeze", "--epochs", "50", "--batch-size", "12", "--lr", "1e5", *cached]
    assert cli.main([*command, "--out", str(out)]) == 1
    noted = capsys.readouterr().err.splitlines()[-2]
    kept = (out / "checkpoint.pt").read_bytes()
    saved = checkpoint.read(out / "checkpoint.pt", checkpoint.CHECKPOINT)["trainer"]
    at = saved["position"]
    assert noted.startswith("checkpoint.pt ")
    assert noted.endswith(f"{counted(at['epoch'], 'epoch')} and {counted(at['step'], 'step')}")
    assert all(divergence.is_sound(x) for x in saved["network"].values())
    assert all(abs(x) < divergence.LARGEST**2 * 12 for x in at["sums"].values()) and len(log(out)) == at["epoch"]
    assert cli.main(["--out", str(out), "--resume", *cached]) == 1
    assert "--lr" in capsys.readouterr().err.splitlines()[-1]
    assert (out / "checkpoint.pt").read_bytes() == kept and not (out / "model.pt").exists()


def test_train_model_outputs_not_finite_are_not_written(images, net, tmp_path, cached, capsys, monkeypatch):
    def infinite(source, network, positions):
        return positions, {12: torch.full((len(positions), 12), torch.inf)}

    monkeypatch.setattr(model_writer, "encode", infinite)
    command = ["--data", str(images), *net, "--freeze", "--epochs", "1", "--out", str(tmp_path / "run"), *cached]
    assert cli.main(command) == 1
    assert "not finite" in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "run" / "model.pt").exists()


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--data", "nowhere"], "nowhere: "),
        (["--protocol", "cifar10-mini"], "60,000 images"),
        (["--train-per-class", "100"], "found 11, expected 100"),
    ],
)
def test_train_mistake_is_one_line(images, net, tmp_path, cached, capsys, extra, message):
    command = ["--data", str(images), *net, "--freeze", "--epochs", "1", "--out", str(tmp_path / "run"), *cached]
    assert cli.main([*command, *extra]) == 1
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("error: ") and message in last


def test_train_keep_best_without_validation_is_wrong_usage(images, net, tmp_path, cached, capsys):
    command = ["--data", str(images), *net, "--freeze", "--out", str(tmp_path / "run"), *cached]
    assert cli.main([*command, "--keep", "best", "--validation", "0.01"]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: --keep: ") and "0.01" in last
    assert not (tmp_path / "run" / "model.pt").exists()


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        (["--method", "idcwh-single", "--gamma", "1"], ["idcwh-single: gamma", "1.0"]),
        (["--sigma2", "-1"], ["--sigma2", "-1.0"]),
        (["--method", "dcwh", "--method-option", "every=0.5"], ["dcwh: every", "0.5"]),
        (["--method", "dpsh", "--method-option", "multi_label=maybe"], ["dpsh: multi_label", "'maybe'"]),
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
    """The missing dataset is not opened."""
    command = ["--data", "nowhere", *net, "--freeze", "--epochs", "1", "--out", str(tmp_path / "run")]
    try:
        status = cli.main([*command, "--device", "cpu", *extra])
    except SystemExit as end:  # raised by the parser
        status = end.code
    line = capsys.readouterr().err
    assert status == 2 and line.count("\n") == 1 and not (tmp_path / "run").exists()
    assert line.startswith("error: ") and all(name in line for name in named), line


def test_train_wrong_usage_has_a_traceback_on_request(net, tmp_path, monkeypatch):
    monkeypatch.setenv("IDCWH_TRACEBACK", "1")
    with pytest.raises(ValueError, match=r"^crop"):
        cli.main(["--data", "nowhere", *net, "--freeze", "--crop", "64", "--out", str(tmp_path / "run")])


def test_train_missing_weights_are_reported_before_the_dataset(net, tmp_path, capsys):
    command = ["--data", "nowhere", *net, "--freeze", "--out", str(tmp_path / "run"), "--weights", "missing.pt"]
    assert cli.main(command) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: missing.pt: ")


def test_train_cuda_not_available_is_an_error(images, net, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    command = ["--data", str(images), *net, "--freeze", "--device", "cuda", "--out", str(tmp_path / "run")]
    assert cli.main(command) == 1
    line = capsys.readouterr().err
    assert line.startswith("error: --device: ") and "found" not in line
    assert not (tmp_path / "run").exists()
