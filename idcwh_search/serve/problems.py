"""Errors of the API as problem documents, RFC 9457."""

from __future__ import annotations

from http import HTTPStatus

import orjson
from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"


class Problem(Exception):
    """A request that is answered with an error.

    Attributes:
        status: HTTP status.
        detail: the fault in one line, as in the errors of the library.
        headers: further headers of the answer.
    """

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers or {}

    def response(self) -> Response:
        """Returns the answer. Its type is about:blank, so the title is that of the status."""
        content = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail.encode(errors="replace").decode(),
        }
        return Response(orjson.dumps(content), self.status, self.headers, MEDIA_TYPE)


def busy(what: str) -> Problem:
    """Returns the refusal of a request that would have to wait for too long."""
    return Problem(429, f"{what}: too many requests wait; try again later", {"retry-after": "1"})
