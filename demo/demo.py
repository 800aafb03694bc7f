"""The main job on real images, command by command: train, export, index, search, evaluate. Run by `make demo`.

Every step is a command that works the same on your own images; this script only prints it, runs it and times it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
IMAGES = HERE / "cifar10"
METHODS = ("idcwh", "idcwh-single")
BITS = (12, 48)
SHOWN = 1  # queries per class in the gallery
IN_PROCESS = {"idcwh-train": "idcwh_train.cli", "idcwh-export": "idcwh_export.cli"}


def run(command: str, *arguments: object, capture: bool = False) -> str:
    """Run one of the toolkit's commands, shown as it would be typed; its standard output when it is captured.

    Training and export run in this process, so that torch is imported once; the others start as from a shell.
    """
    words = [command, *map(str, arguments)]
    print(f"\n\033[1m$ {shlex.join(words)}\033[0m" if sys.stdout.isatty() else f"\n$ {shlex.join(words)}", flush=True)
    started = time.perf_counter()
    if command in IN_PROCESS:
        output, status = _here(IN_PROCESS[command], words[1:])
    else:
        done = subprocess.run(
            [Path(sys.executable).with_name(command), *words[1:]], check=False, text=True, stdout=subprocess.PIPE
        )
        output, status = done.stdout, done.returncode
    if not capture:
        print(output, end="")
    if status:
        raise SystemExit(f"{command} failed with exit code {status}")
    print(f"  ({time.perf_counter() - started:.1f} s)", flush=True)
    return output


def _here(module: str, arguments: list[str]) -> tuple[str, int]:
    """Runs a command in this process. Returns its standard output and exit code."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        status = importlib.import_module(module).main(arguments)
    return output.getvalue(), status


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="where everything is written")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()

    say("1. Train: 1,000 photographs of 10 classes, a frozen ImageNet network; hash layer and centers are learned")
    maps = {}
    for method in METHODS:
        for bits in BITS:
            result = run(
                *("idcwh-train", "--data", IMAGES, "--backbone", "timm:tf_efficientnet_lite0", "--freeze"),
                *("--method", method, "--bits", bits, "--cache", out / "features"),
                *("--out", out / f"{method}-{bits}", "--overwrite", "--evaluate", "--json"),
                capture=True,
            )
            maps[method, bits] = json.loads(result)["evaluations"][str(bits)]["map"]
    trained = time.perf_counter()

    say("2. Export: the 48-bit network as ONNX, compared bit by bit with the original")
    model, database, page = out / "idcwh-48" / "model.onnx", out / "codes.bin", out / "gallery.html"
    run("idcwh-export", model.with_suffix(".pt"), "--onnx", model)

    say("3. Index: every training image becomes one 48-bit code")
    run("idcwh-index", "build", "--model", model, "--images", IMAGES / "train", "--db", database, "--force")

    say("4. Search with photographs that the network has never seen")
    queries = [path for folder in sorted((IMAGES / "test").iterdir()) for path in sorted(folder.iterdir())[:SHOWN]]
    run("idcwh-search", "--db", database, "--query", queries[0], "--top", 5)
    run("idcwh-search", "--db", database, "--query", *queries, "--top", 8, "--html", page, capture=True)

    say("5. Evaluate what will be deployed: 200 queries against 1,000 images, through ONNX Runtime")
    run("idcwh-eval", "--model", model, "--data", IMAGES, "--top", 10, 100, "--plots", out / "plots")

    print_maps(maps)
    seconds = time.perf_counter() - started
    print(f"\n{seconds:.0f} s, of which training {trained - started:.0f} s. Look at:\n  {page}\n  {out / 'plots'}")


def say(text: str) -> None:
    print(f"\n== {text}", flush=True)


def print_maps(maps: dict[tuple[str, int], float]) -> None:
    """MAP of the four models, side by side."""
    print("\nMAP of the 200 queries  " + "".join(f"{bits:>4} bits" for bits in BITS))
    for method in METHODS:
        print(f"{method:<23} " + "".join(f"{maps[method, bits]:9.4f}" for bits in BITS))


if __name__ == "__main__":
    main()
