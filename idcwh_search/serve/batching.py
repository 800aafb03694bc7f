"""Queues that put waiting requests together, and pools with a bounded queue.

A batch starts as soon as nothing runs, with everything that waits then. An idle service therefore adds no delay, and a
busy one makes larger batches. A full queue refuses requests.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from .problems import busy

Job = TypeVar("Job")
Result = TypeVar("Result")


class Batcher(Generic[Job, Result]):
    """A bounded queue in front of a function of many jobs.

    Args:
        name: name for errors.
        run: function from jobs to one result or exception per job. It runs in the executor, one call at a time.
        executor: threads.
        most: largest batch.
        room: jobs that may wait.
        inline: returns True for jobs that take less time than a change of threads. They run in the event loop.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[Sequence[Job]], Sequence[Result | Exception]],
        executor: Executor,
        *,
        most: int,
        room: int,
        inline: Callable[[Sequence[Job]], bool] = lambda jobs: False,
    ) -> None:
        self._name, self._run, self._executor, self._inline = name, run, executor, inline
        self._most, self._room = most, room
        self._waiting: deque[tuple[Job, asyncio.Future[Result]]] = deque()
        self._busy = False

    def __len__(self) -> int:
        """Returns the number of waiting jobs."""
        return len(self._waiting)

    def check_room(self) -> None:
        """Raises Problem with status 429 if the queue is full."""
        if len(self._waiting) >= self._room:
            raise busy(self._name)

    async def __call__(self, job: Job) -> Result:
        """Returns the result of a job. Raises its exception, or Problem with status 429 if the queue is full."""
        self.check_room()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((job, future))
        if not self._busy:
            self._busy = True
            loop.call_soon(self._start)  # after the other requests that have already arrived
        return await future

    def _start(self) -> None:
        batch: list[tuple[Job, asyncio.Future[Result]]] = []
        while self._waiting and len(batch) < self._most:
            job, future = self._waiting.popleft()
            if not future.done():  # the client has disconnected
                batch.append((job, future))
        if not batch:
            self._busy = False
            return
        jobs = [job for job, _ in batch]
        loop = asyncio.get_running_loop()
        if self._inline(jobs):
            self._finish([future for _, future in batch], self._guarded(jobs))
            return
        futures = [future for _, future in batch]
        running = loop.run_in_executor(self._executor, self._guarded, jobs)
        running.add_done_callback(lambda done: self._finish(futures, done.result()))

    def _guarded(self, jobs: Sequence[Job]) -> Sequence[Any]:
        try:
            return self._run(jobs)
        except Exception as error:
            return [error] * len(jobs)

    def _finish(self, futures: Sequence[asyncio.Future[Result]], results: Sequence[Any]) -> None:
        for future, result in zip(futures, results, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._start)
        else:
            self._busy = False


class Pool:
    """Threads with a bounded number of waiting calls."""

    def __init__(self, name: str, threads: int, room: int) -> None:
        self._name, self._room, self._calls = name, threads + room, 0
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"idcwh-{name}")

    async def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns function(*arguments). Raises Problem with status 429 if too many calls wait."""
        if self._calls >= self._room:
            raise busy(self._name)
        self._calls += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, function, *arguments)
        finally:
            self._calls -= 1
