"""The HTTP application: routes with their documentation, keys, errors as problem documents, and the page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from .. import __version__
from .._util.console import first_line, note
from ..errors import IdcwhError
from . import openapi
from .openapi import Operation
from .problems import Problem
from .service import Service

Handler = Callable[[Request], Awaitable[Response]]
PAGE = Path(__file__).parent / "page"
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE_HEADERS = {
    "content-security-policy": CSP,
    "cache-control": "no-cache",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
_REFUSED_SECONDS = 1.0  # before an answer 429; a client that repeats its request at once would take the time of others
_PUBLIC = ("/", "/healthz", "/readyz", "/openapi.json")


class _KeyConvertor(PathConvertor):
    """A key at the end of a path. In contrast to Starlette's path, it may contain line breaks."""

    regex = r"[\s\S]*"


register_url_convertor("key", _KeyConvertor())


class _Static(StaticFiles):
    def file_response(self, *arguments: Any, **options: Any) -> Response:
        response = super().file_response(*arguments, **options)
        response.headers.update(_PAGE_HEADERS)
        return response


class Application:
    """The ASGI application: checks keys, counts requests, and turns errors into problem documents.

    Searches skip the routing of FastAPI, which takes longer than a search.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._api = api(service)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._api(scope, receive, send)
            return
        began, status, started = time.perf_counter(), 500, False

        async def counted(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
            await send(message)

        path = scope["path"]
        hot = path == "/v1/search" and scope["method"] == "POST"
        try:
            self._check_key(scope, path)
            if hot:
                response = await self._service.search(Request(scope, receive))
                status, started = response.status_code, True
                await response(scope, receive, send)
            else:
                await self._api(scope, receive, counted)
        except ClientDisconnect:
            status = 499
        except Exception as error:
            if not isinstance(error, Problem):
                note(f"{scope['method']} {path[:200]}: {type(error).__name__}: {first_line(error)}")
            if not started:
                response = await _refusal(error)
                await response(scope, receive, counted)
        route = "/v1/search" if hot else getattr(scope.get("route"), "path", "other")
        self._service.metrics.request(route, status, time.perf_counter() - began)

    def _check_key(self, scope: Scope, path: str) -> None:
        if path in _PUBLIC or path.startswith("/static/"):
            return
        changes = path == "/v1/refresh" or (path.startswith("/v1/items") and scope["method"] not in ("GET", "HEAD"))
        headers = dict(scope["headers"])
        if changes and headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none"):
            raise Problem(403, "changes are not accepted from pages of other sites")
        self._service.keys.check(headers, admin=changes)


async def _refusal(error: Exception) -> Response:
    """Returns the answer of a request that failed."""
    problem = _problem(error)
    if problem.status == 429:
        await asyncio.sleep(_REFUSED_SECONDS)
    return problem.response()


def _problem(error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, IdcwhError):
        return Problem(503, str(error))
    if isinstance(error, MemoryError):
        return Problem(503, "out of memory", {"retry-after": "1"})
    return Problem(500, "internal error; the log of the service has the cause")


def api(service: Service) -> FastAPI:
    """Returns the routes with their documentation."""
    app = FastAPI(
        title="idcwh-serve",
        version=__version__,
        summary="Exact image retrieval by binary hash codes",
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )

    @app.exception_handler(Problem)
    @app.exception_handler(Exception)  # unexpected ones are raised again, so that Application logs them
    async def failed(request: Request, error: Exception) -> Response:
        return await _refusal(error)

    @app.exception_handler(HTTPException)
    async def unknown_path(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404:
            detail = f"{request.url.path[:200]}: is missing"
        else:
            detail = HTTPStatus(error.status_code).phrase
        return Problem(error.status_code, detail, dict(error.headers or {})).response()

    async def health(request: Request) -> Response:
        return Response(b'{"status":"ok"}', media_type="application/json")

    routes: list[tuple[str, str, Handler, Operation]] = [
        ("POST", "/v1/search", service.search, openapi.SEARCH),
        ("POST", "/v1/hash", service.hash, openapi.HASH),
        ("POST", "/v1/compare", service.compare, openapi.COMPARE),
        ("GET", "/v1/items/{key:key}", service.item, openapi.ITEM),
        ("DELETE", "/v1/items/{key:key}", service.remove, openapi.REMOVE),
        ("POST", "/v1/items", service.add, openapi.ADD),
        ("GET", "/v1/images/{key:key}", service.image, openapi.IMAGE),
        ("GET", "/v1/thumbnails/{key:key}", service.thumbnail, openapi.THUMBNAIL),
        ("GET", "/v1/info", service.info, openapi.INFO),
        ("POST", "/v1/refresh", service.refresh, openapi.REFRESH),
        ("GET", "/readyz", service.ready, openapi.READY),
        ("GET", "/healthz", health, openapi.HEALTH),
        ("GET", "/metrics", service.metrics_text, openapi.METRICS),
    ]
    for method, path, handler, operation in routes:
        app.add_api_route(
            path,
            _endpoint(handler),
            methods=[method],
            operation_id=operation.name,
            summary=operation.summary,
            response_class=Response,
            response_model=None,
            openapi_extra=operation.extra(),
        )
    described = app.openapi

    def document() -> dict[str, Any]:
        contents = service.store.contents
        if app.openapi_schema is not None:
            return app.openapi_schema
        schema = openapi.complete(described(), None if contents is None else contents.bits)
        app.openapi_schema = None if contents is None else schema
        return schema

    app.openapi = document  # type: ignore[method-assign]

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        if not (PAGE / "index.html").is_file():
            raise Problem(404, "/: is missing")
        return FileResponse(PAGE / "index.html", headers=_PAGE_HEADERS)

    app.mount("/static", _Static(directory=PAGE), name="static")
    return app


def _endpoint(handler: Handler) -> Handler:
    async def endpoint(request: Request) -> Response:
        return await handler(request)

    return endpoint
