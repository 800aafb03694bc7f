"""The service behind the API: one database, one encoder, their queues, and the handling of each request."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from starlette.requests import Request
from starlette.responses import Response

from .. import __version__
from .._util.console import note
from .._util.hardware import available_cores
from ..database.database import Database, DatabaseSnapshot, part
from ..encoder.encoder import Encoder
from ..errors import IdcwhError, LockedError
from .batching import Batcher, Pool
from .images import SIZES, ImageFiles
from .keys import Keys
from .metrics import CONTENT_TYPE, Metrics
from .parsing import code_of, code_text, form_options, image_of, key_of, parsed, validated
from .problems import Problem
from .schemas import CompareRequest, ImageRequest, ItemRequest, NewItem, Options, Query, SearchRequest, Where
from .searching import MAX_RESULTS, Found, Search, Searcher
from .store import Contents, Store
from .uploads import FORM, Bodies, Decoded, decode, form, from_base64

DEFAULT_K = 20
_SEARCHES, _BATCH = 1024, 64  # waiting searches, and searches per batch
_IMAGES = 64  # waiting images, per stage
_FILES = 256  # waiting images and thumbnails


@dataclass
class Encoded:
    """The code of an image, and the seconds of its stages."""

    code: bytes
    decode: float = 0.0
    preprocess: float = 0.0
    encode: float = 0.0


class Service:
    """The handlers of the API. Each gets a request and returns its answer, or raises Problem.

    Args:
        store: the database.
        encoder: the model; None if queries cannot be images.
        images: folder of the images; None if they are not served.
        load_keys: function that reads the API keys.
        writable: True if items may be added and removed.
        threads: number of threads of a search, and of decoders; None for one per core.
    """

    def __init__(
        self,
        store: Store,
        metrics: Metrics,
        *,
        encoder: Encoder | None,
        images: Path | None,
        load_keys: Callable[[], Keys],
        writable: bool,
        threads: int | None,
    ) -> None:
        self.store, self.metrics, self.encoder = store, metrics, encoder
        self.draining = False
        self.keys, self._load_keys = load_keys(), load_keys
        self._writable = writable
        self._images = None if images is None else ImageFiles(images)
        self.bodies = Bodies()
        cores = threads or available_cores()
        self._decoders = Pool("decode", cores, _IMAGES)
        self._files = Pool("images", cores, _FILES)
        self._changes = Pool("changes", 1, _IMAGES)
        searcher = Searcher(metrics, threads)
        self._search = Batcher[Search, Found](
            "search",
            searcher,
            ThreadPoolExecutor(1, thread_name_prefix="idcwh-search"),
            most=_BATCH,
            room=_SEARCHES,
            inline=searcher.inline,
        )
        self._encode = Batcher[Decoded, Encoded](
            "encode",
            self._encode_batch,
            ThreadPoolExecutor(1, thread_name_prefix="idcwh-encode"),
            most=1 if encoder is None else encoder.batch_size,
            room=_IMAGES,
        )
        metrics.gauge("idcwh_items", "Items that are searched", lambda: store.contents.items if store.contents else 0)
        metrics.gauge(
            "idcwh_generation", "Commit that is searched", lambda: store.contents.generation if store.contents else 0
        )
        metrics.gauge("idcwh_ready", "1 if the service is ready", lambda: float(self.state()[0] == "ready"))
        metrics.gauge("idcwh_age_seconds", "Time since the last check of the file", self._age)
        metrics.gauge("idcwh_waiting_searches", "Searches that wait", lambda: len(self._search))
        metrics.gauge("idcwh_waiting_images", "Images that wait for the encoder", lambda: len(self._encode))

    # state

    def state(self) -> tuple[str, str | None]:
        """Returns "ready", "loading", "stale" or "draining", and the reason if it is stale."""
        if self.draining:
            return "draining", None
        if self.store.contents is None:
            return "loading", None
        if self.store.problem is not None:
            return "stale", self.store.problem
        return "ready", None

    def reload_keys(self) -> None:
        """Reads the keys again. The old ones remain valid if that fails."""
        try:
            keys = self._load_keys()
        except (IdcwhError, OSError) as error:
            note(f"{error}; the keys remain as they were")
            return
        if self.keys and not keys:
            note("no keys were found; the keys remain as they were")
            return
        self.keys = keys
        note(f"read {len(keys.read)} read and {len(keys.admin)} admin keys")

    def _age(self) -> float:
        return time.monotonic() - self.store.checked

    def _contents(self) -> Contents:
        contents = self.store.contents
        if contents is None:
            raise Problem(503, "the database is loading; try again later", {"retry-after": "1"})
        return contents

    # probes

    async def ready(self, request: Request) -> Response:
        status, problem = self.state()
        ready = status == "ready" or (status == "stale" and request.query_params.get("stale") == "ok")
        return _json({"status": status, "problem": problem}, 200 if ready else 503)

    async def metrics_text(self, request: Request) -> Response:
        return Response(self.metrics.text(), media_type=CONTENT_TYPE)

    async def info(self, request: Request) -> Response:
        contents = self._contents()
        labels = await self._files(lambda: contents.labels)
        model = part(contents.manifest, "model").get("sha256")
        return _json(
            {
                "items": contents.items,
                "bits": contents.bits,
                "generation": contents.generation,
                "model": model,
                "provider": None if self.encoder is None else self.encoder.device,
                "age_s": round(self._age(), 3),
                "labels": [{"name": name, "count": count} for name, count in labels.items()],
                "writable": self._writable,
                "images": self._images is not None,
                "encoder": self.encoder is not None,
                "max_results": MAX_RESULTS,
                "version": __version__,
            }
        )

    # queries

    async def search(self, request: Request) -> Response:
        contents = self._contents()
        self._search.check_room()  # before its body is read
        body, kind = await self._body(request)
        image: bytes | None = None
        query: Query | None = None
        wanted: Options
        if kind == FORM:
            fields = await form(body, request.headers["content-type"])
            image = image_of(fields)
            wanted = form_options(fields)
        else:
            query = wanted = parsed(SearchRequest, body)
        encoded, own = await self._resolve(contents, query, image)
        where = None
        if wanted.where is not None:
            where = await self._where(contents, wanted.where)
        kind, number = ("k", wanted.k or DEFAULT_K) if wanted.radius is None else ("radius", wanted.radius)
        if wanted.ties:
            kind = "ties"
        excluded = own if wanted.exclude_self else ()
        began = time.perf_counter()
        found = await self._search(
            Search(contents, encoded.code, kind, number, where, excluded, wanted.codes, wanted.histogram)
        )
        answer: dict[str, Any] = {
            "hits": found.hits,
            "bits": contents.bits,
            "generation": contents.generation,
            "code": code_text(encoded.code, contents),
        }
        if found.histogram is not None:
            answer["histogram"] = found.histogram
        if found.truncated:
            answer["truncated"] = True
        answer["took_ms"] = _took(encoded, time.perf_counter() - began)
        return _json(answer)

    async def hash(self, request: Request) -> Response:
        contents = self._contents()
        body, kind = await self._body(request)
        if kind == FORM:
            fields = await form(body, request.headers["content-type"])
            image = image_of(fields)
            if fields:
                raise Problem(422, f"{next(iter(fields))}: is not a field of the form (expected image)")
        else:
            image = from_base64(parsed(ImageRequest, body).image)
        encoded = await self._encoded(image)
        took = _took(encoded, 0.0)
        del took["search"]
        model = None if self.encoder is None else self.encoder.fingerprint
        code = code_text(encoded.code, contents)
        return _json({"code": code, "bits": contents.bits, "model": model, "took_ms": took})

    async def compare(self, request: Request) -> Response:
        contents = self._contents()
        body, _ = await self._body(request, forms=False)
        wanted = parsed(CompareRequest, body)
        (first, _), (second, _) = await asyncio.gather(
            self._resolve(contents, wanted.a, None), self._resolve(contents, wanted.b, None)
        )
        distance = (int.from_bytes(first.code, "little") ^ int.from_bytes(second.code, "little")).bit_count()
        return _json({"distance": distance, "bits": contents.bits})

    async def _body(self, request: Request, forms: bool = True) -> tuple[bytes, str]:
        """Returns the body of a request and its type, JSON or a form. Raises Problem with status 415 for others."""
        headers = dict(request.scope["headers"])
        kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
        if kind != "application/json" and not (forms and kind == FORM):
            expected = f"application/json or {FORM}" if forms else "application/json"
            raise Problem(415, f"content-type: is not supported (found {kind[:100] or 'none'}, expected {expected})")
        return await self.bodies.read(request.receive, headers), kind

    async def _resolve(
        self, contents: Contents, query: Query | None, image: bytes | None
    ) -> tuple[Encoded, tuple[int, ...]]:
        """Returns the code of a query, and the ids of its own items."""
        if image is not None:
            return await self._encoded(image), ()
        assert query is not None
        if query.code is not None:
            return Encoded(code_of(query.code, contents)), ()
        if query.image is not None:
            return await self._encoded(from_base64(query.image)), ()
        ids = (query.id,) if query.id is not None else await self._ids(contents, query.key or "")
        return Encoded(_stored(contents, ids[0])), ids

    async def _ids(self, contents: Contents, key: str) -> tuple[int, ...]:
        """Returns the ids of a key, ascending. Raises Problem with status 404 if there is none."""
        try:
            found = await self._files(partial(contents.snapshot.find, [key]))
        except UnicodeEncodeError:
            found = np.empty(0, np.int64)
        if not len(found):
            raise _missing(key)
        return tuple(found.tolist())

    async def _where(self, contents: Contents, where: Where) -> np.ndarray | None:
        wanted = tuple(None if part is None else tuple(part) for part in (where.labels, where.key_prefixes, where.ids))
        if all(part is None for part in wanted):
            return None
        found: np.ndarray = await self._files(contents.where, wanted)
        return found

    # images

    async def _encoded(self, content: bytes) -> Encoded:
        if self.encoder is None:
            raise Problem(422, "image: is not supported, because the service has no model; send a code")
        with self.bodies.held(len(content)):
            decoded: Decoded = await self._decoders(decode, content, self.encoder.preprocess)
        self.metrics.stages["decode"].observe(decoded.decode)
        self.metrics.stages["preprocess"].observe(decoded.preprocess)
        began = time.perf_counter()
        encoded = await self._encode(decoded)
        encoded.encode = time.perf_counter() - began
        return encoded

    def _encode_batch(self, jobs: Any) -> list[Encoded]:
        assert self.encoder is not None
        began = time.perf_counter()
        codes = self.encoder.encode(np.stack([job.pixels for job in jobs]))
        seconds = time.perf_counter() - began
        self.metrics.batches["encode"].observe(len(jobs))
        for _ in jobs:
            self.metrics.stages["encode"].observe(seconds)
        return [Encoded(code.tobytes(), job.decode, job.preprocess) for job, code in zip(jobs, codes, strict=True)]

    async def image(self, request: Request) -> Response:
        return await self._image(request, lambda files, key, match: files.file(key, match))

    async def thumbnail(self, request: Request) -> Response:
        text = request.query_params.get("size", "256")
        least, most = SIZES
        if not re.fullmatch("[0-9]{1,6}", text) or not least <= int(text) <= most:
            raise Problem(422, f"size: is invalid (found {text[:20]!r}, expected {least} to {most})")
        return await self._image(request, lambda files, key, match: files.thumbnail(key, int(text), match))

    async def _image(self, request: Request, make: Callable[[ImageFiles, str, str | None], Response]) -> Response:
        contents = self._contents()
        if self._images is None:
            raise Problem(404, "images are not served; start the service with --images DIR")
        key = key_of(request)
        await self._ids(contents, key)
        response: Response = await self._files(make, self._images, key, request.headers.get("if-none-match"))
        return response

    # items

    async def item(self, request: Request) -> Response:
        contents = self._contents()
        key = key_of(request)
        id_ = (await self._ids(contents, key))[0]
        (label,) = contents.snapshot.labels([id_])
        return _json({"id": id_, "key": key, "label": label, "code": code_text(_stored(contents, id_), contents)})

    async def add(self, request: Request) -> Response:
        self._check_writable()
        contents = self._contents()
        body, kind = await self._body(request)
        if kind == FORM:
            fields = await form(body, request.headers["content-type"])
            image = image_of(fields)
            item = validated(NewItem, fields)
            code = (await self._encoded(image)).code
        else:
            item = coded = parsed(ItemRequest, body)
            code = code_of(coded.code, contents)

        def put(database: Database, snapshot: DatabaseSnapshot) -> tuple[int, bool]:
            old = snapshot.find([item.key])
            kept = None if not len(old) else old[:1]
            packed = np.frombuffer(code, np.uint8)[None]
            (id_,) = database.update(old, packed, kept, [item.key], [item.label]).tolist()
            return id_, kept is not None

        id_, replaced = await self._change(put)
        return _json({"id": id_, "key": item.key, "replaced": replaced, "generation": self._contents().generation})

    async def remove(self, request: Request) -> Response:
        self._check_writable()
        self._contents()
        key = key_of(request)

        def take(database: Database, snapshot: DatabaseSnapshot) -> int:
            if not len(found := snapshot.find([key])):
                raise _missing(key)
            return database.remove(found)

        removed = await self._change(take)
        return _json({"removed": removed, "generation": self._contents().generation})

    async def refresh(self, request: Request) -> Response:
        self._contents()
        changed = await self._changes(self.store.refresh, True)
        contents = self._contents()
        return _json(
            {
                "changed": changed,
                "generation": contents.generation,
                "items": contents.items,
                "problem": self.store.problem,
            }
        )

    async def poll(self, seconds: float) -> None:
        """Refreshes the database for ever."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await self._changes(self.store.refresh)
            except Problem:  # many changes wait, and each of them refreshes
                continue

    def _check_writable(self) -> None:
        if not self._writable:
            raise Problem(403, "the service is read-only; start it with --writable")

    async def _change(self, body: Callable[[Database, DatabaseSnapshot], Any]) -> Any:
        try:
            return await self._changes(self.store.change, body)
        except LockedError as error:
            raise Problem(503, str(error), {"retry-after": "1"}) from None
        except (IdcwhError, OSError) as error:
            raise Problem(503, str(error)) from None
        except (ValueError, UnicodeEncodeError) as error:
            raise Problem(422, str(error)) from None


def _stored(contents: Contents, id_: int) -> bytes:
    try:
        return contents.snapshot.get(id_).tobytes()
    except KeyError:
        raise Problem(404, f"id {id_}: is missing") from None


def _missing(key: str) -> Problem:
    return Problem(404, f"key {key[:200]!r}: is missing")


def _took(encoded: Encoded, search: float) -> dict[str, float]:
    seconds = {"decode": encoded.decode, "preprocess": encoded.preprocess, "encode": encoded.encode, "search": search}
    return {name: round(1000 * value, 3) for name, value in seconds.items()}


def _json(content: dict[str, Any], status: int = 200) -> Response:
    try:
        body = orjson.dumps(content)
    except orjson.JSONEncodeError:  # a file name that is not UTF-8
        body = json.dumps(content).encode()
    return Response(body, status, media_type="application/json")
