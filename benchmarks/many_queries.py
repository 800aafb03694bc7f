"""Searches of many queries within a radius: time per query and what the planner expected.

    python benchmarks/many_queries.py

The planner sends them to the join where that is faster than the scan and the structures. `small` is the time per query
in calls of 256 queries.
"""

from __future__ import annotations

import argparse
import sys
import time

import common
import numpy as np

import idcwh_search as ih

CASES = ((64, 3), (64, 10), (128, 12), (256, 31))


def per_query(index: ih.HammingIndex, queries: np.ndarray, radius: int, threads: int) -> float:
    started = time.perf_counter()
    index.count(queries, radius, threads=threads)
    return (time.perf_counter() - started) / len(queries) * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1_000_000, help="codes (default 1,000,000)")
    parser.add_argument("--queries", type=int, nargs="+", default=[2_000, 10_000, 50_000])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--optimize", action="store_true", help="build the index structures first")
    options = parser.parse_args()
    print(common.describe(common.machine("numpy")))
    print(f"{'bits':>4} {'radius':>6} {'queries':>8} {'path':<12} {'expected us':>12} {'us':>9} {'small us':>9}")
    rng = np.random.default_rng(1)
    for bits, radius in CASES:
        index = ih.HammingIndex(bits=bits)
        index.add(rng.integers(0, 256, (options.n, bits // 8), dtype=np.uint8))
        if options.optimize:
            index.optimize()
        for count in options.queries:
            queries = rng.integers(0, 256, (count, bits // 8), dtype=np.uint8)
            expected = index.explain(radius=radius, queries=count)
            small = per_query(index, queries[:256], radius, options.threads)
            taken = per_query(index, queries, radius, options.threads)
            print(
                f"{bits:>4} {radius:>6} {count:>8,} {expected.path:<12} {expected.nanoseconds / 1e3:>12.1f} "
                f"{taken:>9.1f} {small:>9.1f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
