"""The answers of idcwh-serve, compared with NumPy and Pillow."""

from __future__ import annotations

import asyncio
import base64
import io
from urllib.parse import quote

import httpx2
import numpy as np
import pytest
from PIL import Image

import idcwh_search as ih
from idcwh_search.serve.app import Application
from idcwh_search.serve.keys import Keys
from idcwh_search.serve.metrics import Metrics
from idcwh_search.serve.service import Service
from idcwh_search.serve.store import Store
from support.models import codes_by_hand
from support.server import Server, form, is_problem

from .conftest import Collection, pairs


def test_search_by_image_finds_the_nearest(server: Server, collection: Collection) -> None:
    (code,) = codes_by_hand([collection.query])
    expected = collection.ranking(code)[:5]
    answer = server.client.post("/v1/search", files=form(collection.query), data={"k": "5"}).json()
    assert pairs(answer) == expected and answer["code"] == code.tobytes().hex() and answer["bits"] == 20
    assert all(hit["key"] == collection.keys[hit["id"]] for hit in answer["hits"])
    assert all(hit["label"] == collection.labels[hit["id"]] for hit in answer["hits"])
    assert set(answer["took_ms"]) == {"decode", "preprocess", "encode", "search"}
    encoded = base64.b64encode(collection.query.read_bytes()).decode()
    assert pairs(server.search(image=encoded, k=5)) == expected
    assert pairs(server.search(code=code.tobytes().hex(), k=5)) == expected
    assert pairs(server.search(code=code.tobytes().hex().upper())) == collection.ranking(code)[:20]


def test_search_by_key_and_id_uses_the_stored_code(server: Server, collection: Collection) -> None:
    for id_ in (0, 31):
        expected = collection.ranking(collection.codes[id_])
        assert pairs(server.search(id=id_, k=61)) == expected
        assert pairs(server.search(key=collection.keys[id_], k=61)) == expected
        others = [pair for pair in expected if pair[1] != id_]
        assert pairs(server.search(id=id_, k=7, exclude_self=True)) == others[:7]
        near = [pair for pair in others if pair[0] <= 6]
        assert pairs(server.search(key=collection.keys[id_], radius=6, exclude_self=True)) == near


def test_search_within_a_radius_finds_all(server: Server, collection: Collection) -> None:
    for radius in (0, 5, 20, 65535):
        expected = [pair for pair in collection.ranking(collection.codes[3]) if pair[0] <= radius]
        answer = server.search(id=3, radius=radius)
        assert pairs(answer) == expected and "truncated" not in answer


def test_search_with_ties_returns_every_tie(server: Server, collection: Collection) -> None:
    ranking = collection.ranking(collection.codes[5])
    for k in (1, 4, 10):
        last = ranking[k - 1][0]
        assert pairs(server.search(id=5, k=k, ties=True)) == [pair for pair in ranking if pair[0] <= last]
    others = [pair for pair in ranking if pair[1] != 5]
    expected = [pair for pair in others if pair[0] <= others[3][0]]
    assert pairs(server.search(id=5, k=4, ties=True, exclude_self=True)) == expected


def test_search_where_limits_the_items(server: Server, collection: Collection) -> None:
    ranking = collection.ranking(collection.codes[0])

    def kept(**where: list) -> list[tuple[int, int]]:
        return pairs(server.search(id=0, k=100, where=where))

    cats = [pair for pair in ranking if collection.labels[pair[1]] == "cat"]
    assert kept(labels=["cat"]) == cats
    assert kept(key_prefixes=["dog/", "ship/"]) == [pair for pair in ranking if pair not in cats]
    assert kept(ids=[1, 2, 50, 10**15]) == [pair for pair in ranking if pair[1] in (1, 2, 50)]
    assert kept(labels=["cat"], ids=[1, 50]) == [pair for pair in cats if pair[1] == 1]
    assert kept(labels=["cat", "nothing"]) == kept(key_prefixes=["cat/", "nothing"]) == cats
    assert kept(labels=["nothing"]) == kept(key_prefixes=["nothing"]) == kept(labels=[]) == kept(ids=[]) == []
    assert kept() == ranking


def test_search_returns_codes_and_a_histogram(server: Server, collection: Collection) -> None:
    ranking = collection.ranking(collection.codes[9])
    counts = np.bincount([distance for distance, _ in ranking], minlength=21).tolist()
    answer = server.search(id=9, k=3, codes=True, histogram=True)
    assert answer["histogram"] == counts
    assert [hit["code"] for hit in answer["hits"]] == [collection.codes[id_].tobytes().hex() for _, id_ in ranking[:3]]
    counts[0] -= 1
    assert server.search(id=9, k=3, exclude_self=True, histogram=True)["histogram"] == counts


def test_hash_returns_the_code_of_the_index(server: Server, collection: Collection) -> None:
    for number, key in enumerate(collection.keys[:10]):
        path = collection.images / key
        answer = server.client.post("/v1/hash", files=form(path)).json()
        assert answer["code"] == collection.codes[number].tobytes().hex() and answer["bits"] == 20
    assert answer["model"] == ih.Encoder(collection.model).fingerprint
    text = base64.b64encode(path.read_bytes()).decode()
    assert server.client.post("/v1/hash", json={"image": text}).json()["code"] == answer["code"]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
def test_hash_of_each_format_equals_the_encoder(kind: str, server: Server, collection: Collection) -> None:
    out = io.BytesIO()
    Image.open(collection.query).convert("RGB").resize((90, 70)).save(out, kind)
    (code,) = ih.Encoder(collection.model)(out.getvalue())
    answer = server.client.post("/v1/hash", files={"image": ("x.bin", out.getvalue())})
    assert answer.json()["code"] == code.tobytes().hex()


def test_compare_returns_the_distance(server: Server, collection: Collection) -> None:
    image = base64.b64encode(collection.query.read_bytes()).decode()
    (code,) = codes_by_hand([collection.query])
    for a, b, first, second in (
        ({"id": 1}, {"key": collection.keys[2]}, collection.codes[1], collection.codes[2]),
        ({"image": image}, {"code": "ffff0f"}, code, np.array([255, 255, 15], np.uint8)),
    ):
        answer = server.client.post("/v1/compare", json={"a": a, "b": b}).json()
        assert answer == {"distance": int(np.unpackbits(first ^ second).sum()), "bits": 20}


def test_item_of_any_key_is_found(server: Server, collection: Collection) -> None:
    for id_, key in enumerate(collection.keys):
        answer = server.client.get(f"/v1/items/{quote(key)}").json()
        code = collection.codes[id_].tobytes().hex()
        assert answer == {"id": id_, "key": key, "label": collection.labels[id_], "code": code}


def test_image_is_the_file(server: Server, collection: Collection) -> None:
    key = collection.keys[0]
    answer = server.client.get(f"/v1/images/{quote(key)}")
    assert answer.content == (collection.images / key).read_bytes() and answer.headers["content-type"] == "image/png"
    again = server.client.get(f"/v1/images/{quote(key)}", headers={"if-none-match": answer.headers["etag"]})
    assert again.status_code == 304 and again.content == b""
    other = server.client.get(f"/v1/images/{quote(key)}", headers={"if-none-match": '"other"'})
    assert other.status_code == 200


def test_thumbnail_has_the_size(server: Server, collection: Collection) -> None:
    path = f"/v1/thumbnails/{quote(collection.keys[0])}"
    answer = server.client.get(path, params={"size": 32})
    assert Image.open(io.BytesIO(answer.content)).size == (32, 32) and answer.headers["content-type"] == "image/jpeg"
    again = server.client.get(path, params={"size": 32}, headers={"if-none-match": f"W/{answer.headers['etag']}"})
    assert again.status_code == 304
    assert server.client.get(path).headers["etag"] != answer.headers["etag"]
    for size in ("0", "31", "1025", "-1", "x", "1e3", "", "9" * 30):
        assert is_problem(server.client.get(path, params={"size": size}), 422, "size")


def test_info_describes_the_service(server: Server, collection: Collection) -> None:
    info = server.client.get("/v1/info").json()
    with ih.Database.open(collection.database) as database:
        assert info["generation"] == database.info()["commit"]
    assert (info["items"], info["bits"], info["max_results"]) == (61, 20, 10_000)
    assert info["labels"] == [{"name": "cat", "count": 20}, {"name": "dog", "count": 21}, {"name": "ship", "count": 20}]
    assert (info["writable"], info["images"], info["encoder"], info["provider"]) == (False, True, True, "cpu")
    assert info["version"] == ih.__version__ and info["age_s"] >= 0


def test_probes_and_metrics_answer(server: Server) -> None:
    assert server.client.get("/healthz").json() == {"status": "ok"}
    assert server.client.get("/readyz").json() == {"status": "ready", "problem": None}
    server.search(code="000000")
    text = server.client.get("/metrics").text
    for stage in ("decode", "preprocess", "encode", "search"):
        assert f'idcwh_stage_seconds_count{{stage="{stage}"}}' in text
    assert "idcwh_items 61.0" in text and "idcwh_ready 1.0" in text
    assert 'idcwh_requests_total{route="/v1/search",status="200"}' in text


def test_openapi_has_examples_and_exact_codes(server: Server) -> None:
    document = server.client.get("/openapi.json").json()
    assert document["components"]["schemas"]["ItemRequest"]["properties"]["code"]["minLength"] == 6
    search = document["paths"]["/v1/search"]["post"]
    assert search["requestBody"]["content"]["application/json"]["example"]["k"] == 10
    assert search["responses"]["200"]["content"]["application/json"]["example"]["hits"]


def test_unknown_paths_and_methods_are_problems(server: Server) -> None:
    assert is_problem(server.client.get("/nothing"), 404, "/nothing")
    assert is_problem(server.client.get("/v1/search"), 405)
    assert is_problem(server.client.put("/v1/info"), 405)
    assert is_problem(server.client.get("/v1/items/"), 404)


@pytest.mark.parametrize(("error", "status"), [(RuntimeError("secret"), 500), (MemoryError(), 503)])
def test_unexpected_errors_are_problems(
    error: Exception, status: int, collection: Collection, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail(request: object) -> None:
        raise error

    store = Store(collection.database)
    service = Service(store, Metrics(), encoder=None, images=None, load_keys=Keys, writable=False, threads=1)
    service.info = service.search = fail  # type: ignore[assignment, method-assign]

    async def answers() -> list[httpx2.Response]:
        transport = httpx2.ASGITransport(app=Application(service))
        async with httpx2.AsyncClient(transport=transport, base_url="http://x") as client:
            return [await client.get("/v1/info"), await client.post("/v1/search")]

    for answer in asyncio.run(answers()):
        assert is_problem(answer, status) and "secret" not in answer.text
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_changes_of_a_read_only_service_are_refused(server: Server, collection: Collection) -> None:
    assert is_problem(server.client.post("/v1/items", json={"code": "000000", "key": "x"}), 403, "--writable")
    assert is_problem(server.client.delete(f"/v1/items/{quote(collection.keys[0])}"), 403)


def test_missing_items_are_not_found(server: Server) -> None:
    for body in ({"id": 61}, {"id": 2**63 - 1}, {"key": "missing"}):
        assert is_problem(server.client.post("/v1/search", json=body), 404, "is missing")
    assert is_problem(server.client.get("/v1/items/missing"), 404, "missing")


def test_static_files_have_a_strict_policy(server: Server) -> None:
    for path in ("/static/%2e%2e/service.py", "/static//etc/passwd", "/static/%2e%2e", "/static/nothing.js"):
        assert is_problem(server.client.get(path), 404)
    for path in ("/", "/static/app.js"):
        answer = server.client.get(path)
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    assert server.client.get(path, headers={"if-none-match": answer.headers["etag"]}).status_code == 304
