"""Values that an option does not accept: exit code 2, in every command and before any work."""

from __future__ import annotations

import shlex
from types import ModuleType

import pytest

from idcwh_export import cli as export
from idcwh_reproduce import cli as reproduce
from idcwh_search.cli import evaluate, index, search
from idcwh_train import cli as train
from support.commands import Runner

TRAIN = "--data photos --out run --backbone compact --weights none"
CASES = [
    (index, "export codes.bin codes.foo"),
    (index, "export codes.bin codes.faiss --ids ids.npy"),
    (index, "export codes.bin codes.npy --ids ./codes.npy"),
    (index, "import codes.foo --db codes.bin"),
    (index, "import codes.raw --db codes.bin"),
    (index, "import codes.parquet --ids ids.npy --db codes.bin"),
    (index, "import codes.npy --bits 65536 --db codes.bin"),
    (index, "build --model model.onnx --images photos --db codes.bin --threads 100000"),
    (index, "add codes.bin --images photos --threads 1025"),
    (index, "build --model model.onnx --images photos --db codes.bin --preprocess 16,32"),
    (index, "remove codes.bin --ids -1"),
    (search, "--db codes.bin --query photo.png --threads 100000"),
    (search, "--db codes.bin --query photo.png --top 0"),
    (search, "--db codes.bin --query photo.png --top x"),
    (search, "--db codes.bin --query photo.png --radius -1"),
    (search, "--db codes.bin --query-codes q.npy --combine"),
    (evaluate, "--codes codes.npz --threads 100000"),
    (evaluate, "--codes codes.npz --codes codes.npz"),
    (evaluate, "--model model.onnx --data photos --protocol nothing"),
    (evaluate, "--model model.onnx --data photos --protocol split.json --query 3"),
    (export, "model.pt --onnx --opset 17"),
    (export, "model.pt --onnx --opset 24"),
    (export, "--info model.onnx --opset 18"),
    (train, f"{TRAIN} --bits 65536"),
    (train, f"{TRAIN} --method sdh"),
    (train, f"{TRAIN} --backbone nothing"),
    (train, f"{TRAIN} --method-option nothing=1"),
    (train, f"{TRAIN} --sigma2 0"),
    (train, "--out run --resume --recipe paper"),
    (reproduce, "cifar10-mini --data photos --out run --bits 65536"),
    (reproduce, "cifar10-mini --data photos --out run --backbone nothing"),
    (reproduce, "cifar10-mini --data photos --out run --set epochs=0"),
]


@pytest.mark.parametrize(("module", "line"), CASES, ids=[f"{m.__name__} {line}" for m, line in CASES])
def test_option_with_a_value_it_does_not_accept_is_usage(
    module: ModuleType, line: str, commands: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.chdir(str(tmp_path))
    out, err = commands(module.main, *shlex.split(line), status=2)
    assert out == "" and err.startswith("error: ") and err.endswith(" --help)\n") and err.count("\n") == 1
