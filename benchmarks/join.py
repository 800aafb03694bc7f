"""All pairs of codes within a radius, beside faiss range_search, its IndexBinaryMultiHash, and a loop in C.

    python benchmarks/join.py                        # every case but the two largest
    python benchmarks/join.py --cases pdq-31 --peers # one case, beside faiss

All results are compared. The others search for a sample of the codes, as all would take minutes. Their time is that of
the sample times n / sample. Memory is that of counting, beyond the codes, in a process of its own.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common
import numpy as np

import idcwh_search as ih


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[np.random.Generator, int, int], np.ndarray]
    n: int
    bits: int
    radius: int
    default: bool = True


def uniform(rng: np.random.Generator, n: int, bits: int) -> np.ndarray:
    return rng.integers(0, 256, (n, bits // 8), dtype=np.uint8)


def clustered(rng: np.random.Generator, n: int, bits: int) -> np.ndarray:
    """Returns clusters of 35 codes, two flipped bits from their centers: 17 pairs per code within radius 4."""
    codes = uniform(rng, n // 35, bits)[rng.integers(0, n // 35, n)]
    for _ in range(2):
        bit = rng.integers(0, bits, n)
        codes[np.arange(n), bit // 8] ^= (1 << bit % 8).astype(np.uint8)
    return codes


def learned(rng: np.random.Generator, n: int, bits: int) -> np.ndarray:
    """Returns codes of ten classes, each bit flipped with probability 0.06: many codes are equal."""
    codes = rng.integers(0, 2, (10, bits), dtype=np.uint8)[rng.integers(0, 10, n)].astype(bool)
    for first in range(0, n, 1 << 18):
        part = codes[first : first + (1 << 18)]
        part ^= rng.random(part.shape, dtype=np.float32) < 0.06
    return ih.pack(codes)


CASES = (
    Case("uniform64-3", uniform, 1_000_000, 64, 3),
    Case("uniform64-10", uniform, 1_000_000, 64, 10),
    Case("uniform64-20", uniform, 200_000, 64, 20),
    Case("uniform64-3-10M", uniform, 10_000_000, 64, 3),
    Case("pdq-31", uniform, 1_000_000, 256, 31),
    Case("clustered256-4", clustered, 1_000_000, 256, 4),
    Case("learned48-2", learned, 1_000_000, 48, 2),
    Case("learned48-2-200k", learned, 200_000, 48, 2),
    Case("uniform64-3-100M", uniform, 100_000_000, 64, 3, default=False),
    Case("pdq-31-10M", uniform, 10_000_000, 256, 31, default=False),
)


def pairs(codes: np.ndarray, case: Case, threads: int) -> int:
    """Returns the number of pairs after every block has been made."""
    return sum(len(first) for first, _, _ in ih.self_join(codes, case.radius, case.bits, threads=threads))


def write(number: int) -> int:
    """Writes as many pairs with NumPy, to memory of 20 MB that is used again, and returns their number."""
    size = 1 << 20
    block = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int32)
    for first in range(0, number, size):
        for array in block:
            array[: number - first] = first
    return number


def faiss_pairs(index: Any, codes: np.ndarray, radius: int) -> int:
    """Returns the number of hits of all codes, each pair twice and each code with itself."""
    return int(index.range_search(codes, radius + 1)[0][-1])  # faiss excludes the radius


def seconds(run: Callable[[], int]) -> tuple[float, int]:
    begin = time.perf_counter()
    result = run()
    return time.perf_counter() - begin, result


def memory_of(case: Case, seed: int, threads: int) -> int:
    """Returns the memory in KiB that counting takes beyond the codes (Linux)."""
    codes = case.make(np.random.default_rng(seed), case.n, case.bits)
    status = Path("/proc/self/status")
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = int(status.read_text().partition("VmRSS:")[2].split()[0])
    ih.count_pairs(codes, case.radius, case.bits, threads=threads)
    return int(status.read_text().partition("VmHWM:")[2].split()[0]) - before


LOOP = """
#include <stdint.h>
#include <string.h>
#define WORDS (BYTES / 8)
uint64_t pairs(const uint8_t *codes, uint64_t n, uint64_t samples, int radius) {
    const uint64_t *words = (const uint64_t *)codes;
    uint64_t found = 0;
    for (uint64_t i = 0; i < samples; ++i)
        for (uint64_t j = 0; j < n; ++j) {
            int distance = 0;
            for (int w = 0; w < WORDS; ++w)
                distance += __builtin_popcountll(words[i * WORDS + w] ^ words[j * WORDS + w]);
            found += distance <= radius;
        }
    return found;
}
"""


def loop_pairs(codes: np.ndarray, samples: int, radius: int) -> int:
    """Returns the hits of the first codes among all, found by a plain loop with popcnt on one thread."""
    padded = np.zeros((len(codes), -(-codes.shape[1] // 8) * 8), np.uint8)
    padded[:, : codes.shape[1]] = codes
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "loop.so")
        flags = ["-O2", "-march=native", "-fno-tree-vectorize", f"-DBYTES={padded.shape[1]}"]
        subprocess.run(["cc", *flags, "-shared", "-fPIC", "-xc", "-", "-o", library], input=LOOP, text=True, check=True)
        run = ctypes.CDLL(str(library)).pairs
        run.restype, run.argtypes = ctypes.c_uint64, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int]
        return int(run(padded.ctypes.data, len(codes), samples, radius))


def measure(case: Case, options: argparse.Namespace) -> dict[str, Any]:
    """Returns one row of the table."""
    codes = case.make(np.random.default_rng(options.seed), case.n, case.bits)
    join = ih.self_join(codes, case.radius, case.bits, threads=options.threads)
    plan = join.explain()
    del join
    number = ih.count_pairs(codes, case.radius, case.bits, threads=options.threads)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        memory = pool.apply(memory_of, (case, options.seed, options.threads))
    stream = number <= options.most_pairs
    runs: list[Callable[[], int]] = [
        lambda: ih.count_pairs(codes, case.radius, case.bits, threads=options.threads),
        lambda: pairs(codes, case, options.threads),
        lambda: write(number),
    ]
    times: list[list[float]] = [[] for _ in runs[: 3 if stream else 1]]
    for _ in range(options.rounds):
        for taken_by, run in zip(times, runs, strict=False):
            taken, found = seconds(run)
            taken_by.append(taken)
            assert found == number
    row = {
        "case": case.name, "n": case.n, "bits": case.bits, "radius": case.radius, "pairs": number, "plan": plan,
        "count_s": float(np.median(times[0])), "join_s": float(np.median(times[1])) if stream else None,
        "write_s": float(np.median(times[2])) if stream else None,
        "memory_mib": memory / 1024,
    }  # fmt: skip
    if options.peers:
        import faiss

        faiss.omp_set_num_threads(options.threads)
        index = faiss.IndexBinaryFlat(case.bits if case.bits % 8 == 0 else 8 * codes.shape[1])
        index.add(codes)
        sample = codes[: min(case.n, max(1, 2_000_000_000 // case.n))]
        taken, found = seconds(lambda: faiss_pairs(index, sample, case.radius))
        lims = ih.HammingIndex(case.bits)
        lims.add(codes)
        assert found == int(lims.count(sample, case.radius).sum())
        row["faiss_s"] = taken * case.n / len(sample)
        # Exact by the pigeonhole principle: parts of 16 bits, and radius // parts flips in each.
        parts = case.bits // 16
        if case.radius // parts <= 2:  # more flips take longer than the scan
            tables = faiss.IndexBinaryMultiHash(case.bits, parts, 16)
            tables.nflip = case.radius // parts
            building, _ = seconds(lambda: tables.add(codes) or 0)
            taken, hashed = seconds(lambda: faiss_pairs(tables, sample, case.radius))
            assert hashed == found
            row["multi_hash_s"] = building + taken * case.n / len(sample)
        fewer = max(1, len(sample) // 10)
        taken, looped = seconds(lambda: loop_pairs(codes, fewer, case.radius))
        assert looped == int(lims.count(codes[:fewer], case.radius).sum())
        row["loop_s"] = taken * case.n / fewer
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [case.name for case in CASES]
    parser.add_argument("--cases", nargs="+", choices=names, help="cases (default: all but the two largest)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3, help="runs, of which the median is printed (default 3)")
    parser.add_argument("--most-pairs", type=int, default=200_000_000, help="more pairs are counted, not made")
    parser.add_argument("--peers", action="store_true", help="faiss and a loop in C beside it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()

    here = common.machine("numpy", "faiss-gpu", "faiss-cpu")
    here["isa"] = next(entry["name"] for entry in ih.isa() if entry["active"])
    print(common.describe(here))
    print(f"instruction set {here['isa']}, {options.threads} thread(s); medians of {options.rounds} runs")
    print(
        f"{'case':<17} {'codes':>11} {'pairs':>13} {'count s':>8} {'join s':>8} {'write s':>8} {'faiss s':>9} "
        f"{'hash s':>8} {'loop s':>8} {'MiB':>7}  plan"
    )
    rows = []
    for case in CASES:
        if case.name in (options.cases or [case.name for case in CASES if case.default]):
            row = measure(case, options)
            rows.append(row)
            keys = ("join_s", "write_s", "faiss_s", "multi_hash_s", "loop_s")
            join, writing, faiss, multi_hash, loop = (f"{row[key]:.2f}" if row.get(key) else "-" for key in keys)
            print(
                f"{case.name:<17} {case.n:>11,} {row['pairs']:>13,} {row['count_s']:>8.2f} {join:>8} "
                f"{writing:>8} {faiss:>9} {multi_hash:>8} {loop:>8} "
                f"{row['memory_mib']:>7.0f}  {row['plan'].partition('; ')[2]}",
                flush=True,
            )
    common.write_json(options.json, here, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
