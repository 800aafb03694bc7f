"""The one exception of the toolkit; what is wrong with an argument stays ValueError or TypeError."""


class IdcwhError(Exception):
    """Something the user can mend: a file that is damaged, missing or foreign, a library or a device that is not there.

    The message is one line: what was wrong, what was expected, what to do.
    """


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
"""Package that may be missing: the extra of idcwh that installs it."""


def not_installed(error: ImportError, extra: str | None = None) -> IdcwhError:
    """Returns the error that says what to install after a failed import: an extra of idcwh, or the package itself."""
    name = (error.name or "").partition(".")[0] or "a package"
    extra = extra or _EXTRAS.get(name)
    package = f"'idcwh[{extra}]'" if extra else name
    if isinstance(error, ModuleNotFoundError):
        return IdcwhError(f"{name} is not installed: pip install {package}")
    return IdcwhError(f"{name} cannot be loaded ({error}); reinstall it")
