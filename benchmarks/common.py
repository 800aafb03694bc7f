"""Common functions of the benchmarks: the machine, alternating timing of candidates, and the JSON file."""

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
    """Returns processor, flags, number of available cores, and the versions of Python and of these packages."""
    return {
        **processor(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
    }


def describe(machine: Mapping[str, Any]) -> str:
    """Returns the machine as one line of text."""
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
    """Runs the candidates in turn, in rounds, so that other load on the machine affects all of them alike.

    Args:
        seconds: the total time, after which no new round starts.
        least, most: the smallest and the largest number of rounds.
        clock: the clock; `time.thread_time` suits one thread on a busy machine.

    Returns:
        The seconds of each round by name, whose medians can be compared.
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
    """Returns the median of the rounds by name."""
    return {name: statistics.median(values) for name, values in times.items()}


def write_json(path: str | None, machine: Mapping[str, Any], rows: list[dict[str, Any]]) -> None:
    """Writes {"command", "machine", "rows"} to `path`, unless it is None."""
    if path:
        command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
        Path(path).write_text(json.dumps({"command": command, "machine": machine, "rows": rows}, indent=1) + "\n")
