"""The OpenAPI document: requests, answers, errors and examples of each route.

FastAPI derives it from the signatures of functions. The handlers here read requests themselves, so that searches are
fast, and this module describes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from ..codes import code_bytes
from . import schemas
from .images import SIZES
from .problems import MEDIA_TYPE
from .uploads import FORM

_REF = "#/components/schemas/{model}"
_JSON = "application/json"
READ, ADMIN, PUBLIC = "read", "admin", "public"
_HIT = {"distance": 3, "id": 17, "key": "holiday/beach.jpg", "label": "beach"}
_TOOK = {"decode": 0.0, "preprocess": 0.0, "encode": 0.0, "search": 0.21}
KEY = {
    "name": "key",
    "in": "path",
    "required": True,
    "description": "key of an item; it may contain slashes",
    "schema": {"type": "string", "minLength": 1},
    "example": "holiday/beach.jpg",
}
SIZE = {
    "name": "size",
    "in": "query",
    "description": "longer side in pixels",
    "schema": {"type": "integer", "minimum": SIZES[0], "maximum": SIZES[1], "default": 256},
}
STALE = {
    "name": "stale",
    "in": "query",
    "description": "ok: a service with stale contents is ready, too",
    "schema": {"type": "string", "enum": ["ok"]},
}
MATCH = {
    "name": "if-none-match",
    "in": "header",
    "description": "ETag of an earlier answer",
    "schema": {"type": "string"},
}


@dataclass(frozen=True)
class Operation:
    """The documentation of a route.

    Attributes:
        name, summary: operation id and title.
        access: "read", "admin" or "public".
        body: class of a JSON body, with an example; None without a body.
        form: class of a multipart body.
        answer: class of the answer, or its media type.
        example: example of the answer.
        errors: further statuses.
        parameters: parameters of path, query and headers.
    """

    name: str
    summary: str
    answer: type[BaseModel] | str
    access: str = READ
    body: tuple[type[BaseModel], dict[str, Any]] | None = None
    form: type[BaseModel] | None = None
    example: dict[str, Any] | None = None
    errors: tuple[int, ...] = ()
    parameters: tuple[dict[str, Any], ...] = field(default=())

    def extra(self) -> dict[str, Any]:
        """Returns the operation as OpenAPI."""
        content: dict[str, Any]
        if isinstance(self.answer, str):
            content = {self.answer: {"schema": {"type": "string"}}}
        else:
            content = {_JSON: {"schema": _ref(self.answer)}}
            if self.example is not None:
                content[_JSON]["example"] = self.example
        statuses = set(self.errors)
        if self.access != PUBLIC:
            statuses |= {401, 503}
        if self.access == ADMIN:
            statuses.add(403)
        if self.body is not None or self.form is not None:
            statuses |= {400, 408, 413, 415, 422, 429}
        answers: dict[str, Any] = {"200": {"description": "OK", "content": content}}
        for status in sorted(statuses):
            answers[str(status)] = {"description": HTTPStatus(status).phrase}
            if status >= 400:
                answers[str(status)]["content"] = {MEDIA_TYPE: {"schema": _ref(schemas.ProblemDocument)}}
        extra: dict[str, Any] = {"responses": answers, "parameters": list(self.parameters)}
        if self.access == PUBLIC:
            extra["security"] = []
        bodies = {}
        if self.body is not None:
            bodies[_JSON] = {"schema": _ref(self.body[0]), "example": self.body[1]}
        if self.form is not None:
            bodies[FORM] = {"schema": _ref(self.form)}
        if bodies:
            extra["requestBody"] = {"required": True, "content": bodies}
        return extra


SEARCH = Operation(
    "search",
    "Search by an image, a code, a key or an id",
    schemas.SearchAnswer,
    body=(schemas.SearchRequest, {"key": "holiday/beach.jpg", "k": 10, "exclude_self": True}),
    form=schemas.SearchForm,
    example={"hits": [_HIT], "bits": 48, "generation": 7, "code": "79ee0912ab34", "took_ms": _TOOK},
    errors=(404,),
)
HASH = Operation(
    "hash",
    "Encode an image",
    schemas.HashAnswer,
    body=(schemas.ImageRequest, {"image": "iVBORw0KGgo="}),
    form=schemas.ImageForm,
)
COMPARE = Operation(
    "compare",
    "Compare two queries",
    schemas.CompareAnswer,
    body=(schemas.CompareRequest, {"a": {"code": "79ee0912ab34"}, "b": {"id": 17}}),
    example={"distance": 3, "bits": 48},
    errors=(404,),
)
ITEM = Operation("item", "Get an item", schemas.Item, errors=(404, 429), parameters=(KEY,))
ADD = Operation(
    "add",
    "Add an item, or replace the items with its key",
    schemas.ChangeAnswer,
    access=ADMIN,
    body=(schemas.ItemRequest, {"code": "79ee0912ab34", "key": "holiday/beach.jpg", "label": "beach"}),
    form=schemas.ItemForm,
    example={"id": 17, "key": "holiday/beach.jpg", "replaced": False, "generation": 8},
)
REMOVE = Operation(
    "remove", "Remove the items with a key", schemas.RemoveAnswer, access=ADMIN, errors=(404, 429), parameters=(KEY,)
)
IMAGE = Operation("image", "Get the image file of an item", "image/*", errors=(304, 404, 429), parameters=(KEY, MATCH))
THUMBNAIL = Operation(
    "thumbnail",
    "Get a thumbnail of an item",
    "image/jpeg",
    errors=(304, 404, 422, 429),
    parameters=(KEY, SIZE, MATCH),
)
INFO = Operation("info", "Get properties of the service", schemas.Info, errors=(429,))
REFRESH = Operation("refresh", "Load changes of the database", schemas.RefreshAnswer, access=ADMIN, errors=(429,))
READY = Operation(
    "ready", "Readiness probe", schemas.Ready, access=PUBLIC, parameters=(STALE,), example={"status": "ready"}
)
HEALTH = Operation("health", "Liveness probe", schemas.Health, access=PUBLIC, example={"status": "ok"})
METRICS = Operation("metrics", "Metrics for Prometheus", "text/plain")
_OPERATIONS = (
    SEARCH, HASH, COMPARE, ITEM, ADD, REMOVE, IMAGE, THUMBNAIL, INFO, REFRESH, READY, HEALTH, METRICS,
)  # fmt: skip


def complete(document: dict[str, Any], bits: int | None) -> dict[str, Any]:
    """Returns a document of FastAPI with schemas, keys, and the number of digits of a code."""
    models: set[type[BaseModel]] = {schemas.ProblemDocument}
    for operation in _OPERATIONS:
        models |= {model for model in (operation.form, operation.answer) if isinstance(model, type)}
        if operation.body is not None:
            models.add(operation.body[0])
    ordered = sorted(models, key=lambda model: model.__name__)
    _, found = models_json_schema([(model, "validation") for model in ordered], ref_template=_REF)
    definitions = found["$defs"]
    if bits is not None:
        for name in ("Query", "SearchRequest", "ItemRequest"):
            _set_digits(definitions[name]["properties"]["code"], 2 * code_bytes(bits))
    document["components"] = {
        "schemas": definitions,
        "securitySchemes": {
            "api-key": {"type": "apiKey", "in": "header", "name": "api-key"},
            "bearer": {"type": "http", "scheme": "bearer"},
        },
    }
    document["security"] = [{}, {"api-key": []}, {"bearer": []}]
    ready = document["paths"]["/readyz"]["get"]["responses"]
    ready["503"] = {**ready["200"], "description": "Loading, stale or draining"}
    return document


def _set_digits(schema: dict[str, Any], digits: int) -> None:
    for part in (schema, *schema.get("anyOf", ())):
        if "pattern" in part:
            part.update(minLength=digits, maxLength=digits)


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}
