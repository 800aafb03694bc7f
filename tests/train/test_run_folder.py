"""The folder of a run: one process at a time, and only files of the run are replaced."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time

import pytest

from idcwh_search.errors import LockedError
from idcwh_train import cli
from idcwh_train.engine import run_dir
from support.errors import raises


def test_overwrite_replaces_only_files_of_a_run(images, net, tmp_path, cached):
    out = tmp_path / "run"
    command = ["--data", str(images), *net, "--freeze", "--epochs", "2", *cached]
    assert cli.main([*command, "--out", str(out), "--bits", "12", "20"]) == 0
    mine = ["model-best.pt", "model_old.pt", "modelzoo.pt", "model-012.pt", "model-12.pt.bak", "notes.txt"]
    for name in mine:
        (out / name).write_text("mine")
    assert cli.main([*command, "--out", str(out), "--overwrite"]) == 0
    left = {path.name for path in out.iterdir()}
    assert left == {*mine, "model.pt", "checkpoint.pt", "curves.png", "log.jsonl", "protocol.json"}
    assert all((out / name).read_text() == "mine" for name in mine)


def test_overwrite_removes_results_the_new_run_does_not_have(images, net, tmp_path, cached):
    """A single epoch has no curves, and one code length has no other model."""
    out = tmp_path / "run"
    command = ["--data", str(images), *net, "--freeze", "--out", str(out), *cached]
    assert cli.main([*command, "--epochs", "2", "--bits", "12", "20"]) == 0
    assert (out / "curves.png").exists() and (out / "model-20.pt").exists()
    assert cli.main([*command, "--epochs", "1", "--overwrite"]) == 0
    assert {path.name for path in out.iterdir()} == {"model.pt", "checkpoint.pt", "log.jsonl", "protocol.json"}


@pytest.mark.parametrize("name", ["model-12.pt", "log.jsonl", "protocol.json", "checkpoint.pt", "curves.png"])
def test_overwrite_with_a_folder_in_place_of_a_file_is_refused(images, net, tmp_path, cached, capsys, name):
    out = tmp_path / "run"
    command = ["--data", str(images), *net, "--freeze", "--epochs", "2", "--out", str(out), *cached]
    assert cli.main(command) == 0
    (out / name).unlink(missing_ok=True)
    (out / name).mkdir()
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    capsys.readouterr()
    assert cli.main([*command, "--overwrite"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"error: {out / name}: ")
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before


def test_train_beside_files_of_others_keeps_them(images, net, tmp_path, cached):
    out = tmp_path / "run"
    out.mkdir()
    (out / "modelzoo.pt").write_text("mine")
    assert cli.main(["--data", str(images), *net, "--freeze", "--epochs", "1", "--out", str(out), *cached]) == 0
    assert (out / "modelzoo.pt").read_text() == "mine"


@pytest.mark.parametrize(
    "name", ["model.pt", "model-48.pt", "checkpoint.pt", "curves.png", "log.jsonl", "protocol.json"]
)
def test_overwrite_with_a_file_of_others_is_refused(images, net, tmp_path, cached, capsys, name):
    out = tmp_path / "run"
    command = ["--data", str(images), *net, "--freeze", "--epochs", "2", "--out", str(out), *cached]
    out.mkdir()
    (out / name).write_text('{"mine": 1}')
    assert cli.main([*command, "--overwrite"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"error: {out / name}: ")
    assert [path.name for path in out.iterdir()] == [name] and (out / name).read_text() == '{"mine": 1}'
    (out / name).write_bytes(b"")
    assert cli.main([*command, "--overwrite"]) == 0 and cli.main([*command, "--overwrite"]) == 0


def test_overwrite_keeps_permissions(images, net, tmp_path, cached):
    out = tmp_path / "run"
    command = ["--data", str(images), *net, "--freeze", "--epochs", "1", "--out", str(out), *cached]
    assert cli.main(command) == 0
    files = [path for path in out.iterdir() if path.is_file()]
    assert {path.name for path in files} == {"model.pt", "checkpoint.pt", "log.jsonl", "protocol.json"}
    for path in files:
        path.chmod(0o600)
    assert cli.main([*command, "--overwrite"]) == 0
    assert {path.name: path.stat().st_mode & 0o777 for path in out.iterdir()} == {path.name: 0o600 for path in files}


@pytest.mark.slow
def test_train_into_a_folder_in_use_is_refused(images, net, tmp_path, cached, capsys):
    out = tmp_path / "run"
    command = ["--data", str(images), *net, "--freeze", "--out", str(out), *cached]
    program = [sys.executable, "-m", "idcwh_train", *command, "--epochs", "1000000"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    first = subprocess.Popen(program, env=env, stderr=subprocess.PIPE, text=True)
    log = out / "log.jsonl"
    while first.poll() is None and not (log.exists() and log.stat().st_size > 2000):
        time.sleep(0.05)
    try:
        for more in (["--epochs", "1"], ["--epochs", "1", "--overwrite"]):
            assert cli.main([*command, *more]) == 1
            assert capsys.readouterr().err.splitlines()[-1].startswith(f"error: {out}: ")
    finally:
        first.kill()  # without cleanup: the system releases its lock
        first.communicate(timeout=60)
    assert cli.main([*command, "--epochs", "1", "--overwrite"]) == 0
    assert not (out / ".lock").exists()


def test_resume_without_checkpoint_names_the_cause(tmp_path, capsys):
    out = tmp_path / "run"
    assert cli.main(["--out", str(out), "--resume"]) == 1
    line = capsys.readouterr().err
    assert line == f"error: {out / 'checkpoint.pt'}: is missing; start the run without --resume\n" and not out.exists()
    with run_dir.alone(out, "idcwh-train"):  # a run that has just begun
        assert cli.main(["--out", str(out), "--resume"]) == 1
        assert capsys.readouterr().err.startswith(f"error: {out}: is locked")
        assert [path.name for path in out.iterdir()] == [".lock"], "the folder stays locked"


def test_alone_holds_the_folder_and_leaves_no_trace(tmp_path):
    out = tmp_path / "a" / "run"
    with run_dir.alone(out, "idcwh-train"):
        with raises(LockedError, path=out), run_dir.alone(out, "idcwh-train"):
            pass
        assert out.is_dir()
    assert not out.parent.exists(), "made, and nothing written into it"
    out.mkdir(parents=True)
    with run_dir.alone(out, "idcwh-train"):
        (out / "model.pt").write_text("x")
    assert [path.name for path in out.iterdir()] == ["model.pt"]


def test_alone_locks_again_after_the_lock_file_is_removed(tmp_path, monkeypatch):
    """A process that opens the lock file while another removes it would hold a file that no process finds."""
    path, real, calls = tmp_path / ".lock", run_dir.try_lock, []

    def late(handle):
        calls.append(handle)
        if len(calls) == 1:
            path.unlink()
        return real(handle)

    monkeypatch.setattr(run_dir, "try_lock", late)
    with run_dir.alone(tmp_path, "idcwh-train"):
        assert len(calls) == 2
        with path.open("w") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_train_that_fails_leaves_no_folder(net, tmp_path, cached, capsys):
    assert cli.main(["--data", "nowhere", *net, "--freeze", "--out", str(tmp_path / "run"), *cached]) == 1
    assert "nowhere: " in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_train_that_fails_leaves_no_parent_folders(net, tmp_path, cached):
    (tmp_path / "a").mkdir()
    assert cli.main(["--data", "nowhere", *net, "--freeze", "--out", str(tmp_path / "a" / "b" / "c"), *cached]) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a"] and not [*(tmp_path / "a").iterdir()]


def test_train_into_a_broken_link_is_refused(images, net, tmp_path, capsys):
    (tmp_path / "run").symlink_to(tmp_path / "gone")
    assert cli.main(["--data", str(images), *net, "--freeze", "--out", str(tmp_path / "run")]) == 1
    assert f"{tmp_path / 'run'}: is a link to {tmp_path / 'gone'}" in capsys.readouterr().err


def test_train_into_a_file_is_refused(images, net, tmp_path, capsys):
    (tmp_path / "run").write_text("mine")
    for more in ([], ["--overwrite"]):
        assert cli.main(["--data", str(images), *net, "--freeze", "--out", str(tmp_path / "run"), *more]) == 1
        assert (
            capsys.readouterr()
            .err.splitlines()[-1]
            .startswith(f"error: {tmp_path / 'run'}: is invalid (found a file, expected a folder)")
        )
