"""A process of idcwh-serve, with its log and a client."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx2

from support.commands import program

STARTING = 120  # seconds


class Server:
    """A process of idcwh-serve at a free port. Leaving the block ends it."""

    def __init__(self, *arguments: object, environment: dict[str, str] | None = None) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("IDCWH_")}
        self.process = subprocess.Popen(
            [*program("idcwh-serve"), *map(str, arguments), "--port", "0"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**clean, **(environment or {})},
        )
        self.log: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        line = self.wait_for("ready at ")
        address = re.search(r"http://\S+:(\d+)", line)
        assert address is not None
        self.url, self.port = address.group(0).rstrip(":"), int(address.group(1))
        self.client = httpx2.Client(base_url=self.url, timeout=60)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._changed:
                self.log.append(line.rstrip("\n"))
                self._changed.notify_all()

    def wait_for(self, text: str, seconds: float = STARTING) -> str:
        """Returns the first line of the log with this text."""
        end = time.monotonic() + seconds
        with self._changed:
            while True:
                for line in self.log:
                    if text in line:
                        return line
                left = end - time.monotonic()
                assert left > 0 and self.process.poll() is None, (text, self.log)
                self._changed.wait(min(left, 1))

    def search(self, **body: Any) -> Any:
        """Returns the answer of a search, which must succeed."""
        answer = self.client.post("/v1/search", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def terminate(self) -> int:
        """Sends SIGTERM and returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STARTING)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()


def is_problem(answer: httpx2.Response, status: int, text: str = "") -> bool:
    """Returns True for a problem document of RFC 9457 with this status, and a detail that contains the text."""
    document = answer.json()
    return (
        answer.status_code == status
        and answer.headers["content-type"] == "application/problem+json"
        and set(document) == {"type", "title", "status", "detail"}
        and document["status"] == status
        and text in document["detail"]
    )


def form(path: Path) -> dict[str, Any]:
    """Returns the argument `files` of an upload."""
    return {"image": (path.name, path.read_bytes(), "application/octet-stream")}
