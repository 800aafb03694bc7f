"""The exceptions of the toolkit. A wrong argument of a function stays ValueError or TypeError.

Every message is `<path>: <problem> (found X, expected Y); <what to do>`, with the parts that are given.
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
        problem: what is wrong with it; each subclass has a default.
        found, expected: what is there and what should be there, or None.
        hint: what to do about it, or None.
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
        """Returns the same error with this path, unless it has one, and with this hint, if one is given."""
        named = self.path if self.path is not None or path is None else os.fspath(path)
        return _rebuilt(type(self), {**self.__dict__, "path": named, "hint": hint or self.hint})

    def __reduce__(self) -> Any:
        """Returns how to build the error again, for processes that pass errors on."""
        return _rebuilt, (type(self), self.__dict__)


class NotFoundError(IdcwhError):
    """A file, folder or name that does not exist."""

    default = "is missing"


class AlreadyExistsError(IdcwhError):
    """An output that exists and must not be replaced."""

    default = "already exists"


class NotWrittenError(IdcwhError):
    """A place that cannot be written, or a full disk. What was to be written is correct."""

    default = "cannot be written"


class CorruptFileError(IdcwhError):
    """A file whose content is not what its format requires: a wrong checksum, a cut end, another format."""

    default = "is corrupt"


class LockedError(IdcwhError):
    """A database or a folder that another process writes to."""

    default = "is locked by another process"


class MismatchError(IdcwhError):
    """Two things that do not belong together: a checkpoint and its dataset, codes of two lengths."""

    default = "does not match"


class ModelMismatchError(MismatchError):
    """A database and a model that did not make its codes."""


class NotSupportedError(IdcwhError):
    """A format, an option or a device that this version or this machine does not support."""

    default = "is not supported"


class NotInstalledError(NotSupportedError):
    """A package that is not installed, or cannot be loaded."""

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
    """Options that the data does not allow: a command ends with the exit code of wrong usage."""


_EXTRAS = {
    "markdown": "train",
    "matplotlib": "bench",
    "onnx": "export",
    "onnxruntime": "cpu",
    "onnxscript": "export",
    "pyarrow": "arrow",
    "safetensors": "train",
    "sklearn": "train",
    "timm": "train",
    "torch": "train",
    "torchvision": "train",
}
"""The extra of idcwh that installs a package."""


def not_installed(error: ImportError, extra: str | None = None) -> NotInstalledError:
    """Returns the error about a package after a failed import, with the command that installs it."""
    name = (error.name or "").partition(".")[0] or "a package"
    extra = extra or _EXTRAS.get(name)
    package = f"'idcwh[{extra}]'" if extra else name
    if isinstance(error, ModuleNotFoundError):
        return NotInstalledError(path=name, hint=f"pip install {package}")
    return NotInstalledError(f"cannot be loaded ({error})", path=name, hint="reinstall it")
