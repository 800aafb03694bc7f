"""Speed of `ih.evaluate`, compared with numpy: distances per query, a stable argsort and average precision.

numpy computes only MAP with one order of ties, which must be equal, while evaluate computes all metrics of
docs/metrics.md. Random codes have few repeats. Learned codes are ten centers with a few flipped bits, so that codes
repeat.

    python benchmarks/evaluate.py --queries 10000 --n 50000 --threads 2
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import common
import numpy as np

import idcwh_search as ih


def sample(kind: str, n: int, bits: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Returns packed codes and labels of ten classes. Bits of learned codes are flipped with probability 0.02."""
    labels = rng.integers(0, 10, n)
    if kind == "random":
        h = rng.integers(0, 2, (n, bits), dtype=np.uint8)
    else:
        h = rng.integers(0, 2, (10, bits), dtype=np.uint8)[labels] ^ (rng.random((n, bits)) < 0.02)
    return np.packbits(h, axis=1, bitorder="little"), labels


def words(codes: np.ndarray) -> np.ndarray:
    """Returns the codes as uint64 [n, words], of which numpy counts eight bytes at a time."""
    padded = np.zeros((len(codes), -(-codes.shape[1] // 8) * 8), np.uint8)
    padded[:, : codes.shape[1]] = codes
    return padded.view(np.uint64)


def numpy_map(q: np.ndarray, ql: np.ndarray, x: np.ndarray, xl: np.ndarray, threads: int) -> float:
    """Returns MAP with ties ordered by id, as in most published code."""
    queries, database = words(q), words(x)
    rank = np.arange(1, len(x) + 1)

    def average_precision(i: int) -> float:
        distance = np.zeros(len(x), np.uint16)
        for column in range(database.shape[1]):
            distance += np.bitwise_count(database[:, column] ^ queries[i, column])
        relevant = rank[(xl == ql[i])[np.argsort(distance, kind="stable")]]
        return float(np.mean(rank[: len(relevant)] / relevant))

    with ThreadPoolExecutor(threads) as pool:
        return float(np.mean(list(pool.map(average_precision, range(len(q)), chunksize=64))))


def compare(kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measures one row of the table."""
    rng = np.random.default_rng(options.seed)
    codes, labels = sample(kind, options.queries + options.n, options.bits, rng)
    nq = options.queries
    arrays = (codes[:nq], labels[:nq], codes[nq:], labels[nq:])
    result = ih.evaluate(*arrays, bits=options.bits, threads=options.threads)
    runs = {"ours": partial(ih.evaluate, *arrays, bits=options.bits, threads=options.threads)}
    if not options.plain:
        theirs = numpy_map(*arrays, options.threads)
        if abs(theirs - result.map_ranked) > 1e-9:
            raise SystemExit(f"error: MAP differs (ih.evaluate {result.map_ranked!r}, numpy {theirs!r})")
        runs["numpy"] = partial(numpy_map, *arrays, options.threads)
    times = common.alternate(runs, options.seconds)
    middle = common.medians(times)
    return {
        "codes": kind,
        "bits": options.bits,
        "queries": nq,
        "n": options.n,
        "threads": options.threads,
        "distinct_queries": result.health.distinct_queries,
        "distinct_database": result.health.distinct_database,
        "rounds": len(times["ours"]),
        "seconds": middle,
        "least_seconds": {name: min(values) for name, values in times.items()},
        "ratio": middle["numpy"] / middle["ours"] if "numpy" in middle else None,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--codes", nargs="+", choices=("random", "learned"), default=["random", "learned"],
        help="types of codes (default both)",
    )  # fmt: skip
    parser.add_argument("--bits", type=int, default=48, help="code length (default 48)")
    parser.add_argument("--queries", type=int, default=10_000, help="number of queries (default 10,000)")
    parser.add_argument("--n", type=int, default=50_000, help="number of database codes (default 50,000)")
    parser.add_argument("--threads", type=int, default=2, help="number of threads (default 2)")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds per row, at least 3 rounds (default 20)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the codes (default 1)")
    parser.add_argument("--plain", action="store_true", help="without numpy")
    parser.add_argument("--json", metavar="FILE", help="JSON file of the results")
    options = parser.parse_args()

    here = common.machine("numpy")
    here["isa"] = next(entry["name"] for entry in ih.isa() if entry["active"])
    print(common.describe(here))
    print(f"instruction set {here['isa']}, {options.threads} thread(s); seconds, median of alternating runs (minimum)")
    print(f"{'codes':>8} {'bits':>5} {'queries':>8} {'distinct':>9} {'n':>8} {'distinct':>9}", end=" ")
    print(f"{'ours':>15} {'numpy':>15} {'ratio':>7}")
    rows = []
    for kind in options.codes:
        row = compare(kind, options)
        rows.append(row)
        print(f"{kind:>8} {row['bits']:>5} {row['queries']:>8} {row['distinct_queries']:>9} {row['n']:>8}", end=" ")
        print(f"{row['distinct_database']:>9}", end=" ")
        for name in ("ours", "numpy"):
            text = f"{row['seconds'][name]:.2f} ({row['least_seconds'][name]:.2f})" if name in row["seconds"] else "-"
            print(f"{text:>15}", end=" ")
        print(f"{row['ratio']:>7.1f}" if row["ratio"] else f"{'-':>7}", flush=True)
    common.write_json(options.json, here, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
