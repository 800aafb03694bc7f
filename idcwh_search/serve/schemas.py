"""The bodies of requests and answers. Requests are validated by these classes, and answers only documented by them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ..codes import MAX_BITS
from .searching import MAX_RESULTS

LARGEST_ID = 2**63 - 1
LONGEST_KEY = 65_536
_LISTED = 100_000

Schema = dict[str, Any]

Id = Annotated[int, Field(ge=0, le=LARGEST_ID)]
Key = Annotated[str, Field(min_length=1, max_length=LONGEST_KEY)]
Hex = Annotated[str, Field(pattern="^[0-9a-fA-F]+$", max_length=2 * ((MAX_BITS + 7) // 8))]
QUERY_FORMS = ("image", "code", "key", "id")


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


def _extra(model: type[BaseModel]) -> Schema:
    found = model.model_config.get("json_schema_extra")
    assert isinstance(found, dict)
    return found


def _given(name: str, kind: str) -> Schema:
    return {"required": [name], "properties": {name: {"type": kind}}}


class Query(_Request):
    """Exactly one of image, code, key and id."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [_given(name, "integer" if name == "id" else "string") for name in ("image", "code", "key", "id")]
        }
    )

    image: str | None = Field(None, description="image file in base64")
    code: Hex | None = Field(
        None, description="code in hexadecimal, in the hash order of the database, or byte by byte"
    )
    key: Key | None = Field(None, description="key of an item")
    id: Id | None = Field(None, description="id of an item")

    @model_validator(mode="after")
    def _one_form(self) -> Query:
        given = [name for name in QUERY_FORMS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of {', '.join(QUERY_FORMS)} (found {', '.join(given) or 'none'})")
        return self


class Where(_Request):
    """A filter. An item matches if it has one of the labels, one of the key prefixes, and one of the ids."""

    labels: Annotated[list[str], Field(max_length=_LISTED)] | None = Field(None, description="labels")
    key_prefixes: Annotated[list[str], Field(max_length=_LISTED)] | None = Field(
        None, description="beginnings of keys, such as folders"
    )
    ids: Annotated[list[Id], Field(max_length=_LISTED)] | None = Field(None, description="ids")


class Options(_Request):
    """The options of a search."""

    model_config = ConfigDict(
        json_schema_extra={
            "not": {
                **_given("radius", "integer"),
                "anyOf": [_given("k", "integer"), {"required": ["ties"], "properties": {"ties": {"const": True}}}],
            }
        }
    )

    k: Annotated[int, Field(ge=1, le=MAX_RESULTS)] | None = Field(
        None, description="number of nearest items (default 20, or all within the radius)"
    )
    radius: Annotated[int, Field(ge=0, le=MAX_BITS)] | None = Field(
        None, description="largest distance in bits; not together with k"
    )
    where: Where | None = Field(None, description="items to search (default all)")
    exclude_self: bool = Field(False, description="hits without the item of `key` or `id`")
    ties: bool = Field(False, description="also every item as near as the k-th")
    codes: bool = Field(False, description="hits with their codes")
    histogram: bool = Field(False, description="number of items at each distance")

    @model_validator(mode="after")
    def _k_or_radius(self) -> Options:
        if self.radius is not None and (self.k is not None or self.ties):
            raise ValueError("give either radius or k and ties")
        return self


class SearchRequest(Query, Options):
    """A query and the options of its search."""

    model_config = ConfigDict(
        json_schema_extra={**_extra(Query), **_extra(Options)},
    )


class ImageRequest(_Request):
    """An image to encode."""

    image: str = Field(description="image file in base64")


class CompareRequest(_Request):
    """Two queries."""

    a: Query
    b: Query


class NewItem(_Request):
    """An item to add. An item with the same key is replaced."""

    key: Key = Field(description="path of the image, relative to the folder of images")
    label: str | None = Field(None, max_length=LONGEST_KEY, description="class name")

    @field_validator("key")
    @classmethod
    def _is_relative(cls, key: str) -> str:
        if "\0" in key or key.startswith("/") or ".." in key.split("/"):
            raise ValueError("expected a path inside the folder of images")
        return key


class ItemRequest(NewItem):
    """An item to add, with its code."""

    code: Hex = Field(description="packed code in hexadecimal")


class ImageForm(BaseModel):
    """The form of an image."""

    image: bytes = Field(description="image file", json_schema_extra={"format": "binary"})


class SearchForm(ImageForm):
    """The form of a search by an image."""

    k: int | None = Field(None, ge=1, le=MAX_RESULTS)
    radius: int | None = Field(None, ge=0, le=MAX_BITS)
    where: str | None = Field(None, description="the filter as JSON text")
    ties: bool = False
    codes: bool = False
    histogram: bool = False


class ItemForm(ImageForm):
    """The form of an item with its image, which is encoded but not stored."""

    key: Key
    label: str | None = None


class Hit(BaseModel):
    """A hit."""

    distance: int = Field(ge=0)
    id: Id
    key: str | None
    label: str | None
    code: str | None = None


class Milliseconds(BaseModel):
    """Times of the stages in milliseconds, with waiting."""

    decode: float
    preprocess: float
    encode: float
    search: float


class SearchAnswer(BaseModel):
    """The hits, ordered by (distance, id)."""

    hits: list[Hit]
    bits: int
    generation: int = Field(description="number of the commit that was searched")
    code: str = Field(description="code of the query in hexadecimal")
    histogram: list[int] | None = Field(None, description="number of eligible items at distance 0, 1, ..., bits")
    truncated: bool | None = Field(None, description=f"true if there are more than {MAX_RESULTS:,} hits")
    took_ms: Milliseconds


class HashAnswer(BaseModel):
    """The code of an image."""

    code: str
    bits: int
    model: str = Field(description="SHA-256 of the model")
    took_ms: dict[str, float]


class CompareAnswer(BaseModel):
    """The distance of two queries."""

    distance: int
    bits: int


class Item(BaseModel):
    """An item."""

    id: Id
    key: str | None
    label: str | None
    code: str


class ChangeAnswer(BaseModel):
    """A durable change."""

    id: Id
    key: str
    replaced: bool
    generation: int


class RemoveAnswer(BaseModel):
    """A durable removal."""

    removed: int
    generation: int


class RefreshAnswer(BaseModel):
    """The state after a refresh."""

    changed: bool
    generation: int
    items: int
    problem: str | None


class LabelCount(BaseModel):
    """A label and its number of items."""

    name: str
    count: int


class Info(BaseModel):
    """Properties of the service."""

    items: int
    bits: int
    generation: int
    model: str | None = Field(description="SHA-256 of the model of the codes")
    provider: str | None = Field(description="device of the encoder")
    age_s: float = Field(description="seconds since the contents were last known to be those of the file")
    labels: list[LabelCount]
    writable: bool
    images: bool = Field(description="true if images and thumbnails are served")
    encoder: bool = Field(description="true if queries may be images")
    max_results: int
    version: str


class Ready(BaseModel):
    """The state of the service."""

    status: Literal["ready", "loading", "stale", "draining"]
    problem: str | None = None


class Health(BaseModel):
    """The state of the process."""

    status: Literal["ok"]


class ProblemDocument(BaseModel):
    """An error, RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
