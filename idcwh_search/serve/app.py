"""The HTTP application: routes with their documentation, keys, errors as problem documents, and the page."""

from __future__ import annotations

import time
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from .. import __version__
from .._util.console import first_line, note
from ..errors import IdcwhError
from .problems import Problem
from .service import Service

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
_PUBLIC = ("/", "/healthz", "/readyz", "/openapi.json")


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
                await response(scope, receive, counted)
            else:
                await self._api(scope, receive, counted)
        except ClientDisconnect:
            status = 499
        except Exception as error:
            problem = _problem(error)
            if problem.status >= 500 and not isinstance(error, Problem):
                note(f"{scope['method']} {path[:200]}: {type(error).__name__}: {first_line(error)}")
            if not started:
                await problem.response()(scope, receive, counted)
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
    async def known(request: Request, error: Problem) -> Response:
        return error.response()

    @app.exception_handler(HTTPException)
    async def unknown_path(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404:
            detail = f"{request.url.path[:200]}: is missing"
        else:
            detail = HTTPStatus(error.status_code).phrase
        return Problem(error.status_code, detail, dict(error.headers or {})).response()

    def add(path: str, method: str, handler: Any, summary: str, **options: Any) -> None:
        async def endpoint(request: Request) -> Response:
            response: Response = await handler(request)
            return response

        app.add_api_route(path, endpoint, methods=[method], summary=summary, operation_id=handler.__name__, **options)

    add("/v1/search", "POST", service.search, "Search by an image, a code, a key or an id")
    add("/v1/hash", "POST", service.hash, "Encode an image")
    add("/v1/compare", "POST", service.compare, "Compare two queries")
    add("/v1/items/{key:path}", "GET", service.item, "Get an item")
    add("/v1/items/{key:path}", "DELETE", service.remove, "Remove an item")
    add("/v1/items", "POST", service.add, "Add or replace an item")
    add("/v1/images/{key:path}", "GET", service.image, "Get the image file of an item")
    add("/v1/thumbnails/{key:path}", "GET", service.thumbnail, "Get a thumbnail of an item")
    add("/v1/info", "GET", service.info, "Get properties of the service")
    add("/v1/refresh", "POST", service.refresh, "Load changes of the database")
    add("/readyz", "GET", service.ready, "Readiness probe")
    add("/metrics", "GET", service.metrics_text, "Metrics for Prometheus")

    @app.get("/healthz", summary="Liveness probe")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        if not (PAGE / "index.html").is_file():
            raise Problem(404, "/: is missing")
        return FileResponse(PAGE / "index.html", headers=_PAGE_HEADERS)

    app.mount("/static", _Static(directory=PAGE), name="static")
    return app
