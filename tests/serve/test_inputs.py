"""Bad input: every request is answered with the right problem document, and the service stays up."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

from idcwh_search.serve import uploads
from idcwh_search.serve.problems import Problem
from idcwh_search.serve.server import MAX_HEAD
from support.server import Server, form, is_problem

from .conftest import Collection, pairs

JSON = {"content-type": "application/json"}


@pytest.fixture(autouse=True)
def _stays_up(server: Server) -> Iterator[None]:
    yield
    assert server.client.get("/healthz").status_code == 200 and server.process.poll() is None
    assert not [line for line in server.log if "Traceback" in line or "Error" in line]


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({"code": "000000", "k": 0}, 422, "k"),
        ({"code": "000000", "k": 10**12}, 422, "k"),
        ({"code": "000000", "k": -1}, 422, "k"),
        ({"code": "000000", "k": 10_001}, 422, "k"),
        ({"code": "000000", "k": 10**400}, 422, "k"),
        ({"code": "000000", "k": 5.0}, 422, "k"),
        ({"code": "000000", "k": 2.5}, 422, "k"),
        ({"code": "000000", "k": "5"}, 422, "k"),
        ({"code": "000000", "k": True}, 422, "k"),
        ({"code": "000000", "radius": -1}, 422, "radius"),
        ({"code": "000000", "radius": 1e300}, 422, "radius"),
        ({"code": "000000", "radius": 3, "k": 3}, 422, "radius"),
        ({"code": "000000", "radius": 3, "ties": True}, 422, "radius"),
        ({"code": "00000"}, 422, "digits"),
        ({"code": "00"}, 422, "expected 6"),
        ({"code": ""}, 422, "code"),
        ({"code": "0x0000"}, 422, "code"),
        ({"code": "00 00 "}, 422, "code"),
        ({"code": "٠٠٠٠٠٠"}, 422, "code"),
        ({"code": "000000\n"}, 422, "code"),
        ({"code": "0000f0"}, 422, "beyond bit 19"),
        ({"code": "0" * 1_000_000}, 422, "code"),
        ({"code": 0}, 422, "code"),
        ({"id": -1}, 422, "id"),
        ({"id": 2**63}, 422, "id"),
        ({"id": 1.5}, 422, "id"),
        ({"id": "1"}, 422, "id"),
        ({"key": ""}, 422, "key"),
        ({"key": "x" * 8192}, 404, "is missing"),
        ({"key": "x" * 100_000}, 422, "key"),
        ({"key": "\0"}, 404, "is missing"),
        ({"key": "../../etc/passwd"}, 404, "is missing"),
        ({"key": "😀"}, 404, "is missing"),
        ({"image": "rubbish"}, 422, "base64"),
        ({"image": "!!!!"}, 422, "base64"),
        ({"image": "é"}, 422, "base64"),
        ({"image": ""}, 422, "empty"),
        ({"image": "AAAA"}, 415, "image"),
        ({}, 422, "exactly one"),
        ({"id": 1, "code": "000000"}, 422, "exactly one"),
        ({"id": 1, "url": "http://127.0.0.1/"}, 422, "url"),
        ({"id": 1, "where": {"label": ["cat"]}}, 422, "where.label"),
        ({"id": 1, "where": {"labels": "cat"}}, 422, "where.labels"),
        ({"id": 1, "where": {"labels": [1]}}, 422, "where.labels"),
        ({"id": 1, "where": {"ids": [-1]}}, 422, "where.ids"),
        ({"id": 1, "where": []}, 422, "where"),
        ([], 422, "body"),
        ("text", 422, "body"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_search_with_an_invalid_field_is_a_problem(server: Server, body: Any, status: int, text: str) -> None:
    assert is_problem(server.client.post("/v1/search", json=body), status, text)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b'{"id": NaN}', 422),
        (b'{"id": 1, "k": NaN}', 422),
        (b'{"id": 1, "k": Infinity}', 422),
        (b'{"id": 1, "id": 2, "k": 1e2}', 422),
        (b'{"code": "\xff\xfe"}', 400),
        (b'{"key": "\\ud800"}', 400),
        (b"[" * 100_000, 400),
        (b'{"where":' * 5_000, 400),
        (b"\0" * 1000, 400),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_search_with_corrupt_json_is_a_problem(server: Server, body: bytes, status: int) -> None:
    answer = server.client.post("/v1/search", content=body, headers=JSON)
    assert is_problem(answer, answer.status_code) and answer.status_code in (status, 422)


def test_body_of_another_type_is_not_supported(server: Server) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "image/png", "", "application/json5"):
        assert is_problem(server.client.post("/v1/search", content=b"{}", headers={"content-type": kind}), 415)
    assert is_problem(server.client.post("/v1/compare", files={"image": b"x"}), 415)


def test_form_with_an_invalid_field_is_a_problem(server: Server, collection: Collection) -> None:
    file = form(collection.query)
    for data, text in (
        ({"k": "0"}, "k"),
        ({"k": "1.5"}, "k"),
        ({"k": "٣"}, "k"),
        ({"radius": "x"}, "radius"),
        ({"ties": "yes"}, "ties"),
        ({"where": "{"}, "where"),
        ({"where": '{"x": 1}'}, "where"),
        ({"url": "http://127.0.0.1"}, "url"),
        ({"key": "x"}, "key"),
    ):
        assert is_problem(server.client.post("/v1/search", files=file, data=data), 422, text), data
    assert is_problem(server.client.post("/v1/search", files={"file": b"x"}), 422)
    assert is_problem(server.client.post("/v1/hash", files=file, data={"k": "3"}), 422, "k")
    two = [("image", ("a", b"x")), ("image", ("b", b"x"))]
    assert server.client.post("/v1/search", files=two).status_code == 400
    many = {f"x{number}": "y" for number in range(100)}
    assert server.client.post("/v1/search", files=file, data=many).status_code == 400


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=", b"x"),
        ("multipart/form-data; boundary=b", b""),
        ("multipart/form-data; boundary=b", b"--b\r\n"),
        ("multipart/form-data; boundary=b", b"--b\r\nContent-Disposition: form-data; name=image\r\n\r\nab"),
        ("multipart/form-data; boundary=b", b"--b\r\nContent-Disposition: form-data\r\n\r\nab\r\n--b--"),
        ("multipart/form-data; boundary=b", b"no boundary at all"),
        ("multipart/form-data; boundary=b", b"--b\r\n" + b"X: y\r\n" * 10_000 + b"\r\n\r\n--b--"),
        ("multipart/form-data; boundary=" + "b" * 5000, b"--b"),
    ],
    ids=range(9),
)
def test_corrupt_form_is_a_problem(server: Server, kind: str, body: bytes) -> None:
    answer = server.client.post("/v1/search", content=body, headers={"content-type": kind})
    assert answer.status_code in (400, 422) and is_problem(answer, answer.status_code)


def png(width: int, height: int, rows: bytes) -> bytes:
    """Returns a grey PNG with these compressed rows."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def eps() -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (9, 9)).save(out, "EPS")
    return out.getvalue()


def fits() -> bytes:
    cards = ("SIMPLE  = T", "BITPIX  = 8", "NAXIS   = 2", "NAXIS1  = 9", "NAXIS2  = 9", "END")
    return "".join(card.ljust(80) for card in cards).ljust(2880).encode() + bytes(2880)


def test_image_that_cannot_be_decoded_is_a_problem(server: Server, collection: Collection) -> None:
    out = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (200, 200, 3), np.uint8)
    Image.fromarray(noise).save(out, "JPEG")
    compressor = zlib.compressobj(9)
    rows = compressor.compress(bytes(30_000 * 3751)) + compressor.flush()
    assert len(rows) < 120_000
    for content, status, text in (
        (png(30_000, 30_000, rows), 413, "too large"),
        (png(2**31 - 1, 2**31 - 1, b""), 413, "too large"),
        (eps(), 415, "image"),
        (fits(), 415, "image"),
        (b"%PDF-1.7", 415, "PDF"),
        (b"<svg/>", 415, "SVG"),
        (b"text", 415, "image"),
        (b"", 422, "empty"),
        (out.getvalue()[:5000], 422, "image"),
        (collection.query.read_bytes()[:600], 422, "image"),
        (b"\x89PNG\r\n\x1a\n", 422, "image"),
        (b"\xff\xd8\xff\xe0" + bytes(1000), 422, "image"),
    ):
        for path in ("/v1/search", "/v1/hash"):
            answer = server.client.post(path, files={"image": ("photo.jpg", content, "image/jpeg")})
            assert is_problem(answer, status, text), (content[:20], answer.text)


def test_too_large_body_is_refused(server: Server, collection: Collection) -> None:
    boundary = {"content-type": "multipart/form-data; boundary=b"}
    head = b'--b\r\nContent-Disposition: form-data; name="image"; filename="x"\r\n\r\n'
    image = head + collection.query.read_bytes() + b"\r\n--b--\r\n"

    def epilogue() -> Iterator[bytes]:  # chunked, without a length
        yield image
        for _ in range(50):
            yield bytes(2**20)

    assert is_problem(server.client.post("/v1/search", content=epilogue(), headers=boundary), 413)
    assert is_problem(server.client.post("/v1/search", content=image + bytes(50 * 2**20), headers=boundary), 413)
    small = server.client.post("/v1/search", content=image + bytes(2**20), headers=boundary)
    assert small.status_code == 200 and len(pairs(small.json())) == 20
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        connection.sendall(b"POST /v1/search HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
        connection.sendall(b"Content-Length: 99999999999\r\n\r\n{")
        assert b" 413 " in connection.recv(100)


@pytest.mark.parametrize(
    "path",
    [
        "../codes.bin",
        "..%2fcodes.bin",
        "%2e%2e/codes.bin",
        "cat/../../codes.bin",
        "cat/%00.png",
        "%00",
        "/etc/passwd",
        "//etc/passwd",
        "%2fetc%2fpasswd",
        "cat",
        "cat/",
        ".",
        "%ff%fe",
        "%",
        "%f0%9f%98%80" * 10,
        "x" * 8192,
        "model.onnx",
    ],
)
def test_path_of_no_item_is_not_found(server: Server, path: str) -> None:
    for route in ("items", "images", "thumbnails"):
        with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
            connection.sendall(f"GET /v1/{route}/{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
            head, _, body = answer.partition(b"\r\n\r\n")
            assert b" 404 " in head.splitlines()[0] and json.loads(body)["status"] == 404


def test_files_that_are_no_items_are_not_served(server: Server, collection: Collection) -> None:
    (collection.images / "secret.png").write_bytes(collection.query.read_bytes())
    assert is_problem(server.client.get("/v1/images/secret.png"), 404)


@pytest.mark.slow
def test_links_out_of_the_folder_are_not_served(start: Any, collection: Collection, tmp_path: Path) -> None:
    images = tmp_path / "images"
    (images / "cat").mkdir(parents=True)
    outside = tmp_path / "outside.png"
    outside.write_bytes(collection.query.read_bytes())
    (images / collection.keys[1]).symlink_to(outside)
    (images / collection.keys[2]).write_bytes(outside.read_bytes())
    (images / collection.keys[3]).write_text("no image")
    started = start("--db", collection.database, "--images", images)
    assert is_problem(started.client.get(f"/v1/images/{quote(collection.keys[1])}"), 404)
    assert started.client.get(f"/v1/images/{quote(collection.keys[2])}").content == outside.read_bytes()
    assert is_problem(started.client.get(f"/v1/thumbnails/{quote(collection.keys[3])}"), 422)
    assert is_problem(started.client.get(f"/v1/images/{quote(collection.keys[4])}"), 404)


def test_half_sent_requests_do_not_block_others(server: Server) -> None:
    body = json.dumps({"code": "000000", "key": "x" * 500}).encode()
    head = f"POST /v1/search HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    text = head.encode() + body
    connections = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(300)]
    try:
        for number, connection in enumerate(connections):
            connection.sendall(text[: 20 + number])
        for step in range(5):
            for number, connection in enumerate(connections):
                connection.sendall(text[20 + number + step :][:1])
            assert server.search(code="000000", k=1)["hits"]
            time.sleep(0.05)
    finally:
        for connection in connections:
            connection.close()
    assert server.search(code="000000", k=1)["hits"]


def test_body_of_one_byte_per_second_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "BODY_SECONDS", 0.2)
    received = []

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0.01)
        received.append(1)
        return {"type": "http.request", "body": b"{", "more_body": True}

    bodies = uploads.Bodies()
    with pytest.raises(Problem) as raised:
        asyncio.run(bodies.read(receive, {b"content-length": b"1000"}))
    assert raised.value.status == 408 and 2 < len(received) < 100
    assert bodies._buffered == 0


def test_body_that_never_begins_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "BODY_SECONDS", 0.1)
    with pytest.raises(Problem) as raised:
        asyncio.run(uploads.Bodies().read(asyncio.Event().wait, {b"content-length": b"1000"}))
    assert raised.value.status == 408


def test_images_that_wait_have_a_common_budget() -> None:
    bodies = uploads.Bodies()
    with bodies.held(200 * 2**20):
        with pytest.raises(Problem) as raised, bodies.held(60 * 2**20):
            pass
        assert raised.value.status == 429
        with bodies.held(50 * 2**20):
            pass
    assert bodies._buffered == 0


def answer_of(connection: socket.socket) -> tuple[bytes, dict[str, Any]]:
    """Returns the status line and the document of an answer that ends the connection."""
    head, _, body = b"".join(iter(lambda: connection.recv(65536), b"")).partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head
    return head.splitlines()[0], json.loads(body)


def test_too_large_headers_are_refused(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX: ".ljust(MAX_HEAD + 1, b"x"))
        line, document = answer_of(connection)
        assert line.startswith(b"HTTP/1.1 431 ") and document["status"] == 431
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        longest = b"%41" * 21_000
        connection.sendall(b"GET /v1/items/" + longest + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        line, document = answer_of(connection)
        assert line.startswith(b"HTTP/1.1 404 ") and "is missing" in document["detail"]


def test_large_bodies_do_not_count_as_headers(server: Server) -> None:
    body = json.dumps({"code": "000000", "where": {"labels": ["x" * MAX_HEAD, "y" * MAX_HEAD]}})
    for _ in range(3):
        assert server.client.post("/v1/search", content=body, headers=JSON).json()["hits"] == []


def test_request_that_is_not_http_is_a_problem(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        connection.sendall(b"GET\r\n\r\n")
        line, document = answer_of(connection)
        assert line == b"HTTP/1.1 400 Bad Request" and "not valid HTTP" in document["detail"]


def test_garbage_instead_of_http_is_refused(server: Server) -> None:
    for text in (b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"x" * 100_000 + b"\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
            connection.sendall(text)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
