"""Speed of a codes.bin on this disk: adding, opening and scanning, compared with plain writes and with memory.

    python benchmarks/database.py --n 100000000

- add: batches of 10,000 codes of 64 bits, each synced to the disk, and single codes. Single codes are compared with
  plain writes of the same size with two syncs, as a commit has.
- open: time and additional resident memory of a process that opens the file.
- keys: lookups of one key, of which the first builds the table of keys, and of 1,000 keys in one call.
- scan: top 10 of one query with one thread, in the mapped file and in memory, in turn.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import common
import numpy as np

import idcwh_search as ih

BITS, BATCH = 64, 10_000
OPEN = """
import resource, sys, time
import numpy as np, idcwh_search as ih
from idcwh_search import _core
def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))
ih.Database
before = resident()
start = time.perf_counter()
db = ih.Database.open(sys.argv[1])
opened = time.perf_counter() - start
after = resident()
start = time.perf_counter()
db.search(np.zeros((1, 8), np.uint8), 10, threads=1)
print(opened, (after - before) / 1024, after / 1024, time.perf_counter() - start)
"""


def random_codes(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.integers(0, 256, (n, BITS // 8), dtype=np.uint8)


def adds(folder: Path, n: int) -> dict[str, Any]:
    """Returns the codes per second in batches of BATCH, including merges of segments."""
    codes = random_codes(np.random.default_rng(0), BATCH)
    with ih.Database.create(folder / "adds.bin", BITS) as db:
        start = time.perf_counter()
        for _ in range(n // BATCH):
            db.add(codes)
        seconds = time.perf_counter() - start
        info = db.info()
    (folder / "adds.bin").unlink()
    return {
        "codes": n,
        "seconds": seconds,
        "codes_per_second": n / seconds,
        "segments": info["segments"],
        "bytes": info["bytes"],
        "unused": info["unused"],
    }


def single_adds(folder: Path, count: int) -> dict[str, Any]:
    """Returns the milliseconds of adding one code, and of two plain writes with syncs."""
    code = random_codes(np.random.default_rng(1), 1)
    with ih.Database.create(folder / "single.bin", BITS) as db, (folder / "plain.bin").open("wb", buffering=0) as plain:

        def plain_writes() -> None:
            for _ in range(2):
                plain.write(bytes(192))
                os.fdatasync(plain.fileno())

        runs = {"add": lambda: db.add(code), "plain": plain_writes}
        times = common.medians(common.alternate(runs, seconds=1e9, least=count, most=count))
    return {"milliseconds": times["add"] * 1e3, "by_hand": times["plain"] * 1e3}


def opening(path: Path) -> dict[str, Any]:
    """Returns time and memory of opening the file, and the time of the first search."""
    runs = [
        subprocess.run([sys.executable, "-c", OPEN, path], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(5)
    ]
    opened, more, resident, first = np.median(np.array(runs, float), axis=0)
    return {"milliseconds": opened * 1e3, "more_mb": more, "resident_mb": resident, "first_search_seconds": first}


def keys(folder: Path, n: int) -> dict[str, Any]:
    """Returns the times of lookups of keys, and the bytes of the table per item."""
    path = folder / "keys.bin"
    rng = np.random.default_rng(4)
    with ih.Database.build(path, BITS) as db:
        for start in range(0, n, 1 << 20):
            count = min(1 << 20, n - start)
            db.add(random_codes(rng, count), keys=[f"folder/{i:08d}.jpg" for i in range(start, start + count)])
    wanted = [f"folder/{i:08d}.jpg" for i in rng.integers(0, n, 10_000)]
    with ih.Database.open(path) as db:
        view, before = db.snapshot(), db.memory
        start = time.perf_counter()
        view.find(wanted[:1])
        first, bytes_each = time.perf_counter() - start, (db.memory - before) / n
        start = time.perf_counter()
        for key in wanted:
            view.find([key])
        single = time.perf_counter() - start
        start = time.perf_counter()
        for i in range(0, len(wanted), 1000):
            view.find(wanted[i : i + 1000])
        batches = time.perf_counter() - start
    path.unlink()
    return {
        "n": n,
        "first_seconds": first,
        "bytes_per_item": bytes_each,
        "microseconds": single / len(wanted) * 1e6,
        "microseconds_in_batches": batches / len(wanted) * 1e6,
    }


def scan(path: Path, seconds: float) -> dict[str, Any]:
    """Returns the milliseconds of one query in the file and in memory."""
    query = random_codes(np.random.default_rng(2), 1)
    with ih.Database.open(path) as db:
        index = ih.HammingIndex(BITS)
        index.add(db.codes)
        for ours, theirs in zip(db.search(query, 10), index.search(query, 10), strict=True):
            if not np.array_equal(ours, theirs):
                raise SystemExit("error: the results of the file and of memory differ")
        runs = {"file": lambda: db.search(query, 10, threads=1), "memory": lambda: index.search(query, 10, threads=1)}
        times = common.medians(common.alternate(runs, seconds))
    return {
        "file_milliseconds": times["file"] * 1e3,
        "memory_milliseconds": times["memory"] * 1e3,
        "ratio": times["memory"] / times["file"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=10_000_000, help="codes in the file (default 10,000,000)")
    parser.add_argument("--adds", type=int, default=20_000_000, help="codes added in batches (default 20,000,000)")
    parser.add_argument("--single", type=int, default=500, help="codes added one at a time (default 500)")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of the scans (default 5)")
    parser.add_argument("--folder", help="folder of the files (default a temporary folder)")
    parser.add_argument("--json", metavar="FILE", help="JSON file of the results")
    options = parser.parse_args()

    here = common.machine("numpy")
    print(common.describe(here))
    rows = []
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        rows.append({"what": "add", **adds(folder, options.adds)})
        row = rows[-1]
        print(
            f"add in batches of {BATCH:,}: {row['codes_per_second'] / 1e6:.2f} million codes per second "
            f"({row['codes']:,} in {row['seconds']:.1f} s; {row['segments']} segments, {row['bytes']:,} bytes)"
        )
        rows.append({"what": "single", **single_adds(folder, options.single)})
        row = rows[-1]
        print(f"add of one code: {row['milliseconds']:.3f} ms; two plain writes with syncs: {row['by_hand']:.3f} ms")
        path = folder / "codes.bin"
        rng = np.random.default_rng(3)
        with ih.Database.build(path, BITS) as db:
            for start in range(0, options.n, 1 << 22):
                db.add(random_codes(rng, min(1 << 22, options.n - start)))
        size = path.stat().st_size
        print(f"{options.n:,} codes of {BITS // 8} bytes: {size:,} bytes, {size / options.n:.3f} per code")
        rows.append({"what": "open", "n": options.n, "bytes": size, **opening(path)})
        row = rows[-1]
        print(
            f"open: {row['milliseconds']:.2f} ms, {row['more_mb']:.1f} MB more resident ({row['resident_mb']:.0f} in "
            f"total); first search, which checks every block: {row['first_search_seconds']:.2f} s"
        )
        rows.append({"what": "keys", **keys(folder, options.n)})
        row = rows[-1]
        print(
            f"keys: first lookup {row['first_seconds']:.3f} s, then {row['microseconds']:.2f} us per key, "
            f"{row['microseconds_in_batches']:.2f} us in calls of 1,000; {row['bytes_per_item']:.1f} bytes per item"
        )
        rows.append({"what": "scan", "n": options.n, **scan(path, options.seconds)})
        row = rows[-1]
        print(
            f"scan: file {row['file_milliseconds']:.2f} ms, memory {row['memory_milliseconds']:.2f} ms, "
            f"speed of the file relative to memory {row['ratio']:.2f}"
        )
    common.write_json(options.json, here, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
