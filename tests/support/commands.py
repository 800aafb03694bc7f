"""The commands, run in this process with captured output, or in a process of their own."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from idcwh_search.cli import index

REPOSITORY = Path(__file__).resolve().parents[2]
IMAGES = REPOSITORY / "demo" / "cifar10"
"""Photographs in folders train and test, with a folder per class in each."""

ENTRIES = dict(re.findall(r'^(idcwh-\w+) = "([\w.]+:\w+)"', (REPOSITORY / "pyproject.toml").read_text(), re.MULTILINE))
"""Name of each command: its entry point."""


def program(command: str, before: str = "") -> list[str]:
    """Returns the command line that runs a command like its installed script, after the statements `before`."""
    module, function = ENTRIES[command].split(":")
    script = f"import sys; from {module} import {function}; sys.argv[0] = {command!r}; sys.exit({function}())"
    return [sys.executable, "-c", f"{before}\n{script}"]


class Output(NamedTuple):
    """Standard output and standard error of a command."""

    out: str
    err: str


class Runner:
    """The commands of this process, each of which must end with the given exit code."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, main: Callable[[list[str]], int], *arguments: object, status: int = 0) -> Output:
        self._capsys.readouterr()
        try:
            code: object = main([str(argument) for argument in arguments])
        except SystemExit as end:  # wrong usage
            code = end.code
        output = Output(*self._capsys.readouterr())
        assert code == status, output.err
        return output

    def json(self, main: Callable[[list[str]], int], *arguments: object, status: int = 0) -> Any:
        """Returns the --json output of a command."""
        return json.loads(self(main, *arguments, "--json", status=status).out)

    def fails(self, main: Callable[[list[str]], int], *arguments: object, status: int = 1) -> str:
        """Returns the last line on standard error of a failing command. The command must write no data and no
        traceback.
        """
        out, err = self(main, *arguments, status=status)
        *_, last = err.splitlines()
        assert out == "" and last.startswith("error: ") and "Traceback" not in err
        return last

    def build(self, model: Path, images: object, database: Path, *more: object, status: int = 0) -> Output:
        """Runs `idcwh-index build`."""
        arguments = ("build", "--model", model, "--images", images, "--db", database, *more)
        return self(index.main, *arguments, status=status)
