"""Speed of searches of skewed codes after `optimize()`, compared with the scan and with faiss IndexBinaryFlat.

The candidates run in turn on one thread, after their results have been compared. The ratio is the time after
`optimize()` divided by the time of the scan. It should not exceed 1.1 for any data, operation or filter.

    python benchmarks/skewed.py --bits 128 --n 1000000
    python benchmarks/skewed.py --data prefix --op radius
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import common
import numpy as np

import idcwh_search as ih

DATA = ("prefix", "bytes", "equal", "few", "bucket", "clustered", "uniform")
OPS = ("top1", "top10", "top1000", "ties10", "radius0", "radius2", "radius", "count0", "count")
WHERE = ("all", "list", "range", "mask")


def skewed(kind: str, n: int, bits: int, rng: np.random.Generator) -> np.ndarray:
    """Returns codes of one type, uint8 [n, bits / 8]."""
    width = bits // 8
    codes = rng.integers(0, 256, (n, width), dtype=np.uint8)
    if kind == "prefix":  # the first half is constant
        codes[:, : width // 2] = 7
    elif kind == "bytes":  # every second byte is constant
        codes[:, ::2] = 7
    elif kind == "equal":
        codes[:] = codes[0]
    elif kind == "few":  # 100 distinct values
        codes = codes[:100][rng.integers(0, 100, n)]
    elif kind == "bucket":  # 60 % of the codes differ only in the last two bytes
        same = rng.random(n) < 0.6
        codes[same, : width - 2] = codes[0, : width - 2]
    elif kind == "clustered":  # 1,000 centers with 5 % of the bits flipped
        flips = np.packbits(rng.random((n, bits), dtype=np.float32) < 0.05, axis=1)
        codes = codes[:1000][rng.integers(0, 1000, n)] ^ flips
    return codes


def operation(index: Any, op: str, bits: int, where: Any) -> Callable[[np.ndarray], Any]:
    """Returns a function that runs the operation on queries."""
    options: dict[str, Any] = {"where": where, "threads": 1}
    number = int(op.lstrip("topesradicun") or bits // 8)
    if op.startswith("top"):
        return lambda queries: index.search(queries, number, **options)
    if op.startswith("ties"):
        return lambda queries: index.search_ties(queries, number, **options)
    if op.startswith("radius"):
        return lambda queries: index.range_search(queries, number, **options)
    return lambda queries: (index.count(queries, number, **options),)


def explained(index: Any, op: str, bits: int, where: Any, nq: int) -> str:
    """Returns the path that the planner chooses for the operation."""
    number = int(op.lstrip("topesradicun") or bits // 8)
    arguments = {"k": number} if op.startswith(("top", "ties")) else {"radius": number}
    return str(index.explain(**arguments, queries=nq, where=where).path)


def compare(kind: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measures and prints the rows of one type of codes."""
    rng = np.random.default_rng(1)
    n, bits = options.n, options.bits
    codes = skewed(kind, n, bits, rng)
    plain, optimized = ih.HammingIndex(bits), ih.HammingIndex(bits)
    plain.add(codes)
    optimized.add(codes)
    begin = time.perf_counter()
    optimized.optimize()
    structures = optimized.structures()
    per_code = structures[0]["bytes"] / n if structures else 0
    name = structures[0]["name"] if structures else "no structure"
    print(f"{kind}: {name}, {per_code:.1f} bytes per code, built in {time.perf_counter() - begin:.1f} s")
    try:
        faiss: Any = importlib.import_module("faiss")
        faiss.omp_set_num_threads(1)
        flat = faiss.IndexBinaryFlat(bits)
        flat.add(codes)
    except ImportError:
        flat = None
    members = codes[rng.integers(0, n, 8)]
    random = rng.integers(0, 256, (8, bits // 8), dtype=np.uint8)
    filters = {
        "all": None,
        "list": np.flatnonzero(rng.random(n) < 0.01),
        "range": (n - n // 100, n),
        "mask": rng.random(n) < 0.3,
    }
    rows = []
    for where in options.where:
        for op in options.op:
            for origin, batch in (("member", members), ("random", random), ("batch", np.tile(members, (8, 1)))):
                queries = [batch] if origin == "batch" else list(batch[:, None])
                ours = operation(optimized, op, bits, filters[where])
                scan = operation(plain, op, bits, filters[where])
                for query in queries:
                    for a, b in zip(ours(query), scan(query), strict=True):
                        if not np.array_equal(a, b):
                            raise SystemExit(f"error: the results differ: {kind}, {op}, {where}, {origin}")
                runs: dict[str, Callable[[], object]] = {
                    "scan": lambda queries=queries, run=scan: [run(query) for query in queries],
                    "optimized": lambda queries=queries, run=ours: [run(query) for query in queries],
                }
                if flat is not None and where == "all" and op.startswith("top"):
                    k = int(op[3:])
                    runs["faiss"] = lambda queries=queries, k=k: [flat.search(query, k) for query in queries]
                middle = common.medians(common.alternate(runs, options.seconds, least=5, clock=time.thread_time))
                ratio = middle["optimized"] / middle["scan"]
                path = explained(optimized, op, bits, filters[where], len(queries[0]))
                each = {run: seconds / len(batch) for run, seconds in middle.items()}
                rows.append({"data": kind, "where": where, "op": op, "queries": origin, "path": path, "seconds": each})
                faiss_time = f"{each['faiss'] * 1e6:>10.1f}" if "faiss" in each else f"{'-':>10}"
                if ratio >= options.least:
                    print(
                        f"{kind:<10} {where:<6} {op:<8} {origin:<7} {each['scan'] * 1e6:>10.1f} "
                        f"{each['optimized'] * 1e6:>12.1f} {ratio:>7.2f} {faiss_time}  {path}",
                        flush=True,
                    )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=DATA, nargs="+", default=DATA, help="types of codes (default all)")
    parser.add_argument("--op", choices=OPS, nargs="+", default=OPS, help="operations (default all)")
    parser.add_argument("--where", choices=WHERE, nargs="+", default=WHERE, help="filters (default all)")
    parser.add_argument("--bits", type=int, default=128, help="code length (default 128)")
    parser.add_argument("--n", type=int, default=1_000_000, help="number of codes (default 1,000,000)")
    parser.add_argument("--seconds", type=float, default=0.3, help="seconds per row, at least 5 rounds (default 0.3)")
    parser.add_argument("--least", type=float, default=0.0, help="smallest ratio that is printed (default 0)")
    parser.add_argument("--json", metavar="FILE", help="JSON file of the results")
    options = parser.parse_args()
    here = common.machine("numpy", "faiss-cpu", "faiss-gpu")
    print(common.describe(here))
    print(
        f"{'data':<10} {'where':<6} {'op':<8} {'queries':<7} {'scan us':>10} {'optimized us':>12} {'ratio':>7} "
        f"{'faiss us':>10}  path"
    )
    rows = [row for kind in options.data for row in compare(kind, options)]
    worst = max(row["seconds"]["optimized"] / row["seconds"]["scan"] for row in rows)
    print(f"largest ratio {worst:.2f} of {len(rows)} rows")
    common.write_json(options.json, here, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
