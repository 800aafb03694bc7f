"""Speed of idcwh-serve under the load generator wrk: code lookups, refreshes, overload, start and memory.

    python benchmarks/serve.py                       # 1 M x 64 and 10 M x 64 bits, 10 M x 256 bits
    python benchmarks/serve.py --millions 1          # small databases
    python benchmarks/serve.py --model model.onnx --image photo.jpg
    python benchmarks/serve.py --sizing              # the sizing table of docs/deployment.md, and nothing else

wrk (Debian: wrk) and the server share the cores. A rate of at most `half` is reached by a delay of each connection. The
queries are random codes, and the codes are random, too.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import common
import numpy as np

import idcwh_search as ih

CONNECTIONS = 64
QUERIES = 1000
SCRIPT = """
local bodies, at = {}, 0
for line in io.lines(os.getenv("BODIES")) do bodies[#bodies + 1] = line end
local pause = tonumber(os.getenv("PAUSE"))
function request()
    at = at % #bodies + 1
    return wrk.format("POST", nil, {["content-type"] = "application/json"}, bodies[at])
end
if pause > 0 then function delay() return pause end end
"""


class Server:
    """A server process, its address, and the seconds until it was ready and until its structures were built."""

    def __init__(self, *arguments: object) -> None:
        program = "import sys; from idcwh_search.cli.serve import main; sys.exit(main(sys.argv[1:]))"
        began = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments), "--port", "0"], stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if found := re.search(r"ready at (http://\S+:\d+)", line):
                self.url = found.group(1)
                break
        else:
            raise SystemExit("".join(lines))
        self.seconds = self.optimized = time.perf_counter() - began
        if "--no-structures" not in arguments:
            next(line for line in self.process.stderr if line.startswith("index structures"))
            self.optimized = time.perf_counter() - began
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def memory(self) -> int:
        """Returns the memory in bytes. Resident memory lacks the parts of the copy of the file that were not read."""
        process = Path(f"/proc/{self.process.pid}")
        private = re.findall(r"Rss(?:Anon|File):\s+(\d+) kB", (process / "status").read_text())
        copies = [file.stat() for file in (process / "fd").iterdir() if str(file.readlink()).startswith("/memfd:")]
        return 1024 * sum(map(int, private)) + 512 * sum({copy.st_ino: copy.st_blocks for copy in copies}.values())

    def metric(self, name: str) -> float:
        """Returns the sum of a metric over its labels."""
        text = urllib.request.urlopen(f"{self.url}/metrics").read().decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


@contextmanager
def serving(*arguments: object) -> Iterator[Server]:
    """Starts a server and ends it."""
    server = Server(*arguments)
    try:
        yield server
    finally:
        server.process.send_signal(signal.SIGTERM)
        server.process.wait()


def load(
    server: Server, path: str, bodies: Path | None, seconds: float, *, connections: int = CONNECTIONS, rate: float = 0
) -> dict[str, float]:
    """Returns requests per second, milliseconds at 50 and 99 %, answers other than 2xx and 3xx, and timeouts."""
    command = ["wrk", "-t", "1", "-c", str(connections), "-d", f"{seconds:.0f}s", "--latency", "--timeout", "10s"]
    environment = {"PATH": "/usr/bin:/bin", "PAUSE": str(1000 * connections / rate if rate else 0)}
    environment["BODIES"] = str(bodies)
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(SCRIPT)
        script.flush()
        if bodies is not None:
            command += ["-s", script.name]
        text = subprocess.run(
            [*command, server.url + path], capture_output=True, text=True, check=True, env=environment
        ).stdout

    def number(pattern: str) -> float:
        found = re.search(pattern, text)
        return float(found.group(1)) if found else 0.0

    def milliseconds(percent: int) -> float:
        found = re.search(rf"\s{percent}%\s+([\d.]+)(us|ms|s|m)\b", text)
        assert found is not None, text
        return float(found.group(1)) * {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60000.0}[found.group(2)]

    timeouts = number(r"timeout (\d+)")
    return {
        "rate": number(r"Requests/sec:\s+([\d.]+)"),
        "p50": milliseconds(50),
        "p99": milliseconds(99),
        "refused": number(r"Non-2xx or 3xx responses: (\d+)"),
        "timeouts": timeouts,
    }


def build(path: Path, millions: int, bits: int) -> Path:
    """Returns a database of random codes with keys and labels, which is kept between runs."""
    if not path.exists():
        rng = np.random.default_rng(0)
        with ih.Database.build(path, bits) as database:
            for million in range(millions):
                names = range(million * 10**6, (million + 1) * 10**6)
                codes = rng.integers(0, 256, (10**6, bits // 8), np.uint8)
                labels = [f"label {name % 100}" for name in names]
                database.add(codes, keys=[f"folder/{name:08d}.jpg" for name in names], labels=labels)
    return path


def queries(path: Path, bits: int, **options: Any) -> Path:
    """Writes bodies of searches, one per line."""
    codes = np.random.default_rng(1).integers(0, 256, (QUERIES, bits // 8), np.uint8)
    path.write_text("".join(json.dumps({"code": code.tobytes().hex(), **options}) + "\n" for code in codes))
    return path


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=int, default=10, help="codes of the large databases (default 10)")
    parser.add_argument("--seconds", type=float, default=10, help="seconds per load (default 10)")
    parser.add_argument("--refreshes", type=int, default=100, help="refreshes under load (default 100)")
    parser.add_argument("--model", help="model.onnx, to measure queries by images")
    parser.add_argument("--image", help="image file of these queries")
    parser.add_argument("--sizing", action="store_true", help="only the table of memory, start and rate, as Markdown")
    parser.add_argument("--folder", default="build/serve", help="folder of the databases (default build/serve)")
    parser.add_argument("--json", metavar="FILE", help="JSON file of the results")
    options = parser.parse_args()
    machine = common.machine("fastapi", "uvicorn", "numpy")
    print(common.describe(machine), end="\n\n")
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []

    if options.sizing:
        sizing(options, folder, rows)
        common.write_json(options.json, machine, rows)
        return

    def row(work: str, **values: float) -> None:
        rows.append({"work": work, **values})
        print(f"{work:<52}" + "  ".join(f"{name} {value:,.1f}" for name, value in values.items()), flush=True)

    small = build(folder / "1x64.bin", 1, 64)
    bodies = queries(folder / "top.txt", 64, k=10)
    with serving("--db", small) as server:
        load(server, "/healthz", None, 1)
        load(server, "/v1/search", bodies, 1)
        row("/healthz", **load(server, "/healthz", None, options.seconds))
        best = load(server, "/v1/search", bodies, options.seconds)
        row("1 M x 64 bits, top 10", **best)
        row("the same at half the rate", **load(server, "/v1/search", bodies, options.seconds, rate=best["rate"] / 2))
        before = server.metric('idcwh_requests_total{route="/v1/search",status="200"}')
        over = load(server, "/v1/search", bodies, options.seconds, connections=4096, rate=4 * best["rate"])
        answered = server.metric('idcwh_requests_total{route="/v1/search",status="200"}') - before
        row("overload, four times the rate", **over, answered_per_second=answered / options.seconds)
        changing(server, small, bodies, options, best["rate"] / 2, row)

    large = build(folder / f"{options.millions}x256.bin", options.millions, 256)
    bodies = queries(folder / "radius.txt", 256, radius=31)
    with serving("--db", large) as server:
        load(server, "/v1/search", bodies, 1)
        best = load(server, "/v1/search", bodies, options.seconds)
        row(f"{options.millions} M x 256 bits, radius 31", **best)
        row("the same at half the rate", **load(server, "/v1/search", bodies, options.seconds, rate=best["rate"] / 2))

    medium = build(folder / f"{options.millions}x64.bin", options.millions, 64)
    for more in ([], ["--no-structures"]):
        with serving("--db", medium, *more) as server:
            name = f"start, {options.millions} M x 64 bits {' '.join(more)}"
            memory = server.memory() / (10**6 * options.millions)
            row(name, ready=server.seconds, structures=server.optimized, bytes_per_code=memory)
            if not more:
                by_keys(server, medium, options, row)
    if options.model:
        by_images(options, folder, row)
    common.write_json(options.json, machine, rows)


def sizing(options: argparse.Namespace, folder: Path, rows: list[dict[str, Any]]) -> None:
    """Prints memory, start and rate of servers with and without structures, by number of codes and code length."""
    with serving("--db", build(folder / "0x64.bin", 0, 64)) as server:
        base = server.memory()
    print(f"without codes: {base / 1e6:.0f} MB\n")
    print("| codes | bits | structures | file | memory | per million codes | start | top 10 | radius |")
    print("|---|---|---|---|---|---|---|---|---|")
    for bits in (64, 256):
        radius = bits // 8 - 1
        bodies = {"top": {"k": 10}, "radius": {"radius": radius}}
        for millions in sorted({1, options.millions}):
            path = build(folder / f"{millions}x{bits}.bin", millions, bits)
            for structures in (True, False):
                with serving("--db", path, *([] if structures else ["--no-structures"])) as server:
                    memory = server.memory()
                    rates = {}
                    for name, fields in bodies.items():
                        texts = queries(folder / f"{name}.txt", bits, **fields)
                        load(server, "/v1/search", texts, 1)
                        rates[name] = load(server, "/v1/search", texts, options.seconds)["rate"]
                    size, start = path.stat().st_size, server.seconds
                added = (memory - base) / millions
                rows.append(
                    {
                        "work": "sizing", "codes": millions * 10**6, "bits": bits, "structures": structures,
                        "file_bytes": size, "memory_bytes": memory, "bytes_per_million": added, "start_seconds": start,
                        "top_10_per_second": rates["top"], "radius": radius, "radius_per_second": rates["radius"],
                    }
                )  # fmt: skip
                print(
                    f"| {millions} M | {bits} | {'yes' if structures else 'no'} | {size / 1e6:,.0f} MB "
                    f"| {memory / 1e6:,.0f} MB | {added / 1e6:,.0f} MB | {start:.1f} s | {rates['top']:,.0f}/s "
                    f"| {rates['radius']:,.0f}/s within {radius} |",
                    flush=True,
                )


def changing(server: Server, path: Path, bodies: Path, options: argparse.Namespace, rate: float, row: Any) -> None:
    """Adds items in this process and refreshes the server, under load."""
    seconds = max(options.seconds, 0.1 * options.refreshes)
    result: dict[str, float] = {}
    thread = threading.Thread(
        target=lambda: result.update(load(server, "/v1/search", bodies, seconds, rate=rate)), daemon=True
    )
    thread.start()
    code = np.zeros((1, 8), np.uint8)
    for _ in range(options.refreshes):
        began = time.perf_counter()
        with ih.Database.open(path, "r+") as database:
            database.add(code, keys=["added"])
        urllib.request.urlopen(urllib.request.Request(f"{server.url}/v1/refresh", method="POST")).read()
        time.sleep(max(0.0, seconds / options.refreshes - (time.perf_counter() - began) - 0.005))
    thread.join()
    row(f"{options.refreshes} refreshes at half the rate", **result)
    path.unlink()


def by_keys(server: Server, path: Path, options: argparse.Namespace, row: Any) -> None:
    """Measures lookups of keys, and changes of one item."""
    names = np.random.default_rng(2).integers(0, 10**6 * options.millions, QUERIES)
    bodies = path.with_name("keys.txt")
    bodies.write_text("".join(json.dumps({"key": f"folder/{name:08d}.jpg", "k": 10}) + "\n" for name in names))
    size = f"{options.millions} M x 64 bits"
    began = time.perf_counter()
    urllib.request.urlopen(f"{server.url}/v1/items/folder/00000000.jpg").read()
    row(f"first key, {size}", milliseconds=1000 * (time.perf_counter() - began))
    row(f"items by key, {size}", **load(server, "/v1/items/folder/00012345.jpg", None, options.seconds))
    row(f"queries by key, {size}", **load(server, "/v1/search", bodies, options.seconds))
    seconds = []
    for _ in range(9):
        with ih.Database.open(path, "r+") as database:
            (added,) = database.add(np.zeros((1, 8), np.uint8), keys=["added"])
        began = time.perf_counter()
        urllib.request.urlopen(urllib.request.Request(f"{server.url}/v1/refresh", method="POST")).read()
        seconds.append(time.perf_counter() - began)
        with ih.Database.open(path, "r+") as database:
            database.remove([added])
    row(f"refresh after an added item, {size}", milliseconds=1000 * float(np.median(seconds)))


def by_images(options: argparse.Namespace, folder: Path, row: Any) -> None:
    """Compares queries by an image with the encoder alone."""
    import base64

    from idcwh_search.database.provenance import describe

    encoder = ih.Encoder(options.model)
    path = folder / "images.bin"
    path.unlink(missing_ok=True)
    with ih.Database.create(path, encoder.bits, describe(path, encoder, folder)) as database:
        database.add(np.zeros((1000, encoder.code_bytes), np.uint8))
    files = [options.image] * 200
    encoder(files[:16])
    began = time.perf_counter()
    encoder(files)
    row("encoder alone", rate=len(files) / (time.perf_counter() - began))
    bodies = folder / "image.txt"
    image = base64.b64encode(Path(options.image).read_bytes()).decode()
    bodies.write_text(json.dumps({"image": image, "k": 10}) + "\n")
    with serving("--db", path, "--model", options.model) as server:
        row("queries by an image", **load(server, "/v1/search", bodies, options.seconds, connections=16))


if __name__ == "__main__":
    main()
