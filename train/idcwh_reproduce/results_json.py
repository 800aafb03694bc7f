"""results.json: every cell in one file without its curves, small enough to keep and to compare with."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from idcwh_search.metrics.result import Evaluation

from .experiments import Result

NAME = "results.json"
_SHARED = ("recipe", "backbone", "freeze", "protocol", "versions", "machine", "revision", "command")


def text(table: str, cells: Iterable[Result]) -> str:
    """JSON: `groups`, each of what its cells have in common (settings, protocol of its seeds, machine, versions,
    command) and `cells`, a training each, on a line of its own, with the numbers of each code length."""
    groups: dict[str, dict[str, Any]] = {}
    for cell in cells:
        shared = {name: cell.content[name] for name in _SHARED if name != "protocol"}
        shared["images"] = {name: cell.content["dataset"][name] for name in ("images", "sha256")}
        group = groups.setdefault(json.dumps(shared), {**shared, "protocols": {}, "cells": []})
        if protocol := cell.content["protocol"]:
            group["protocols"][str(cell.seed)] = {"name": protocol["name"], "sha256": protocol["sha256"]}
        group["cells"].append(_row(cell))
    return _lines({"table": table, "groups": list(groups.values())})


def _lines(found: dict[str, Any]) -> str:
    """With line breaks down to a cell: readable, and a change of a cell is a change of a line."""
    groups = []
    for group in found["groups"]:
        fields = [f"{_dumps(name)}: {_dumps(value)}" for name, value in group.items() if name != "cells"]
        cells = ",\n".join(map(_dumps, group["cells"]))
        groups.append("{" + ",\n".join([*fields, f'"cells": [\n{cells}\n]']) + "}")
    joined = ",\n".join(groups)
    return f'{{"table": {_dumps(found["table"])}, "groups": [\n{joined}\n]}}\n'


def _dumps(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def _row(cell: Result) -> dict[str, Any]:
    options = {name: value for name, value in cell.content["options"].items() if name != "data"}
    return {
        "method": cell.method,
        "seed": cell.seed,
        "variant": cell.content["variant"],
        "status": cell.status,
        "reason": cell.reason,
        "seconds": cell.content["seconds"],
        "options": options,
        "numbers": {str(bits): _numbers(evaluation) for bits, evaluation in cell.evaluations.items()},
    }


def _numbers(evaluation: Evaluation) -> dict[str, Any]:
    """The numbers that are one number each, and those at a few ranks."""
    plain = evaluation.to_dict()
    found = _short(plain) | {"precision_at": plain["precision_at"]}
    if plain.get("health"):
        found["health"] = _short(plain["health"])
    return found


def _short(numbers: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in numbers.items() if isinstance(value, int | float) or value is None}
