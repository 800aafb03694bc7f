"""Invalid option values: exit code 2, in every command and before any work."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import ModuleType

import pytest

from idcwh_export import cli as export
from idcwh_reproduce import cli as reproduce
from idcwh_search.cli import dedup, evaluate, index, search, serve
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
    (index, "import hashes.csv --hash-order pdq --bits 128 --db codes.bin"),
    (index, "import hashes.csv --hash-order imagehash --integers --bits 65 --db codes.bin"),
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
    (search, "--db codes.bin --query-codes q.npy --exclude-self"),
    (dedup, "--db codes.bin"),
    (dedup, "--db codes.bin --radius -1"),
    (dedup, "--db codes.bin --radius 3 --mode any"),
    (dedup, "--db codes.bin --radius 3 --reference other.bin --keep oldest"),
    (dedup, "--db codes.bin --radius 3 --reference other.bin --mode greedy"),
    (dedup, "--db codes.bin --radius 3 --csv same --remove-list ./same"),
    (serve, "--db codes.bin --host 0.0.0.0"),
    (serve, "--db codes.bin --port 65536"),
    (serve, "--db codes.bin --refresh 0"),
    (serve, "--db codes.bin --refresh nan"),
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
    (reproduce, "cifar10-mini --data photos --out run --backbone ''"),
    (reproduce, "cifar10-mini --data photos --out run --set epochs=0"),
]


@pytest.mark.parametrize(("module", "line"), CASES, ids=[f"{m.__name__} {line}" for m, line in CASES])
def test_option_with_an_invalid_value_is_usage(
    module: ModuleType, line: str, commands: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.chdir(str(tmp_path))
    out, err = commands(module.main, *shlex.split(line), status=2)
    assert out == "" and err.startswith("error: ") and err.endswith(" --help)\n") and err.count("\n") == 1


EMPTY = [  # a command line with an empty path, and the argument in the message
    (index, "build --model '' --images photos --db codes.bin", "--model"),
    (index, "build --model model.onnx --images '' --db codes.bin", "--images"),
    (index, "build --model model.onnx --images photos --db ''", "--db"),
    (index, "add '' --images photos", "FILE"),
    (index, "add codes.bin --images ''", "--images"),
    (index, "add codes.bin --images photos --model ''", "--model"),
    (index, "add codes.bin --images photos --root ''", "--root"),
    (index, "remove '' --ids 1", "FILE"),
    (index, "remove codes.bin --keys-from ''", "--keys-from"),
    (index, "compact ''", "FILE"),
    (index, "info ''", "FILE"),
    (index, "verify ''", "FILE"),
    (index, "export '' codes.npy", "FILE"),
    (index, "export codes.bin ''", "OUT"),
    (index, "export codes.bin codes.npy --ids ''", "--ids"),
    (index, "import '' --db codes.bin", "IN"),
    (index, "import codes.npy --db ''", "--db"),
    (index, "import codes.npy --db codes.bin --ids ''", "--ids"),
    (search, "--db '' --query photo.png", "--db"),
    (search, "--db codes.bin --query photo.png ''", "--query"),
    (search, "--db codes.bin --query-codes ''", "--query-codes"),
    (search, "--db codes.bin --query photo.png --html ''", "--html"),
    (search, "--db codes.bin --query photo.png --model ''", "--model"),
    (search, "--db codes.bin --query photo.png --root ''", "--root"),
    (dedup, "--db '' --radius 3", "--db"),
    (dedup, "--db codes.bin --radius 3 --reference ''", "--reference"),
    (dedup, "--db codes.bin --radius 3 --csv ''", "--csv"),
    (dedup, "--db codes.bin --radius 3 --html ''", "--html"),
    (dedup, "--db codes.bin --radius 3 --remove-list ''", "--remove-list"),
    (serve, "--db ''", "--db"),
    (serve, "--db codes.bin --images ''", "--images"),
    (serve, "--db codes.bin --model ''", "--model"),
    (serve, "--db codes.bin --read-key-file ''", "--read-key-file"),
    (serve, "--db codes.bin --admin-key-file ''", "--admin-key-file"),
    (evaluate, "--model '' --data photos", "--model"),
    (evaluate, "--codes ''", "--codes"),
    (evaluate, "--codes codes.npz --data ''", "--data"),
    (evaluate, "--codes codes.npz --plots ''", "--plots"),
    (evaluate, "--model model.onnx --data photos --protocol ''", "--protocol"),
    (evaluate, "--model model.onnx --data photos --save-codes ''", "--save-codes"),
    (evaluate, "--model model.onnx --data photos --save-protocol ''", "--save-protocol"),
    (export, "'' --onnx", "model.pt"),
    (export, "model.pt --onnx ''", "--onnx"),
    (export, "model.pt --onnx --verify ''", "--verify"),
    (export, "model.pt --onnx --precision int8 --calibrate ''", "--calibrate"),
    (export, "--info ''", "--info"),
    (export, "--list runs ''", "--list"),
    (train, "--data photos --out ''", "--out"),
    (train, "--data '' --out run", "--data"),
    (train, f"{TRAIN} --cache ''", "--cache"),
    (train, "--data photos --out run --weights ''", "--weights"),
    (train, "--resume --out ''", "--out"),
    (train, "--resume --out run --data ''", "--data"),
    (reproduce, "cifar10-mini --data photos --out ''", "--out"),
    (reproduce, "cifar10-mini --data '' --out run", "--data"),
    (reproduce, "cifar10-mini --data photos --out run --cache ''", "--cache"),
    (reproduce, "--list --out ''", "--out"),
]


@pytest.mark.parametrize(("module", "line", "argument"), EMPTY, ids=[f"{m.__name__} {line}" for m, line, _ in EMPTY])
def test_empty_path_is_usage(
    module: ModuleType, line: str, argument: str, commands: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An unset shell variable neither names a file of the current folder nor drops its option."""
    monkeypatch.chdir(tmp_path)
    out, err = commands(module.main, *shlex.split(line), status=2)
    assert out == "" and err.startswith("error: ") and err.endswith(" --help)\n") and err.count("\n") == 1
    assert argument in err and not list(tmp_path.iterdir())
