"""Concurrent requests: the answers are those of single requests, and a full queue refuses."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search.serve.batching import Batcher, Pool
from idcwh_search.serve.problems import Problem
from support.commands import IMAGES
from support.server import Server, form

from .conftest import Collection


def without_times(answer: dict) -> dict:
    return {name: value for name, value in answer.items() if name != "took_ms"}


def concurrently(server: Server, requests: list[dict[str, Any]], clients: int) -> list[httpx2.Response]:
    """Sends requests by many threads at once, and returns their answers in order."""
    local = threading.local()

    def send(request: dict[str, Any]) -> httpx2.Response:
        if not hasattr(local, "client"):
            local.client = httpx2.Client(base_url=server.url, timeout=60)
        return local.client.post(**request)

    with ThreadPoolExecutor(clients) as pool:
        return list(pool.map(send, requests))


def batches(server: Server, stage: str) -> tuple[float, float]:
    """Returns number and sum of the sizes of the batches so far."""
    values = {}
    for line in server.client.get("/metrics").text.splitlines():
        for name in ("count", "sum"):
            if line.startswith(f'idcwh_batch_size_{name}{{stage="{stage}"}}'):
                values[name] = float(line.split()[1])
    return values["count"], values["sum"]


@pytest.mark.slow
def test_concurrent_searches_answer_as_single_ones(start: Callable[..., Server], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (300_000, 8), np.uint8)
    with ih.Database.create(tmp_path / "codes.bin", bits=64) as database:
        numbers = range(len(codes))
        database.add(codes, keys=[f"{i % 10}/{i}" for i in numbers], labels=[str(i % 7) for i in numbers])
    server = start("--db", tmp_path / "codes.bin", "--no-structures")
    options: list[dict[str, Any]] = [
        {"k": 10},
        {"k": 3},
        {"radius": 17},
        {"k": 5, "ties": True},
        {"k": 10, "where": {"labels": ["3"]}},
        {"k": 10, "where": {"key_prefixes": ["4/"]}, "exclude_self": True},
        {"k": 2, "histogram": True, "codes": True},
    ]
    bodies = [{"id": int(rng.integers(len(codes))), **options[i % len(options)]} for i in range(400)]
    single = [server.client.post("/v1/search", json=body) for body in bodies]
    count, total = batches(server, "search")
    assert count == total == len(bodies)
    while count == total:  # until some are put together
        many = concurrently(server, [{"url": "/v1/search", "json": body} for body in bodies], 24)
        assert [without_times(a.json()) for a in many] == [without_times(a.json()) for a in single]
        before, (count, total) = total, batches(server, "search")
        assert total == before + len(bodies)


@pytest.mark.slow
def test_concurrent_images_have_the_codes_of_single_ones(server: Server, collection: Collection) -> None:
    images = [collection.images / key for key in collection.keys] + sorted((IMAGES / "test" / "dog").iterdir())[:20]
    encoder = ih.Encoder(collection.model)
    expected = [encoder([str(path)])[0].tobytes().hex() for path in images]
    requests = [{"url": "/v1/hash", "files": form(path)} for path in images for _ in range(3)]
    count, total = before = batches(server, "encode")
    while count - before[0] == total - before[1]:  # until some are put together
        codes = [answer.json()["code"] for answer in concurrently(server, requests, 24)]
        assert codes == [code for code in expected for _ in range(3)]
        last, (count, total) = total, batches(server, "encode")
        assert total == last + len(requests)


@pytest.mark.slow
def test_overload_is_refused_with_retry_after(start: Callable[..., Server], collection: Collection) -> None:
    server = start("--db", collection.database, "--threads", "1")
    requests = [{"url": "/v1/hash", "files": form(collection.query)}] * 600
    answers = concurrently(server, requests, 200)
    statuses = Counter(answer.status_code for answer in answers)
    assert set(statuses) <= {200, 429} and statuses[200] > 0
    for answer in answers:
        if answer.status_code == 429:
            assert answer.headers["retry-after"] == "1" and answer.json()["status"] == 429
    assert server.client.post("/v1/hash", files=form(collection.query)).status_code == 200


def test_batcher_puts_waiting_jobs_together() -> None:
    sizes: list[int] = []
    started, first = threading.Event(), threading.Event()

    def run(jobs: Sequence[int]) -> list[int | Exception]:
        sizes.append(len(jobs))
        started.set()
        first.wait(60)
        return [ValueError(job) if job == 5 else 2 * job for job in jobs]

    async def main() -> list[Any]:
        with ThreadPoolExecutor(1) as pool:
            batcher = Batcher[int, int]("work", run, pool, most=4, room=6)
            jobs = [asyncio.create_task(batcher(0))]
            assert await asyncio.to_thread(started.wait, 60)
            jobs += [asyncio.create_task(batcher(number)) for number in range(1, 9)]
            await asyncio.sleep(0)  # each task runs until it waits
            jobs[3].cancel()
            first.set()
            return await asyncio.gather(*jobs, return_exceptions=True)

    results = asyncio.run(main())
    assert results[:3] == [0, 2, 4] and results[4] == 8 and results[6] == 12
    assert isinstance(results[3], asyncio.CancelledError) and isinstance(results[5], ValueError)
    assert all(isinstance(result, Problem) and result.status == 429 for result in results[7:])
    assert sizes == [1, 4, 1]


def test_full_pool_refuses_calls() -> None:
    release = threading.Event()

    async def main() -> list[Any]:
        pool = Pool("work", threads=1, room=2)
        calls = [asyncio.create_task(pool(release.wait, 60)) for _ in range(4)]
        await asyncio.sleep(0)  # each task runs until it waits
        release.set()
        return [*(await asyncio.gather(*calls, return_exceptions=True)), await pool(release.is_set)]

    *called, refused, later = asyncio.run(main())
    assert called == [True] * 3 and later is True
    assert isinstance(refused, Problem) and (refused.status, refused.headers) == (429, {"retry-after": "1"})


def test_batcher_runs_fast_jobs_in_the_loop() -> None:
    threads: list[str] = []

    def run(jobs: Sequence[int]) -> list[int]:
        threads.append(threading.current_thread().name)
        if jobs[0] == 3:
            raise ValueError("all")
        return list(jobs)

    async def main() -> list[Any]:
        with ThreadPoolExecutor(1) as pool:
            batcher = Batcher[int, int]("work", run, pool, most=9, room=9, inline=lambda jobs: True)
            first = await asyncio.gather(*(batcher(number) for number in (0, 1, 2)))
            return [*first, *(await asyncio.gather(batcher(3), return_exceptions=True))]

    *results, error = asyncio.run(main())
    assert results == [0, 1, 2] and isinstance(error, ValueError)
    assert threads == ["MainThread", "MainThread"]
