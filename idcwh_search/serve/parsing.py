"""The parts of requests: keys in paths, codes in hexadecimal, forms and JSON bodies. Invalid ones raise Problem."""

from __future__ import annotations

import os
import re
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

import numpy as np
import orjson
from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from ..codes import code_bytes
from ..hexadecimal import BYTES, InvalidHashError, from_hex, to_hex
from .problems import Problem
from .schemas import Options
from .store import Contents

Model = TypeVar("Model", bound=BaseModel)


def key_of(request: Request) -> str:
    """Returns the key at the end of a path, as the bytes of a file name. Raises Problem with status 404."""
    prefix = request.scope["route"].path.partition("{")[0]
    raw = request.scope.get("raw_path") or b""
    key = unquote_to_bytes(raw)[len(prefix) :] if unquote_to_bytes(raw[: len(prefix)]) == prefix.encode() else b""
    if not key or b"\0" in key:
        raise Problem(404, "key: is missing")
    return os.fsdecode(key)


def code_text(code: bytes, contents: Contents) -> str:
    """Returns a packed code in hexadecimal, in the order of the database."""
    if contents.order == BYTES:
        return code.hex()
    return to_hex(np.frombuffer(code, np.uint8)[None], contents.bits, contents.order)[0]


def code_of(text: str, contents: Contents) -> bytes:
    """Returns a packed code, the inverse of `code_text`. Raises Problem with status 422."""
    bits = contents.bits
    if contents.order != BYTES:
        try:
            return from_hex([text], bits, order=contents.order).tobytes()
        except InvalidHashError as error:
            expected = f", expected {error.expected}" if error.expected else ""
            raise Problem(422, f"code: is invalid (found {error.found}{expected})") from None
    digits = 2 * code_bytes(bits)
    if len(text) != digits:
        raise Problem(422, f"code: is invalid (found {len(text)} digits, expected {digits} for {bits} bits)")
    code = bytes.fromhex(text)
    if bits % 8 and code[-1] >> bits % 8:
        raise Problem(422, f"code: has bits set beyond bit {bits - 1}")
    return code


def image_of(fields: dict[str, str | bytes]) -> bytes:
    """Takes the image out of the fields of a form. Raises Problem with status 422 if it is missing."""
    image = fields.pop("image", None)
    if not isinstance(image, bytes):
        raise Problem(422, f"image: is {'missing' if image is None else 'text'}; send it as a file of the form")
    for name, value in fields.items():
        if isinstance(value, bytes):
            raise Problem(422, f"{name}: is a file (expected text)")
    if not image:
        raise Problem(422, "image: is empty")
    return image


def form_options(fields: dict[str, str | bytes]) -> Options:
    """Returns the options of a form, whose fields are texts."""
    values: dict[str, Any] = {}
    for name, text in fields.items():
        assert isinstance(text, str)
        if name in ("k", "radius") and re.fullmatch("-?[0-9]{1,20}", text):
            values[name] = int(text)
        elif name in ("exclude_self", "ties", "codes", "histogram") and text in ("true", "false"):
            values[name] = text == "true"
        elif name == "where":
            try:
                values[name] = orjson.loads(text)
            except orjson.JSONDecodeError as error:
                raise Problem(422, f"where: is not JSON ({error})") from None
        else:
            values[name] = text
    return validated(Options, values)


def validated(model: type[Model], values: dict[str, Any]) -> Model:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _invalid(error) from None


def parsed(model: type[Model], body: bytes) -> Model:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise _invalid(error) from None


def _invalid(error: ValidationError) -> Problem:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"])) or "body"
    message = first["msg"].removeprefix("Value error, ")
    return Problem(400 if first["type"] == "json_invalid" else 422, f"{where}: {message}")
