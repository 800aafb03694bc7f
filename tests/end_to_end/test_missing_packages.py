"""Packages that are not installed, and failing runs of a model: one line in every command that needs them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import idcwh_search as ih
from idcwh_search.cli import common, evaluate, index, search
from support.commands import Runner

CASES = [
    ("torch", "train", "train", ["--data", "data.npz", "--out", "run", "--backbone", "compact"]),
    ("torch", "reproduce", "train", ["cifar10-mini", "--data", "data.npz", "--out", "run"]),
    ("torch", "export", "export", ["model.pt", "--onnx"]),
    ("torch", "export", "export", ["--list", "model.pt"]),
    ("torchvision", "evaluate", "train", ["--model", "model.onnx", "--data", "cifar10:data"]),
    ("torchvision", "train", "train", ["--data", "data.npz", "--out", "run", "--backbone", "resnet18"]),
    ("timm", "train", "train", ["--data", "data.npz", "--out", "run", "--backbone", "timm:resnet18"]),
    ("onnx", "export", "export", ["--info", "model.onnx"]),
    ("onnxscript", "export", "export", ["model.pt", "--onnx"]),
    ("onnxruntime", "index", "cpu", ["build", "--model", "model.onnx", "--images", ".", "--db", "codes.bin"]),
    ("onnxruntime", "evaluate", "cpu", ["--model", "model.onnx", "--data", "data.npz"]),
    ("fastapi", "serve", "serve", ["--db", "codes.bin"]),
    ("matplotlib", "evaluate", "bench", ["--codes", "codes.npz", "--plots", "plots"]),
    ("sklearn", "reproduce", "train", ["cifar10-mini", "--data", "data.npz", "--out", "run", "--freeze"]),
    ("pdqhash", "dedup", "hashes", [".", "--hash", "pdq", "--radius", "31"]),
    ("pyarrow", "index", "arrow", ["import", "codes.parquet", "--db", "codes.bin"]),
]


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Returns a PYTHONPATH with all installed packages but one."""
    result: dict[str, str] = {}

    def folder(name: str) -> str:
        if name not in result:
            target = tmp_path_factory.mktemp(f"without_{name}")
            for entry in Path(np.__file__).parents[1].iterdir():
                if entry.name.partition(".")[0] != name and entry.suffix != ".pth":
                    (target / entry.name).symlink_to(entry)
            ours = [Path(ih.__file__).parents[1]]
            for package in ("idcwh_train", "idcwh_export"):
                spec = importlib.util.find_spec(package)
                assert spec is not None and spec.origin is not None
                ours.append(Path(spec.origin).parents[1])
            result[name] = os.pathsep.join(map(str, [*ours, target]))
        return result[name]

    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("package", "command", "extra", "arguments"), CASES)
def test_command_without_package_names_the_extra(
    package: str, command: str, extra: str, arguments: list[str], model: Path, without: Callable[[str], str]
) -> None:
    folder, codes, labels = model.parent, np.arange(24, dtype=np.uint8)[:, None], np.arange(24) % 10
    np.savez(folder / "data.npz", x=np.zeros((24, 8, 8, 3), np.uint8), y=labels)
    np.savez(folder / "codes.npz", bits=8, query_codes=codes, query_labels=labels, database_codes=codes,
             database_labels=labels)  # fmt: skip
    for name in ("codes.parquet", "model.pt", "image.png"):
        (folder / name).touch()
    script = f"import sys; from idcwh_search.cli.entry import {command}; sys.exit({command}())"
    environment = {**os.environ, "PYTHONPATH": without(package)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", script, *arguments], cwd=folder, env=environment, capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert last.startswith("error: ") and f"pip install 'idcwh[{extra}]'" in last
    assert {"sklearn": "scikit-learn"}.get(package, package) in last


# runs that fail


def test_failing_run_names_the_model(model: Path, images: Path, commands: Runner) -> None:
    database, bad = model.with_name("codes.bin"), onnx.load(model)
    matmul = next(node for node in bad.graph.node if "logits" in node.output)
    matmul.output[0] = "raw"
    place = list(bad.graph.node).index(matmul) + 1
    for node in (  # adds element n - 1 of an array of one element, which fails for several images
        onnx.helper.make_node("Add", ["raw", "element"], ["logits"]),
        onnx.helper.make_node("Gather", ["one", "last"], ["element"]),
        onnx.helper.make_node("Sub", ["n", "first"], ["last"]),
        onnx.helper.make_node("Gather", ["dims", "index"], ["n"]),
        onnx.helper.make_node("Shape", ["image"], ["dims"]),
    ):
        bad.graph.node.insert(place, node)
    constants = {"one": np.zeros(1, np.float32), "first": np.array(1), "index": np.array(0)}
    bad.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    onnx.save(bad, model)
    commands.build(model, min((images / "dog").iterdir()), database, "--threads", 1)
    for command in (
        (index.main, "build", "--images", images, "--db", model.with_name("new.bin")),
        (index.main, "add", database, "--images", images),
        (search.main, "--db", database, "--query", images),
        (evaluate.main, "--data", images, "--query-per-class", "1"),
    ):
        assert commands.fails(*command, "--model", model, "--threads", 1).startswith(f"error: {model}: ")


def test_exception_of_onnxruntime_is_one_line(commands: Runner) -> None:
    state = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    for kind in ("Fail", "InvalidArgument", "RuntimeException", "NoSuchFile", "InvalidGraph", "NotImplemented"):

        def body(argv: list[str] | None, kind: str = kind) -> int:
            raise getattr(state, kind)(f"[ONNXRuntimeError] : 1 : {kind.upper()} : it\nfailed")

        assert commands.fails(common.command(body)) == "error: it failed"
