"""Changes of codes.bin while it is served: by other processes, by the API, and by accidents."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

import idcwh_search as ih
from idcwh_search.cli import index
from idcwh_search.serve import store as store_module
from idcwh_search.serve.copies import DatabaseCopy
from idcwh_search.serve.store import Store
from support.models import codes_by_hand
from support.server import Server, form, is_problem

from .conftest import Collection, pairs

pytestmark = pytest.mark.slow

WRITER = """
import sys, numpy as np, idcwh_search as ih
with ih.Database.open(sys.argv[1], "r+") as database:
    for number in range(int(sys.argv[2])):
        code = np.array([[number % 256, number // 256, 0]], np.uint8)
        database.add(code, keys=[f"new/{number}"], labels=["new"])
        if number % 5 == 4:
            database.remove(keys=[f"new/{number - 1}"])
"""


def write(path: Path, count: int) -> None:
    """Adds items in another process."""
    subprocess.run([sys.executable, "-c", WRITER, path, str(count)], check=True, timeout=120)


def generation(path: Path) -> int:
    with ih.Database.open(path) as database:
        return int(database.info()["commit"])


def refreshed(server: Server) -> dict:
    answer = server.client.post("/v1/refresh")
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def path(collection: Collection, tmp_path: Path) -> Path:
    return collection.copy(tmp_path)


@pytest.fixture(scope="module")
def corrupted(collection: Collection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """A server that refreshes often, and its database, which tests corrupt and repair."""
    path = collection.copy(tmp_path_factory.mktemp("corrupted"))
    with Server("--db", path, "--refresh", "0.2") as started:
        yield started, path


def test_changes_of_another_process_are_loaded(start: Callable[..., Server], path: Path) -> None:
    server = start("--db", path, "--refresh", "0.2")
    write(path, 10)
    server.wait_for(f"generation {generation(path)}")
    answer = server.search(key="new/7", k=1, where={"labels": ["new"]})
    assert answer["hits"][0]["key"] == "new/7" and answer["generation"] == generation(path)
    assert is_problem(server.client.get("/v1/items/new/3"), 404)
    info = server.client.get("/v1/info").json()
    assert info["items"] == 69 and {"name": "new", "count": 8} in info["labels"]


def test_structures_are_built_while_the_service_is_ready(start: Callable[..., Server], tmp_path: Path) -> None:
    path = tmp_path / "codes.bin"
    codes = np.random.default_rng(0).integers(0, 256, (300_000, 8), np.uint8)
    with ih.Database.create(path, bits=64) as database:
        database.add(codes, keys=[f"key {number}" for number in range(len(codes))])
    server = start("--db", path, "--writable")
    with ih.Database.open(path) as database:
        found = zip(*map(np.ndarray.tolist, database.search(codes[:9], 20)), strict=True)
        wanted = [list(zip(*row, strict=True)) for row in found]
    scanned = [pairs(server.search(id=number)) for number in range(9)]
    added = server.client.post("/v1/items", json={"code": "ff" * 8, "key": "new"})
    assert added.status_code == 200 and added.json()["id"] == len(codes)
    server.wait_for("index structures: built")
    assert scanned == [pairs(server.search(id=number)) for number in range(9)] == wanted
    assert server.client.get("/v1/items/new").json()["code"] == "ff" * 8


def test_refresh_answers_what_changed(start: Callable[..., Server], path: Path) -> None:
    server = start("--db", path)
    before = generation(path)
    assert refreshed(server) == {"changed": False, "generation": before, "items": 61, "problem": None}
    write(path, 1)
    assert refreshed(server) == {"changed": True, "generation": before + 1, "items": 62, "problem": None}
    with ih.Database.open(path, "r+") as database:
        database.compact()
    assert refreshed(server)["items"] == 62 and server.search(key="new/0")["hits"][0]["key"] == "new/0"


def test_copy_during_commits_has_an_earlier_commit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    send, before = os.sendfile, generation(path)

    def commit_first(*arguments: int) -> int:
        monkeypatch.setattr(os, "sendfile", send)
        write(path, 3)
        return send(*arguments)

    monkeypatch.setattr(os, "sendfile", commit_first)
    store = Store(path)
    store.load()
    assert store.contents is not None and (store.contents.generation, store.contents.items) == (before, 61)
    assert store.refresh() and store.contents.generation == before + 3


def test_unexpected_error_keeps_the_contents(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(path)
    store.load()
    contents = store.contents

    def fail(*arguments: object, **options: object) -> None:
        raise RuntimeError("unexpected")

    write(path, 1)
    with monkeypatch.context() as patched:
        patched.setattr(DatabaseCopy, "extend", fail)
        assert not store.refresh() and store.problem == "unexpected" and store.contents is contents
    assert store.refresh(force=True) and store.problem is None
    monkeypatch.setattr(ih.Database, "optimize", fail)
    store.optimize()
    assert "unexpected; searches are scans" in capsys.readouterr().err


def test_cached_filters_have_a_size_limit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_FILTER_BYTES", 1000)
    store = Store(path)
    store.load()
    assert store.contents is not None
    cat, dog = (("cat",), None, None), (("dog",), None, None)  # 20 and 21 ids of 8 bytes
    ids = store.contents.where(cat)
    assert store.contents.where(dog) is store.contents.where(dog) and store.contents.where(cat) is ids
    everything = store.contents.where((None, ("",), None))
    assert store.contents.where((None, ("",), None)) is everything and len(everything) == 61
    assert store.contents.where((None, ("x" * 2000,), None)).size == 0
    assert store.contents.where(cat) is not ids and (store.contents.where(cat) == ids).all()


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def delete(path: Path) -> None:
    path.unlink()


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def text(path: Path) -> None:
    path.write_text("no database")


def shorter(path: Path) -> None:
    path.unlink()
    with ih.Database.create(path, bits=12) as database:
        database.add(np.zeros((3, 2), np.uint8))


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def of_another_model(path: Path) -> None:
    with ih.Database.create(path, bits=20, model={"model": {"sha256": "0" * 64}}, replace=True) as database:
        database.add(np.zeros((3, 3), np.uint8))


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def repair(path: Path, collection: Collection) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    path.write_bytes(collection.database.read_bytes())


@pytest.mark.parametrize(
    "accident",
    [cut, empty, delete, flip, zero, text, shorter, folder, of_another_model, pipe],
    ids=lambda f: f.__name__,
)
def test_bad_file_keeps_the_last_good_contents(
    accident: Callable[[Path], None], corrupted: tuple[Server, Path], collection: Collection
) -> None:
    server, path = corrupted
    server.log.clear()
    repair(path, collection)
    assert refreshed(server)["items"] == 61
    expected = pairs(server.search(id=3, radius=20))
    server.process.send_signal(signal.SIGSTOP)  # no refresh sees a part of the accident
    accident(path)
    server.process.send_signal(signal.SIGCONT)
    server.wait_for("the last good contents are served")
    assert pairs(server.search(id=3, radius=20)) == expected
    assert server.client.get(f"/v1/items/{quote(collection.keys[5])}").status_code == 200
    ready = server.client.get("/readyz")
    assert ready.status_code == 503 and ready.json()["status"] == "stale" and str(path) in ready.json()["problem"]
    assert server.client.get("/readyz?stale=ok").status_code == 200
    assert server.client.get("/healthz").status_code == 200
    assert refreshed(server)["problem"] == ready.json()["problem"]
    assert len([line for line in server.log if "last good" in line]) == 1

    repair(path, collection)
    server.wait_for("is served again")
    assert server.client.get("/readyz").status_code == 200
    write(path, 3)
    server.wait_for("64 items")


def test_another_good_file_replaces_the_contents(
    start: Callable[..., Server], collection: Collection, path: Path, tmp_path: Path
) -> None:
    server = start("--db", path)
    other = tmp_path / "other.bin"
    arguments = ["build", "--model", collection.model, "--images", collection.images / "cat", "--db", other]
    assert index.main([str(argument) for argument in arguments]) == 0
    other.replace(path)
    assert refreshed(server)["items"] == 20
    path.write_bytes(collection.database.read_bytes())  # in place
    assert refreshed(server)["items"] == 61
    assert pairs(server.search(id=3)) == collection.ranking(collection.codes[3])[:20]


def test_truncation_during_searches_fails_none(start: Callable[..., Server], tmp_path: Path) -> None:
    path = tmp_path / "codes.bin"
    codes = np.random.default_rng(0).integers(0, 256, (200_000, 16), np.uint8)
    with ih.Database.create(path, bits=128) as database:
        database.add(codes, keys=[f"key {number}" for number in range(len(codes))])
    server = start("--db", path, "--refresh", "0.1")
    expected = pairs(server.search(id=7, k=50))
    os.truncate(path, 5000)
    for _ in range(20):
        assert pairs(server.search(id=7, k=50)) == expected
    assert server.search(id=199_999, k=1)["hits"][0]["key"] == "key 199999"


def test_added_items_are_durable_and_found(start: Callable[..., Server], collection: Collection, path: Path) -> None:
    server = start("--db", path, "--images", collection.images, "--writable")
    client = server.client
    answer = client.post("/v1/items", files=form(collection.query), data={"key": "new/é 😀.png", "label": "cat"})
    (code,) = codes_by_hand([collection.query])
    assert answer.json() == {"id": 61, "key": "new/é 😀.png", "replaced": False, "generation": generation(path)}
    with ih.Database.open(path) as database:  # the answer came after the commit
        assert database.keys([61]) == ["new/é 😀.png"] and database.labels([61]) == ["cat"]
        assert (database.get(61) == code).all()
    assert server.search(code=code.tobytes().hex(), k=100)["hits"][0]["id"] == 61
    replaced = client.post("/v1/items", json={"key": "new/é 😀.png", "code": "ffff0f"}).json()
    assert (replaced["id"], replaced["replaced"]) == (61, True)
    item = client.get(f"/v1/items/{quote('new/é 😀.png')}").json()
    assert item == {"id": 61, "key": "new/é 😀.png", "label": None, "code": "ffff0f"}
    assert is_problem(client.get(f"/v1/images/{quote('new/é 😀.png')}"), 404)
    removed = client.delete(f"/v1/items/{quote('new/é 😀.png')}").json()
    assert removed == {"removed": 1, "generation": generation(path)}
    assert is_problem(client.delete(f"/v1/items/{quote('new/é 😀.png')}"), 404)
    assert server.search(id=0)["generation"] == generation(path)


def test_long_keys_are_added_found_and_removed(start: Callable[..., Server], path: Path) -> None:
    server = start("--db", path, "--writable")
    for key in ("x" * 8192, "😀" * 2048, f"{'y' * 255}/" * 32, "a b%2Fc?#&+\"'<>", "two\nlines\n"):
        added = server.client.post("/v1/items", json={"code": "123400", "key": key}).json()
        assert server.search(key=key, k=1)["hits"][0]["distance"] == 0
        address = f"/v1/items/{quote(key)}"
        assert server.client.get(address).json() == {"id": added["id"], "key": key, "label": None, "code": "123400"}
        assert is_problem(server.client.get(f"/v1/images/{quote(key)}"), 404)
        assert server.client.delete(address).json()["removed"] == 1
        assert is_problem(server.client.get(address), 404)


def test_full_disk_refuses_changes_and_recovers(start: Callable[..., Server], path: Path) -> None:
    server = start("--db", path, "--writable", "--refresh", "0.1")
    items = [{"code": "123400", "key": f"new/{number}", "label": "x" * 1000} for number in range(50)]
    _, most = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (path.stat().st_size + 10_000, most))
    answers = [server.client.post("/v1/items", json=item) for item in items]
    assert answers[0].status_code == 200 and is_problem(answers[-1], 503, str(path))
    assert server.client.get("/readyz").status_code == 200
    added = [item["key"] for item, answer in zip(items, answers, strict=True) if answer.status_code == 200]
    assert {hit["key"] for hit in server.search(code="123400", k=100)["hits"]} >= set(added)

    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (most, most))
    for item in items:
        assert server.client.post("/v1/items", json=item).status_code == 200
    with ih.Database.open(path) as database:
        database.verify()
        assert len(database) == 61 + len(items)


def test_invalid_items_are_refused(start: Callable[..., Server], collection: Collection, path: Path) -> None:
    server = start("--db", path, "--writable")
    before = path.read_bytes()
    for body, text_of in (
        ({"key": "x"}, "code"),
        ({"code": "000000"}, "key"),
        ({"code": "0000", "key": "x"}, "digits"),
        ({"code": "0000ff", "key": "x"}, "beyond"),
        ({"code": "000000", "key": ""}, "key"),
        ({"code": "000000", "key": "x" * 100_000}, "key"),
        ({"code": "000000", "key": "x", "label": 3}, "label"),
        ({"code": "000000", "key": "x", "id": 3}, "id"),
        ({"code": "000000", "key": "a\0b"}, "key"),
    ):
        assert is_problem(server.client.post("/v1/items", json=body), 422, text_of), body
    file = form(collection.query)
    assert is_problem(server.client.post("/v1/items", files=file), 422, "key")
    assert is_problem(server.client.post("/v1/items", files=file, data={"key": "x", "code": "000000"}), 422, "code")
    assert is_problem(server.client.post("/v1/items", files={"image": b"text"}, data={"key": "x"}), 415)
    assert is_problem(server.client.post("/v1/items", json={"code": "000000", "key": "../x"}), 422, "key")
    assert path.read_bytes() == before


def test_changes_of_a_file_that_is_not_served_are_refused(start: Callable[..., Server], path: Path) -> None:
    server = start("--db", path, "--writable")
    of_another_model(path)
    before = path.read_bytes()
    assert is_problem(server.client.post("/v1/items", json={"code": "000000", "key": "x"}), 503, "model does not match")
    assert is_problem(server.client.delete("/v1/items/x"), 503, "model does not match")
    with ih.Database.open(path) as database:
        assert len(database) == 3 and path.stat().st_size == len(before)


def test_changes_while_another_process_writes_wait(start: Callable[..., Server], path: Path) -> None:
    server = start("--db", path, "--writable")
    with ih.Database.open(path, "r+"):
        answer = server.client.post("/v1/items", json={"code": "000000", "key": "x"})
        assert is_problem(answer, 503, "locked") and answer.headers["retry-after"] == "1"
        assert server.client.get("/readyz").status_code == 200
    assert server.client.post("/v1/items", json={"code": "000000", "key": "x"}).status_code == 200


def test_refresh_under_load_fails_no_request(start: Callable[..., Server], collection: Collection, path: Path) -> None:
    server = start("--db", path, "--refresh", "0.05")
    stop = threading.Event()

    def work() -> None:
        seen = 0
        while not stop.is_set():
            answer = server.search(code="000000", k=200)
            ids = [hit["id"] for hit in answer["hits"]]
            assert answer["generation"] >= seen and len(ids) == len(set(ids)) and set(range(61)) <= set(ids)
            seen = answer["generation"]

    with ThreadPoolExecutor(4) as pool:
        workers = [pool.submit(work) for _ in range(4)]
        try:
            for count in (20, 40, 60):
                write(path, count)
                server.wait_for(f"generation {generation(path)}")
        finally:
            stop.set()
    for worker in workers:
        worker.result()


def test_kill_and_restart_keeps_every_answered_item(start: Callable[..., Server], path: Path) -> None:
    server = start("--db", path, "--writable")
    answered: list[str] = []

    def work() -> None:
        for number in range(10_000):
            try:
                answer = server.client.post("/v1/items", json={"code": "123400", "key": f"new/{number}"})
            except Exception:  # the process was killed
                return
            if answer.status_code == 200:
                answered.append(f"new/{number}")

    thread = threading.Thread(target=work)
    thread.start()
    while len(answered) < 20 and thread.is_alive():
        time.sleep(0.01)
    server.process.kill()
    thread.join()
    again = start("--db", path)
    for key in answered:
        assert again.client.get(f"/v1/items/{key}").status_code == 200
