"""Speed of searches of random codes, compared with faiss IndexBinaryFlat on the same codes, queries and threads.

The candidates run in turn. Before the timing, the results are compared id by id. The unit is billions of compared codes
per second.

    python benchmarks/search.py --bits 64 --n 10000000 --queries 1 256
    python benchmarks/search.py --op where --bits 64 --queries 1

    `topk`              the k nearest codes
    `where`             the same among a list of 1 % of the rows
    `radius`, `count`   codes within bits / 4; faiss with its range search
    `rank`              all codes; faiss is left out, since it would take too long

csrc/bench/bandwidth.cpp measures the share of the memory bandwidth that a query reaches.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import sys
from collections.abc import Callable
from typing import Any

import common
import numpy as np

import idcwh_search as ih
from idcwh_search import _core

Search = Callable[[], tuple[np.ndarray, ...]]


def default_size(bits: int) -> int:
    """Returns the number of codes: 10 million, or as many as fit into 160 MB."""
    return min(10_000_000, 1_280_000_000 // bits)


def random_codes(rng: np.random.Generator, n: int, bits: int) -> np.ndarray:
    codes = rng.integers(0, 256, (n, (bits + 7) // 8), dtype=np.uint8)
    if bits % 8:
        codes[:, -1] &= (1 << bits % 8) - 1
    return codes


def faiss_index(codes: np.ndarray, threads: int) -> Any:
    """Returns a faiss index of the same codes, or None if faiss is not installed.

    faiss supports whole bytes only. Zero padding does not change distances, so other code lengths are compared as well.
    """
    try:
        import faiss
    except ImportError:
        return None
    faiss.omp_set_num_threads(threads)
    index = faiss.IndexBinaryFlat(codes.shape[1] * 8)
    index.add(codes)
    return index


def selected(n: int) -> np.ndarray:
    """Returns 1 % of the rows, ascending."""
    return np.flatnonzero(np.random.default_rng(0).random(n) < 0.01)


def our_search(codes: np.ndarray, queries: np.ndarray, bits: int, options: argparse.Namespace) -> Search:
    """Returns the search of idcwh."""
    op, k, radius, threads = options.op, options.k, bits // 4, options.threads
    rows = selected(len(codes)) if op == "where" else None
    return {
        "topk": lambda: _core.topk(codes, bits, queries, k, threads=threads),
        "where": lambda: _core.topk(codes, bits, queries, k, rows=rows, threads=threads),
        "radius": lambda: _core.radius(codes, bits, queries, radius, threads=threads),
        "count": lambda: (_core.count(codes, bits, queries, radius, threads=threads),),
        "rank": lambda: _core.rank(codes, bits, queries, threads=threads),
    }[op]


def faiss_search(index: Any, queries: np.ndarray, bits: int, options: argparse.Namespace) -> Search | None:
    """Returns the same search of faiss, with results in the same form, except for the order of a range search."""
    if options.op == "rank":
        return None
    if options.op in ("radius", "count"):
        return lambda: index.range_search(queries, bits // 4 + 1)  # faiss excludes the radius
    if options.op == "topk":
        return lambda: index.search(queries, options.k)
    faiss: Any = importlib.import_module("faiss")  # its stubs lack the two classes below

    rows = selected(index.ntotal)
    mask = np.packbits(np.isin(np.arange(index.ntotal), rows), bitorder="little")
    selector = faiss.IDSelectorBitmap(mask)
    parameters = faiss.SearchParameters(sel=selector)
    return lambda: (mask, index.search(queries, options.k, params=parameters))[1]  # faiss does not own mask


def same(op: str, ours: tuple[np.ndarray, ...], theirs: tuple[np.ndarray, ...]) -> bool:
    """Returns True if the results are equal."""
    if op == "count":
        return np.array_equal(ours[0], np.diff(theirs[0].astype(np.int64)))
    if op == "radius":
        lims = ours[0]
        parts = [(ours[2][a:b], theirs[2][a:b]) for a, b in itertools.pairwise(lims)]
        return np.array_equal(lims, theirs[0].astype(np.int64)) and all(
            np.array_equal(np.sort(a), np.sort(b)) for a, b in parts
        )
    return all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


def compare(bits: int, n: int, nq: int, options: argparse.Namespace) -> dict[str, Any]:
    """Measures one row of the table."""
    rng = np.random.default_rng(options.seed)
    codes, queries = random_codes(rng, n, bits), random_codes(rng, nq, bits)
    ours = our_search(codes, queries, bits, options)
    runs: dict[str, Callable[[], object]] = {"ours": ours}
    index = None if options.plain else faiss_index(codes, options.threads)
    theirs = None if index is None else faiss_search(index, queries, bits, options)
    if theirs is not None:
        runs["faiss"] = theirs
        if not same(options.op, ours(), theirs()):
            raise SystemExit(f"error: the results differ from faiss at {bits} bits, {n} codes, {nq} queries")
    times = common.alternate(runs, options.seconds)
    middle = common.medians(times)
    return {
        "bits": bits,
        "n": n,
        "queries": nq,
        "op": options.op,
        "k": options.k,
        "threads": options.threads,
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
    parser.add_argument(
        "--op", choices=("topk", "where", "radius", "count", "rank"), default="topk", help="operation (default topk)"
    )
    parser.add_argument(
        "--bits", type=int, nargs="+", default=[12, 16, 24, 32, 48, 64, 96, 128, 256, 512],
        help="code lengths (default 12 to 512)",
    )  # fmt: skip
    parser.add_argument("--n", type=int, help="number of codes (default 10 million, fewer above 128 bits)")
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 256], help="queries per call (default 1 256)")
    parser.add_argument("--k", type=int, default=10, help="number of results (default 10)")
    parser.add_argument("--threads", type=int, default=1, help="number of threads (default 1)")
    parser.add_argument("--isa", default="auto", help="instruction set of idcwh (default auto)")
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds per row, at least 3 rounds (default 4)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the codes (default 1)")
    parser.add_argument("--plain", action="store_true", help="without faiss")
    parser.add_argument("--json", metavar="FILE", help="JSON file of the results")
    options = parser.parse_args()

    _core.set_isa(options.isa)
    here = common.machine("numpy", "faiss-gpu", "faiss-cpu")
    here["isa"] = next(entry["name"] for entry in ih.isa() if entry["active"])
    print(common.describe(here))
    print(f"instruction set {here['isa']}, {options.threads} thread(s), {options.op}, k {options.k}")
    print("billions of codes per second, median of alternating runs")
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
