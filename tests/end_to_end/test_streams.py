"""Standard streams that are closed, full or a terminal, and interrupts at every stage, for all seven commands."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path

import numpy as np
import onnx
import pytest

import idcwh_search as ih
from idcwh_export import cli as export
from idcwh_search._util import console
from idcwh_search.cli import evaluate, index, search
from support.commands import ENTRIES, Runner, program

pytestmark = pytest.mark.slow

COMMANDS = sorted(ENTRIES)


def shell(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["/bin/bash", "-c", script], capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture
def code_file(tmp_path: Path) -> Path:
    path = tmp_path / "codes.npz"
    codes, labels = np.arange(8, dtype=np.uint8)[:, None], np.arange(8) % 2
    np.savez(path, bits=8, query_codes=codes, query_labels=labels, database_codes=codes, database_labels=labels)
    return path


def test_pyproject_has_eight_commands() -> None:
    assert len(COMMANDS) == 8


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("streams", "status"), [("--version >&- 2>&- <&-", 0), ("--version >/dev/full", 1)])
def test_command_with_closed_or_full_streams_exits(command: str, streams: str, status: int) -> None:
    done = shell(f"{shlex.join(program(command))} {streams}")
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.count("\n") == status and done.stderr.startswith("error: standard output: " * status)


@pytest.mark.parametrize(
    ("streams", "status"),
    [("--help >&-", 0), ("--help >/dev/full", 1), ("--nonsense 2>&-", 2), ("--nonsense 2>/dev/full", 2)],
)
def test_help_with_closed_or_full_streams_exits(streams: str, status: int) -> None:
    done = shell(f"{shlex.join(program('idcwh-index'))} {streams}")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (status, "", status == 1)


def test_build_with_closed_streams_writes_a_whole_database(model: Path, images: Path, tmp_path: Path) -> None:
    (images / "cat" / "text.png").write_text("no image")
    build = shlex.join([*program("idcwh-index"), "build", "--model", str(model), "--images", str(images), "--db"])
    for number, streams in enumerate(("<&- >&- 2>&-", "2>&-", "2>/dev/full", "2> >(head -n 1 >/dev/null)")):
        done = shell(f"{build} {tmp_path}/{number}.bin {streams}")
        assert (done.returncode, done.stdout, done.stderr) == (3, "", ""), streams
        with ih.Database.open(tmp_path / f"{number}.bin") as database:
            database.verify()
            assert len(database) == 6


def test_results_to_a_full_device_fail(database: Path, code_file: Path) -> None:
    for command, *arguments in (
        ("idcwh-index", "info", database),
        ("idcwh-index", "info", database, "--json"),
        ("idcwh-index", "verify", database),
        ("idcwh-search", "--db", database, "--query-codes", code_file),
        ("idcwh-eval", "--codes", code_file),
        ("idcwh-eval", "--codes", code_file, "--json"),
    ):
        done = shell(f"{shlex.join([*program(command), *map(str, arguments)])} >/dev/full")
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and done.stderr.startswith("error: ")


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_groups_to_a_full_device_fail(more: list[str], database: Path) -> None:
    command = shlex.join([*program("idcwh-dedup"), "--db", str(database), "--radius", "20", *more])
    done = shell(f"{command} >/dev/full")
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith("error: standard output: ")


def test_lists_from_a_closed_stdin_are_empty(database: Path, model: Path, tmp_path: Path) -> None:
    index = shlex.join(program("idcwh-index"))
    done = shell(f"{index} build --model {model} --images - --db {tmp_path}/none.bin <&-")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert shell(f"{index} remove {database} --keys-from - <&-").returncode == 0


# interrupts

INTERRUPTING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is started with it ignored
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_interrupt_during_imports_is_one_line(
    command: str, database: Path, model: Path, images: Path, code_file: Path, tmp_path: Path
) -> None:
    model_file = tmp_path / "model.pt"
    model_file.touch()
    arguments: dict[str, list[object]] = {
        "idcwh-train": ["--data", images, "--out", tmp_path / "run"],
        "idcwh-reproduce": ["cifar10-mini", "--data", images, "--out", tmp_path / "run"],
        "idcwh-export": [model_file, "--onnx"],
        "idcwh-index": ["build", "--model", model, "--images", images, "--db", tmp_path / "new.bin"],
        "idcwh-search": ["--db", database, "--query", images],
        "idcwh-dedup": ["--db", database, "--radius", 20, "--html", tmp_path / "groups.html"],
        "idcwh-serve": ["--db", database, "--port", 0],
        "idcwh-eval": ["--model", model, "--data", images],
    }
    inside = {"idcwh-dedup": "PIL", "idcwh-export": "onnx", "idcwh-train": "torch", "idcwh-reproduce": "torch"}.get(
        command, "onnxruntime"
    )
    for name in ("argparse", "numpy", inside):  # before the command runs, twice, and inside it
        done = subprocess.run(
            [*program(command, INTERRUPTING.format(name=name)), *map(str, arguments[command])],
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 130 and done.stderr.splitlines()[-1] == "interrupted"
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "new.bin").exists() and not list(tmp_path.glob(".*.tmp"))


@pytest.mark.parametrize("name", ["argparse", "numpy", "torch"])
def test_module_interrupted_during_imports_is_one_line(name: str, tmp_path: Path) -> None:
    script = f"{INTERRUPTING.format(name=name)}\nimport runpy; runpy.run_module('idcwh_train', run_name='__main__')"
    options = ["--data", tmp_path, "--out", tmp_path / "run"]
    done = subprocess.run([sys.executable, "-c", script, *options], capture_output=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (130, b"interrupted\n")


def test_interrupt_after_the_work_changes_nothing(code_file: Path) -> None:
    before = (
        "import atexit, os, signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))"
    )
    done = subprocess.run(
        [*program("idcwh-eval", before), "--codes", code_file], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "") and "MAP" in done.stdout


def test_ignored_interrupt_stays_ignored(code_file: Path) -> None:
    before = INTERRUPTING.format(name="numpy") + "signal.signal(signal.SIGINT, signal.SIG_IGN)"
    done = subprocess.run([*program("idcwh-eval", before), "--codes", code_file], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


# terminals


def screen(output: str) -> list[str]:
    """Returns the lines that a terminal shows after this output. Carriage returns and cursor moves overwrite."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[(?:\d*)A|\r|\n|[^\r\n\x1b]+|\x1b\[\w", output):
        if part == "\r":
            column = 0
        elif part == "\n":
            row, column = row + 1, column
            lines += [""] * (row + 1 - len(lines))
        elif part.endswith("A") and part.startswith("\x1b"):
            row -= int(part[2:-1] or 1)
        else:
            line = lines[row].ljust(column)
            lines[row] = line[:column] + part + line[column + len(part) :]
            column += len(part)
    return [line.rstrip() for line in lines]


def on_terminal(arguments: list[object]) -> tuple[int, str]:
    """Returns exit code and output of a process whose stdout and stderr are one terminal of 100 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 40, 100, 0, 0))
    with subprocess.Popen([str(a) for a in arguments], stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        output = b""
        try:
            while piece := os.read(ours, 65536):
                output += piece
        except OSError:  # Linux reports the end of a terminal as an error
            pass
        os.close(ours)
    return process.returncode, output.decode()


def test_messages_and_bars_do_not_overwrite_each_other(model: Path, images: Path, tmp_path: Path) -> None:
    for number in range(20):
        (images / "cat" / f"bad{number:02}.png").write_text("no image")
    build = [*program("idcwh-index"), "build", "--model", model, "--images", images, "--db", tmp_path / "new.bin"]
    status, output = on_terminal([*build, "--batch-size", 1, "--threads", 1])
    assert status == 3 and "indexing" in output, "the bar is shown"
    lines = screen(output)
    skipped = [line for line in lines if "skipped " in line and "bad" in line]
    assert len(skipped) == 20
    named = re.compile(rf"skipped {re.escape(str(images))}/cat/bad\d\d\.png: .*")
    assert all(map(named.fullmatch, skipped))
    assert lines[-1] == "" and "26 images" in lines[0]


def test_error_on_a_terminal_comes_below_the_bar() -> None:
    script = """
from idcwh_search._util import console
from idcwh_search.cli import common
from idcwh_search.errors import IdcwhError
@common.command
def main(argv):
    bar = console.progress_bar(total=3, desc="working", unit="image")
    bar.update()
    raise IdcwhError("it is missing")
raise SystemExit(main())
"""
    status, output = on_terminal([sys.executable, "-c", script])
    bar, *rest = screen(output)
    assert status == 1 and bar.startswith("working:") and rest == ["error: it is missing", ""]


# text from files

HOSTILE = "a\x1b[2J\u202eb\nc\u2066\x9b"
"""Clears the screen, reverses the direction of writing, breaks the line."""


ESCAPED = r"a\x1b[2J\u202eb\nc\u2066\x9b"


def test_one_line_keeps_names_of_all_languages() -> None:
    for name in (
        "K\xe4the \u65e5\u672c",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\U0001f469\u200d\U0001f4bb",
        "C:\\x",
    ):
        assert console.one_line(name) == name
    for character in "\x00\x7f\x85\xad\u061c\u200b\u200e\u200f\u2028\u202a\u2060\u2069\ufeff\U000e0041":
        assert console.one_line(character) == ascii(character)[1:-1]


def test_text_from_files_is_escaped_on_a_terminal(
    model: Path, tmp_path: Path, code_file: Path, commands: Runner
) -> None:
    database, foreign = tmp_path / "codes.bin", onnx.load(model)
    with ih.Database.create(
        database, bits=8, model={"model": {"path": HOSTILE}, "images": {"absolute": HOSTILE}}
    ) as db:
        db.add(np.zeros((1, 1), np.uint8), keys=[HOSTILE], labels=[HOSTILE])
    np.save(tmp_path / "query.npy", np.zeros((1, 1), np.uint8))
    for entry in foreign.metadata_props:
        entry.value = json.dumps([HOSTILE]) if entry.key == "idcwh_classes" else entry.value
    foreign.producer_name = HOSTILE
    onnx.save(foreign, tmp_path / f"{HOSTILE}.onnx")
    for command, status, *arguments in (
        (index.main, 0, "info", database),
        (index.main, 0, "info", database, "--json"),
        (index.main, 1, "info", tmp_path / HOSTILE),
        (search.main, 0, "--db", database, "--query-codes", tmp_path / "query.npy"),
        (evaluate.main, 0, "--codes", code_file, "--name", HOSTILE),
        (export.main, 0, "--info", tmp_path / f"{HOSTILE}.onnx"),
        (export.main, 0, "--list", tmp_path / f"{HOSTILE}.onnx"),
    ):
        out, err = commands(command, *arguments, status=status)
        assert "--json" in arguments or ESCAPED in out + err, arguments
        assert not re.search("[\x1b\u202e\u2066\x9b]", out + err), arguments
    assert ESCAPED in commands.fails(index.main, "info", database, HOSTILE, status=2)
