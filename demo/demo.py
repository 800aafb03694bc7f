"""Demo of the commands on real images, which `make demo` runs: train, export, index, search and evaluate.

The script prints, runs and times each command. The same commands work on other images.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import shlex
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
IMAGES = HERE / "cifar10"
SHOWN = 1  # queries per class in the gallery
IN_PROCESS = {"idcwh-train": "idcwh_train.cli", "idcwh-export": "idcwh_export.cli"}


def run(command: str, *arguments: object, capture: bool = False) -> str:
    """Prints and runs a command of the toolkit. Returns its standard output, which is printed unless `capture` is true.

    Training and export run in this process, so that torch is imported once. The others run in new processes.
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
    """Runs the demo."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="output folder (default out/demo)")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    model, database, page = out / "model.onnx", out / "codes.bin", out / "gallery.html"
    started = time.perf_counter()
    print(f"""idcwh demo: image retrieval on {len(list(IMAGES.glob("train/*/*"))):,} real photographs of 10 classes.
It trains a network, exports it to ONNX, indexes the images, searches and evaluates.
This takes one to three minutes on two cores, most of them for training. Output folder: {out}""")

    print_step("1. Train 48-bit codes: a hash layer and class centers on a frozen backbone")
    run(
        *("idcwh-train", "--data", IMAGES, "--backbone", "timm:tf_efficientnet_lite0", "--freeze"),
        *("--bits", 48, "--cache", out / "features", "--out", out, "--overwrite"),
    )

    print_step("2. Export the model to ONNX, and compare the codes of both")
    run("idcwh-export", model.with_suffix(".pt"), "--onnx", model)

    print_step("3. Index the training images, one 48-bit code per image")
    run("idcwh-index", "build", "--model", model, "--images", IMAGES / "train", "--db", database, "--force")

    print_step("4. Search with test images, which are new to the network")
    queries = [path for folder in sorted((IMAGES / "test").iterdir()) for path in sorted(folder.iterdir())[:SHOWN]]
    run("idcwh-search", "--db", database, "--query", queries[0], "--top", 5)
    run("idcwh-search", "--db", database, "--query", *queries, "--top", 8, "--html", page, capture=True)

    print_step("5. Evaluate the exported model: 200 test images against 1,000 indexed images")
    run("idcwh-eval", "--model", model, "--data", IMAGES, "--top", 10, 100, "--plots", out / "plots")

    print(f"""
The demo took {time.perf_counter() - started:.0f} s.
The page of queries (left) and hits (right), for a browser:
  {page.resolve()}
Then try a search of your own, or your own images (docs/commands.md):
  idcwh-search --db {database} --query IMAGE --html hits.html
  idcwh-dedup --db {database} --radius 0 --html groups.html""")


def print_step(text: str) -> None:
    """Prints the title of a step."""
    print(f"\n== {text}", flush=True)


if __name__ == "__main__":
    main()
