"""What the JSON of a cell has to have. `cells.read` asks once, so that nobody else has to."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from .. import recipes
from ..values import AT_LEAST_0, BOOLEAN, TEXT, Kind, one_of, whole

FORMAT, VERSION = "idcwh-reproduce-cell", 1
DONE, FAILED = "done", "failed"

_COUNT, _LENGTHS, _NUMBERS = whole(0), [whole(1)], [AT_LEAST_0]
_PLAIN = Kind("text, a number, true, false or null", str, lambda value: not isinstance(value, list | dict))
_OF_METHOD: dict[Any, Any] = {"sigma2?": AT_LEAST_0, "beta?": AT_LEAST_0, ...: _PLAIN}
_EVALUATION: dict[Any, Any] = {
    **dict.fromkeys(("bits", "queries", "queries_without_relevant", "database", "radius"), _COUNT),
    **dict.fromkeys(("map", "map_optimistic", "map_pessimistic", "map_ranked"), AT_LEAST_0),
    "map_at": {...: {...: AT_LEAST_0}}, "precision_at": {...: AT_LEAST_0}, "recall_at": {...: AT_LEAST_0},
    "lookup": {"precision": _NUMBERS, "recall": _NUMBERS, "empty": _NUMBERS},
    "ranking": {"n": [_COUNT], "precision": _NUMBERS, "recall": _NUMBERS},
    "pr_curve": {"recall": _NUMBERS, "precision": _NUMBERS},
    "health": {
        "distinct_database": _COUNT, "distinct_queries": _COUNT, "constant_bits": _COUNT, "bit_balance": _NUMBERS,
        "bit_correlation": AT_LEAST_0.or_none(), "distances_within": [_COUNT], "distances_between": [_COUNT],
    },
}  # fmt: skip
_KEYS: dict[Any, Any] = {
    "recipe": TEXT, "backbone": TEXT, "freeze": BOOLEAN, "method": TEXT, "bits": _LENGTHS, "seed": _COUNT,
    "variant": ({"kind": TEXT, "value": _PLAIN, ...: _PLAIN}, None),
    "status": one_of((DONE, FAILED)), "reason": TEXT.or_none(),
    "options": {
        **{f"{name}?": kind for name, kind in recipes.KINDS.items()},  # a cell of before an option came has none
        "bits": _LENGTHS, "method_options": _OF_METHOD, "length_options": {...: _OF_METHOD}, ...: _PLAIN,
    },
    "evaluations": {...: _EVALUATION},
    "dataset": {"images": _COUNT, "sha256": TEXT},
    "protocol": ({"name": TEXT, "seed": _COUNT, "sizes": {...: _COUNT}, "sha256": {...: TEXT}}, None),
    "seconds": {"training": AT_LEAST_0, "total": AT_LEAST_0, ...: AT_LEAST_0},
    "versions": {...: TEXT},
    "machine": {
        "cpu": TEXT, "family": TEXT, "cores": _COUNT.or_none(), "flags": [TEXT], "gpu": TEXT.or_none(), ...: _PLAIN,
    },
    "revision": TEXT.or_none(), "command": TEXT, "unreadable": {...: TEXT},
}  # fmt: skip
"""What of a cell's file is read -> what it has to be: a kind of value, [kind of each], or the same of a dictionary,
where `key?` may be missing and `...` stands for all other keys; (it, None): or null."""


def load(path: Path) -> Any:
    """What is in a file. ValueError for one that is no JSON, or has numbers that JSON cannot have or nobody can use."""
    if path.exists() and not path.is_file():
        raise ValueError("a directory or a device; expected a file")
    if not (text := path.read_bytes()):
        raise ValueError("empty")
    return json.loads(text, parse_float=_finite, parse_constant=_finite, parse_int=_integer)


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:20]}: expected a finite number")
    return value


def _integer(text: str) -> int:
    if abs(value := int(text)) >= 1 << 63:
        raise ValueError(f"{text[:20]}...: expected a number of at most 64 bits")
    return value


def checked(content: Any) -> dict[str, Any]:
    """The content of a cell's file, of which everything that is read has its kind. ValueError or IdcwhError."""
    from . import plan  # which has to know what a cell is

    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError("another format")
    if content.get("version") != VERSION:
        raise ValueError(f"version {content.get('version')!r}; this program reads version {VERSION}")
    _check(content, _KEYS, "")
    if content["status"] == DONE and content["protocol"] is None:
        raise ValueError("protocol: expected that of a cell that is done, not null")
    if variant := content["variant"]:
        _check(variant["kind"], one_of((*plan.SWEEPS, plan.ABLATION)), "variant.kind")
        _check(variant["value"], TEXT if variant["kind"] == plan.ABLATION else AT_LEAST_0, "variant.value")
    # What the report compares with has to be there: recipe, method and lengths that are known.
    recipes.options(
        content["recipe"], {name: content[name] for name in ("backbone", "freeze", "method", "bits", "seed")}
    )
    return content


def _check(value: Any, kind: Any, name: str) -> None:
    """ValueError, with the key's name, where a value is not of its kind, see _KEYS."""
    if isinstance(kind, tuple):
        if value is not None:
            _check(value, kind[0], name)
    elif isinstance(kind, Kind):
        if not (kind.fits(value) or (value is None and kind.optional)):
            raise ValueError(f"{name}: expected {kind.words}, not {_said(value)}")
    elif not isinstance(value, type(kind)):
        raise ValueError(f"{name}: expected {_said(kind)}, not {_said(value)}")
    elif isinstance(kind, list):
        for one in value:
            _check(one, kind[0], name)
    else:
        prefix = f"{name}." if name else ""
        for key in kind:
            if key is not ... and not key.endswith("?") and key not in value:
                raise ValueError(f"{prefix}{key} is missing")
        for key, one in value.items():
            of = kind.get(key) or kind.get(f"{key}?") or kind.get(...)
            if of is not None:
                _check(one, of, prefix + key)


def _said(value: Any) -> str:
    """A value of JSON in an error."""
    return "a list" if isinstance(value, list) else "a dictionary" if isinstance(value, dict) else repr(value)[:80]
