"""What every benchmark shares: what it ran on, fair timing of two things beside each other, and the JSON it leaves."""

from __future__ import annotations

import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from idcwh_search._util.hardware import processor, version


def machine(*packages: str) -> dict[str, Any]:
    """Processor, its flags, cores this process may use, Python, and the versions of these packages."""
    return {
        **processor(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
    }


def describe(machine: Mapping[str, Any]) -> str:
    """One line for a person."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    return (
        f"{machine['cpu']} (family {machine['family']}), {machine['cores']} cores, {' '.join(machine['flags'])}; "
        f"Python {machine['python']}, {versions}"
    )


def alternate(
    candidates: Mapping[str, Callable[[], object]],
    seconds: float = 2.0,
    least: int = 3,
    most: int = 200,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Run the candidates in turn, round after round, so that what else the machine does meets all of them alike.

    Stops after `seconds` in all, but not before `least` rounds and at the latest after `most`. Returns the seconds of
    every round by name; compare their medians. clock: `time.thread_time` for one thread on a busy machine.
    """
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for run in candidates.values():
        run()  # caches, pages, dispatch
    begin = time.perf_counter()
    for turn in range(most):
        for name, run in candidates.items():
            start = clock()
            run()
            times[name].append(clock() - start)
        if turn + 1 >= least and time.perf_counter() - begin > seconds:
            break
    return times


def medians(times: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in times.items()}


def write_json(path: str | None, machine: Mapping[str, Any], rows: list[dict[str, Any]]) -> None:
    """{"command", "machine", "rows"} to `path`, where one is given."""
    if path:
        command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
        Path(path).write_text(json.dumps({"command": command, "machine": machine, "rows": rows}, indent=1) + "\n")
