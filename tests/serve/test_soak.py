"""A soak of the service: mixed load for minutes, without failed requests and with flat memory, files and threads.

pytest -m soak tests/serve                              # 10 minutes
IDCWH_SOAK_SECONDS=3600 pytest -m soak tests/serve
"""

from __future__ import annotations

import base64
import os
import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import httpx2
import numpy as np
import pytest

import idcwh_search as ih
from support.commands import IMAGES
from support.server import Server, form

from .conftest import Collection

pytestmark = [pytest.mark.slow, pytest.mark.soak]

SECONDS = float(os.environ.get("IDCWH_SOAK_SECONDS", "600"))
CLIENTS = 4
PAUSE = 0.01  # seconds after each request
CHANGES = 0.2  # seconds between changes: each one adds bytes to the file, which are part of the memory
EXPECTED = {"change": {200, 404}, "bad": {400, 404, 413, 415, 422}}  # other requests succeed
UNLABELLED = 20_000  # items in addition to the images


class Client(threading.Thread):
    """A thread that sends random requests until `stop`. `wrong` has every answer with another status than expected."""

    def __init__(self, seed: int, url: str, collection: Collection, stop: threading.Event) -> None:
        super().__init__()
        self.random, self.stop = random.Random(seed), stop
        self.http = httpx2.Client(base_url=url, timeout=60)
        self.number, self.collection = seed, collection
        self.files = sorted((IMAGES / "test").rglob("*.png"))
        self.added = [f"{seed}/{number} 😀" for number in range(50)]
        self.changed = 0.0
        self.answers: Counter[tuple[str, int]] = Counter()
        self.wrong: list[str] = []
        self.requests = (
            self.code, self.by_key, self.by_id, self.base64, self.upload, self.hash, self.compare, self.image,
            self.thumbnail, self.item, self.info, self.page, self.refresh, self.change, self.bad,
        )  # fmt: skip

    def key(self) -> str:
        return self.random.choice(self.collection.keys)

    def file(self) -> Path:
        return self.random.choice(self.files)

    def search(self, **body: object) -> httpx2.Response:
        return self.http.post("/v1/search", json=body)

    def code(self) -> httpx2.Response:
        return self.search(code=f"{self.random.randbytes(2).hex()}00", k=self.random.choice([1, 20, 500]))

    def by_key(self) -> httpx2.Response:
        return self.search(key=self.key(), radius=self.random.randrange(8), where={"labels": ["cat"]})

    def by_id(self) -> httpx2.Response:
        return self.search(id=self.random.randrange(61), exclude_self=True, histogram=True, codes=True)

    def base64(self) -> httpx2.Response:
        return self.search(image=base64.b64encode(self.file().read_bytes()).decode())

    def upload(self) -> httpx2.Response:
        return self.http.post("/v1/search", files=form(self.file()), data={"k": "7"})

    def hash(self) -> httpx2.Response:
        return self.http.post("/v1/hash", files=form(self.file()))

    def compare(self) -> httpx2.Response:
        return self.http.post("/v1/compare", json={"a": {"id": 0}, "b": {"key": self.key()}})

    def image(self) -> httpx2.Response:
        return self.http.get(f"/v1/images/{quote(self.key())}")

    def item(self) -> httpx2.Response:
        return self.http.get(f"/v1/items/{quote(self.key())}")

    def info(self) -> httpx2.Response:
        return self.http.get("/v1/info")

    def page(self) -> httpx2.Response:
        return self.http.get(self.random.choice(["/", "/static/app.js", "/readyz", "/metrics"]))

    def refresh(self) -> httpx2.Response:
        return self.http.post("/v1/refresh")

    def thumbnail(self) -> httpx2.Response:
        return self.http.get(f"/v1/thumbnails/{quote(self.key())}?size={self.random.randrange(32, 100)}")

    def change(self) -> httpx2.Response:
        """Adds, replaces or removes an item, or reads one if the last change is too recent."""
        key = self.random.choice(self.added)
        if time.monotonic() < self.changed + CLIENTS * CHANGES:
            return self.http.get(f"/v1/items/{quote(key)}")
        self.changed = time.monotonic()
        how = self.random.randrange(3)
        if how == 0:
            return self.http.delete(f"/v1/items/{quote(key)}")
        if how == 1:
            return self.http.post("/v1/items", json={"key": key, "code": "123400", "label": f"new {self.number}"})
        return self.http.post("/v1/items", files=form(self.file()), data={"key": key})

    def bad(self) -> httpx2.Response:
        post = self.http.post
        return self.random.choice(
            [
                lambda: self.search(code="zz"),
                lambda: self.search(id=0, k=10**12),
                lambda: self.search(key="../%00"),
                lambda: post("/v1/search", content=b'{"id": NaN}', headers={"content-type": "application/json"}),
                lambda: post("/v1/search", files={"image": ("photo.jpg", self.file().read_bytes()[:300])}),
                lambda: post("/v1/search", files={"image": ("photo.jpg", b"text")}),
                lambda: post("/v1/search", content=b"--x", headers={"content-type": "multipart/form-data; boundary=x"}),
                lambda: post("/v1/search", content=bytes(33 * 2**20), headers={"content-type": "application/json"}),
                lambda: self.http.get("/v1/images/..%2f..%2fetc%2fpasswd"),
                lambda: self.http.get("/v1/thumbnails/" + "x" * 8192),
                lambda: self.http.get("/nothing"),
            ]
        )()

    def run(self) -> None:
        while not self.stop.is_set():
            send = self.random.choice(self.requests)
            try:
                status = send().status_code
            except httpx2.HTTPError as error:
                self.wrong.append(f"{send.__name__}: {error!r}")
                continue
            self.answers[send.__name__, status] += 1
            if status not in EXPECTED.get(send.__name__, {200}):
                self.wrong.append(f"{send.__name__}: {status}")
            time.sleep(PAUSE)
        self.http.close()


def sample(pid: int) -> tuple[int, int, int]:
    """Returns resident kilobytes, open files and threads of a process."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]), len(os.listdir(f"/proc/{pid}/fd")), int(fields["Threads"])  # noqa: PTH208


def typical(samples: list[tuple[int, int, int]]) -> list[float]:
    """Returns the first quartile of each column. Large bodies in flight affect the median."""
    return [statistics.quantiles(column, n=4)[0] for column in zip(*samples, strict=True)]


def test_soak_fails_no_request_and_stays_flat(
    start: Callable[..., Server], collection: Collection, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    if "soak" not in pytestconfig.option.markexpr:
        pytest.skip(f"takes {SECONDS:.0f} s; run it with: pytest -m soak tests/serve")
    path = collection.copy(tmp_path)
    with ih.Database.open(path, "r+") as database:
        codes = np.random.default_rng(0).integers(0, 256, (UNLABELLED, 3), np.uint8) & [255, 255, 15]
        database.add(codes.astype(np.uint8), keys=[f"more/{number}" for number in range(UNLABELLED)])
    server = start("--db", path, "--images", collection.images, "--writable", "--refresh", "1")
    stop = threading.Event()
    clients = [Client(seed, server.url, collection, stop) for seed in range(CLIENTS)]
    samples = []
    end = time.monotonic() + SECONDS
    for client in clients:
        client.start()
    while time.monotonic() < end and server.process.poll() is None:
        samples.append(sample(server.process.pid))
        time.sleep(min(1.0, SECONDS / 60))
    stop.set()
    for client in clients:
        client.join()

    answers = sum((client.answers for client in clients), Counter())
    third = len(samples) // 3
    middle, last = typical(samples[third : 2 * third]), typical(samples[2 * third :])
    print(
        f"{answers.total():,} answers; KB, files, threads: {middle} in the middle, {last} at the end; {dict(answers)}"
    )
    assert [line for client in clients for line in client.wrong] == []
    assert {name for name, _ in answers} == {send.__name__ for send in clients[0].requests}
    metrics = server.client.get("/metrics").text.splitlines()
    assert [line for line in metrics if line.startswith("idcwh_requests_total") and 'status="5' in line] == []
    assert [line for line in server.log if "Error" in line or "Traceback" in line] == []
    assert last[0] <= 1.05 * middle[0], "memory grows"
    assert last[1] <= middle[1] + 2 and last[2] <= middle[2] + 1, "files or threads grow"
    assert server.terminate() == 0
