"""All pairs, their number and clusters, against NumPy and faiss. The engine: csrc/tests/test_join.cpp."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import idcwh_search as ih
from support.errors import raises


def brute_force(a: np.ndarray, b: np.ndarray, radius: int, self_join: bool) -> set[tuple[int, int, int]]:
    distances = np.unpackbits(a[:, None] ^ b[None], axis=2).sum(axis=2)
    near = distances <= radius
    if self_join:
        near &= np.triu(np.ones_like(near), 1)
    return {(int(i), int(j), int(distances[i, j])) for i, j in np.argwhere(near)}


def pairs_of(join: ih.search.join.Join) -> list[tuple[int, int, int]]:
    blocks = list(join)
    for first, second, distances in blocks:
        assert (first.dtype, second.dtype, distances.dtype) == (np.int64, np.int64, np.int32)
        assert len(first) == len(second) == len(distances) > 0
    return [(int(i), int(j), int(d)) for block in blocks for i, j, d in zip(*block, strict=True)]


def interrupt_next(_: int, frame: FrameType | None) -> None:
    if frame and frame.f_code.co_name == "__next__":
        raise InterruptedError


def clustered(n: int, bits: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    codes = rng.random((20, bits))[rng.integers(0, 20, n)] > 0.5
    return ih.pack(codes ^ (rng.random((n, bits)) < 2 / bits))


@pytest.mark.parametrize(("bits", "radius"), [(12, 2), (48, 3), (64, 0), (100, 9), (256, 31)])
def test_self_join_equals_numpy(bits: int, radius: int) -> None:
    codes = clustered(300, bits)
    expected = brute_force(codes, codes, radius, True)
    found = pairs_of(ih.self_join(codes, radius, bits, block=100))
    assert len(found) == len(expected) and set(found) == expected
    assert ih.count_pairs(codes, radius, bits) == len(expected)


def test_join_of_two_arrays_equals_numpy() -> None:
    a, b = clustered(200, 64), clustered(150, 64, 1)
    b[:50] = a[:50]
    expected = brute_force(a, b, 5, False)
    assert set(pairs_of(ih.join(a, b, 5))) == expected and len(expected) >= 50


def test_self_join_equals_faiss_range_search() -> None:
    faiss = pytest.importorskip("faiss")
    codes = clustered(6000, 64, 3)
    index = faiss.IndexBinaryFlat(64)
    index.add(codes)
    lims, distances, ids = index.range_search(codes, 7)  # faiss excludes the radius
    rows = np.repeat(np.arange(len(codes)), np.diff(lims.astype(np.int64)))
    keep = rows < ids
    expected = np.stack([rows[keep], ids[keep], distances[keep].astype(np.int64)])
    found = np.concatenate([np.stack([i, j, d]) for i, j, d in ih.self_join(codes, 6)], axis=1)
    assert np.array_equal(found[:, np.lexsort(found[1::-1])], expected[:, np.lexsort(expected[1::-1])])


def test_self_join_order_is_equal_for_all_thread_counts() -> None:
    codes = clustered(5000, 48)
    first, *others = (pairs_of(ih.self_join(codes, 4, threads=threads)) for threads in (1, 2, 7))
    assert all(other == first for other in others)


def test_blocks_and_views_that_are_kept_do_not_change() -> None:
    codes = clustered(3000, 16)
    kept, copies = [], []
    for number, block in enumerate(ih.self_join(codes, 5, 16, block=70_000)):
        parts = block if number % 2 else tuple(array[3:500] for array in block)  # the others are dropped
        kept.append(parts)
        copies.append([part.copy() for part in parts])
    assert len(kept) > 4
    for parts, expected in zip(kept, copies, strict=True):
        assert all(np.array_equal(part, copy) for part, copy in zip(parts, expected, strict=True))


def test_threads_that_share_a_join_get_each_pair_once() -> None:
    codes = np.random.default_rng(0).integers(0, 256, (2000, 2), dtype=np.uint8)
    join = ih.self_join(codes, 5, block=100)
    with ThreadPoolExecutor(4) as pool:
        blocks = [block for blocks in pool.map(list, [join] * 4) for block in blocks]
    assert sum(len(first) for first, _, _ in blocks) == ih.count_pairs(codes, 5)
    assert not list(join)


@contextmanager
def alarms(handler: Callable[..., object], seconds: float) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_ctrl_c_ends_a_join_that_another_thread_made() -> None:
    codes = np.random.default_rng(0).integers(0, 256, (100_000, 32), dtype=np.uint8)
    with ThreadPoolExecutor(1) as pool:
        join = pool.submit(ih.self_join, codes, 80).result()
    with pytest.raises(InterruptedError), alarms(interrupt_next, 0.01):
        next(join)
    with pytest.raises(ih.IdcwhError):  # not the next pairs, as if none were missing
        next(join)


def test_signal_handler_that_uses_the_running_join_raises() -> None:
    codes = np.random.default_rng(0).integers(0, 256, (100_000, 32), dtype=np.uint8)
    join = ih.self_join(codes, 80)
    with pytest.raises(ValueError, match="already running"), alarms(lambda *_: join.explain(), 0.01):
        next(join)


def test_self_join_of_no_and_one_code_is_empty() -> None:
    for n in (0, 1):
        assert not list(ih.self_join(np.zeros((n, 8), np.uint8), 64))
        assert ih.count_pairs(np.zeros((n, 8), np.uint8), 64) == 0
        assert ih.clusters(np.zeros((n, 8), np.uint8), 3).tolist() == [0] * n


def test_count_pairs_of_a_million_equal_codes() -> None:
    codes = np.full((1_000_000, 32), 7, np.uint8)
    assert ih.count_pairs(codes, 31) == 1_000_000 * 999_999 // 2
    assert not ih.clusters(codes, 31).any()


def test_self_join_beyond_max_pairs_states_their_number() -> None:
    codes = np.zeros((1000, 8), np.uint8)
    with pytest.raises(ValueError, match="499500"):
        list(ih.self_join(codes, 0, max_pairs=499_499))
    assert len(pairs_of(ih.self_join(codes, 0, max_pairs=499_500))) == 499_500


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (ValueError, {"radius": -1}),
        (TypeError, {"radius": 1.5}),
        (TypeError, {"radius": True}),
        (ValueError, {"radius": 65}),
        (ValueError, {"bits": 48}),
        (ValueError, {"bits": 0}),
        (ValueError, {"max_pairs": -1}),
        (ValueError, {"block": 0}),
        (TypeError, {"codes": np.zeros((3, 8))}),
        (ValueError, {"codes": np.zeros(8, np.uint8)}),
        (ValueError, {"codes": np.full((3, 8), 255, np.uint8), "bits": 60}),
    ],
)
def test_self_join_with_an_invalid_argument_raises(error: type[Exception], arguments: dict[str, object]) -> None:
    given = {"codes": np.zeros((3, 8), np.uint8), "radius": 3, **arguments}
    with pytest.raises(error):
        ih.self_join(**given)


def test_join_of_different_widths_raises() -> None:
    with pytest.raises(ValueError, match="b must be"):
        ih.join(np.zeros((3, 8), np.uint8), np.zeros((3, 6), np.uint8), 3)


def test_clusters_of_a_chain_are_one_component_and_many_keepers() -> None:
    codes = np.packbits(np.tri(9, 8, -1, dtype=bool), axis=1)  # each differs from the next in one bit
    assert ih.clusters(codes, 1).tolist() == [0] * 9
    assert ih.clusters(codes, 1, "greedy").tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4]
    with pytest.raises(ValueError, match="mode"):
        ih.clusters(codes, 1, "keepers")  # type: ignore[arg-type]


def test_index_self_join_returns_ids_of_eligible_items() -> None:
    codes = clustered(400, 64)
    ids = np.random.default_rng(0).permutation(400) + 2**40
    index = ih.HammingIndex(64)
    index.add(codes, ids)
    index.remove(ids[:20])
    keep = np.arange(400) >= 20
    keep[50:60] = False
    expected = {
        (min(ids[i], ids[j]), max(ids[i], ids[j]), d)
        for i, j, d in brute_force(codes, codes, 4, True)
        if keep[i] and keep[j]
    }
    for where in (ids[keep], keep[20:]):
        assert set(pairs_of(index.self_join(4, where))) == expected
        assert index.count_pairs(4, where) == len(expected)
    found, numbers = index.clusters(4, where=ids[keep])
    assert found.tolist() == ids[keep].tolist()
    assert numbers.tolist() == ih.clusters(codes[keep], 4).tolist()
    with pytest.raises(ValueError, match="where"):
        index.self_join(4, np.ones(3, bool))


def test_join_of_a_database_and_an_index(tmp_path: Path) -> None:
    a, b = clustered(100, 48), clustered(80, 48)
    index = ih.HammingIndex(48)
    index.add(b, np.arange(80) * 3 + 5)
    with ih.Database.create(tmp_path / "codes.bin", bits=48) as database:
        database.add(a, keys=[f"{i}.jpg" for i in range(100)])
        join = database.join(index, 3)
        database.add(a[:1], keys=["late.jpg"])  # after the join began
        expected = {(i, 3 * j + 5, d) for i, j, d in brute_force(a, b, 3, False)}
        assert set(pairs_of(join)) == expected and len(expected) > 80
        with pytest.raises(ValueError, match="other"):
            database.join(ih.HammingIndex(64), 3)


@pytest.mark.parametrize("other", [np.zeros((3, 6), np.uint8), None, "codes.bin"])
def test_join_with_what_cannot_be_searched_raises(tmp_path: Path, other: Any) -> None:
    with ih.Database.create(tmp_path / "codes.bin", bits=48) as database:
        for side in (database, database.snapshot(), ih.HammingIndex(48)):
            with pytest.raises(TypeError, match="other"):
                side.join(other, 3)


def test_join_of_databases_of_different_models_raises(tmp_path: Path) -> None:
    models: list[dict[str, object] | None] = [*({"model": {"sha256": name}} for name in "aab"), None]
    databases = [ih.Database.create(tmp_path / f"{i}.bin", bits=48, model=model) for i, model in enumerate(models)]
    for database in databases:
        database.add(clustered(20, 48))
    assert pairs_of(databases[0].join(databases[1], 3)) == pairs_of(databases[0].snapshot().join(databases[1], 3))
    for other in databases[2:]:
        with pytest.raises(ih.ModelMismatchError, match=other.path.name):
            databases[0].join(other, 3)
    with ih.Database.create(tmp_path / "wide.bin", bits=64) as wide:
        for other, path in ((wide, wide.path), (wide.snapshot(), "other")):
            with raises(ih.MismatchError, path=path):
                databases[3].join(other, 3)
    for database in databases:
        database.close()
