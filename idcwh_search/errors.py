"""The exceptions for errors that a user can correct. An invalid argument of a function raises ValueError or TypeError.

Every message is `<path>: <problem> (found X, expected Y); <hint>`. Parts that are None are left out.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self

_Error = TypeVar("_Error", bound="IdcwhError")


class IdcwhError(Exception):
    """An error that the user can correct: a file, a library, a device or a combination of options.

    Attributes:
        path: the file, folder or option that the error is about, or None.
        problem: the fault as a verb phrase, such as "is missing"; each subclass has a default.
        found, expected: the actual and the required value, or None.
        hint: the action that corrects it, or None.
    """

    default: ClassVar[str] = "is invalid"

    def __init__(
        self,
        problem: str | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
        found: object = None,
        expected: object = None,
        hint: str | None = None,
    ) -> None:
        self.problem = problem or self.default
        self.path = None if path is None else os.fspath(path)
        self.found, self.expected, self.hint = found, expected, hint
        super().__init__(self._message())

    def _message(self) -> str:
        compared = [f"{name} {value}" for name in ("found", "expected") if (value := getattr(self, name)) is not None]
        where = "" if self.path is None else f"{self.path}: "
        what = f" ({', '.join(compared)})" if compared else ""
        return f"{where}{self.problem}{what}" + (f"; {self.hint}" if self.hint else "")

    def about(self, path: str | os.PathLike[str] | None = None, *, hint: str | None = None) -> Self:
        """Returns a copy of the error, with `path` if it has none, and with `hint` if it is given."""
        named = self.path if self.path is not None or path is None else os.fspath(path)
        return _rebuilt(type(self), {**self.__dict__, "path": named, "hint": hint or self.hint})

    def __reduce__(self) -> Any:
        """Returns what pickle needs to build the error again, with its fields, in another process."""
        return _rebuilt, (type(self), self.__dict__)


class NotFoundError(IdcwhError):
    """A file, folder or name that does not exist."""

    default = "is missing"


class AlreadyExistsError(IdcwhError):
    """An output path at which a file exists that must not be replaced."""

    default = "already exists"


class NotWrittenError(IdcwhError):
    """An output path that cannot be written, or a full disk."""

    default = "cannot be written"


class CorruptFileError(IdcwhError):
    """A file whose content violates its format: a wrong checksum, a truncated file, another format."""

    default = "is corrupt"


class LockedError(IdcwhError):
    """A database or a folder that another writer has locked, in this process or another."""

    default = "is locked by another writer"


class MismatchError(IdcwhError):
    """Two things that do not belong together: a checkpoint and its dataset, codes of two lengths."""

    default = "does not match"


class ModelMismatchError(MismatchError):
    """A database and a model that did not compute its codes."""


class NotSupportedError(IdcwhError):
    """A format, an option or a device that this version or this machine does not support."""

    default = "is not supported"


class NotInstalledError(NotSupportedError):
    """A package that is not installed or cannot be imported."""

    default = "is not installed"


class InvalidInputError(IdcwhError):
    """Data that cannot be used: an empty folder, a wrong table, options that contradict each other."""

    default = "is invalid"


def _rebuilt(kind: type[_Error], fields: dict[str, Any]) -> _Error:
    error = kind.__new__(kind)
    error.__dict__.update(fields)
    Exception.__init__(error, error._message())
    return error


class UsageError(IdcwhError):
    """Options that do not fit the data. A command ends with exit code 2, that of wrong usage."""


_EXTRAS = {
    "fastapi": "serve",
    "markdown": "train",
    "matplotlib": "bench",
    "onnx": "export",
    "onnxruntime": "cpu",
    "onnxscript": "export",
    "orjson": "serve",
    "pdqhash": "hashes",
    "prometheus_client": "serve",
    "pyarrow": "arrow",
    "python_multipart": "serve",
    "safetensors": "train",
    "sklearn": "train",
    "starlette": "serve",
    "timm": "train",
    "torch": "train",
    "torchvision": "train",
    "uvicorn": "serve",
    "uvloop": "serve",
}
"""Package name -> the extra of idcwh that installs it."""


def not_installed(error: ImportError, extra: str | None = None) -> NotInstalledError:
    """Returns the error for a failed import, with the command that installs the package as the hint."""
    name = (error.name or "").partition(".")[0] or "a package"
    extra = extra or _EXTRAS.get(name)
    package = f"'idcwh[{extra}]'" if extra else name
    if isinstance(error, ModuleNotFoundError):
        return NotInstalledError(path=name, hint=f"pip install {package}")
    return NotInstalledError(f"cannot be loaded ({error})", path=name, hint="reinstall it")
