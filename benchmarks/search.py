"""Top-k search over random codes beside faiss IndexBinaryFlat: same codes, queries and threads, turn by turn.

Both results are compared, id for id, before anything is timed. Speed is in billions of codes compared a second.

    python benchmarks/search.py --bits 64 --n 10000000 --queries 1 256
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import common
import numpy as np

import idcwh_search as ih
from idcwh_search import _core

Search = Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]


def default_size(bits: int) -> int:
    """10 million codes, fewer where they would be more than 160 MB."""
    return min(10_000_000, 1_280_000_000 // bits)


def random_codes(rng: np.random.Generator, n: int, bits: int) -> np.ndarray:
    codes = rng.integers(0, 256, (n, (bits + 7) // 8), dtype=np.uint8)
    if bits % 8:
        codes[:, -1] &= (1 << bits % 8) - 1
    return codes


def faiss_search(codes: np.ndarray, threads: int) -> Search | None:
    """faiss over the same codes, or None where it is not installed.

    It has whole bytes only, but zero padding adds nothing to a distance: other widths compare as well.
    """
    try:
        import faiss
    except ImportError:
        return None
    faiss.omp_set_num_threads(threads)
    index = faiss.IndexBinaryFlat(codes.shape[1] * 8)
    index.add(codes)
    return index.search


def compare(bits: int, n: int, nq: int, options: argparse.Namespace) -> dict[str, Any]:
    """One row of the table."""
    rng = np.random.default_rng(options.seed)
    codes, queries = random_codes(rng, n, bits), random_codes(rng, nq, bits)
    k, threads = options.k, options.threads
    runs: dict[str, Callable[[], object]] = {"ours": lambda: _core.topk(codes, bits, queries, k, threads=threads)}
    peer = None if options.plain else faiss_search(codes, threads)
    if peer is not None:
        search = peer
        runs["faiss"] = lambda: search(queries, k)
        ours, theirs = _core.topk(codes, bits, queries, k, threads=threads), search(queries, k)
        if not all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True)):
            raise SystemExit(f"error: results differ from faiss at {bits} bits, {n} codes, {nq} queries")
    times = common.alternate(runs, options.seconds)
    middle = common.medians(times)
    return {
        "bits": bits,
        "n": n,
        "queries": nq,
        "k": k,
        "threads": threads,
        "rounds": len(times["ours"]),
        "seconds": middle,
        "gcodes_per_second": {name: n * nq / 1e9 / value for name, value in middle.items()},
        "ratio": middle["faiss"] / middle["ours"] if "faiss" in middle else None,
    }


def line(row: dict[str, Any]) -> str:
    seconds, speed = row["seconds"], row["gcodes_per_second"]
    text = f"{row['bits']:>5} {row['n']:>11} {row['queries']:>7} {seconds['ours'] * 1e3:>10.2f} "
    if row["ratio"] is None:
        return text + f"{'-':>10} {speed['ours']:>8.2f} {'-':>8} {'-':>7}"
    return text + f"{seconds['faiss'] * 1e3:>10.2f} {speed['ours']:>8.2f} {speed['faiss']:>8.2f} {row['ratio']:>7.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bits", type=int, nargs="+", default=[12, 16, 24, 32, 48, 64, 96, 128, 256, 512])
    parser.add_argument("--n", type=int, help="codes (default 10 million, fewer above 128 bits)")
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 256])
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--isa", default="auto", help="instruction set of ours; faiss takes FAISS_SIMD_LEVEL")
    parser.add_argument("--seconds", type=float, default=4.0, help="time a row, at least three rounds (default 4)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="without faiss")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()

    _core.set_isa(options.isa)
    here = common.machine("numpy", "faiss-gpu", "faiss-cpu")
    here["isa"] = next(entry["name"] for entry in ih.isa() if entry["active"])
    print(common.describe(here))
    print(f"instruction set {here['isa']}, {options.threads} thread(s), top {options.k}")
    print("billions of codes a second; medians of alternating runs")
    titles = ("ours ms", "faiss ms", "ours", "faiss", "ratio")
    print(f"{'bits':>5} {'codes':>11} {'queries':>7} " + "{:>10} {:>10} {:>8} {:>8} {:>7}".format(*titles))
    rows = []
    for bits in options.bits:
        for nq in options.queries:
            rows.append(compare(bits, options.n or default_size(bits), nq, options))
            print(line(rows[-1]), flush=True)
    common.write_json(options.json, here, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
