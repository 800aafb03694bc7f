"""Top-k search over random codes, beside faiss IndexBinaryFlat: same codes, same queries, same number of threads, turn by turn.

Both results are compared, id for id, before anything is timed. Speed is in billions of codes compared a second.

    python benchmarks/search.py --bits 64 --n 10000000 --queries 1 256
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parent.parent), str(Path(__file__).resolve().parent)]

import common

import idcwh_search as ih
from idcwh_search import _core


def default_size(bits: int) -> int:
    """10 million codes, fewer where they would be more than 160 MB."""
    return min(10_000_000, 1_280_000_000 // max(bits, 128))


def random_codes(rng: np.random.Generator, n: int, bits: int) -> np.ndarray:
    codes = rng.integers(0, 256, (n, (bits + 7) // 8), dtype=np.uint8)
    if bits % 8:
        codes[:, -1] &= (1 << bits % 8) - 1
    return codes


def faiss_search(codes: np.ndarray, threads: int):
    """A function (queries, k) -> (D, I), or None where faiss is not installed. Widths that are no multiple of 8 work as well:
    their padding is zero."""
    try:
        import faiss
    except ImportError:
        return None
    faiss.omp_set_num_threads(threads)
    index = faiss.IndexBinaryFlat(codes.shape[1] * 8)
    index.add(codes)
    return index.search


def compare(bits: int, n: int, nq: int, k: int, threads: int, seconds: float, seed: int, plain: bool) -> dict:
    rng = np.random.default_rng(seed)
    codes, queries = random_codes(rng, n, bits), random_codes(rng, nq, bits)
    runs = {"ours": lambda: _core.topk(codes, bits, queries, k, threads=threads)}
    peer = None if plain else faiss_search(codes, threads)
    if peer:
        runs["faiss"] = lambda: peer(queries, k)
        distances, ids = runs["ours"]()
        peer_distances, peer_ids = runs["faiss"]()
        if not (np.array_equal(distances, peer_distances) and np.array_equal(ids, peer_ids)):
            raise SystemExit(f"error: results differ from faiss at {bits} bits, {n} codes, {nq} queries")
    times = common.alternate(runs, seconds)
    middle = common.medians(times)
    work = n * nq / 1e9
    row = {"bits": bits, "n": n, "queries": nq, "k": k, "threads": threads, "seconds": middle, "rounds": len(times["ours"])}
    row["gcodes_per_second"] = {name: work / value for name, value in middle.items()}
    row["ratio"] = middle["faiss"] / middle["ours"] if peer else None
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bits", type=int, nargs="+", default=[12, 16, 24, 32, 48, 64, 96, 128, 256, 512])
    parser.add_argument("--n", type=int, help="codes (default 10 million, fewer above 128 bits)")
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 256])
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--isa", default="auto", help="instruction set of ours; faiss takes FAISS_SIMD_LEVEL")
    parser.add_argument("--seconds", type=float, default=4.0, help="time a row (at least three rounds)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="without faiss")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()

    _core.set_isa(options.isa)
    active = next(entry["name"] for entry in ih.isa() if entry["active"])
    here = common.machine("idcwh", "numpy", "faiss-gpu", "faiss-cpu")
    here["isa"] = active
    print(common.describe(here))
    print(f"instruction set {active}, {options.threads} thread(s), top {options.k}; G codes/s, medians of alternating runs")
    print(f"{'bits':>5} {'codes':>11} {'queries':>7} {'ours ms':>10} {'faiss ms':>10} {'ours':>8} {'faiss':>8} {'ratio':>7}")
    rows = []
    for bits in options.bits:
        for nq in options.queries:
            n = options.n or default_size(bits)
            row = compare(bits, n, nq, options.k, options.threads, options.seconds, options.seed, options.plain)
            rows.append(row)
            faiss_seconds = row["seconds"].get("faiss")
            print(
                f"{bits:>5} {n:>11} {nq:>7} {row['seconds']['ours'] * 1e3:>10.2f} "
                + (f"{faiss_seconds * 1e3:>10.2f} " if faiss_seconds else f"{'-':>10} ")
                + f"{row['gcodes_per_second']['ours']:>8.2f} "
                + (f"{row['gcodes_per_second']['faiss']:>8.2f} {row['ratio']:>7.1f}" if faiss_seconds else f"{'-':>8} {'-':>7}"),
                flush=True,
            )
    common.write_json(options.json, here, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
