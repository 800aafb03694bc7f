"""The process of the service: loading beside the probes, signals, and the end without lost requests."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .._util.console import note
from .._util.wording import counted
from ..errors import InvalidInputError
from .app import Application
from .problems import Problem
from .service import Service

MAX_HEAD = 128 * 2**10
"""Most bytes of the line and the headers of a request. The parser limits the path alone to 64 KiB."""
_GRACE = 30  # seconds for requests in flight


class _Protocol(HttpToolsProtocol):
    """HTTP with a limit on the size of headers, which the parser lacks. Its errors are problem documents."""

    _head = 0  # bytes since the end of headers, a part of a body, or the end of a request

    def data_received(self, data: bytes) -> None:
        self._head += len(data)
        super().data_received(data)
        if self._head > MAX_HEAD and not self.transport.is_closing():
            self._refuse(Problem(431, f"headers: are too large (at most {MAX_HEAD:,} bytes)"))

    def on_headers_complete(self) -> None:
        self._head = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._head = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(Problem(400, "request: is not valid HTTP"))

    def _refuse(self, problem: Problem) -> None:
        """Answers a request that the application does not get, and closes the connection."""
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            answer = problem.response()
            lines = [f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}".encode()]
            lines += [name + b": " + value for name, value in answer.raw_headers]
            self.transport.write(b"\r\n".join([*lines, b"connection: close", b"", bytes(answer.body)]))
        self.transport.close()


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:  # they are handled below
        yield


def _listening(host: str, port: int) -> socket.socket:
    """Returns a socket that listens. Raises InvalidInputError if the address is invalid or in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        problem = f"cannot be used ({error.strerror or error})"
        raise InvalidInputError(problem, path=f"{host}:{port}", hint="pass another --host or --port") from error


class Runner:
    """A service in this process, until a signal ends it.

    Args:
        service: the service.
        host, port: address of the service; port 0 for a free one.
        refresh: seconds between checks of the file; None for no checks.
        drain: seconds after SIGTERM in which the service is not ready but still accepts connections.
    """

    def __init__(self, service: Service, host: str, port: int, *, refresh: float | None, drain: float) -> None:
        self._service, self._refresh, self._drain = service, refresh, drain
        self._socket = _listening(host, port)
        config = uvicorn.Config(
            Application(service),
            http=_Protocol,
            loop="uvloop",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # addresses of clients are not used
            timeout_keep_alive=75,
            timeout_graceful_shutdown=_GRACE,
        )
        self._server = _Server(config)
        self._interrupted = False
        self._error: BaseException | None = None

    def run(self) -> bool:
        """Serves, and returns True after SIGTERM and False after Ctrl-C. Raises the error of the first loading."""
        uvloop.run(self._main())
        if self._error is not None:
            raise self._error
        return not self._interrupted

    async def _main(self) -> None:
        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Task[Any]] = []

        def start(work: Any) -> None:
            tasks.append(loop.create_task(work))

        handlers: dict[int, Callable[[], None]] = {
            signal.SIGTERM: lambda: start(self._end()),
            signal.SIGINT: self._interrupt,
            signal.SIGHUP: self._service.reload_keys,
        }
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        start(self._load())
        try:
            await self._server.serve([self._socket])
        finally:
            for task in tasks:
                task.cancel()
        # Requests have ended. A thread that still loads the file or builds structures would delay the end, although its
        # results are in memory only.
        if self._service.store.busy:
            if self._interrupted:
                note("interrupted")
            os._exit(128 + signal.SIGINT if self._interrupted else 0)

    async def _load(self) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._service.store.load)
        except Exception as error:
            self._error = error
            self._server.should_exit = True
            return
        contents = self._service.store.contents
        assert contents is not None
        while not self._server.started:
            await asyncio.sleep(0.01)
        host, port = self._socket.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        note(
            f"ready at http://{shown}:{port}: {counted(contents.items, 'item')} of {contents.bits} bits, "
            f"generation {contents.generation}"
        )
        await asyncio.get_running_loop().run_in_executor(None, self._service.store.optimize)
        if self._refresh is not None:
            await self._service.poll(self._refresh)

    async def _end(self) -> None:
        if self._service.draining:
            self._server.should_exit = True
            return
        self._service.draining = True
        note("terminating: requests in flight are finished")
        await asyncio.sleep(self._drain)
        self._server.should_exit = True

    def _interrupt(self) -> None:
        self._interrupted = self._service.draining = True
        self._server.should_exit = True
