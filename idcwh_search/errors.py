"""The one exception of the toolkit; what is wrong with an argument stays ValueError or TypeError."""


class IdcwhError(Exception):
    """Something the user can mend: a file that is damaged, missing or foreign, a library or a device that is not there.

    The message is one line: what was wrong, what was expected, what to do.
    """


_EXTRAS = {
    "matplotlib": "bench",
    "onnx": "export",
    "onnxruntime": "cpu",
    "onnxscript": "export",
    "pyarrow": "arrow",
    "sklearn": "train",
    "timm": "train",
    "torch": "train",
    "torchvision": "train",
}
"""Package that may be missing: the extra of idcwh that installs it."""


def not_installed(error: ImportError) -> IdcwhError | None:
    """What to install after a failed import; None where it is one of our own modules that is missing."""
    name = (error.name or "").partition(".")[0]
    if not name or name.startswith("idcwh"):
        return None
    package = f"'idcwh[{_EXTRAS[name]}]'" if name in _EXTRAS else name
    if isinstance(error, ModuleNotFoundError):
        return IdcwhError(f"{name} is not installed: pip install {package}")
    return IdcwhError(f"{name} cannot be loaded ({error}); reinstall it")
