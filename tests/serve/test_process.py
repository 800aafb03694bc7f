"""The process of idcwh-serve: start, keys, signals and the end."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import numpy as np
import pytest

import idcwh_search as ih
from support.commands import program
from support.server import Server, form, is_problem

from .conftest import Collection

pytestmark = pytest.mark.slow


def fails(*arguments: object, environment: dict[str, str] | None = None) -> tuple[int, str]:
    """Returns exit code and last line on stderr of a command that must not start to serve."""
    done = subprocess.run(
        [*program("idcwh-serve"), *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=120, env={**os.environ, **(environment or {})},
    )  # fmt: skip
    assert done.stdout == "" and "Traceback" not in done.stderr
    return done.returncode, done.stderr.splitlines()[-1]


def test_start_without_a_good_database_fails(collection: Collection, tmp_path: Path) -> None:
    corrupt = collection.copy(tmp_path)
    corrupt.write_bytes(corrupt.read_bytes()[:-100])
    flipped = tmp_path / "flipped.bin"
    content = bytearray(collection.database.read_bytes())
    content[len(content) // 2] ^= 1
    flipped.write_bytes(content)
    for path in (tmp_path / "missing.bin", corrupt, flipped, tmp_path, collection.model):
        status, line = fails("--db", path, "--port", 0)
        assert status == 1 and line.startswith("error: ") and str(path) in line


def test_start_with_contradicting_options_is_usage(collection: Collection, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret\n")
    for arguments in (
        ["--host", "example.org"],
        ["--no-auth", "--read-key-file", key],
    ):
        status, line = fails("--db", collection.database, "--port", 0, *arguments)
        assert status == 2 and line.startswith("error: ")
    (tmp_path / "empty").write_text("\n\n")
    for arguments in (["--read-key-file", tmp_path / "empty"], ["--admin-key-file", tmp_path / "missing"]):
        status, line = fails("--db", collection.database, "--port", 0, *arguments)
        assert status == 1 and str(arguments[1]) in line


def test_start_at_a_port_in_use_fails(server: Server, collection: Collection) -> None:
    status, line = fails("--db", collection.database, "--port", server.port)
    assert status == 1 and str(server.port) in line


def test_model_of_another_database_is_an_error(collection: Collection, tmp_path: Path, make_other: Path) -> None:
    status, line = fails("--db", collection.database, "--model", make_other, "--port", 0)
    assert status == 1 and str(make_other) in line


@pytest.fixture
def make_other(tmp_path: Path) -> Path:
    from support.models import write_model

    return write_model(tmp_path / "other.onnx", seed=1)


def test_database_without_a_model_answers_codes_only(
    start: Callable[..., Server], tmp_path: Path, collection: Collection
) -> None:
    with ih.Database.create(tmp_path / "bare.bin", bits=20) as database:
        database.add(collection.codes)
    server = start("--db", tmp_path / "bare.bin")
    assert server.search(code=collection.codes[0].tobytes().hex(), k=1)["hits"][0] == {
        "distance": 0, "id": 0, "key": None, "label": None,
    }  # fmt: skip
    assert is_problem(server.client.post("/v1/search", files=form(collection.query)), 422, "no model")
    info = server.client.get("/v1/info").json()
    assert (info["encoder"], info["model"], info["provider"], info["images"]) == (False, None, None, False)
    assert is_problem(server.client.get("/v1/images/x"), 404, "--images")


def test_empty_database_answers_an_empty_list(start: Callable[..., Server], tmp_path: Path) -> None:
    ih.Database.create(tmp_path / "empty.bin", bits=12).close()
    server = start("--db", tmp_path / "empty.bin")
    for body in ({"k": 5}, {"radius": 12}, {"k": 5, "ties": True}):
        assert server.search(code="0000", **body)["hits"] == []
    assert server.search(code="0000", histogram=True)["histogram"] == [0] * 13


def test_keys_are_required(start: Callable[..., Server], collection: Collection, tmp_path: Path) -> None:
    (tmp_path / "read").write_text("reader-1\nreader-2\n")
    server = start(
        "--db", collection.copy(tmp_path), "--read-key-file", tmp_path / "read", "--writable", "--host", "0.0.0.0",
        environment={"IDCWH_ADMIN_KEY": "admin-ü"},
    )  # fmt: skip
    client, admin = server.client, "admin-ü".encode()
    for path in ("/healthz", "/readyz", "/openapi.json"):
        assert client.get(path).status_code == 200
    for headers in (
        {},
        {"api-key": ""},
        {"api-key": "reader"},
        {"api-key": "reader-1 x"},
        {"api-key": b"\xff\xfe"},
        {"api-key": "x" * 8000},
        {"authorization": "Basic cmVhZGVyLTE="},
        {"authorization": "Bearer"},
    ):
        for path in ("/v1/info", "/metrics", "/v1/items/x", "/v1/images/x"):
            answer = client.get(path, headers=headers)
            assert is_problem(answer, 401) and answer.headers["www-authenticate"].startswith("Bearer")
        assert is_problem(client.post("/v1/search", json={"id": 0}, headers=headers), 401)
    for headers in ({"api-key": "reader-1"}, {"authorization": "bearer reader-2"}, {"api-key": admin}):
        assert client.get("/v1/info", headers=headers).status_code == 200
        assert client.post("/v1/search", json={"id": 0}, headers=headers).status_code == 200
    item = {"code": "000000", "key": "x"}
    assert is_problem(client.post("/v1/items", json=item), 401)
    assert is_problem(client.post("/v1/items", json=item, headers={"api-key": "reader-1"}), 403)
    assert is_problem(client.post("/v1/refresh", headers={"api-key": "reader-1"}), 403)
    assert is_problem(client.delete("/v1/items/x", headers={"api-key": "reader-1"}), 403)
    assert client.post("/v1/items", json=item, headers={"api-key": admin}).status_code == 200
    assert client.post("/v1/refresh", headers={"authorization": b"Bearer " + admin}).status_code == 200
    other = {"api-key": admin, "sec-fetch-site": "cross-site"}
    assert is_problem(client.post("/v1/items", json=item, headers=other), 403)

    (tmp_path / "read").write_text("reader-3\n")
    server.process.send_signal(signal.SIGHUP)
    server.wait_for("read 1 read and 1 admin keys")
    assert is_problem(client.get("/v1/info", headers={"api-key": "reader-1"}), 401)
    assert client.get("/v1/info", headers={"api-key": "reader-3"}).status_code == 200
    (tmp_path / "read").unlink()
    server.process.send_signal(signal.SIGHUP)
    server.wait_for("the keys remain")
    assert client.get("/v1/info", headers={"api-key": "reader-3"}).status_code == 200


def test_sigterm_finishes_requests_in_flight(start: Callable[..., Server], collection: Collection) -> None:
    server = start("--db", collection.database, "--drain", "600")
    body = b'{"id": 1, "k": 3}'
    head = (
        f"POST /v1/search HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    with socket.create_connection(("127.0.0.1", server.port), 60) as slow:
        slow.sendall(head + body[:5])
        server.process.send_signal(signal.SIGTERM)
        server.wait_for("terminating")
        assert is_problem_of_readiness(server, "draining")
        assert server.search(id=2, k=1)["hits"]  # new requests are answered until the listener closes
        server.process.send_signal(signal.SIGTERM)  # ends the drain
        while listens(server):
            time.sleep(0.02)
        slow.sendall(body[5:])
        answer = b"".join(iter(lambda: slow.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 200 ") and b'"hits"' in answer
    assert server.process.wait(60) == 0


def listens(server: Server) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", server.port)) == 0


def is_problem_of_readiness(server: Server, status: str) -> bool:
    answer = server.client.get("/readyz")
    return answer.status_code == 503 and answer.json()["status"] == status


def test_sigterm_under_load_loses_no_request(start: Callable[..., Server], collection: Collection) -> None:
    server = start("--db", collection.database)
    statuses: list[int | str] = []

    def work() -> None:
        with httpx2.Client(base_url=server.url, timeout=60) as client:
            while True:
                try:
                    statuses.append(client.post("/v1/search", json={"id": 3, "k": 2}).status_code)
                except httpx2.ConnectError:  # the listener is closed
                    return
                except httpx2.HTTPError as error:
                    statuses.append(repr(error))
                    return

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    while len(statuses) <= 50:
        time.sleep(0.02)
    assert server.terminate() == 0
    for thread in threads:
        thread.join()
    # A kept connection may be closed while the next request is on its way, which clients see as a disconnect.
    answered = [status for status in statuses if isinstance(status, int)]
    assert set(answered) == {200} and len(answered) > 50
    assert not [status for status in statuses if isinstance(status, str) and "Timeout" in status]


def test_interrupt_ends_the_process(start: Callable[..., Server], collection: Collection) -> None:
    server = start("--db", collection.database)
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(60) == 130 and server.log[-1] == "interrupted"


SLOW = """
import sys, time
from idcwh_search.cli import serve
from idcwh_search.serve.store import Store
def work(store):
    with store._changing:
        print("work begins", file=sys.stderr, flush=True)
        time.sleep(600)
Store.{method} = work
sys.exit(serve.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("method", ["load", "optimize"])
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_signal_ends_a_process_that_loads(method: str, number: int, status: int, collection: Collection) -> None:
    command = [sys.executable, "-c", SLOW.format(method=method), "--db", collection.database, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None and any("work begins" in line for line in process.stderr)
            process.send_signal(number)
            assert process.wait(60) == status
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()


@pytest.fixture
def many_files() -> Iterator[int]:
    """The number of files that this process and its servers may open, as many as the system permits."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    yield most
    resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))


def test_many_idle_connections_are_kept(many_files: int, start: Callable[..., Server], collection: Collection) -> None:
    server = start("--db", collection.database)
    count = min(10_000, many_files - 500)
    connections = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(count)]
    try:
        assert server.search(id=0)["hits"]
        for connection in (connections[0], connections[count // 2], connections[-1]):
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200 OK" in connection.recv(1000)
    finally:
        for connection in connections:
            connection.close()
    assert server.search(id=0)["hits"]


def test_large_answers_are_truncated(start: Callable[..., Server], tmp_path: Path) -> None:
    codes = np.random.default_rng(0).integers(0, 256, (30_000, 2), np.uint8)
    with ih.Database.create(tmp_path / "codes.bin", bits=16) as database:
        database.add(codes)
    server = start("--db", tmp_path / "codes.bin")
    distances = np.unpackbits(codes ^ codes[7], axis=1).sum(axis=1)
    order = np.argsort(distances, kind="stable")
    answer = server.search(id=7, radius=16)
    assert answer["truncated"] is True and len(answer["hits"]) == 10_000
    assert [hit["id"] for hit in answer["hits"]] == order[:10_000].tolist()
    assert [hit["id"] for hit in server.search(id=7, k=10_000)["hits"]] == order[:10_000].tolist()
    ties = server.search(id=7, k=1000, ties=True)
    assert len(ties["hits"]) == int((distances <= distances[order[999]]).sum()) and "truncated" not in ties
    few = server.search(id=7, radius=3)
    assert [hit["id"] for hit in few["hits"]] == [i for i in order.tolist() if distances[i] <= 3]
