"""API keys: one or more for reading and one or more for administration, from files or the environment."""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import InvalidInputError, NotFoundError
from .problems import Problem

READ_VARIABLE, ADMIN_VARIABLE = "IDCWH_READ_KEY", "IDCWH_ADMIN_KEY"
_CHALLENGE = {"www-authenticate": 'Bearer realm="idcwh"'}


@dataclass(frozen=True)
class Keys:
    """The keys that are accepted. An admin key may also read. Without any key, every request is allowed."""

    read: tuple[bytes, ...] = ()
    admin: tuple[bytes, ...] = ()

    @classmethod
    def load(cls, read_file: str | None, admin_file: str | None, environment: Mapping[str, str] = os.environ) -> Keys:
        """Reads the keys. A file has one key per line, and a key may be exchanged while both are in the file.

        Raises:
            NotFoundError: a file is missing.
            InvalidInputError: a file has no key.
        """
        return cls(
            _file(read_file) + _variable(environment, READ_VARIABLE),
            _file(admin_file) + _variable(environment, ADMIN_VARIABLE),
        )

    def __bool__(self) -> bool:
        return bool(self.read or self.admin)

    def check(self, headers: Mapping[bytes, bytes], admin: bool) -> None:
        """Raises Problem with status 401 or 403 unless the request may read, or administrate if `admin` is set."""
        if not self:
            return
        given = headers.get(b"api-key")
        if given is None:
            scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
            given = token.strip() if scheme.lower() == b"bearer" else None
        if given is None:
            raise Problem(401, "api-key: is missing; send it in the header api-key or as a Bearer token", _CHALLENGE)
        is_admin = _among(given, self.admin)
        if not is_admin and not _among(given, self.read):
            raise Problem(401, "api-key: is invalid", _CHALLENGE)
        if admin and not is_admin:
            raise Problem(403, "api-key: allows reading only; send an admin key")


def _among(given: bytes, keys: tuple[bytes, ...]) -> bool:
    """Compares with every key, each in constant time."""
    found = False
    for key in keys:
        found |= hmac.compare_digest(given, key)
    return found


def _file(path: str | None) -> tuple[bytes, ...]:
    if path is None:
        return ()
    try:
        lines = Path(path).read_bytes().splitlines()
    except FileNotFoundError as error:
        raise NotFoundError(path=path) from error
    keys = tuple(line.strip() for line in lines if line.strip())
    if not keys:
        raise InvalidInputError("has no key", path=path, expected="one key per line")
    return keys


def _variable(environment: Mapping[str, str], name: str) -> tuple[bytes, ...]:
    value = environment.get(name, "").strip()
    return (value.encode(errors="surrogateescape"),) if value else ()
